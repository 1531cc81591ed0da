"""Time `cudalab.profile` against plain launches, for the programs of the speed table and the kernels of the notebooks.

    python -m bench.profile [--repeats 9] [--only TEXT] [--notebooks 01 04 06 11 14] [--clock cpu] [--json FILE]

A plain launch is what a learner writes: ``kernel(grid, block, args)`` and a wait for the device. A profile is
``cudalab.profile(kernel, grid, block, args)`` of the same launch with the call's defaults: all blocks of a small
launch, some of a large one. It has two parts, which are timed apart. The *run* is what the plain launch does, too
(arguments are packed, the configuration is checked, blocks run), and what is there because it is traced: stores are
taken back. All the rest is *analysis*, up to the finished `Profile`. The aim: a run of at most 4 times the plain
launch, and an analysis of at most a second. Both are measured in turn; each figure is the best of the repeats.

The notebooks' launches are found by running their code cells; each kernel is timed at its largest launch. Code is
generated before the clock starts. Where other work shares the machine, ``--clock cpu`` counts the processor time of
this process instead; it leaves out what threads wait for each other.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("CUDALAB_DEVICE", "sim")

import nbformat  # noqa: E402
import numpy as np  # noqa: E402

from bench.programs import cases  # noqa: E402
from bench.speed import geometric_mean  # noqa: E402
from cudalab.analysis.mirror import mirrored  # noqa: E402
from cudalab.analysis.profile import profile  # noqa: E402
from cudalab.sim.machine.execution import execute  # noqa: E402
from cudalab.sim.machine.trace.recorder import Tracer  # noqa: E402

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
RATIO, SECONDS = 4.0, 1.0
"""The aims."""


@dataclass
class Launch:
    """One launch to time."""

    label: str
    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared: int = 0


def table() -> Iterator[Launch]:
    """The programs of the speed table."""
    from cudalab import cp

    for case in cases():
        inputs, output = case.arrays(case.size)
        arguments = (*map(cp.asarray, inputs), cp.zeros(output.shape, output.dtype), np.int32(case.size))
        yield Launch(case.label, cp.RawKernel(case.cuda, "kernel"), *case.launch(case.size), arguments)


def notebook(number: str) -> list[Launch]:
    """The largest launch of each kernel of a notebook, by threads."""
    from cudalab import cp, cudart

    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    found: dict[tuple[str, str], Launch] = {}
    original = cp.RawKernel.__call__

    def seen(self: Any, grid: Any, block: Any, args: Any, *rest: Any, **options: Any) -> Any:
        result = original(self, grid, block, args, *rest, **options)
        entry = Launch(f"{number} {self.name}", self, tuple(grid), tuple(block), tuple(args))
        entry.shared = int(options.get("shared_mem", rest[0] if rest else 0))
        key = (self.code, self.name)
        if key not in found or _threads(found[key]) < _threads(entry):
            found[key] = entry
        return result

    def kept(pointer: Any, *rest: Any) -> tuple[Any]:
        return (cudart.cudaError_t.cudaSuccess,)

    shell = _shell()
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(cp.RawKernel, "__call__", seen))
        for name in ("cudaFree", "cudaFreeAsync"):  # the launches are made again when the notebook has ended
            patches.enter_context(mock.patch.object(cudart, name, kept))
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type != "code" or "%%isolated" in cell.source:
                continue
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                shell.run_cell(cell.source.replace("%matplotlib inline", ""), silent=True)
    return list(found.values())


def _shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell

    import cudalab

    shell = InteractiveShell.instance()
    shell.display_pub.publish = lambda *args, **kwargs: None
    cudalab.load_ipython_extension(shell)
    return shell


def launches(notebooks: Iterable[str]) -> Iterator[Launch]:
    """The table's, and those of notebooks, one notebook after the other."""
    yield from table()
    for number in notebooks:
        yield from notebook(number)


def _threads(entry: Launch) -> int:
    return int(np.prod(entry.grid)) * int(np.prod(entry.block))


