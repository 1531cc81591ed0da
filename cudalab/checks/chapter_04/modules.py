"""04.7: a table in constant memory that changes between launches, while the module stays loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cudalab.checks.bench import Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.provenance import GRADED, Origin
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim.device.queue.kernel_launch import KernelOperation

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation

DEGREE = 6
POLYNOMIAL = r"""
__constant__ float table[6];
extern "C" __global__ void polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 5; k >= 0; k--) sum = sum * x[i] + table[k];
    y[i] = sum;
}
"""
TABLES, ELEMENTS = 5, 700
LOADS = Gate(
    "modules loaded",
    points=2,
    least=1,
    most=1,
    baseline=TABLES,
    look="what is done for each row of tables: module.get_global finds the table, and a copy writes it",
    too_little="the kernel that the exercise gives has to be loaded: cp.RawModule(code=code)",
)
OTHERS = Gate(
    "launches of other kernels than that of code",
    most=0,
    baseline=TABLES,
    look="the text that the module is made from: it stays code, as it was handed over",
)
LAUNCHES = Gate(
    "launches for each table", points=1, least=1, most=1, baseline=1, look="one launch for each row of tables"
)
WAITS = Gate(
    "calls that wait for the device, or ask it",
    most=0,
    baseline=0,
    look="copies and launches of one stream are in order: nothing has to be waited for between them. cudaMemcpy from "
    "ordinary memory waits for the stream before it copies: table.set(…) or cudaMemcpyAsync does not",
)


def _evaluate(bench: StreamBench) -> None:
    few = bench.between(2, 4)
    for count, size in ((TABLES, ELEMENTS + bench.between(0, 300)), (1, 33), (few, 1), (few + 7, 257)):
        with bench.case(f"{counted(count, 'table')}, {counted(size, 'element')}") as trial:
            _evaluate_once(bench, trial, count, size)


def _evaluate_once(bench: StreamBench, trial: Trial, count: int, size: int) -> None:
    tables, points = bench.random((count, DEGREE)), bench.random(size)
    given = tables.copy()
    x, y = trial.array(points, "x"), trial.empty((count, size), np.float32)
    entered = len(trial.device.log.entries)
    trial.call(POLYNOMIAL, given, x, y)
    trial.expect(
        "y",
        y,
        _values(tables, points),
        tolerance=1e-5,
        known=_mistakes(tables, points),
        look="what the table holds when the kernel of each row runs: copy the row, launch, and then the next",
        by=GRADED | {Origin.OWN_KERNEL},
    )
    if not np.array_equal(given, tables):
        bench.find("correctness", "input changed", "tables is an input and was changed")
    if count == TABLES:
        kernels = trial.kernels()
        loads = [one for one in trial.device.log.entries[entered:] if one.name == "load_module" and not one.error]
        bench.measure(LOADS, len(loads))
        bench.measure(OTHERS, sum(not is_made_of(kernel, POLYNOMIAL) for kernel in kernels))
        bench.measure(LAUNCHES, len(kernels) / count)
        waits = sum(call.waited or "synchronize" in call.name for call in trial.calls)
        bench.measure(WAITS, waits + _asked(trial))


def _asked(trial: Trial) -> int:
    """How often the answer asks whether work is done. CuPy asks, too, in the lines that copy: for an event of its own,
    behind which page-locked memory is free again."""
    working = {call.place for call in trial.calls if call not in trial.polls}
    return sum(call.name == "stream_query" or call.place not in working for call in trial.polls)


def is_made_of(operation: Operation, code: str) -> bool:
    """Does this launch a kernel of the text that the exercise has handed over?"""
    return isinstance(operation, KernelOperation) and operation.kernel.module.program.source == code


def _values(tables: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Each table's polynomial at all points."""
    powers = points.astype(np.float64) ** np.arange(DEGREE)[:, None]
    return np.asarray(tables.astype(np.float64) @ powers)


def _mistakes(tables: np.ndarray, points: np.ndarray) -> tuple[Known, ...]:
    zeros = np.zeros_like(tables)
    one = zeros.copy()
    one[:, 0] = tables[:, 0]
    before = np.concatenate([zeros[:1], tables[:-1]])
    found = {
        "nothing was launched": None,
        "the table was never written: it holds zeros": zeros,
        "the table keeps the first row: it was written once only": tables[:1].repeat(len(tables), 0),
        "every row of y is that of the last table: all were copied before the first launch": tables[-1:].repeat(
            len(tables), 0
        ),
        "each launch sees the table of the row before: the copy comes behind the launch": before,
        "only the first coefficient arrives: the size of a copy is in bytes, and there are six floats of four": one,
        "the coefficients stand in the table backwards": tables[:, ::-1],
    }
    nothing = np.full((len(tables), points.size), np.nan)
    return tuple(
        Known(mistake, nothing if held is None else _values(held, points))
        for mistake, held in found.items()
        if held is None or len(tables) > 1 or held is not before
    )


NEW_TABLES = Exercise(
    id="04.7",
    title="A new table, and the module stays",
    kernel="evaluate",
    examine=_evaluate,
    gates=(LOADS, OTHERS, LAUNCHES, WAITS),
    answer="function",
)
