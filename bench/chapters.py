"""Run All of the course with a cold cache, one chapter after another, and the cells that a learner waits for.

    python -m bench.chapters [--chapter 04 …] [--device sim:h200] [--warm] [--slow 2.0] [--large 400] [--json FILE]

Each chapter runs as JupyterLab runs it in a learner's copy, in a kernel of its own, on the simulated device, or with
``--device gpu`` on a real one. The caches of compiled code, CuPy's and the driver's too, are empty at first and all
chapters share them, as on a learner's machine; ``--warm`` runs everything twice and reports the second time. Given are
seconds of the clock and of processor time (kernel and compilers together; a loaded machine stretches the first and
hardly the second), and every cell that took longer than ``--slow`` seconds: of the clock, of processor time, and what
the page said meanwhile (``cells/progress_line.py``).

Memory is that of the kernel and all processes it started, as if nothing else ran on the machine (``processes_memory``,
sampled every fifth of a second): the most of each chapter, and every cell that reached ``--large`` MB, with the
processes that had it. The arrays of the simulated device are part of it, from when they are first written. On a GPU no
memory is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import psutil
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from bench import processes_memory
from cudalab.cells.progress_line import TARGET
from cudalab.course import edition
from cudalab.course.working_copy import WorkingCopy
from cudalab.installation import lab

ROOT = Path(__file__).parents[1]


@dataclass
class CellRun:
    """One cell's run."""

    cell: str
    seconds: float
    processor: float
    said: list[str] = field(default_factory=list)
    """What the line below the cell said, each text once."""
    memory: list[int] = field(default_factory=list)
    """Megabytes (10⁶ bytes) of the kernel and of each process that it started, when their sum was largest."""


@dataclass
class ChapterRun:
    chapter: str
    seconds: float
    """From the start of the kernel to the end of the last cell."""
    processor: float
    cells: list[CellRun]

    @property
    def memory(self) -> int:
        """The most megabytes that all processes had together."""
        return max(sum(cell.memory) for cell in self.cells)


class _NoWatch:
    """In the place of a ``processes_memory.Watch`` where no memory is counted."""

    def take(self) -> list[int]:
        return []

    def end(self) -> None: ...


def run_chapter(notebook: Path, environment: dict[str, str]) -> ChapterRun:
    """Run all cells of a notebook in a working copy, as its page would."""
    began = time.perf_counter()
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(notebook.parent), env=environment | {"JPY_SESSION_NAME": str(notebook)})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        kernel = psutil.Process(manager.provisioner.process.pid)  # type: ignore[union-attr]
        watch = _NoWatch() if environment["CUDALAB_DEVICE"] == "gpu" else processes_memory.Watch(kernel)
        cells = list(_run_cells(notebook, client, kernel, watch))
        watch.end()
        return ChapterRun(notebook.stem, time.perf_counter() - began, _processor_time(kernel), cells)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run_cells(
    notebook: Path, client: BlockingKernelClient, kernel: psutil.Process, watch: processes_memory.Watch | _NoWatch
) -> Iterator[CellRun]:
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        run = CellRun(cell.id, time.perf_counter(), _processor_time(kernel))

        def hear(message: dict[str, Any], run: CellRun = run) -> None:
            content = message["content"]
            if message["msg_type"] == "comm_open" and content["target_name"] == TARGET:
                run.said.append(content["data"]["text"])

        reply = client.execute_interactive(cell.source, output_hook=hear, timeout=600)["content"]
        if reply["status"] == "error" and "raises-exception" not in cell.metadata.get("tags", ()):
            raise RuntimeError(f"{notebook.name}, cell {cell.id}: {reply['ename']}: {reply['evalue']}")
        run.seconds, run.processor = time.perf_counter() - run.seconds, _processor_time(kernel) - run.processor
        run.memory = [round(size / 1e6) for size in watch.take()]
        yield run


def _processor_time(kernel: psutil.Process) -> float:
    """Seconds of a kernel and of the processes that it started."""
    total = 0.0
    for process in (kernel, *kernel.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return float(total)


def run_course(chapters: list[str], *, warm: bool, device: str = "sim:h200") -> list[ChapterRun]:
    """Run the chapters whose numbers are given, or all, in a new working copy."""
    with tempfile.TemporaryDirectory(prefix="cudalab-chapters-") as folder:
        copy = WorkingCopy(Path(folder) / "work")
        copy.update(ROOT)
        environment = {
            **lab.environment(),  # that of `make lab`, which keeps Python's bytecode
            "CUDALAB_DEVICE": device,
            "CUDALAB_CACHE": str(Path(folder) / "cache"),
            "CUPY_CACHE_DIR": str(Path(folder) / "cupy"),
            "CUDA_CACHE_PATH": str(Path(folder) / "driver"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        names = [name for name in edition.names(ROOT) if name.startswith("notebooks/")]
        wanted = [name for name in names if not chapters or Path(name).stem[:2] in chapters]
        if warm:
            for name in wanted:
                run_chapter(copy.folder / name, environment)
        runs = []
        for name in wanted:
            runs.append(run_chapter(copy.folder / name, environment))
            said = f"{runs[-1].seconds:8.1f} s{runs[-1].processor:8.1f} s{runs[-1].memory:8} MB"
            print(f"{runs[-1].chapter:28}{said}", flush=True)
        return runs


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--chapter", action="append", default=[], help="only the chapter with this number")
    parser.add_argument("--device", default="sim:h200", help="gpu, or a profile of the simulated device")
    parser.add_argument("--warm", action="store_true", help="once before, so that everything is compiled")
    parser.add_argument("--slow", type=float, default=2.0, help="seconds from which on a cell is listed")
    parser.add_argument("--large", type=int, default=400, help="megabytes from which on a cell is listed")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    print(f"load before: {load:.1f} on {os.cpu_count()} processors\n{'':34}clock  processor    memory")
    runs = run_course(args.chapter, warm=args.warm, device=args.device)
    total = [sum(run.seconds for run in runs), sum(run.processor for run in runs)]
    print(f"{'together':28}{total[0]:8.1f} s{total[1]:8.1f} s; load after: {os.getloadavg()[0]:.1f}\n")
    for run in runs:
        for cell in sorted(run.cells, key=lambda cell: -cell.seconds):
            if cell.seconds >= args.slow:
                said = "; ".join(cell.said) or "nothing"
                print(f"{run.chapter[:2]} {cell.cell:28}{cell.seconds:8.1f} s{cell.processor:8.1f} s  {said}")
    for run in runs:
        for cell in run.cells:
            if sum(cell.memory) >= args.large:
                print(f"{run.chapter[:2]} {cell.cell:28}{sum(cell.memory):8} MB  {cell.memory}")
    if args.json:
        args.json.write_text(json.dumps({"load": load, "chapters": [asdict(run) for run in runs]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
