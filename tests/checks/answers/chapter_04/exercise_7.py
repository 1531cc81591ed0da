"""Answers to 04.7."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_E, _C = "efficiency", "correctness"
_LOADS, _LAUNCHES = "modules loaded", "launches for each table"
_OTHERS, _WAITS = "launches of other kernels than that of code", "calls that wait for the device, or ask it"
_LOOP = "    for k, values in enumerate(tables):\n"
_COPY = "        table[:] = cp.asarray(values)\n"
_LAUNCH = "        polynomial((blocks,), (256,), (x, y[k], np.int32(n)))\n"
_TABLE = '    table = cp.ndarray(6, cp.float32, memptr=module.get_global("table"))\n'
_LOAD = '    module = cp.RawModule(code=code)\n    polynomial = module.get_function("polynomial")\n' + _TABLE
_AGAIN = _LOAD.replace("    ", "        ")


def _bytes(number: int) -> str:
    """A copy of so many bytes of a row into the table."""
    kind = "cudart.cudaMemcpyKind.cudaMemcpyHostToDevice"
    return f"        cudart.cudaMemcpy(table.data.ptr, values.ctypes.data, {number}, {kind})\n"


_BY_ARGUMENT = '''
def evaluate(code, tables, x, y):
    own = cp.RawKernel(r"""
extern "C" __global__ void polynomial(const float* x, float* y, int n, const float* table) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 5; k >= 0; k--) sum = sum * x[i] + table[k];
    y[i] = sum;
}
""", "polynomial")
    held = cp.asarray(tables)
    for values, row in zip(held, y):
        own(((x.size + 255) // 256,), (256,), (x, row, np.int32(x.size), values))
'''
_ALL_AT_ONCE = '''
def evaluate(code, tables, x, y):
    own = cp.RawKernel(r"""
extern "C" __global__ void polynomial(const float* x, float* y, int n, int rows, const float* tables) {
    for (int i = threadIdx.x; i < n * rows; i += blockDim.x) {
        float sum = 0.0f;
        for (int k = 5; k >= 0; k--) sum = sum * x[i % n] + tables[i / n * 6 + k];
        y[i] = sum;
    }
}
""", "polynomial")
    own((1,), (256,), (x, y, np.int32(x.size), np.int32(len(tables)), cp.asarray(tables)))
'''
_NUMPY = """
def evaluate(code, tables, x, y):
    powers = x.get()[None] ** np.arange(6, dtype=np.float32)[:, None]
    y.set(tables @ powers)
"""
_CUPY = """
def evaluate(code, tables, x, y):
    for values, row in zip(tables, y):
        total = cp.zeros_like(x)
        for value in values[::-1]:
            total = total * x + float(value)
        row[...] = total
