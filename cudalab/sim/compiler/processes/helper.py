"""Client side of the compiler's helper processes: starts, limits and replaces them.

``call`` sends one request (``messages.py``) to a helper process (``worker.py``) and returns its answer. Around it:

- **Warm.** A helper stays alive between requests. ``prewarm()`` starts the first one at once; it loads
  its libraries while the caller goes on. On Linux one process does that for all, which helpers are forked from
  (``zygote.py``), and a helper without work ends.
- **Two at a time**, so that two variants of a program are generated side by side. A third caller waits.
- **One that remembers.** Where helpers are not forked, precompiled headers take over 100 MB of the helper that keeps
  them. So one alone does, and new programs go to it unless it is at work.
- **Bounded.** Seconds, memory and size of the PTX (``Limits``). A helper that exceeds them is killed, and
  its caller gets ``HelperFailure``.
- **Interruptible.** A ``KeyboardInterrupt`` kills the helper that was being waited for.
- **Alone.** Helpers get no signals of the caller's terminal and end with the caller, whatever ends it.
  After a fork the child starts its own.
- **Jailed**, on request (``jail.py``), in helpers of their own.
- **Elsewhere**, on request: a process that may not start any hands its requests to one that may.

Works without ``fork``: helpers are plain subprocesses behind pipes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from cudalab.sim import interrupts
from cudalab.sim.compiler.processes import codec, command, zygote
from cudalab.sim.compiler.processes.messages import Limits, Order, Ready, Refusal, Reply, Request

R = TypeVar("R")

_most_helpers = 2  # of a kind: plain, jailed
_START_SECONDS = 120.0  # until a helper has loaded its libraries; long, for loaded machines
_TICK = 0.1  # seconds between checks for interrupts, time and memory while waiting
_WATCH_MEMORY = sys.platform == "win32"  # where a process cannot bound its own memory

_limits = Limits()


def limits() -> Limits:
    """The limits that requests run under unless they bring their own."""
    return _limits


def set_limits(new: Limits | None = None, **changes: Any) -> Limits:
    """Replace the limits, whole or by field (``set_limits(seconds=60)``); returns the former ones."""
    global _limits
    former, _limits = _limits, replace(new or _limits, **changes)
    return former


class HelperFailure(Exception):
    """A request without a result. ``kind``: ``time``, ``memory``, ``crash``, ``depth``, ``size``, ``missing``,
    ``internal``, ``source``, ``include`` or ``ptx``; ``log``, ``file`` and ``line`` where they are known."""

    def __init__(self, kind: str, message: str, log: str = "", file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.log, self.file, self.line = log, file, line


# --------------------------------------------------------------------------- one process


class _Helper:
    """One helper process. Used by one thread at a time."""

    def __init__(self, jailed: bool, *, precompiles: bool = False, parent: zygote.Zygote | None = None) -> None:
        self.precompiles = precompiles
        self.programs: set[str] = set()  # keys whose parsed form this process still knows
        self.walls: tuple[str, ...] = ()
        self.busy = False
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ready = False
        self._errors = tempfile.TemporaryFile()  # what a dying compiler prints
        self._wrapped = False
        self.process: subprocess.Popen[bytes] | zygote.Forked
        if parent:
            self._folder = parent.folder
            self.process = zygote.Forked(parent, self._errors)
        else:
            self._folder = command.empty_folder()
            self.process = self._start(jailed)
        threading.Thread(target=_pump, args=(self.process, self._replies), daemon=True).start()

    def _start(self, jailed: bool) -> subprocess.Popen[bytes]:
        line, self._wrapped = command.command_line(jailed=jailed, precompiles=self.precompiles)
        windows = {"creationflags": 0x08000200} if sys.platform == "win32" else {"start_new_session": True}
        process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload,assignment,unused-ignore]
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=self._folder,
            bufsize=0,
            **windows,
        )
        return process

    def alive(self) -> bool:
        return self.process.poll() is None

    def usable(self) -> bool:
        """Whether it can take a request: it is alive, and nobody has tidied away the folder that it stands in."""
        return self.alive() and os.path.isdir(self._folder)

    def exchange(self, request: Request, bounds: Limits) -> Reply:
        """Send ``request`` and wait for the reply; ``HelperFailure`` when it exceeds ``bounds``."""
        self.wait_ready()
        try:
            codec.write(self.process.stdin, Order(request, bounds))  # type: ignore[arg-type]  # unbuffered: a raw file
        except (BrokenPipeError, OSError):
            raise self._died() from None
        return self._receive(bounds.seconds, bounds.memory)

    def wait_ready(self) -> None:
        if self._ready:
            return
        try:
            ready = self._receive(_START_SECONDS, 0)
        except HelperFailure as failure:
            text = f"the compiler's helper process did not start: {failure}"
            raise HelperFailure("internal", text, failure.log) from None
        self.walls = (*(ready.walls if isinstance(ready, Ready) else ()), *(["bwrap"] if self._wrapped else []))
        self._ready = True

    def _receive(self, seconds: float, memory: int) -> Reply:
        end = time.monotonic() + seconds
        watch = memory if _WATCH_MEMORY else 0
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise HelperFailure("time", f"no answer within {seconds:g} s")
            try:
                message = self._replies.get(timeout=min(left, _TICK))
            except queue.Empty:
                if watch and resident_bytes(self.process.pid) > watch:
                    raise HelperFailure("memory", f"more than {memory >> 20} MB") from None
                interrupts.check()
                continue
            if message is None:
                raise self._died()
            try:
                return codec.decode(Reply, message)  # type: ignore[arg-type]  # a union is no `type` to mypy
            except codec.CodecError as error:
                raise HelperFailure("internal", f"the helper process sent no answer: {error}") from None

    def _died(self) -> HelperFailure:
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        self._errors.seek(0)
        text = self._errors.read()
        if isinstance(self.process, zygote.Forked):
            if code == zygote.RETIRED:
                return HelperFailure("retired", "it has ended for want of work")
            text += self.process.printed()
        printed = text[-4000:].decode("utf-8", "replace").strip()
        lowered = printed.lower()
        if any(words in lowered for words in ("out of memory", "bad_alloc", "memoryerror", "cannot allocate")):
            return HelperFailure("memory", "out of memory", printed)
        if code == 3:
            return HelperFailure("time", "stopped by its own watch")
        how = f"exit status {code}"
        with contextlib.suppress(ValueError):
            how = signal.Signals(-code if code < 0 else code - 128).name if code < 0 or code > 128 else how
        return HelperFailure("crash", how, printed)

    def kill(self) -> None:
        """End the process, and what it has started, now."""
        if self.alive():
            with contextlib.suppress(OSError):
                if sys.platform != "win32" and isinstance(self.process, subprocess.Popen):
                    os.killpg(self.process.pid, signal.SIGKILL)  # a group of its own: bwrap and what it runs
                else:
                    self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            self.process.wait(5)
        if isinstance(self.process, subprocess.Popen):
            command.remove_headers(self.process.pid)
        self.close()

    def close(self) -> None:
        for stream in (self.process.stdin, self._errors):
            with contextlib.suppress(OSError, AttributeError):
                stream.close()  # type: ignore[union-attr]

    def abandon(self) -> None:
        """In a forked child: let go of the parent's process without touching it."""
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            with contextlib.suppress(OSError, AttributeError, ValueError):
                stream.close()  # type: ignore[union-attr]
        self.process.returncode = 0


