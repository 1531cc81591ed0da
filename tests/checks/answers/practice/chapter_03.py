"""Chapter 03."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

WRONG = (
    *table(
        "03.warm",
        Wrong("asks for the version", (("cudaFree(0)", "cudaRuntimeGetVersion()"),), "correctness", "not set up"),
        Wrong("the whole tuple", (("cudaFree(0)[0]", "cudaFree(0)"),), "correctness", "wrong values", mistake="tuple"),
        Wrong("allocates, and keeps it", (("cudaFree(0)", "cudaMalloc(4)"),), "correctness", "left behind"),
        Wrong("makes a stream, and keeps it", (("cudaFree(0)", "cudaStreamCreate()"),), "correctness", "left behind"),
        Wrong(
            "tells of no error",
            (("return cudart.cudaFree(0)[0]", "cudart.cudaFree(0)\n    return 0"),),
            "correctness",
            "no error code",
        ),
        Wrong("wrong device", (("cudaFree(0)", "cudaSetDevice(1)"),), "correctness", "not set up"),
        Wrong(
            "the last error",
            (("return cudart.cudaFree(0)[0]", "cudart.cudaFree(0)\n    return cudart.cudaGetLastError()[0]"),),
            "correctness",
            "wrong values",
            mistake="the error of an earlier call",
        ),
    ),
    *table(
        "03.pick",
        Wrong("more than needed", ((">= needed", "> needed"),), "correctness", "wrong values"),
        Wrong("never none", (("return None", "return 0"),), "correctness", "wrong values"),
        Wrong("only the first", (("range(cudart.cudaGetDeviceCount()[1])", "(0,)"),), "correctness", "wrong values"),
        Wrong(
            "the largest",
            (),
            "correctness",
            "wrong values",
            source="""
def pick_device(needed):
    found = [cudart.cudaGetDeviceProperties(one)[1].totalGlobalMem for one in range(cudart.cudaGetDeviceCount()[1])]
    return found.index(max(found)) if max(found) >= needed else None
""",
        ),
        Wrong(
            "sets each up",
            (("        if cudart", "        cudart.cudaSetDevice(number)\n        if cudart"),),
            "correctness",
            "set up",
        ),
        Wrong(
            "sets each up and resets it",
            (),
            "soundness",
            "device reset",
            source="""
def pick_device(needed):
    for number in range(cudart.cudaGetDeviceCount()[1]):
        cudart.cudaSetDevice(number)
        total = cudart.cudaMemGetInfo()[2]
        cudart.cudaDeviceReset()
        if total >= needed:
            return number
""",
        ),
        Wrong(
            "sets each up and releases it",
            (),
            "correctness",
            "set up",
            source="""
def pick_device(needed):
    for number in range(cudart.cudaGetDeviceCount()[1]):
        driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(number)[1])
        total = driver.cuMemGetInfo()[2]
        driver.cuCtxPopCurrent()
        driver.cuDevicePrimaryCtxRelease(number)
        if total >= needed:
            return number
""",
        ),
    ),
    *table(
        "03.use",
        Wrong("compares the tuple", (("(error,) = ", "error = "),), "soundness", "AttributeError"),
        Wrong(
            "returns the name", (("raise RuntimeError(error.name)", "return error.name"),), "correctness", "not raised"
        ),
        Wrong("any error", (("error.name", "'no device'"),), "correctness", "not raised"),
        Wrong(
            "asks for the last error",
            (
                (
                    "(error,) = cudart.cudaSetDevice(number)",
                    "cudart.cudaSetDevice(number)\n    (error,) = cudart.cudaGetLastError()",
                ),
            ),
            "correctness",
            "raised",
        ),
        Wrong(
            "a tuple for a code",
            (("(error,) = ", "error = "), ("error.name", "error[0].name")),
            "correctness",
            "raised",
            mistake="every call returns a tuple, which is never equal to cudaSuccess: (error,) = … takes the code out",
        ),
        Wrong(
            "set up, not current",
            (("cudaSetDevice(number)", "cudaInitDevice(number, 0, 0)"),),
            "correctness",
            "not current",
        ),
        Wrong(
            "asks how many there are",
            (),
            "correctness",
            "not raised",
            source="def use_device(number):\n    if number >= cudart.cudaGetDeviceCount()[1]:\n"
            "        raise RuntimeError('cudaErrorInvalidDevice')\n    cudart.cudaSetDevice(number)\n",
        ),
        Wrong("another exception", (("RuntimeError", "ValueError"),), "correctness", "not raised"),
        Wrong("never sets up", (("cudaSetDevice(number)", "cudaGetLastError()"),), "correctness", "not set up"),
    ),
    *table(
        "03.thread",
        Wrong(
            "makes it, and does not make it current",
            (("    driver.cuCtxSetCurrent(context)\n", ""),),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "gives it back at once",
            (("    return free", "    driver.cuDevicePrimaryCtxRelease(0)\n    return free"),),
            "correctness",
            "gone",
        ),
        Wrong(
            "the whole memory",
            (("return free", "return total"),),
            "correctness",
            "wrong values",
            mistake="all the memory",
        ),
        Wrong(
            "the runtime makes it",
            (),
            "correctness",
            "runtime called",
            source="def free_bytes():\n    cudart.cudaFree(0)\n    return driver.cuMemGetInfo()[1]\n",
        ),
        Wrong(
            "the runtime is asked",
            (("error, free, total = driver.cuMemGetInfo()", "error, free, total = cudart.cudaMemGetInfo()"),),
            "correctness",
            "runtime called",
        ),
        Wrong(
            "a context of its own",
            (("driver.cuDevicePrimaryCtxRetain(0)", "driver.cuCtxCreate(None, 0, 0)"),),
            "correctness",
            "another context",
            mistake="not the primary one",
        ),
        Wrong(
            "only asks",
            (("driver.cuDevicePrimaryCtxRetain(0)", "driver.cuCtxGetCurrent()"),),
            "correctness",
            "wrong values",
        ),
    ),
    *table(
        "03.time",
        Wrong(
            "resets the device",
            (("cudart.cudaFree(0)", "cudart.cudaDeviceReset()\n    cudart.cudaFree(0)"),),
            "soundness",
            "device reset",
        ),
        Wrong("calls it twice", (("cudart.cudaFree(0)", "call()"),), "correctness", "wrong calls"),
        Wrong(
            "counts the devices first",
            (("cudaFree(0)", "cudaGetDeviceCount()"),),
            "correctness",
            "wrong values",
            mistake="setting up",
        ),
        Wrong(
            "milliseconds",
            (("    return cudalab.clock() - begin", "    return (cudalab.clock() - begin) / 1000"),),
            "correctness",
            "wrong values",
        ),
    ),
)
