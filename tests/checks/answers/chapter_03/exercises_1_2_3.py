"""Answers to 03.1, 03.2 and 03.3."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

# --- 03.1 ---

_COUNT = "range(cudart.cudaGetDeviceCount()[1])"
_CHECKED = """            if error != cudart.cudaError_t.cudaSuccess:
                raise RuntimeError(error.name)
"""
ANSWERS_03_1 = table(
    "03.1",
    Right(
        "CuPy",
        source="""
def open_device(needed):
    for number in range(cp.cuda.runtime.getDeviceCount()):
        if cp.cuda.runtime.getDeviceProperties(number)["totalGlobalMem"] >= needed:
            try:
                cp.cuda.Device(number).use()
            except cp.cuda.runtime.CUDARuntimeError as error:
                raise RuntimeError(str(error)) from None
            return number
""",
    ),
    Right(
        "cudaFree after it",
        (("            return number", "            cudart.cudaFree(0)\n            return number"),),
    ),
    Right(
        "the driver looks",
        source="""
def open_device(needed):
    driver.cuInit(0)
    for number in range(driver.cuDeviceGetCount()[1]):
        if driver.cuDeviceTotalMem(driver.cuDeviceGet(number)[1])[1] < needed:
            continue
        error = cudart.cudaInitDevice(number, 0, 0)[0]
        error = cudart.cudaSetDevice(number)[0] if error == cudart.cudaError_t.cudaSuccess else error
        if error:
            raise RuntimeError(f"device {number}: {error.name}")
        return number
""",
    ),
    Wrong("only the first device", ((_COUNT, "(0,)"),), "correctness", "wrong values"),
    Wrong("the last device first", ((_COUNT, f"reversed({_COUNT})"),), "correctness", "wrong values"),
    Wrong(
        "asks for the last error",
        (
            (
                "(error,) = cudart.cudaSetDevice(number)",
                "cudart.cudaSetDevice(number)\n            (error,) = cudart.cudaGetLastError()",
            ),
        ),
        "soundness",
        "cudaErrorInvalidDevice",
    ),
    Wrong(
        "set up, not current",
        (("cudaSetDevice(number)", "cudaInitDevice(number, 0, 0)"),),
        "correctness",
        "not current",
    ),
    Wrong("result not checked", ((_CHECKED, ""),), "correctness", "not raised"),
    Wrong("more than needed", ((">= needed", "> needed"),), "correctness", "wrong values"),
    Wrong("never none", (("    return None", "    return 0"),), "correctness", "wrong values"),
    Wrong("not set up", (("cudaSetDevice(number)", "cudaGetDeviceCount()[:1]"),), "correctness", "not set up"),
    Wrong("another error's name", (("error.name", "'cudaErrorNoDevice'"),), "correctness", "not raised"),
    Wrong(
        "compares the tuple",
        (("(error,) = ", "error = "), ("RuntimeError(error.name)", "RuntimeError(str(error))")),
        "soundness",
        "RuntimeError",
    ),
    Wrong(
        "free memory",
        (
            (
                "cudart.cudaGetDeviceProperties(number)[1].totalGlobalMem >= needed",
                "(cudart.cudaMemGetInfo()[1] or 0) >= needed",
            ),
        ),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "sets up first, then looks",
        (
            (
                "        if cudart.cudaGetDeviceProperties",
                "        cudart.cudaSetDevice(number)\n        if cudart.cudaGetDeviceProperties",
            ),
        ),
        "efficiency",
        "devices set up and not used",
    ),
    Wrong(
        "sets each up, looks, and resets it",
        (),
        "soundness",
        "device reset",
        source="""
def open_device(needed):
    for number in range(cudart.cudaGetDeviceCount()[1]):
        (error,) = cudart.cudaSetDevice(number)
        if error:
            raise RuntimeError(error.name)
        if cudart.cudaMemGetInfo()[2] >= needed:
            return number
        cudart.cudaDeviceReset()
""",
    ),
    Wrong(
        "sets each up, looks, and releases it",
        (),
        "efficiency",
        "devices set up and not used",
        source="""
def open_device(needed):
    for number in range(cudart.cudaGetDeviceCount()[1]):
        error, context = driver.cuDevicePrimaryCtxRetain(number)
        if error:
            raise RuntimeError("cudaErrorDevicesUnavailable")
        driver.cuCtxSetCurrent(context)
        if driver.cuMemGetInfo()[2] >= needed:
            cudart.cudaSetDevice(number)
            return number
        driver.cuDevicePrimaryCtxRelease(number)