def _pump(process: subprocess.Popen[bytes] | zygote.Forked, replies: queue.SimpleQueue[bytes | None]) -> None:
    """Reads messages until the process ends; a thread, because pipes cannot be waited for on Windows."""
    import io

    stream: Any = process.stdout  # unbuffered: a raw file
    reader = io.BufferedReader(stream)
    try:
        while (message := codec.read(reader)) is not None:
            replies.put(message)
    except (codec.CodecError, OSError, ValueError):
        pass
    if isinstance(process, zygote.Forked):
        process.ended.set()
    replies.put(None)
    with contextlib.suppress(OSError, ValueError):
        reader.close()


def resident_bytes(process: int) -> int:
    """Memory that ``process`` and its children hold, in bytes; 0 when it is gone."""
    import psutil

    try:
        root = psutil.Process(process)
        return sum(entry.memory_info().rss for entry in [root, *root.children(recursive=True)])
    except psutil.Error:
        return 0


# --------------------------------------------------------------------------- the pool


class _Pool:
    """The helpers of one kind."""

    def __init__(self, jailed: bool) -> None:
        self.jailed = jailed
        self._changed = threading.Condition()
        self._helpers: list[_Helper] = []
        self._zygote: zygote.Zygote | None = None

    def start(self, count: int = 1) -> None:
        with self._changed:
            self._drop_unusable()
            while len(self._helpers) < min(count, _most_helpers):
                self._add()

    def _add(self) -> _Helper:
        """One more helper. Where they are no copies and none precompiles headers it is the one, and stands first, where
        ``acquire`` looks."""
        forks = zygote.OFFERED and not self.jailed
        precompiles = not forks and not self.jailed and not any(helper.precompiles for helper in self._helpers)
        helper = _Helper(self.jailed, precompiles=precompiles, parent=self._parent() if forks else None)
        self._helpers.insert(0 if precompiles else len(self._helpers), helper)
        return helper

    def _parent(self) -> zygote.Zygote:
        if self._zygote is None or not self._zygote.usable():
            self._stop_zygote()
            self._zygote = zygote.Zygote(_zygote_command, command.empty_folder())
        return self._zygote

    def _stop_zygote(self) -> None:
        former, self._zygote = self._zygote, None
        if former is not None:
            former.stop()
            command.remove_headers(former.process.pid)

    def acquire(self, program: str) -> _Helper:
        """An idle helper, preferably one that knows ``program``; waits for one when all are busy."""
        with self._changed:
            while True:
                self._drop_unusable()
                idle = [helper for helper in self._helpers if not helper.busy]
                if idle:
                    helper = next((entry for entry in idle if program in entry.programs), idle[0])
                elif len(self._helpers) < _most_helpers:
                    helper = self._add()
                else:
                    self._changed.wait(_TICK)
                    interrupts.check()
                    continue
                helper.busy = True
                return helper

    def release(self, helper: _Helper) -> None:
        with self._changed:
            helper.busy = False
            self._changed.notify()

    def discard(self, helper: _Helper) -> None:
        helper.kill()
        with self._changed:
            if helper in self._helpers:
                self._helpers.remove(helper)
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            helpers, self._helpers = self._helpers, []
        for helper in helpers:
            helper.kill()
        self._stop_zygote()

    def abandon(self) -> None:
        for helper in self._helpers:
            helper.abandon()
        if self._zygote is not None:
            self._zygote.abandon()

    def _drop_unusable(self) -> None:
        for helper in [entry for entry in self._helpers if not entry.busy and not entry.usable()]:
            self._helpers.remove(helper)
            helper.kill()


