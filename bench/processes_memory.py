"""What processes take of a machine's memory, counted as if nothing else ran there. Linux only.

Pages that processes share count once. Those of files (libraries, Python's own code) may be mapped by processes beside
these, and the usual proportional count (PSS) then charges these less the more such neighbours there are. So pages of
files are looked up one by one (``/proc/PID/pagemap``), and those that any of these processes has mapped count whole.
Memory of the processes' own counts proportionally: what a forked process has not written to is its parent's as well.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

SAMPLE = 0.2  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_OF_A_FILE, _PRESENT = np.uint64(1 << 61), np.uint64(1 << 63)

File = tuple[str, str]  # device and inode


@dataclass
class Count:
    """The bytes of some processes, each page once."""

    by_process: list[int] = field(default_factory=list)
    """In the order in which they were added; a shared page of a file counts for the first that has it."""
    _pages: dict[File, set[int]] = field(default_factory=dict)

    def add(self, pid: int) -> None:
        """Count a process too; nothing where it has ended."""
        try:
            self.by_process.append(_own(pid)[0] + _PAGE * self._new_pages(pid))
        except OSError:
            return

    def _new_pages(self, pid: int) -> int:
        """How many pages of files a process has mapped that no other has."""
        found = 0
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as entries:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                addresses, _, offset, device, inode, *_ = line.split(maxsplit=5)
                if inode == "0":
                    continue
                start, end = (int(address, 16) // _PAGE for address in addresses.split("-"))
                read = os.pread(entries.fileno(), (end - start) * 8, start * 8)
                flags = np.frombuffer(read[: len(read) // 8 * 8], np.uint64)
                mapped = np.flatnonzero((flags & _OF_A_FILE != 0) & (flags & _PRESENT != 0))
                known = self._pages.setdefault((device, inode), set())
                before = len(known)
                known.update((mapped + int(offset, 16) // _PAGE).tolist())
                found += len(known) - before
        return found


def _own(pid: int) -> tuple[int, int]:
    """Bytes of a process's own memory, its share of what it has in common with forked ones, and bytes of all pages of
    files that it has mapped."""
    entries = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        entries[name] = int(size) * 1024
    return entries["Pss_Anon:"], entries["Rss:"] - entries["Anonymous:"]


def at_most(pids: Iterable[int]) -> int:
    """A bound of what :class:`Count` finds, in a fraction of its time: bytes, shared pages of files counted often."""
    total = 0
    for pid in pids:
        try:
            total += sum(_own(pid))
        except OSError:  # it has just ended
            continue
    return total


class Watch:
    """The most memory that a process and all that it started have had since the last look, sampled by a thread."""

    def __init__(self, process: psutil.Process) -> None:
        self._process, self._most, self._lock = process, [0], threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE):
            self._sample()

    def _sample(self) -> None:
        try:
            pids = [self._process.pid, *(child.pid for child in self._process.children(recursive=True))]
        except psutil.NoSuchProcess:
            return
        with self._lock:
            if at_most(pids) <= sum(self._most):
                return
            now = Count()
            for pid in pids:
                now.add(pid)
            self._most = max(self._most, now.by_process, key=sum)

    def take(self) -> list[int]:
        """Bytes of the process, and of each that it started, when their sum was largest since the last call."""
        self._sample()
        with self._lock:
            most, self._most = self._most, [0]
        return most

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
