"""Time `cudalab.profile` against plain launches, for the programs of the speed table and the kernels of the notebooks.

    python -m bench.profile [--repeats 3] [--only TEXT] [--notebooks 04 06 11 14] [--json FILE]

A plain launch is `machine.launch.launch`, all blocks, one worker. A profile is the same launch with the call's
defaults: all blocks of a small launch, some of a large one. It has two parts, which are timed apart: running blocks in
traced code, and the analysis of what they recorded, up to the finished `Profile`. Each figure is the best of the
repeats. The aim: a traced run of at most 4 times the plain one, and an analysis of at most a second. A traced run of at
most 20 ms is as good: there the exact counts of all blocks are worth more than the time.

The notebooks' launches are found by running their code cells; each kernel is timed at its largest launch of at least a
millisecond, or its largest. Code is generated before the clock starts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("CUDALAB_DEVICE", "sim")

import nbformat  # noqa: E402
import numpy as np  # noqa: E402

from bench.programs import cases  # noqa: E402
from bench.speed import geometric_mean  # noqa: E402
from cudalab.mirror import mirrored  # noqa: E402
from cudalab.profile import profile  # noqa: E402
from cudalab.sim.machine.launch import launch  # noqa: E402
from cudalab.sim.machine.trace import Tracer  # noqa: E402

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
RATIO, SHORT, SECONDS = 4.0, 20.0, 1.0
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
    from cudalab import cp

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

    shell = _shell()
    with mock.patch.object(cp.RawKernel, "__call__", seen):
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


def _threads(entry: Launch) -> int:
    return int(np.prod(entry.grid)) * int(np.prod(entry.block))


def measure(entry: Launch, repeats: int) -> dict[str, Any]:
    """Milliseconds of a plain launch, of traced runs and of the analysis; the best of the repeats."""
    with mirrored(entry.kernel, entry.grid, entry.block, entry.args, entry.shared, "bench") as found:
        kernel, grid, block, args, shared = found.kernel, found.grid, found.block, found.args, found.shared
        launch(kernel, grid, block, args, shared)
        plain = min(_timed(lambda: launch(kernel, grid, block, args, shared)) for _ in range(repeats + 1))
    traced = analysed = float("inf")
    for _ in range(repeats):
        spent = [0.0]
        with contextlib.ExitStack() as stack:
            for name in ("run", "run_batch", "run_together", "__exit__"):
                stack.enter_context(mock.patch.object(Tracer, name, _clocked(getattr(Tracer, name), spent)))
            start = time.perf_counter()
            counted = profile(entry.kernel, entry.grid, entry.block, entry.args, shared=entry.shared)
            whole = time.perf_counter() - start
        traced, analysed = min(traced, spent[0] * 1e3), min(analysed, (whole - spent[0]) * 1e3)
    return {
        "kernel": entry.label,
        "plain ms": plain,
        "traced ms": traced,
        "ratio": traced / plain,
        "analysis ms": analysed,
        "sampled": counted.counts.sampled,
        "blocks": counted.counts.blocks,
    }


def _clocked(method: Any, spent: list[float]) -> Any:
    """A method that adds the seconds it takes to ``spent``."""

    def call(self: Tracer, *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(self, *args, **options)
        finally:
            spent[0] += time.perf_counter() - start

    return call


def _timed(action: Any) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="kernels whose label contains this")
    parser.add_argument("--notebooks", nargs="*", default=["04", "06", "11", "14"])
    parser.add_argument("--json", type=Path, help="store the figures here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    launches = [*table(), *(entry for number in options.notebooks for entry in notebook(number))]
    rows = []
    print(f"{'kernel':34} {'plain':>10} {'traced':>10} {'ratio':>7} {'analysis':>10}  blocks")
    for entry in launches:
        if options.only not in entry.label:
            continue
        row = measure(entry, options.repeats)
        rows.append(row)
        fast = row["ratio"] <= RATIO or row["traced ms"] <= SHORT
        missed = "" if fast and row["analysis ms"] <= 1e3 * SECONDS else "  <- aim missed"
        print(
            f"{row['kernel'][:34]:34} {row['plain ms']:7.2f} ms {row['traced ms']:7.2f} ms {row['ratio']:7.2f} "
            f"{row['analysis ms']:7.1f} ms  {row['sampled']} of {row['blocks']}{missed}",
            flush=True,
        )
    worst = max(rows, key=lambda row: row["ratio"])
    print(
        f"traced run over plain: geometric mean {geometric_mean([row['ratio'] for row in rows]):.2f}, largest "
        f"{worst['ratio']:.2f} ({worst['kernel']}); longest analysis {max(row['analysis ms'] for row in rows):.0f} ms"
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