def _zygote_command(control: int) -> list[str]:
    return command.command_line(jailed=False, precompiles=True, control=control)[0]


_pools = {False: _Pool(False), True: _Pool(True)}
_elsewhere: Callable[[Request, Limits], Reply] | None = None


def hand_over(to: Callable[[Request, Limits], Reply] | None) -> None:
    """From now on ``to`` answers this process's requests, which starts no helpers; None: as before. ``to`` may raise
    ``HelperFailure``."""
    global _elsewhere
    _elsewhere = to


def call(
    request: Request, answer: type[R], *, bounds: Limits | None = None, jailed: bool = False, program: str = ""
) -> R:
    """Have a helper process answer ``request`` with an ``answer``: ``Compiled`` or ``ObjectCode``.

    A helper that aborts has met a state that it did not expect, which need not come from the request: it is warm, and
    has worked on others before. So another helper gets the request once more.

    Raises:
        HelperFailure: it exceeded ``bounds``, crashed, or refused.
        KeyboardInterrupt: as it came; the helper that worked on the request has been killed.
    """
    reply = _ask_again(request, bounds or _limits, jailed, program)
    if isinstance(reply, Refusal):
        raise HelperFailure(reply.kind, reply.message, reply.log, reply.file, reply.line)
    if not isinstance(reply, answer):
        raise HelperFailure("internal", f"the helper process answered with {type(reply).__name__}")
    return reply


def answer_order(order: Order) -> Reply:
    """The reply to an order of a process that has handed its requests over to this one (``hand_over``)."""
    try:
        return _ask_again(order.request, order.limits, False, "")
    except HelperFailure as failure:
        return Refusal(failure.kind, str(failure), failure.log, failure.file, failure.line)


def _ask_again(request: Request, bounds: Limits, jailed: bool, program: str) -> Reply:
    aborted = False
    while True:
        try:
            return _ask(request, bounds, jailed, program)
        except HelperFailure as failure:
            if failure.kind != "retired":
                if aborted or str(failure) != signal.SIGABRT.name:
                    raise
                aborted = True


def _ask(request: Request, bounds: Limits, jailed: bool, program: str) -> Reply:
    """One helper's reply to the request. A helper that failed, or is in a doubtful state, has been replaced."""
    if _elsewhere is not None:
        return _elsewhere(request, bounds)
    pool = _pools[jailed]
    helper = pool.acquire(program)
    try:
        reply = helper.exchange(request, bounds)
    except BaseException:
        pool.discard(helper)
        if not sys.is_finalizing():
            with contextlib.suppress(OSError, RuntimeError):
                pool.start()  # the next request finds a warm one
        raise
    if isinstance(reply, Refusal) and reply.kind in ("memory", "crash"):
        pool.discard(helper)
        pool.start()
    else:
        helper.programs.add(program)
        pool.release(helper)
    return reply


def prewarm(count: int = 1, *, jailed: bool = False) -> None:
    """Start ``count`` helpers, if so many do not run yet, and return at once."""
    _pools[jailed].start(count)


def keep_to_one() -> None:
    """From now on start one helper of a kind at most. A process that lives for one cell gains little from the second,
    which takes 50 MB."""
    global _most_helpers
    _most_helpers = 1


def walls() -> tuple[str, ...]:
    """The sandboxes of a jailed helper on this machine: of ``landlock`` and ``bwrap``. Starts one."""
    pool = _pools[True]
    helper = pool.acquire("")
    try:
        helper.wait_ready()
        return helper.walls
    finally:
        pool.release(helper)


def stop() -> None:
    """End all helper processes. The next request starts new ones."""
    for pool in _pools.values():
        pool.stop()


def _at_exit() -> None:
    stop()
    command.remove_folder()


def _after_fork() -> None:
    global _pools
    for pool in _pools.values():
        pool.abandon()
    _pools = {False: _Pool(False), True: _Pool(True)}
    command.forget_folder()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