""",
    ),
    Wrong(
        "asks an allocation, on whatever device",
        (
            (
                "            (error,) = cudart.cudaSetDevice(number)\n",
                "            cudart.cudaSetDevice(number)\n            error, pointer = cudart.cudaMalloc(4)\n",
            ),
            ("            return number", "            cudart.cudaFree(pointer)\n            return number"),
        ),
        "correctness",
        "not raised",
    ),
    Wrong(
        "allocates as a test, and keeps it",
        (("            return number", "            cudart.cudaMalloc(4)\n            return number"),),
        "efficiency",
        "allocations and streams left",
    ),
    Wrong(
        "makes a stream, and keeps it",
        (("            return number", "            cudart.cudaStreamCreate()\n            return number"),),
        "efficiency",
        "allocations and streams left",
    ),
    Wrong(
        "always the first",
        (),
        "correctness",
        "wrong values",
        source="def open_device(needed):\n    return 0\n",
        cheat=True,
    ),
    Wrong(
        "never any", (), "correctness", "wrong values", source="def open_device(needed):\n    return None\n", cheat=True
    ),
    Wrong(
        "always an error",
        (),
        "soundness",
        "cudaErrorIllegalAddress",
        source="def open_device(needed):\n    raise RuntimeError('cudaErrorIllegalAddress')\n",
        cheat=True,
    ),
    Wrong(
        "a limit from another day",
        (("cudart.cudaGetDeviceProperties(number)[1].totalGlobalMem >= needed", "needed < 1 << 34"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "only looks",
        (("(error,) = cudart.cudaSetDevice(number)", "(error,) = cudart.cudaGetDevice()[:1]"),),
        "correctness",
        "not set up",
        cheat=True,
    ),
)

# --- 03.2 ---

ANSWERS_03_2 = table(
    "03.2",
    Right(
        "the runtime makes the context current",
        source="""
