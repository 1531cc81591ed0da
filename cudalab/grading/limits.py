"""What one question may use before it is ended, the processes that it starts included."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Generous for any honest answer, on a slow machine too; a score must not depend on how fast a machine is."""

    seconds: float = 120.0
    """Wall-clock time of the whole question."""
    cpu_seconds: int = 90
    """Processor time of each process."""
    memory: int = 3 << 30
    """Resident bytes of all processes together."""
    processes: int = 64
    """Processes and threads of a worker that runs Python."""
    disk: int = 64 << 20
    """Bytes of one file that is written."""
    log: int = 6 << 20
    """Bytes of the log of an answer in Python."""
    output: int = 16 << 20
    """Bytes of anything that the question says to the grader, and of what a worker prints."""
