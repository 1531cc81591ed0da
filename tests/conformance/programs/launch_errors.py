"""Launches and compilations that are not allowed: which exception, which code, and that work can go on."""

import numpy as np

from cudalab import cp, cudart

from ..program import code, program, raised

WRITE = r"""
extern "C" __global__ void k(int* out) { if (out) atomicAdd(out, 1); }"""


def attempt(grid, block, **more):
    out = cp.zeros(1, cp.int32)
    return raised(lambda: cp.RawKernel(WRITE, "k")(grid, block, (out,), **more))


@program("blocks that are too large, in total or in one dimension")
def block_sizes():
    return {
        "1024": attempt((1,), (1024,)),
        "1025": attempt((1,), (1025,)),
        "2048": attempt((1,), (2048,)),
        "32 x 33": attempt((1,), (32, 33)),
        "z 64": attempt((1,), (1, 1, 64)),
        "z 65": attempt((1,), (1, 1, 65)),
        "y 1024": attempt((1,), (1, 1024)),
        "y 1025": attempt((1,), (1, 1025)),
    }


@program("grids that are too large, and their largest sizes in y and z")
def grid_sizes():
    return {
        "y 65535": attempt((1, 65535), (1,)),
        "y 65536": attempt((1, 65536), (1,)),
        "z 65535": attempt((1, 1, 65535), (1,)),
        "z 65536": attempt((1, 1, 65536), (1,)),
        "x 2**31": attempt((2**31,), (1,)),
    }


@program("zero and negative sizes, wrong numbers of dimensions")
def degenerate_sizes():
    return {
        "no blocks": attempt((0,), (32,)),
        "no threads": attempt((1,), (0,)),
        "y 0": attempt((1, 0), (32,)),
        "block y 0": attempt((1,), (32, 0)),
        "negative": attempt((-1,), (32,)),
        "negative block": attempt((1,), (-32,)),
        "four dimensions": attempt((1, 1, 1, 1), (32,)),
        "a number": attempt(1, 32),
        "float": attempt((1.5,), (32,)),
    }


@program("too much dynamic shared memory")
def too_much_shared():
    return {
        "48 KB": attempt((1,), (32,), shared_mem=48 * 1024),
        "48 KB and a byte": attempt((1,), (32,), shared_mem=48 * 1024 + 1),
        "1 MB": attempt((1,), (32,), shared_mem=1 << 20),
    }


@program(
    "a refused launch does nothing and the next one works; no error stays behind",
    expect=lambda v: {"count": 64},
)
def refusals_are_not_sticky():
    out = cp.zeros(1, cp.int32)
    kernel = cp.RawKernel(WRITE, "k")
    kernel((1,), (32,), (out,))
    error = raised(lambda: kernel((1,), (2048,), (out,)))
    last = code(cudart.cudaGetLastError())
    kernel((1,), (32,), (out,))
    return {"error": error, "last": last, "count": int(out[0]), "sync": code(cudart.cudaDeviceSynchronize())}


@program("a syntax error: the exception, when it comes, and the line it names")
def syntax_error():
    source = 'extern "C" __global__ void k(int* out) {\n    int a = 1\n    out[0] = a;\n}\n'
    kernel = cp.RawKernel(source, "k")
    try:
        kernel((1,), (1,), (cp.zeros(1, cp.int32),))
    except Exception as error:
        text = str(error)
        return {
            "type": type(error).__name__,
            "names line 3": "(3): error" in text,
            "says what": 'expected a ";"' in text,
            "counts": "1 error detected" in text,
        }
    return {"type": "none"}


@program("what else the compiler refuses: each is the same exception")
def compile_errors():
    def compiling(source, **more):
        kernel = cp.RawKernel(source, "k", **more)
        return raised(lambda: kernel((1,), (1,), (cp.zeros(1, cp.int32),)))

    body = 'extern "C" __global__ void k(int* out) {{ {} }}'
    return {
        "undeclared name": compiling(body.format("out[0] = missing;")),
        "unknown header": compiling("#include <no_such_header.h>\n" + body.format("out[0] = 1;")),
        "wrong type": compiling(body.format("out[0] = out;")),
        "host function called": compiling("void host(); " + body.format("host();")),
        "kernel returns": compiling('extern "C" __global__ int k(int* out) { return 1; }'),
        "#error": compiling("#error stop\n" + body.format("")),
        "static_assert": compiling(body.format('static_assert(sizeof(int) == 8, "no");')),
        "unclosed": compiling('extern "C" __global__ void k(int* out) { '),
        "const written": compiling('extern "C" __global__ void k(const int* out) { out[0] = 1; }'),
        "unknown option": compiling(body.format(""), options=("--no-such-option",)),
        "warning only": compiling(body.format("int unused = 3; out[0] = 1;")),
    }


@program("a kernel name that the module does not have")
def missing_names():
    module = cp.RawModule(code=WRITE)
    mangled = cp.RawModule(code="__global__ void k(int* out) { *out = 1; }")
    return {
        "function": raised(lambda: module.get_function("nothing")),
        "global": raised(lambda: module.get_global("nothing")),
        "mangled": raised(lambda: mangled.get_function("k")),
        "raw kernel": raised(lambda: cp.RawKernel(WRITE, "other")((1,), (1,), (cp.zeros(1, cp.int32),))),
        "there": raised(lambda: module.get_function("k")),
    }


@program("arguments of types that no kernel takes")
def unsupported_arguments():
    kernel = cp.RawKernel(WRITE, "k")

    def given(value):
        return raised(lambda: kernel((1,), (1,), (value,)))

    return {
        "list": given([1, 2]),
        "string": given("text"),
        "dict": given({}),
        "array of objects": raised(lambda: cp.asarray(np.array([None, 1], dtype=object))),
        "none": given(None),
        "no tuple": raised(lambda: kernel((1,), (1,), cp.zeros(1, cp.int32))),
    }
