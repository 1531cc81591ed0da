"""Where the host's accesses can be noticed; `test_host_watch.py` is skipped elsewhere."""

from __future__ import annotations

import platform
import sys

from cudalab.sim.machine.memory import page_trap


def test_it_is_available_on_every_linux_on_x86() -> None:
    """Which CI is: there the skip must not hide a gap. On 64-bit Arm it depends on the system's page size."""
    promised = sys.platform == "linux" and platform.machine().lower() in ("x86_64", "amd64")
    assert page_trap.available() or not promised
