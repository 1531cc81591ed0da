"""What one question may use before it is ended, the processes that it starts included."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Used:
    """What questions have used, or may use together."""

    seconds: float = 0.0
    """Wall-clock time."""
    stored: int = 0
    """Bytes that are kept of them: all that they have said, their logs included. They write nothing else to disk but
    compiled code, which has a limit of its own for all (``cache.LARGEST``)."""

    def __add__(self, other: Used) -> Used:
        return Used(self.seconds + other.seconds, self.stored + other.stored)

    def beyond(self, most: Used) -> str:
        """What there is too much of; empty where it is within ``most``."""
        if self.seconds > most.seconds:
            return f"{self.seconds:.0f} s; {most.seconds:g} s are allowed for all"
        if self.stored > most.stored:
            return f"{self.stored >> 20} MB of output and logs; {most.stored >> 20} MB are allowed for all"
        return ""


TOGETHER = Used(seconds=1200.0, stored=48 << 20)
"""What all questions of one submission may use. Memory is bounded by how many questions run at a time."""


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
    """Bytes of the one file that a question on Python writes: the memory that it shares with its worker. Others write
    none."""
    log: int = 6 << 20
    """Bytes of the log of an answer in Python."""
    output: int = 16 << 20
    """Bytes of anything that the question says to the grader, and of what a worker prints."""
