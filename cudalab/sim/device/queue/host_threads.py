"""Host threads: each has a clock of its own, and their calls reach the device in the order of these clocks.

On a GPU two threads of the program enqueue at the same time, and one that waits for the device does not keep the other.
Here calls take next to no real time, so the thread that Python runs first could make all of its calls before another
begins. So a thread makes a call only when no other that is at work is behind it in modelled time; and while it waits
for the device, the device goes no further than the others have come.

Python's interpreter lock lets one thread at a time make a call. What of it is done without the lock is less than it
takes to hand the lock over: on an H200 two threads that only launch need 1.4 times as long as one that launches for
both, four 1.6 times (``interpreter_handover``). Waits for the device, and what threads compute with ``host_work``,
overlap.

Nobody tells what a thread does between two calls. One that waits in ``threading`` or its like is not waited for, nor
one that makes no call for a while (``_PATIENCE``); its clock goes on, when it comes back, from where the others have
come by then: at the earliest the one that has woken it. A learner would notice where a thread computes for long: on a
GPU the others would be further on by as much as that takes. A recording has one clock for all threads, since it keeps
calls in the order in which they were made.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cudalab.sim import interrupts
from cudalab.sim.device.caller import is_ours
from cudalab.sim.machine.memory import host_watch

if TYPE_CHECKING:
    from cudalab.sim.device.state import DeviceState

_PATIENCE = 0.05
"""Seconds of real time that a thread is waited for at first. Each time in vain makes it a quarter."""
_SLICE = 0.001
_WAITING_MODULES = frozenset(
    os.path.join(sysconfig.get_path("stdlib"), *name.split("/"))
    for name in ("threading.py", "queue.py", "selectors.py", "socket.py", "concurrent/futures/thread.py")
)
"""Files of the standard library in which a thread waits for another, or for the system."""


class _HostThread:
    """What is known of one host thread."""

    def __init__(self, ns: int) -> None:
        self.thread = threading.current_thread()
        self.ns = ns
        """Its clock."""
        self.at_work = True
        """May it make a call that comes before those of others?"""
        self.calls = 0
        self.patience = _PATIENCE
        self.inside = False
        """Does it wait within a call, or for its turn?"""
        self.target: Callable[[], bool] | None = None
        """What it waits for, in a call that waits for the device."""
        self.over = 0
        """When that came, if another thread's call has brought the device there."""

    def begin_wait(self, target: Callable[[], bool]) -> None:
        self.target = target

    def end_wait(self) -> bool:
        """Has the target come, by another thread's call?"""
        has_come, self.target = self.target is None, None
        return has_come

    @property
    def waits_elsewhere(self) -> bool:
        """Does it wait for another thread, as far as its innermost function tells?"""
        if self.inside:
            return False
        collects = gc.isenabled()
        gc.disable()  # Python 3.11 may collect while it makes a frame: the thread goes on, and its frame goes away
        try:
            frame = sys._current_frames().get(self.thread.ident or 0)
            waits = False
            while frame is not None and frame.f_code.co_filename in _WAITING_MODULES:
                waits, frame = True, frame.f_back
            return waits and (frame is None or not is_ours(frame.f_code.co_filename))  # ours wait within a call
        finally:
            if collects:
                gc.enable()


