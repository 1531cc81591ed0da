"""Answers to 04.4 and 04.5."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

# --- 04.4 ---

_CALL = "    cudart.cudaMemcpy2D(out.ctypes.data, 4 * width, first, pitch, 4 * width, height, kind)\n"
_CALLS = "calls that copy"

ANSWERS_04_4 = table(
    "04.4",
    Wrong(
        "as wide as in the example", (("pitch, 4 * width, height", "pitch, 12, height"),), "correctness", "wrong values"
    ),
    Wrong(
        "pixels, not bytes",
        (("first, pitch, 4 * width, height", "first, pitch, width, height"),),
        "correctness",
        "wrong values",
        mistake="in pixels, and bytes",
    ),
    Wrong(
        "all in pixels",
        (("out.ctypes.data, 4 * width, first, pitch, 4 * width", "out.ctypes.data, width, first, pitch, width"),),
        "correctness",
        "wrong values",
        mistake="pitch of out, are given in pixels",
    ),
    Wrong(
        "one plain copy",
        ((_CALL, "    cudart.cudaMemcpy(out.ctypes.data, first, out.nbytes, kind)\n"),),
        "correctness",
        "wrong values",
        mistake="without a gap",
    ),
    Wrong(
        "from the corner",
        (("image + top * pitch + 4 * left", "image"),),
        "correctness",
        "wrong values",
        mistake="the corner at the top left",
    ),
    Wrong("left in bytes", (("4 * left", "left"),), "correctness", "wrong values", mistake="left is taken for bytes"),
    Wrong(
        "pitch of out",
        (("out.ctypes.data, 4 * width, first", "out.ctypes.data, pitch, first"),),
        "correctness",
        "wrong values",
        mistake="the call was refused",
    ),
    Wrong(
        "no pitch in the source",
        (("first, pitch, 4", "first, 4 * width, 4"),),
        "correctness",
        "wrong values",
        mistake="without a gap",
    ),
    Wrong(
        "a row too few",
        (("4 * width, height, kind", "4 * width, height - 1, kind"),),
        "correctness",
        "wrong values",
        mistake="the last row",
    ),
    Wrong(
        "the whole image first",
        (
            (
                _CALL,
                "    whole = np.empty((top + height, pitch // 4), np.float32)\n"
                "    cudart.cudaMemcpy(whole.ctypes.data, image, whole.nbytes, kind)\n"
                "    out[:] = whole[top:, left : left + width]\n",
            ),
        ),
        "efficiency",
        "bytes copied, for each byte of out",
        cheat=True,
    ),
    Wrong(
        "pixel by pixel",
        (
            (
                _CALL,
                "    for y in range(height):\n"
                "        for x in range(width):\n"
                "            cudart.cudaMemcpy(out[y, x:].ctypes.data, first + y * pitch + 4 * x, 4, kind)\n",
            ),
        ),
        "efficiency",
        _CALLS,
        cheat=True,
    ),
    Wrong("twice", ((_CALL, 2 * _CALL),), "efficiency", _CALLS, cheat=True),
    Wrong("nothing", ((_CALL, ""),), "correctness", "wrong values", mistake="no call copies", cheat=True),
    Right(
        "asynchronous",
        (
            (
                _CALL,
                "    cudart.cudaMemcpy2DAsync(out.ctypes.data, 4 * width, first, pitch, 4 * width, height, kind, 0)\n"
                "    cudart.cudaStreamSynchronize(0)\n",
            ),
        ),
    ),
    Right(
        "strides of NumPy",
        (
            ("out.ctypes.data, 4 * width,", "out.ctypes.data, out.strides[0],"),
            ("pitch, 4 * width, height", "pitch, out.itemsize * width, height"),
        ),
    ),
    Right(
        "CuPy",
        (
            (
                _CALL,
                "    cp.cuda.runtime.memcpy2D(out.ctypes.data, 4 * width, first, pitch, 4 * width, height, 2)\n",
            ),
        ),
    ),
)

# --- 04.5 ---

_FREE = "            for other in pointers:\n                cudart.cudaFree(other)\n"
_LAST = "            cudart.cudaGetLastError()\n"
_ASKS = """
def allocate_all(sizes):
    pointers = []
    for size in sizes:
        if size > cudart.cudaMemGetInfo()[1]:
            for other in pointers:
                cudart.cudaFree(other)
            cudart.cudaGetLastError()
            return None
        pointers.append(cudart.cudaMalloc(size)[1])
    return pointers