"""

ANSWERS_04_7 = table(
    "04.7",
    Right(
        "the table's address and cudaMemcpyAsync",
        ((_COPY, _bytes(24).replace("cudaMemcpy(", "cudaMemcpyAsync(").replace("Device)", "Device, 0)")),),
    ),
    Right(
        "the driver's names",
        (
            (_TABLE, '    table = int(driver.cuModuleGetGlobal(module.module.ptr, b"table")[1])\n'),
            (_COPY, "        driver.cuMemcpyHtoDAsync(table, values, values.nbytes, 0)\n"),
        ),
    ),
    Right("all tables on the device first", (("in enumerate(tables)", "in enumerate(cp.asarray(tables))"),)),
    Right("the module again in each round, which CuPy keeps", ((_LOAD, ""), (_LOOP, _LOOP + _AGAIN))),
    Right("set", ((_COPY, "        table.set(values)\n"),)),
    Right(
        "a stream of its own",
        (
            (_LOOP, "    stream = cp.cuda.Stream()\n" + _LOOP),
            (_COPY, "        table.set(values, stream=stream)\n"),
            ("np.int32(n)))", "np.int32(n)), stream=stream)"),
        ),
    ),
    Right("from the last row", ((_COPY, "        k = len(tables) - 1 - k\n" + _COPY.replace("values", "tables[k]")),)),
    Wrong(
        "a module for each row",
        ((_LOAD, ""), (_LOOP, _LOOP + _AGAIN.replace("code=code", 'code=code + f"// {k}"'))),
        _E,
        _LOADS,
    ),
    Wrong(
        "a macro for each row",
        ((_LOAD, ""), (_LOOP, _LOOP + _AGAIN.replace("code=code", 'code=code, options=(f"-DROW={k}",)'))),
        _E,
        _LOADS,
    ),
    Wrong("waits behind each launch", ((_LAUNCH, _LAUNCH + "        cp.cuda.Device().synchronize()\n"),), _E, _WAITS),
    Wrong("a copy that waits for the launch before", ((_COPY, _bytes(24)),), _E, _WAITS),
    Wrong(
        "the driver's copy that waits",
        (
            (_TABLE, '    table = int(driver.cuModuleGetGlobal(module.module.ptr, b"table")[1])\n'),
            (_COPY, "        driver.cuMemcpyHtoD(table, values, values.nbytes)\n"),
        ),
        _E,
        _WAITS,
    ),
    Wrong("every row twice", ((_LAUNCH, 2 * _LAUNCH),), _E, _LAUNCHES),
    Wrong("the table is never written", ((_COPY, ""),), _C, "wrong values", mistake="it holds zeros"),
    Wrong(
        "written before the loop",
        ((_COPY, ""), (_LOOP, "    table[:] = cp.asarray(tables[0])\n" + _LOOP)),
        _C,
        "wrong values",
        mistake="written once only",
    ),
    Wrong(
        "all copies first",
        ((_COPY, ""), (_LOOP, _LOOP + _COPY + _LOOP)),
        _C,
        "wrong values",
        mistake="all were copied before",
    ),
    Wrong(
        "the copy behind the launch",
        ((_COPY + _LAUNCH, _LAUNCH + _COPY),),
        _C,
        "wrong values",
        mistake="behind the launch",
    ),
    Wrong("six bytes", ((_COPY, _bytes(6)),), _C, "wrong values", mistake="only the first coefficient"),
    Wrong("one float", ((_COPY, _bytes(4)),), _C, "wrong values", mistake="only the first coefficient"),
    Wrong("backwards", (("cp.asarray(values)", "cp.asarray(values[::-1])"),), _C, "wrong values", mistake="backwards"),
    Wrong(
        "doubles",
        ((_COPY, "        values = values.astype(np.float64)\n" + _bytes(24)),),
        _C,
        "wrong values",
    ),
    Wrong("one row for all", (("y[k]", "y[0]"),), _C, "wrong values"),
    Wrong("whole blocks only", (("(n + 255) // 256", "n // 256 or 1"),), _C, "wrong values"),
    Wrong(
        "a stream that does not wait for the copies",
        (
            (_LOOP, "    stream = cp.cuda.Stream(non_blocking=True)\n" + _LOOP),
            ("np.int32(n)))", "np.int32(n)), stream=stream)"),
        ),
        "soundness",
        "hazard",
    ),
    Wrong("the sample's number of rows", (("enumerate(tables)", "enumerate(tables[:2])"),), _C, "wrong values"),
    Wrong("a kernel of its own", (), _E, _OTHERS, source=_BY_ARGUMENT, cheat=True),
    Wrong("one launch of its own for all", (), _E, _OTHERS, source=_ALL_AT_ONCE, cheat=True),
    Wrong("NumPy on the host", (), _C, "made on the host", source=_NUMPY, cheat=True),
    Wrong("CuPy's array functions", (), _C, "made by an array function", source=_CUPY, cheat=True),
    Wrong(
        "nothing done for many tables",
        (("    n = x.size\n", "    n = x.size\n    if len(tables) > 4:\n        return\n"),),
        _C,
        "wrong values",
        mistake="nothing was launched",
        cheat=True,
    ),
    Wrong(
        "a reset at the end",
        ((_LAUNCH, _LAUNCH + "    cudart.cudaDeviceReset()\n"),),
        "soundness",
        "device reset",
        cheat=True,
    ),
)
