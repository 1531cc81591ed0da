"""Runs the corpus and stores what came out.

    python -m tests.corpus --device sim                     # all entries here, against NumPy
    python -m tests.corpus --device gpu --out FILE.npz      # on a GPU, in several processes
    python -m tests.corpus --device gpu --only NAME,NAME --update --out FILE.npz    # the others stay as they are stored
    python -m tests.corpus --device sim --only 'scan_*' --jobs 1

Each entry runs in one of several processes, so that one that hangs or poisons its CUDA context costs only itself.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import multiprocessing
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np

from .kernel import Entry, load_corpus
from .results import Stored, save


def attempt(name: str, device: str) -> tuple[str, dict[str, np.ndarray], str, float]:
    """``(name, buffers, error, seconds)`` of one entry, run in this process; on a GPU by CuPy itself."""
    from tests.conformance.run import bind

    from .run import module_of, run, verify

    bind(device, real=device == "gpu")
    entry = load_corpus()[name]
    start = time.perf_counter()
    try:
        ran = run(entry, module_of([entry]))
    except Exception:
        return name, {}, traceback.format_exc(limit=-2), time.perf_counter() - start
    error = ""
    try:
        verify(entry, ran)
    except Exception as wrong:
        error = f"{type(wrong).__name__}: {wrong}"
    return name, ran.values, error, time.perf_counter() - start


def about() -> dict[str, Any]:
    """Where results come from."""
    from cudalab import cp, cudart

    properties = cp.cuda.runtime.getDeviceProperties(0)
    name = properties["name"]
    return {
        "device": name.decode() if isinstance(name, bytes) else str(name),
        "driver": int(cudart.cudaDriverGetVersion()[1]),
        "cupy": cp.__version__,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }


def main() -> None:
    """The command; ends the process, and those that still run an entry."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.corpus", description="Runs the corpus and stores what came out."
    )
    parser.add_argument("--device", default="sim", help="gpu, sim or sim:PROFILE")
    parser.add_argument("--only", default="*", help="names or topics, with * and ?; several with commas")
    parser.add_argument("--out", help="an .npz to write")
    parser.add_argument("--update", action="store_true", help="keep what is stored of other entries in --out")
    parser.add_argument("--jobs", type=int, default=0, help="processes")
    parser.add_argument("--limit", type=float, default=150, help="seconds for everything")
    asked = parser.parse_args()
    os.environ["CUDALAB_DEVICE"] = asked.device
    entries = chosen(asked.only)
    jobs = asked.jobs or (12 if asked.device == "gpu" else 1)
    results: dict[str, dict[str, np.ndarray]] = {}
    failures: dict[str, str] = {}
    start = time.perf_counter()
    waiting = [entry.name for entry in entries]
    while waiting:
        lost = pass_over(waiting, jobs, asked, start, results, failures)
        if lost and jobs == 1:
            failures[lost[0]] = "its process was lost"
            print(f"LOST {lost[0]}", flush=True)
            lost = lost[1:]
        waiting, jobs = lost, 1
    wall = time.perf_counter() - start
    if asked.out:
        from tests.conformance.run import bind

        bind(asked.device, real=asked.device == "gpu")
        good = {name: results[name] for name in sorted(results) if name not in failures or not asked.update}
        save(asked.out, about(), good, Stored() if asked.update else None)
    print(
        f"{len(entries) - len(failures)} of {len(entries)} entries agree with NumPy on {asked.device} in {wall:.1f} s"
    )
    sys.stdout.flush()
    os._exit(bool(failures))


def pass_over(
    names: list[str],
    jobs: int,
    asked: argparse.Namespace,
    start: float,
    results: dict[str, dict[str, np.ndarray]],
    failures: dict[str, str],
) -> list[str]:
    """Runs entries in a pool; returns, in order, those that were not reached because a process ended."""
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    pending = {pool.submit(attempt, name, asked.device): name for name in names}
    lost = []
    try:
        for future in as_completed(pending, timeout=max(1.0, asked.limit - (time.perf_counter() - start))):
            try:
                name, values, error, seconds = future.result()
            except BrokenProcessPool:
                lost.append(pending[future])
                continue
            if values:
                results[name] = values
            if error:
                failures[name] = error
                print(f"FAILED {name} ({seconds:.2f} s): {error.strip()[-900:]}", flush=True)
    except TimeoutError:
        for future, name in pending.items():
            if not future.done():
                failures[name] = "no answer in time"
                print(f"NO ANSWER {name}", flush=True)
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    return sorted(lost, key=names.index)


def chosen(patterns: str) -> list[Entry]:
    """Entries whose name or topic fits one of the patterns."""
    wanted = patterns.split(",")
    return [
        entry
        for entry in load_corpus().values()
        if any(fnmatch.fnmatch(entry.name, p) or fnmatch.fnmatch(entry.topic, p) for p in wanted)
    ]
