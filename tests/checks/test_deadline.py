"""What the end of an answer's time may not leave behind. How it ends answers is in test_gate.py."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from cudalab.checks.session import simulated
from cudalab.sim.machine.memory import host_watch


@pytest.mark.parametrize(
    "body", ["pass", "loop()", "swallow()"], ids=["in time", "too late", "too late, and swallowed"]
)
def test_python_can_be_traced_afterwards(body: str) -> None:
    """Debuggers do, and measured timelines. An exception that was taken back made Python 3.11 hang."""
    program = f"""
    import contextlib, sys
    from cudalab.checks.deadline import TimeIsUp, deadline
    def loop():
        while True: pass
    def swallow():
        with contextlib.suppress(TimeIsUp): loop()
    for _ in range(3):
        with contextlib.suppress(TimeIsUp), deadline(0.1):
            {body}
    seen = []
    def traced(): seen.append(1)
    sys.settrace(lambda frame, event, argument: None)
    traced()
    sys.settrace(None)
    print("traced", len(seen))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["traced", "1"], done.stderr


def test_a_call_that_was_cut_short_does_not_leave_the_host_unwatched() -> None:
    before = host_watch.paused().depth
    with simulated():
        host_watch.paused().__enter__()  # the exception comes before the exit
    assert host_watch.paused().depth == before
