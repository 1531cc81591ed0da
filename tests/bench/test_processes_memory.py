"""Memory of processes, counted as if they were alone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from bench import processes_memory
from bench.processes_memory import Count, at_most

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counted on Linux only")

SIZE = 40_000_000
IDLE = "import numpy as np; data = np.ones({size}, np.uint8); print('ready', flush=True); input()"
FORKED = "import os, numpy as np; data = np.ones({size}, np.uint8); print('ready', flush=True); os.fork(); input()"


@contextmanager
def running(program: str = IDLE, size: int = 0) -> Iterator[psutil.Process]:
    """A process that imports NumPy, fills so many bytes, and waits."""
    command = [sys.executable, "-c", program.format(size=size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield psutil.Process(process.pid)
        finally:
            for child in psutil.Process(process.pid).children():
                child.kill()
            process.kill()


def count(*processes: psutil.Process) -> list[int]:
    found = Count()
    for process in processes:
        found.add(process.pid)
    return found.by_process


def test_a_neighbour_does_not_change_what_a_process_takes() -> None:
    with running() as process:
        with running():
            (beside_another,), share = count(process), process.memory_full_info().pss
        (alone,) = count(process)
    assert beside_another == pytest.approx(alone, rel=0.01)
    assert share < 0.9 * alone  # the proportional count charges for half of the libraries


def test_pages_of_files_count_once() -> None:
    with running() as one, running() as two:
        (first, second), (all_of_it,) = count(one, two), count(two)
        assert second < 0.7 * all_of_it
        assert first + second <= at_most([one.pid, two.pid])


def test_what_a_process_fills_counts() -> None:
    with running() as small, running(size=SIZE) as large:
        assert count(large)[0] - count(small)[0] == pytest.approx(SIZE, rel=0.05)


def test_what_a_forked_process_has_in_common_with_its_parent_counts_once() -> None:
    with running(FORKED, SIZE) as process:
        while not process.children():
            time.sleep(0.01)
        assert SIZE < sum(count(process, *process.children())) < 2 * SIZE


def test_a_process_that_has_ended_takes_nothing() -> None:
    with running() as process:
        pass
    assert count(process) == [] and at_most([process.pid]) == 0


def test_a_watch_keeps_the_most_and_starts_anew() -> None:
    with running() as process:
        watch = processes_memory.Watch(process)
        first, second = watch.take(), watch.take()
        watch.end()
    assert sum(first) == pytest.approx(sum(second), rel=0.01) and sum(first) > 5_000_000