class HostThreads:
    """The clocks of all threads that have made calls. The scheduler's ``host_ns`` is that of the thread inside."""

    def __init__(self, state: DeviceState) -> None:
        self._state = state
        self.alone = 0
        """The thread that makes all the calls, by ``threading.get_ident()``; 0 while there are several, or none yet."""
        self._known: dict[int, _HostThread] = {}
        self._inside: _HostThread | None = None
        self._latest = 0
        """The furthest clock of threads that have ended."""
        self._holder: _HostThread | None = None
        """Who held Python's interpreter lock last."""
        self._released = 0
        """When it let go, ns."""

    def clear(self) -> None:
        """The device is new: so is every clock."""
        self.alone, self._latest, self._released = 0, 0, 0
        self._known.clear()
        self._inside = None

    def clock(self) -> int:
        """The clock of the calling thread, ns. It waits for nobody, also in a host function."""
        ident, scheduler = threading.get_ident(), self._state.scheduler
        if ident == self.alone or self._state.recorder.on:
            return scheduler.host_ns
        mine = self._known.get(ident)
        if mine is None or not mine.at_work or mine.thread is not threading.current_thread():
            return max(self._furthest(), scheduler.host_ns)
        now = scheduler.host_ns
        return (
            now if self._inside is mine else mine.ns
        )  # looked at last: a clock is kept before another takes its place

    def enter(self, ident: int) -> None:
        """A thread other than the one that is alone makes a call: its clock is the scheduler's from now on, and no
        other at work is behind it."""
        if self._state.recorder.on:
            return
        self._keep_clock()  # of whoever was inside last
        mine = self._known.get(ident)
        if mine is None or mine.thread is not threading.current_thread():
            mine = self._known[ident] = _HostThread(self._furthest())
        elif not mine.at_work:
            mine.ns, mine.at_work = max(mine.ns, self._furthest()), True
        mine.calls += 1
        self._is_inside(mine)
        while (behind := self._behind(mine)) is not None:
            self._let_go_first(mine, behind)
        if not any(other.at_work for other in self._others(mine)):
            self.alone = ident
            self._state.scheduler.others = None
        else:
            self.alone = 0
            self._state.scheduler.others = self

    def held_interpreter(self, begin: int, end: int) -> int:
        """The thread inside holds the interpreter lock in a call from ``begin`` to ``end``, or for as long from when
        another has handed it over. Returns when the call ends."""
        if self._holder is not self._inside and begin < self._released:
            end += self._released - begin + round(self._state.profile.host["interpreter_handover"])
        self._holder, self._released = self._inside, end
        return end

    # -- the device's clock --------------------------------------------------------------------------------------------

    def run_until(self, ns: int) -> None:
        """The device goes on to ``ns``, or as far as all threads at work have come."""
        loop, mine = self._state.scheduler.loop, self._inside
        while (due := loop.next_time) is not None and due <= min(ns, self._horizon(mine)):
            loop.run_next()
        loop.run_until(round(min(ns, self._horizon(mine))))

    def run_while(self, goes_on: Callable[[], bool]) -> int | None:
        """The same while ``goes_on()``, or until nothing is left to run; the other threads make calls meanwhile.
        Returns when that was over, where it is the call of another thread that has brought the device there."""
        loop, mine = self._state.scheduler.loop, self._inside
        assert mine is not None
        while goes_on():
            horizon, due = self._horizon(mine), loop.next_time
            if due is not None and due <= horizon:
                loop.run_next()
            elif horizon == math.inf:
                break
            else:
                mine.begin_wait(lambda: not goes_on())
                self._let_go_first(mine, min(self._running(mine), key=lambda other: other.ns))
                if mine.end_wait():
                    return mine.over
        return None

    def _horizon(self, mine: _HostThread | None) -> float:
        """How far the device may go: to the clock of the last of the other threads. One whose wait is over goes on."""
        scheduler = self._state.scheduler
        for other in self._others(mine):
            if other.target is not None and other.target():
                other.over, other.target = scheduler.loop.now, None
                other.ns = max(other.ns, other.over + round(scheduler.profile.host["wake"]))
        return min((other.ns for other in self._running(mine)), default=math.inf)

    # -- the others ----------------------------------------------------------------------------------------------------

    def _others(self, mine: _HostThread | None) -> list[_HostThread]:
        return [other for other in self._known.values() if other is not mine]

    def _running(self, mine: _HostThread | None) -> list[_HostThread]:
        """Other threads that may make calls by themselves: at work, and waiting for nothing."""
        for ident, other in list(self._known.items()):
            if not other.thread.is_alive():
                self._latest = max(self._latest, other.ns)
                del self._known[ident]
        return [other for other in self._others(mine) if other.at_work and other.target is None]

    def _behind(self, mine: _HostThread) -> _HostThread | None:
        found = min(self._running(mine), key=lambda other: other.ns, default=mine)
        return found if found.ns < mine.ns else None

    def _let_go_first(self, mine: _HostThread, other: _HostThread) -> None:
        """Let ``other`` make a call, or begin to wait in one; if it does neither, it is not at work. Who waits in a
        call goes on before that when what it waits for has come."""
        calls, until, target = other.calls, time.monotonic() + other.patience, mine.target
        while other.calls == calls and other.target is None and other.thread.is_alive():
            if mine.target is not target or interrupts.noted():
                return
            if other.waits_elsewhere or (time.monotonic() > until and not other.inside):
                other.at_work = False
                if time.monotonic() > until:
                    other.patience /= 4
                return
            self._let_in(mine)

    def _let_in(self, mine: _HostThread) -> None:
        """Other threads make calls for a moment, while this one is in the middle of its own."""
        state = self._state
        scheduler = state.scheduler
        depth, place = state.depth, scheduler.place
        mine.ns, mine.inside, state.depth = scheduler.host_ns, True, 0
        paused = host_watch.paused()
        paused.__exit__(None, None, None)
        try:
            state.lock.let_in(_SLICE)
        finally:
            paused.__enter__()
            mine.inside, state.depth = False, depth
            if state.scheduler is scheduler:
                scheduler.place = place
                self._is_inside(mine)

    def _is_inside(self, mine: _HostThread) -> None:
        if self._inside is not mine:
            self._keep_clock()
        self._inside = mine
        self._state.scheduler.host_ns = mine.ns

    def _keep_clock(self) -> None:
        if self._inside is not None:
            self._inside.ns = self._state.scheduler.host_ns

    def _furthest(self) -> int:
        """The clock of a thread that comes, or comes back: the furthest there is."""
        return max((self._latest, self._state.scheduler.loop.now, *(each.ns for each in list(self._known.values()))))
