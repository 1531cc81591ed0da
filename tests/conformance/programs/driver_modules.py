"""The driver: modules from PTX, functions, globals, launches with explicit parameters, attributes, memory."""

import numpy as np

from cudalab import cudart, driver

from ..program import code, program

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .b32 factor = 3;
.visible .global .align 8 .f64 table[5];
.visible .const .align 4 .f32 offsets[2] = {0f3F800000, 0f40000000};
.visible .entry scale(.param .u64 out, .param .u32 n, .param .f32 base) {
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .f32 %f<5>;
    .reg .b64 %a<4>;
    ld.param.u64 %a0, [out];
    ld.param.u32 %r0, [n];
    ld.param.f32 %f0, [base];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra done;
    ld.global.u32 %r5, [factor];
    mul.lo.u32 %r6, %r4, %r5;
    cvt.rn.f32.u32 %f1, %r6;
    ld.const.f32 %f2, [offsets+4];
    add.f32 %f3, %f0, %f2;
    add.f32 %f4, %f1, %f3;
    cvta.to.global.u64 %a1, %a0;
    mul.wide.u32 %a2, %r4, 4;
    add.s64 %a3, %a1, %a2;
    st.global.f32 [%a3], %f4;
done:
    ret;
}
\0"""


def loaded():
    cudart.cudaFree(0)
    error, module = driver.cuModuleLoadData(PTX)
    assert int(error) == 0, error
    return module


def run(function, grid, block, out, n, base, shared=0):
    import ctypes

    values, kinds = (int(out), n, base), (ctypes.c_void_p, ctypes.c_uint, ctypes.c_float)
    return driver.cuLaunchKernel(function, *grid, *block, shared, 0, (values, kinds), 0)


def allocate(size):
    error, pointer = driver.cuMemAlloc(size)
    assert int(error) == 0, error
    return pointer


def fetched(pointer, count, dtype):
    out = np.zeros(count, dtype)
    (error,) = driver.cuMemcpyDtoH(out.ctypes.data, pointer, out.nbytes)
    assert int(error) == 0, error
    return out


@program(
    "a module from PTX: get a function, launch it with packed parameters",
    expect=lambda v: {"out": (np.arange(100) * 3 + 2.5).astype(np.float32)},
)
def launch_from_ptx():
    module = loaded()
    error, function = driver.cuModuleGetFunction(module, b"scale")
    out = allocate(400)
    codes = [error.name, code(run(function, (4, 1, 1), (32, 1, 1), out, 100, 0.5)), code(driver.cuCtxSynchronize())]
    values = fetched(out, 100, np.float32)
    codes += [code(driver.cuMemFree(out)), code(driver.cuModuleUnload(module))]
    return {"out": values, "codes": codes}


@program(
    "globals of a module: address and size, written by the host, seen by the kernel",
    expect=lambda v: {"out": (np.arange(8) * 10 + 101).astype(np.float32), "table": np.arange(5) / 2},
)
def module_globals():
    module = loaded()
    _, function = driver.cuModuleGetFunction(module, b"scale")
    error, factor, size = driver.cuModuleGetGlobal(module, b"factor")
    _, table, table_size = driver.cuModuleGetGlobal(module, b"table")
    _, offsets, offsets_size = driver.cuModuleGetGlobal(module, b"offsets")
    initial = [int(fetched(factor, 1, np.int32)[0]), fetched(table, 5, np.float64), fetched(offsets, 2, np.float32)]
    new, halves, far = np.array([10], np.int32), np.arange(5) / 2, np.array([0, 100], np.float32)
    codes = [
        error.name,
        code(driver.cuMemcpyHtoD(factor, new.ctypes.data, 4)),
        code(driver.cuMemcpyHtoD(table, halves.ctypes.data, 40)),
        code(driver.cuMemcpyHtoD(offsets, far.ctypes.data, 8)),
    ]
    out = allocate(32)
    run(function, (1, 1, 1), (8, 1, 1), out, 8, 1.0)
    result = {
        "initial": initial,
        "sizes": [int(size), int(table_size), int(offsets_size)],
        "codes": codes,
        "out": fetched(out, 8, np.float32),
        "table": fetched(table, 5, np.float64),
    }
    driver.cuMemFree(out), driver.cuModuleUnload(module)
    return result


@program("names that a module lacks, data that is no module")
def missing_names():
    module = loaded()
    broken = PTX.replace(b"mad.lo.s32", b"mad.no.s32")
    result = {
        "function": driver.cuModuleGetFunction(module, b"nothing")[0].name,
        "global as function": driver.cuModuleGetFunction(module, b"factor")[0].name,
        "global": driver.cuModuleGetGlobal(module, b"nothing")[0].name,
        "broken PTX": driver.cuModuleLoadData(broken)[0].name,
        "no PTX": driver.cuModuleLoadData(b"hello, this is no module\0")[0].name,
        "unload": code(driver.cuModuleUnload(module)),
    }
    return result


@program("launch configurations that the driver refuses, and that the function still works")
def refused_launches():
    module = loaded()
    _, function = driver.cuModuleGetFunction(module, b"scale")
    out = allocate(256)
    result = {
        "block 1025": code(run(function, (1, 1, 1), (1025, 1, 1), out, 1, 0.0)),
        "block z 65": code(run(function, (1, 1, 1), (1, 1, 65), out, 1, 0.0)),
        "block 0": code(run(function, (1, 1, 1), (0, 1, 1), out, 1, 0.0)),
        "grid 0": code(run(function, (0, 1, 1), (1, 1, 1), out, 1, 0.0)),
        "grid y 65536": code(run(function, (1, 65536, 1), (1, 1, 1), out, 1, 0.0)),
        "shared 49153": code(run(function, (1, 1, 1), (1, 1, 1), out, 1, 0.0, shared=49153)),
        "good": code(run(function, (1, 1, 1), (64, 1, 1), out, 64, 0.0)),
        "sync": code(driver.cuCtxSynchronize()),
        "runtime's last error": code(cudart.cudaGetLastError()),
    }
    driver.cuMemFree(out), driver.cuModuleUnload(module)
    return result


@program("attributes of a function, and the opt-in for dynamic shared memory")
def function_attributes():
    module = loaded()
    _, function = driver.cuModuleGetFunction(module, b"scale")
    kinds = driver.CUfunction_attribute
    dynamic = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    out = allocate(64)

    def get(kind):
        error, value = driver.cuFuncGetAttribute(kind, function)
        return [error.name, int(value)]

    result = {
        "threads": get(kinds.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        "shared": get(kinds.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        "local": get(kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
        "before": get(dynamic),
        "set": code(driver.cuFuncSetAttribute(function, dynamic, 100000)),
        "after": get(dynamic),
        "launch": code(run(function, (1, 1, 1), (8, 1, 1), out, 8, 0.0, shared=100000)),
        "launch beyond": code(run(function, (1, 1, 1), (8, 1, 1), out, 8, 0.0, shared=100001)),
        "set too much": code(driver.cuFuncSetAttribute(function, dynamic, 1 << 20)),
        "set negative": code(driver.cuFuncSetAttribute(function, dynamic, -1)),
        "sync": code(driver.cuCtxSynchronize()),
    }
    driver.cuMemFree(out), driver.cuModuleUnload(module)
    return result


@program(
    "driver memory: sets of bytes, words and 16-bit values, copies, ranges",
    expect=lambda v: {
        "out": np.array([0x01010101, 0xDEADBEEF, 0xDEADBEEF, 0x12341234, 0x01010101, 0x01010101], np.uint32),
        "range": [True, 4096],
    },
)
def driver_memory():
    cudart.cudaFree(0)
    pointer = allocate(4096)
    codes = [
        code(driver.cuMemsetD8(pointer, 1, 24)),
        code(driver.cuMemsetD32(int(pointer) + 4, 0xDEADBEEF, 2)),
        code(driver.cuMemsetD16(int(pointer) + 12, 0x1234, 2)),
        code(driver.cuMemcpyDtoD(int(pointer) + 1024, pointer, 24)),
    ]
    error, base, size = driver.cuMemGetAddressRange(int(pointer) + 100)
    out = fetched(int(pointer) + 1024, 6, np.uint32)
    free = [code(driver.cuMemFree(pointer)), code(driver.cuMemFree(pointer))]
    return {
        "out": out, "codes": codes, "range": [int(base) == int(pointer), int(size)], "error": error.name, "free": free,
        "nothing": driver.cuMemAlloc(0)[0].name, "too much": driver.cuMemAlloc(1 << 40)[0].name,
    }  # fmt: skip


@program("device, context, errors and versions as the driver names them")
def driver_facts():
    cudart.cudaFree(0)
    kinds = driver.CUdevice_attribute
    _, device = driver.cuDeviceGet(0)

    def text(value):
        return (value.decode() if isinstance(value, bytes) else str(value)).rstrip("\0")

    error, context = driver.cuCtxGetCurrent()
    return {
        "init": code(driver.cuInit(0)),
        "init with flags": code(driver.cuInit(1)),
        "context": [error.name, int(context) != 0],
        "name": text(driver.cuDeviceGetName(64, device)[1]),
        "attributes": [
            int(driver.cuDeviceGetAttribute(kind, device)[1])
            for kind in (
                kinds.CU_DEVICE_ATTRIBUTE_WARP_SIZE,
                kinds.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )
        ],
        "no device 99": driver.cuDeviceGet(99)[0].name,
        "names": [text(driver.cuGetErrorName(driver.CUresult(n))[1]) for n in (0, 1, 2, 200, 218, 400, 500, 700, 719)],
        "texts": [
            text(driver.cuGetErrorString(driver.CUresult(n))[1]) for n in (0, 1, 2, 200, 218, 400, 500, 700, 719)
        ],
        "version": int(driver.cuDriverGetVersion()[1]) >= 12000,
    }


@program(
    "cuLaunchKernelEx with a configuration structure",
    expect=lambda v: {"out": (np.arange(64) * 3 + 2).astype(np.float32)},
)
def launch_with_configuration():
    import ctypes

    module = loaded()
    _, function = driver.cuModuleGetFunction(module, b"scale")
    out = allocate(256)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 2, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    config.sharedMemBytes, config.hStream, config.numAttrs = 0, 0, 0
    arguments = ((int(out), 64, 0.0), (ctypes.c_void_p, ctypes.c_uint, ctypes.c_float))
    codes = [code(driver.cuLaunchKernelEx(config, function, arguments, 0)), code(driver.cuCtxSynchronize())]
    values = fetched(out, 64, np.float32)
    driver.cuMemFree(out), driver.cuModuleUnload(module)
    return {"out": values, "codes": codes}


@program(
    "parameters given as an array of addresses",
    expect=lambda v: {"out": (np.arange(16) * 3 + 9).astype(np.float32)},
)
def parameters_by_address():
    module = loaded()
    _, function = driver.cuModuleGetFunction(module, b"scale")
    out = allocate(64)
    values = [np.array([int(out)], np.uint64), np.array([16], np.uint32), np.array([7.0], np.float32)]
    addresses = np.array([value.ctypes.data for value in values], np.uint64)
    codes = [code(driver.cuLaunchKernel(function, 1, 1, 1, 16, 1, 1, 0, 0, addresses.ctypes.data, 0))]
    codes.append(code(driver.cuCtxSynchronize()))
    result = fetched(out, 16, np.float32)
    driver.cuMemFree(out), driver.cuModuleUnload(module)
    return {"out": result, "codes": codes}


@program("occupancy of a small kernel")
def occupancy():
    module = loaded()
    _, function = driver.cuModuleGetFunction(module, b"scale")
    blocks = [
        int(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared)[1])
        for threads, shared in ((32, 0), (256, 0), (1024, 0), (128, 16384), (64, 40000), (1024, 49152))
    ]
    driver.cuModuleUnload(module)
    return {"blocks": blocks}
