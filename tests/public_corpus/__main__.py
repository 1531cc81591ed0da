"""Run the public corpus: ``python -m tests.public_corpus --from FOLDER [--fetch] [--json FILE] [--only TEXT]``.

FOLDER holds the clones, one a repository; ``--fetch`` makes them from GitHub. With CUDALAB_DEVICE=gpu every result is
compared with the GPU's.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import multiprocessing
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from tests.public_corpus.run import Outcome, attempt
from tests.public_corpus.sources import REPOSITORIES

Task = tuple[Path, Path]
"""A file and the folder of its repository."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.public_corpus", description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, required=True)
    parser.add_argument("--fetch", action="store_true", help="clone what is not there")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="files whose path ends with one of these texts, commas between")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the order of files")
    given = parser.parse_args()
    found: list[Task] = []
    for repository in REPOSITORIES:
        if given.fetch:
            repository.clone(given.folder)
        found += tasks(given.folder, repository.name, given.only)
    random.Random(given.seed).shuffle(found)  # so that a run that is cut short has seen a fair sample
    outcomes: list[Outcome] = []
    files: list[str] = []
    try:
        for task, some in run(found, given.jobs, given.seconds):
            print(f"{len(files) + 1:4} {task[0].relative_to(given.folder)}", flush=True)
            outcomes += some
            files.append(str(task[0].relative_to(given.folder)))
            for outcome in some:
                if outcome.verdict != "passed" or outcome.compared == "order":
                    verdict = outcome.verdict if outcome.verdict != "passed" else "order"
                    print(f"{verdict:7} {outcome.file}: {outcome.kernel}: {outcome.reason}"[:220], flush=True)
    except TimeoutError:
        print(f"cut short after {given.seconds:g} s, {len(files)} of {len(found)} files")
    if given.json:
        outcomes.sort(key=lambda outcome: (outcome.file, outcome.kernel))
        missed = sorted({str(path.relative_to(given.folder)) for path, _ in found} - set(files))
        kept = {"machine": machine(), "files": sorted(files), "missed": missed}
        kept["outcomes"] = [asdict(outcome) for outcome in outcomes]
        given.json.write_text(json.dumps(kept, indent=1) + "\n")
    verdicts = collections.Counter(outcome.verdict for outcome in outcomes)
    tried = verdicts["passed"] + verdicts["failed"]
    compared = collections.Counter(outcome.compared for outcome in outcomes if outcome.verdict == "passed")
    print(f"{len(files)} files; {tried} kernels that NVRTC compiles, {verdicts['passed']} pass", end=" ")
    print(f"({verdicts['passed'] / max(1, tried):.1%}); compared with the GPU: {dict(compared)}")
    print(f"{verdicts['nvrtc']} kernels that NVRTC does not compile without their host code")
    return 0


def tasks(folder: Path, repository: str, only: str = "") -> list[Task]:
    """The files of a repository below `folder` that hold kernels."""
    wanted = tuple(only.split(","))
    mine = next(each for each in REPOSITORIES if each.name == repository)
    return [(path, folder / repository) for path in mine.kernel_files(folder) if str(path).endswith(wanted)]


def run(found: list[Task], jobs: int, seconds: float | None = None) -> Iterator[tuple[Task, list[Outcome]]]:
    """What becomes of each file, as they are done.

    Raises:
        TimeoutError: not all were done after `seconds`.
    """
    # With a GPU a process for each file: an illegal access there ends CUDA in its process.
    files_each = 1 if os.environ.get("CUDALAB_DEVICE") == "gpu" else None
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=files_each)
    waiting = {pool.submit(attempt, task): task for task in found}
    try:
        for future in as_completed(waiting, timeout=seconds):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()  # of what was cut short


def machine() -> dict[str, str]:
    """Where and when this runs: device, driver, date."""
    about = {"device": "simulated", "driver": "none", "date": str(datetime.date.today())}
    if os.environ.get("CUDALAB_DEVICE") == "gpu":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        text = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        about["device"], about["driver"] = (part.strip() for part in text.split(","))
    return about


if __name__ == "__main__":
    sys.exit(main())
