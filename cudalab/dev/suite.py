"""``python -m cudalab test``: runs the test suite as `make test`, `make test-long` and `make test-gpu` do.

How tests are spread over the processes, what a full run must have collected, and what CI may not skip, is said in
tests/conftest.py; which slice of the large families a run takes, in tests/slices.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from cudalab.backend import VARIABLE
from cudalab.installation.environment import project_root
from cudalab.installation.lab import environment

SELECTIONS = {"": "not gpu and not long", "long": "(long or sliced) and not gpu", "gpu": "gpu"}


def command(*, which: str, workers: int, arguments: Sequence[str]) -> list[str]:
    """The command line of pytest for one selection (a key of ``SELECTIONS``)."""
    line = [sys.executable, "-m", "pytest", "-m", SELECTIONS[which]]
    if which == "gpu":
        workers = 1  # one process at a time on the device
    if which == "long":
        line.append("--timeout=3600")
    if workers > 1:
        # a process that died is not replaced: the new one would run the same test, and the run would never end
        line += ["-n", str(workers), "--dist", "loadscope", "--no-loadscope-reorder", "--max-worker-restart=0"]
    return [*line, *arguments]


def run(*, which: str = "", workers: int = 1, arguments: Sequence[str] = ()) -> int:
    """Run the tests; returns pytest's exit code. The default selection runs on the simulated device."""
    surroundings = environment() | {"PYTHONHASHSEED": "0"}
    surroundings[VARIABLE] = "gpu" if which == "gpu" else "sim"
    line = command(which=which, workers=workers, arguments=arguments)
    return subprocess.run(line, cwd=project_root(), env=surroundings, check=False).returncode