"""
_LEFT = "allocations left behind when it fails"
_PENDING = "errors left for somebody else to find"

ANSWERS_04_5 = table(
    "04.5",
    Wrong("nothing is freed", ((_FREE, ""),), "efficiency", _LEFT),
    Wrong(
        "only the last is freed",
        ((_FREE, "            cudart.cudaFree(pointers[-1] if pointers else 0)\n"),),
        "efficiency",
        _LEFT,
    ),
    Wrong("the error is left", ((_LAST, ""),), "efficiency", _PENDING),
    Wrong("only looked at", ((_LAST, "            cudart.cudaPeekAtLastError()\n"),), "efficiency", _PENDING),
    Wrong("an empty list", (("return None", "return []"),), "correctness", "wrong values"),
    Wrong("what there was", (("return None", "return pointers"),), "correctness", "wrong values"),
    Wrong(
        "frees in any case",
        (("    return pointers", "    for other in pointers:\n        cudart.cudaFree(other)\n    return pointers"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "goes on with the next",
        (("            return None\n", "            continue\n"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "compares the tuple",
        (("error, pointer = cudart.cudaMalloc(size)", "error = cudart.cudaMalloc(size)\n        pointer = error[1]"),),
        "correctness",
        "wrong values",
    ),
    Wrong("asks before each what is free", (), "correctness", "wrong values", source=_ASKS),
    Wrong(
        "asks once what is free",
        (),
        "correctness",
        "wrong values",
        source="""
def allocate_all(sizes):
    if sum(sizes) > cudart.cudaMemGetInfo()[1]:
        return None
    return [cudart.cudaMalloc(size)[1] for size in sizes]
""",
    ),
    Wrong(
        "a byte for each",
        (
            ("cudart.cudaMalloc(size)", "cudart.cudaMalloc(1)"),
            ("    pointers = []\n", "    if sum(sizes) > 1 << 40:\n        return None\n    pointers = []\n"),
        ),
        "correctness",
        "too small",
        cheat=True,
    ),
    Wrong(
        "half of each", (("cudart.cudaMalloc(size)", "cudart.cudaMalloc(-(-size // 2))"),), "correctness", "too small"
    ),
    Wrong("a reset", ((_FREE, "            cudart.cudaDeviceReset()\n"),), "soundness", "device reset", cheat=True),
    Wrong(
        "never any",
        (("    pointers = []\n", "    return None\n    pointers = []\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "numbers of its own",
        (("    pointers = []\n", "    return [256 * (k + 1) for k in range(len(sizes))]\n    pointers = []\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "one buffer for all",
        ((_FREE, _FREE), ("    return pointers", "    return pointers[:1] * len(pointers)")),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Right("driver names", (("cudart.cudaFree(other)", "driver.cuMemFree(other)"),)),
    Right(
        "an exception between",
        source="""
def allocate_all(sizes):
    pointers = []
    try:
        for size in sizes:
            error, pointer = cudart.cudaMalloc(size)
            if error:
                raise MemoryError(error.name)
            pointers.append(pointer)
        return pointers
    except MemoryError:
        cudart.cudaGetLastError()
        while pointers:
            cudart.cudaFree(pointers.pop())
        return None
""",
    ),
    Right(
        "asks first what is free, and looks all the same",
        (
            (
                "    pointers = []\n",
                "    if sum(sizes) > cudart.cudaMemGetInfo()[1]:\n        return None\n    pointers = []\n",
            ),
        ),
    ),
    Right("freed backwards", (("for other in pointers:", "for other in reversed(pointers):"),)),
)