import threading
def fill(values, count):
    cudart.cudaFree(0)
    pointer = cudart.cudaMalloc(4 * count * len(values))[1]
    def write(part, value):
        cudart.cudaSetDevice(0)
        driver.cuMemsetD32(pointer + 4 * count * part, value, count)
    threads = [threading.Thread(target=write, args=each) for each in enumerate(values)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    numbers = np.zeros(count * len(values), np.int32)
    driver.cuMemcpyDtoH(numbers.ctypes.data, pointer, numbers.nbytes)
    cudart.cudaFree(pointer)
    return numbers
""",
    ),
    Right(
        "pushed and popped",
        (("        driver.cuCtxSetCurrent(context)\n", "        driver.cuCtxPushCurrent(context)\n"),),
    ),
    Right(
        "each thread retains and releases",
        (
            (
                "        driver.cuCtxSetCurrent(context)\n",
                "        driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])\n",
            ),
            ("value, count)\n", "value, count)\n        driver.cuDevicePrimaryCtxRelease(0)\n"),
        ),
    ),
    Right(
        "copies instead of fills",
        (
            (
                "        driver.cuMemsetD32(pointer + 4 * count * part, value, count)",
                "        mine = np.full(count, value, np.uint32)\n"
                "        driver.cuMemcpyHtoD(pointer + mine.nbytes * part, mine.ctypes.data, mine.nbytes)",
            ),
        ),
    ),
    Wrong(
        "not current in the threads",
        (("        driver.cuCtxSetCurrent(context)\n", ""),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "current in the threads only",
        (("    driver.cuCtxSetCurrent(context)\n    pointer", "    pointer"),),
        "soundness",
        "TypeError",
    ),
    Wrong(
        "numbers, not bytes", (("pointer + 4 * count * part", "pointer + count * part"),), "correctness", "wrong values"
    ),
    Wrong("one part", (("count * part, value", "0 * part, value"),), "correctness", "wrong values"),
    Wrong("never released", (("    driver.cuDevicePrimaryCtxRelease(0)\n", ""),), "efficiency", "contexts still held"),
    Wrong("never freed", (("    driver.cuMemFree(pointer)\n", ""),), "efficiency", "allocations not freed"),
    Wrong(
        "frees nothing, twice",
        (("    driver.cuMemFree(pointer)\n", "    cudart.cudaFree(0)\n    cudart.cudaFree(0)\n"),),
        "efficiency",
        "allocations not freed",
    ),
    Wrong(
        "released before it is freed",
        (
            (
                "    driver.cuMemFree(pointer)\n    driver.cuDevicePrimaryCtxRelease(0)\n",
                "    driver.cuDevicePrimaryCtxRelease(0)\n    driver.cuMemFree(pointer)\n",
            ),
        ),
        "efficiency",
        "allocations not freed",
    ),
    Wrong(
        "each thread retains, none releases",
        (
            (
                "        driver.cuCtxSetCurrent(context)\n",
                "        driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])\n",
            ),
        ),
        "efficiency",
        "contexts still held",
    ),
    Wrong(
        "computed on the host",
        (),
        "correctness",
        "wrong threads",
        source="def fill(values, count):\n    return np.repeat(values, count)\n",
        cheat=True,
    ),
    Wrong(
        "main does everything",
        (("        thread.start()", "        thread.run()"), ("        thread.join()", "        pass")),
        "correctness",
        "wrong threads",
        cheat=True,
    ),
    Wrong(
        "one thread does everything",
        (
            (
                "[threading.Thread(target=write, args=each) for each in enumerate(values)]",
                "[threading.Thread(target=lambda: [write(*each) for each in enumerate(values)])]",
            ),
        ),
        "correctness",
        "wrong threads",
        cheat=True,
    ),
    Wrong(
        "main fills everything again",
        (("    numbers = np", "    [write(*each) for each in enumerate(values)]\n    numbers = np"),),
        "correctness",
        "wrong threads",
        cheat=True,
    ),
    Wrong(
        "the example's numbers",
        (),
        "correctness",
        "wrong shape",
        source="def fill(values, count):\n    return [7, 7, 7, 9, 9, 9]\n",
        cheat=True,
    ),
)

# --- 03.3 ---

ANSWERS_03_3 = table(
    "03.3",
    Right(
        "CuPy waits",
        source="""
def first_failure(steps):
    for number, step in enumerate(steps):
        try:
            if step() != 0:
                return number
            cp.cuda.Device().synchronize()
        except cp.cuda.runtime.CUDARuntimeError:
            return number
""",
    ),
    Right(
        "the driver waits",
        (
            (
                "(waited,) = cudart.cudaDeviceSynchronize()",
                "waited = good if driver.cuCtxSynchronize()[0] == 0 else None",
            ),
        ),
    ),
    Right(
        "waits only where the step went well",
        (
            (
                "        (waited,) = cudart.cudaDeviceSynchronize()\n        if error != good or waited != good:",
                "        if error != good or cudart.cudaDeviceSynchronize()[0] != good:",
            ),
        ),
    ),
    Right(
        "the steps as a list of pairs",
        source="""
def broken(step):
    codes = [step(), *cudart.cudaDeviceSynchronize()]
    return any(code != cudart.cudaError_t.cudaSuccess for code in codes)
def first_failure(steps):
    return next((number for number, step in enumerate(steps) if broken(step)), None)
""",
    ),
    Wrong("never waits", (("cudart.cudaDeviceSynchronize()", "(good,)"),), "correctness", "wrong values"),
    Wrong(
        "waits for the NULL stream",
        (("cudaDeviceSynchronize()", "cudaStreamSynchronize(0)"),),
        "correctness",
        "wrong values",
    ),
    Wrong("the last error", (("cudaDeviceSynchronize", "cudaGetLastError"),), "correctness", "wrong values"),
    Wrong(
        "the last error, without taking it",
        (("cudaDeviceSynchronize", "cudaPeekAtLastError"),),
        "correctness",
        "wrong values",
    ),
    Wrong("its own code is not looked at", (("error != good or ", ""),), "correctness", "wrong values"),
    Wrong(
        "counts from 1",
        (("            return number", "            return number + 1"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "goes on to the end",
        (
            ("    for number", "    found = None\n    for number"),
            (
                "        if error != good or waited != good:\n            return number\n    return None",
                "        if found is None and (error != good or waited != good):\n            found = number\n"
                "    return found",
            ),
        ),
        "efficiency",
        "steps made after the one that failed",
    ),
    Wrong("minus one for none", (("    return None", "    return -1"),), "correctness", "wrong values"),
    Wrong(
        "never any",
        (),
        "correctness",
        "wrong values",
        source="def first_failure(steps):\n    return None\n",
        cheat=True,
    ),
    Wrong(
        "always the first",
        (),
        "correctness",
        "wrong values",
        source="def first_failure(steps):\n    return 0\n",
        cheat=True,
    ),
    Wrong(
        "always the last",
        (),
        "correctness",
        "wrong values",
        source="def first_failure(steps):\n    return [step() for step in steps] and len(steps) - 1 or None\n",
        cheat=True,
    ),
    Wrong(
        "each step twice", (("error = step()", "error = step() or step()"),), "correctness", "wrong steps", cheat=True
    ),
    Wrong(
        "polls a stream",
        (("cudaDeviceSynchronize()", "cudaStreamQuery(0)"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
)