def is_alive(entry: Launch) -> bool:
    """Does a launch still find its memory? A notebook may hand over addresses that no array owns."""
    with mirrored(entry.kernel, entry.grid, entry.block, entry.args, entry.shared, "bench") as found:
        return execute(found).fault is None


def measure(entry: Launch, repeats: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """Milliseconds of a plain launch, of a profile's run and of its analysis; the best of the repeats."""
    from cudalab import cp

    def call() -> None:
        entry.kernel(entry.grid, entry.block, entry.args, shared_mem=entry.shared)
        cp.cuda.Device().synchronize()

    plain = run = analysis = float("inf")
    for repeat in range(repeats + 2):
        for _ in range(2):  # a second launch finds what the first has left in the host's caches
            start = clock()
            call()
            plain_now = clock() - start
        spent = Spent(clock)
        start = clock()
        with spent.watched():
            counted = profile(entry.kernel, entry.grid, entry.block, entry.args, shared=entry.shared)
        whole = clock() - start
        if repeat >= 2:  # before that, code is made, and wide code is chosen
            plain, run = min(plain, plain_now), min(run, spent.seconds)
            analysis = min(analysis, whole - spent.seconds)
    return {
        "kernel": entry.label,
        "plain ms": plain * 1e3,
        "run ms": run * 1e3,
        "ratio": run / plain,
        "analysis ms": analysis * 1e3,
        "sampled": counted.counts.sampled,
        "blocks": counted.counts.blocks,
    }


class Spent:
    """The time that a profile spends on running the launch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds = 0.0
        self._clock, self._depth = clock, 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Count what happens in the calls that run something, while this lasts."""
        module = sys.modules["cudalab.analysis.profile"]
        with contextlib.ExitStack() as stack:
            for name in ("__init__", "__enter__", "__exit__", "run", "run_batch", "run_concurrently", "rollback"):
                stack.enter_context(mock.patch.object(Tracer, name, self._counted(getattr(Tracer, name))))
            stack.enter_context(mock.patch.object(module, "mirrored", self._mirrored))
            yield

    def _counted(self, call: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            with self._counting():
                return call(*args, **options)

        return counted

    @contextlib.contextmanager
    def _mirrored(self, *args: Any) -> Iterator[Any]:
        launch = mirrored(*args)
        with self._counting():
            found = launch.__enter__()
        yield found
        with self._counting():
            launch.__exit__(None, None, None)

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        start, self._depth = self._clock(), self._depth + 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:  # one of them may call another
                self.seconds += self._clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--only", default="", help="kernels whose label contains this")
    parser.add_argument("--notebooks", nargs="*", default=["01", "04", "06", "08", "11", "12", "14"])
    parser.add_argument("--json", type=Path, help="store the figures here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    rows = []
    print(f"{'kernel':34} {'plain':>10} {'run':>10} {'ratio':>7} {'analysis':>10}  blocks")
    for entry in launches(options.notebooks):
        if options.only not in entry.label:
            continue
        if not is_alive(entry):
            print(f"{entry.label[:34]:34} left out: the notebook has given memory back that it uses")
            continue
        row = measure(entry, options.repeats, clock)
        rows.append(row)
        missed = "" if row["ratio"] <= RATIO and row["analysis ms"] <= 1e3 * SECONDS else "  <- aim missed"
        print(
            f"{row['kernel'][:34]:34} {row['plain ms']:7.2f} ms {row['run ms']:7.2f} ms {row['ratio']:7.2f} "
            f"{row['analysis ms']:7.1f} ms  {row['sampled']} of {row['blocks']}{missed}",
            flush=True,
        )
    worst, longest = (max(rows, key=lambda row: row[figure]) for figure in ("ratio", "analysis ms"))
    print(
        f"run of a profile over a plain launch: geometric mean {geometric_mean([row['ratio'] for row in rows]):.2f}, "
        f"largest {worst['ratio']:.2f} ({worst['kernel']}); longest analysis {longest['analysis ms']:.0f} ms"
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
