"""Grade a whole class: 200 submissions of a lab of six kernel questions, with an empty cache of compiled code.

    python -m bench.grading [--submissions 200] [--answers 54] [--jobs 2] [--python] [--json FILE]

Each question gets ``--answers`` different texts, those of the tests' tables of right and wrong answers first
(``tests/checks/answers``), then the same with a line of the student's own, which the compiler has to see; every text is
handed in at least once. ``--python`` takes six questions answered in Python instead. Told are the clock, the processor
time of all processes together, and the most memory that they had together: pages that several share counted once (PSS,
sampled twice a second). Other programs stretch the clock and hardly the processor time; the load before and after is
told, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from cudalab.checks import find
from tests.checks.answers.every import ANSWERS
from tests.grading.handed_in import notebook

ROOT = Path(__file__).parents[1]
KERNELS = ("01.1", "04.1", "04.2", "04.3", "04.6", "06.1")
FUNCTIONS = ("03.3", "08.4", "11.1", "11.2", "14.2", "15.1")
SAMPLE = 0.5
"""Seconds between two looks at the memory."""


def texts(exercise: str, count: int) -> list[str]:
    """So many different answers to an exercise."""
    kernel = find(exercise).answer == "kernel"
    known = [answer.text for answer in ANSWERS if answer.exercise == exercise]
    if kernel:
        known = [text if text.startswith("%%cuda") else f"%%cuda {find(exercise).kernel}\n{text}" for text in known]
    known = list(dict.fromkeys(known))
    mine = "\n__device__ const int mine_{0} = {0};\n" if kernel else "\nmine = {0}\n"
    return [known[at % len(known)] + (mine.format(at) if at >= len(known) else "") for at in range(count)]


def hand_in(folder: Path, submissions: int, answers: int, lab: tuple[str, ...]) -> int:
    """Write the notebooks, one for each student and chapter; returns how many different answers there are."""
    draw, given = random.Random(1), dict[str, list[str]]()
    for exercise in lab:
        each = texts(exercise, min(answers, submissions))
        given[exercise] = [each[at % len(each)] for at in range(submissions)]
        draw.shuffle(given[exercise])
    for number in range(submissions):
        (folder / f"student {number:03}").mkdir(parents=True)
        for chapter in sorted({exercise[:2] for exercise in lab}):
            mine = {find(one).kernel: given[one][number] for one in lab if one[:2] == chapter}
            path = folder / f"student {number:03}" / f"{chapter}_lab.ipynb"
            path.write_text(json.dumps(notebook(mine, chapter)), encoding="utf-8")
    return sum(len(set(each)) for each in given.values())


class Watch:
    """A process with all that it has started."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._jailed: dict[int, float] = {}
        self.memory = self.processes = 0
        """The most megabytes (10⁶ bytes), and how many processes had them."""

    def look(self) -> None:
        """Sample once."""
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in (self._process, *self._process.children(recursive=True)):
                with contextlib.suppress(OSError, IndexError, psutil.NoSuchProcess):  # it has just ended
                    rollup = Path(f"/proc/{one.pid}/smaps_rollup").read_text()
                    found.append(int(rollup.partition("\nPss:")[2].split()[0]) * 1024 / 1e6)
                    if Path(f"/proc/{one.pid}/status").read_text().partition("NSpid:")[2].split("\n")[0].split()[
                        1:
                    ] == ["2"]:
                        times = one.cpu_times()
                        self._jailed[one.pid] = sum(times[:4])
        if sum(found) > self.memory:
            self.memory, self.processes = round(sum(found)), len(found)

    @property
    def jailed(self) -> float:
        """Processor seconds in jails, of which the system says nothing when their first process is killed."""
        return sum(self._jailed.values())


def measure(folder: Path, lab: tuple[str, ...], jobs: int) -> dict[str, Any]:
    """Grade what is in ``folder / "submitted"``."""
    (folder / "lab.toml").write_text(f"exercises = {json.dumps(lab)}\nseed = 1\n")
    command = [sys.executable, "-m", "cudalab", "grade", "submitted", "--settings", "lab.toml", "--cache", "cache"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "--jobs", str(jobs)], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    ) as it:
        watch = Watch(psutil.Process(it.pid))
        while it.poll() is None:
            watch.look()
            time.sleep(SAMPLE)
    clock, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + watch.jailed
    return {
        "clock_s": round(clock, 1),
        "processor_s": round(processor, 1),
        "memory_mb": watch.memory,
        "processes": watch.processes,
        "status": it.returncode,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--answers", type=int, default=54, help="different ones of each question (default: 54)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--python", action="store_true", help="questions that are answered in Python")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    lab = FUNCTIONS if args.python else KERNELS
    with tempfile.TemporaryDirectory(prefix="cudalab-class-") as name:
        folder = Path(name)
        different = hand_in(folder / "submitted", args.submissions, args.answers, lab)
        load = os.getloadavg()[0]
        found = measure(folder, lab, args.jobs)
    found |= {"submissions": args.submissions, "questions": len(lab), "different": different, "jobs": args.jobs}
    found |= {"load": [round(load, 1), round(os.getloadavg()[0], 1)], "processors": os.cpu_count()}
    text = json.dumps(found)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
