"""Run the public corpus: ``python -m tests.public_corpus --from FOLDER [--fetch] [--json FILE] [--only TEXT]``.

FOLDER holds the clones, one a repository; ``--fetch`` makes them from GitHub. With CUDALAB_DEVICE=gpu every result is
compared with the GPU's.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import random
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from tests.public_corpus.run import Outcome, attempt
from tests.public_corpus.sources import REPOSITORIES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.public_corpus", description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, required=True)
    parser.add_argument("--fetch", action="store_true", help="clone what is not there")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="files whose path holds this text")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the order of files")
    given = parser.parse_args()
    tasks = []
    for repository in REPOSITORIES:
        if given.fetch:
            repository.clone(given.folder)
        root = given.folder / repository.name
        tasks += [(path, root) for path in repository.kernel_files(given.folder) if given.only in str(path)]
    random.Random(given.seed).shuffle(tasks)  # so that a run that is cut short has seen a fair sample
    outcomes: list[Outcome] = []
    done = 0
    # A process for each file: an illegal access on a GPU ends CUDA in its process.
    pool = ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1)
    try:
        for future in as_completed([pool.submit(attempt, task) for task in tasks], timeout=given.seconds):
            outcomes += future.result()
            done += 1
            for outcome in future.result():
                if outcome.verdict != "passed":
                    print(f"{outcome.verdict:7} {outcome.file}: {outcome.kernel}: {outcome.reason}"[:220], flush=True)
    except TimeoutError:
        print(f"cut short after {given.seconds:g} s, {done} of {len(tasks)} files")
    if given.json:
        outcomes.sort(key=lambda outcome: (outcome.file, outcome.kernel))
        given.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    verdicts = collections.Counter(outcome.verdict for outcome in outcomes)
    tried = verdicts["passed"] + verdicts["failed"]
    compared = collections.Counter(outcome.compared for outcome in outcomes if outcome.verdict == "passed")
    print(f"{done} files; {tried} kernels that NVRTC compiles, {verdicts['passed']} pass", end=" ")
    print(f"({verdicts['passed'] / max(1, tried):.1%}); compared with the GPU: {dict(compared)}")
    print(f"{verdicts['nvrtc']} files or kernels that NVRTC does not compile without their host code")
    for process in multiprocessing.active_children():
        process.kill()  # of what was cut short
    return 0


if __name__ == "__main__":
    sys.exit(main())
