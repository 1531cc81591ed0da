"""The state of the simulated machine, which all groups of calls share: memory, queues, clock, errors, recording.

A group that has to do something when work ends, when the host has waited, or when the device fails or is reset adds a
function to ``on_end``, ``on_wait``, ``on_fault`` or ``on_reset``. Units: bytes, and ns of modelled time.

Errors follow CUDA (checked on an H200): an error that a call returns is remembered for its host thread until
``get_last_error`` takes it; "not ready" is none. A fault in a kernel loses the device: every later call returns it, but
those that only ask for what never changes.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

from cuda.bindings.runtime import cudaComputeMode, cudaError_t
from msgspec import Struct, field

from cudalab.sim.device.caller import place_of_call, place_of_frames
from cudalab.sim.device.context import Contexts, PrimaryContext
from cudalab.sim.device.declaration import Call, InCapture
from cudalab.sim.device.error import CudaError, LastErrors
from cudalab.sim.device.gate import Gate
from cudalab.sim.device.graphs.capture import Captures
from cudalab.sim.device.graphs.memory import GraphMemory
from cudalab.sim.device.hazards import HazardReport
from cudalab.sim.device.log.recorder import Recorder
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.queue.host_thread import HostThread
from cudalab.sim.device.queue.host_threads import HostThreads
from cudalab.sim.device.queue.operation import Operation, Stream, Work
from cudalab.sim.device.queue.scheduler import Scheduler
from cudalab.sim.device.timing.launch_time import Timer
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.host_watch import HostWatch
from cudalab.sim.machine.memory.page_trap import Frames

_STAYS = (
    "The device is lost, and so are its arrays: go on with cudalab.reset() (on a GPU, restart the notebook's kernel), "
    "then make the arrays anew."
)

RunT = TypeVar("RunT", bound=Operation)
_ALL: AbstractContextManager[None] = nullcontext()

TIME_LIMIT = "CUDALAB_TIME_LIMIT"
"""The environment variable with the time limit, in seconds."""
DEFAULT_TIME_LIMIT = 10.0


def time_limit_of(text: str) -> float:
    """The time limit that a text names, in seconds; empty: the default. Raises ``ValueError``."""
    try:
        seconds = float(text) if text.strip() else DEFAULT_TIME_LIMIT
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ValueError(
            f"{TIME_LIMIT}={text!r}: the time limit of a launch is a number of seconds above 0, such as 60"
        )
    return seconds


class Settings(Struct):
    """How launches are run; a reset leaves it as it is."""

    time_limit: float = field(default_factory=lambda: time_limit_of(os.environ.get(TIME_LIMIT, "")))
    """Seconds after which a launch is stopped if no block has finished, or a host function if it has not returned."""
    workers: int = 1
    """Threads that run blocks. With one, results are the same in every run."""
    launch_blocking: bool = field(default_factory=lambda: os.environ.get("CUDA_LAUNCH_BLOCKING", "").strip() == "1")
    """Does every launch keep the host until the kernel has ended? As the environment said when the device was made
    (CUDA C++ Programming Guide, "CUDA Environment Variables")."""


class DeviceState:
    """What the devices are and have. ``hazards``: whether unordered operations on the same bytes are looked for."""

    lost: CudaError | None
    """The error that every call returns now, if a kernel has failed."""
    lost_note: str = ""
    """What the device was lost to, until a call has said it."""
    scheduler: Scheduler
    timer: Timer

    def __init__(
        self, profile: Profile, memory: Memory, settings: Settings, recorder: Recorder, *, hazards: bool
    ) -> None:
        self.profile = profile
        self.memory = memory
        self.limits = profile.launch_limits
        self.settings = settings
        self.recorder = recorder
        recorder.log.launch_blocking = settings.launch_blocking
        self.lock = Gate()
        self.depth = 0
        """How many calls are under way, one within another."""
        self.host_thread = HostThread()
        self.host_threads = HostThreads(self)
        self.contexts = Contexts(profile.devices)
        self.captures = Captures()
        """The streams that capture graphs."""
        self.graph_memory = GraphMemory(memory)
        """What nodes of graphs allocate."""
        self.errors = LastErrors()
        self._prints: list[str] = []
        self.observers: list[Observer] = []
        """Who is told of calls and operations."""
        self.traces = 0
        """How many traces are open."""
        self._trace_lines: Callable[[], int] = int
        self._trace_calls = 0
        self.on_enter: list[Callable[[], None]] = []
        """Called at the begin of each outermost call."""
        self.on_end: list[Callable[[Operation], None]] = []
        """Called when an operation has ended."""
        self.on_wait: list[Callable[[], None]] = []
        """Called when the host has waited for work."""
        self.on_fault: list[Callable[[list[Operation], CudaError], None]] = []
        """Called with the operations that will never end, when the device is lost."""
        self.on_reset: list[Callable[[], None]] = []
        self.hazard_report: HazardReport | None = None
        """What finds unordered operations on the same bytes."""
        if hazards:
            watch = HostWatch(memory, self._host_touched)
            self.hazard_report = HazardReport(memory, lambda: self.scheduler.streams.several, watch)
            self.observers.append(self.hazard_report)
        self.reset()

    def reset(self) -> None:
        """Forget everything but settings and the memory, which the caller has freed."""
        self.lost = None
        self.timer = timer = Timer(self.profile)
        here = partial(getattr, self.contexts, "number") if self.profile.devices > 1 else int
        self.scheduler = Scheduler(self.profile, self.memory, self.fault, self._end, self.observers, timer.l2_of, here)
        self.host_threads.clear()
        self.captures.clear()
        self.graph_memory.clear()
        for observer in self.observers:
            observer.reset()
        for reset in self.on_reset:
            reset()

    # -- calls ---------------------------------------------------------------------------------------------------------

    def enter(self, call: Call) -> None:
        """An outermost call begins."""
        self.depth += 1
        if self.scheduler.implicit is not None:
            self.scheduler.implicit.called(call)
        if self.on_enter:
            for entered in tuple(self.on_enter):
                entered()

    def called(self, call: Call, began: int) -> None:
        """An outermost call ends: tell those who watch."""
        place = self.scheduler.place or place_of_call()
        for observer in self.observers:
            observer.called(call, place, began, self.scheduler.host_ns)

    def check_captures(self, call: Call) -> None:
        """Raise when a capture that is under way forbids a call, which invalidates the capture."""
        if call.in_capture is InCapture.UNSAFE:
            self.captures.refuse_unsafe(call.title)
        elif call.in_capture is InCapture.REFUSED:
            self.captures.refuse_everything(call.title)

    def captures_changed(self) -> None:
        """Other streams capture than before: the legacy default stream may be used, or not any more."""
        captures = self.captures
        self.scheduler.streams.refuse_legacy = captures.refuse_legacy if captures.forbids_legacy else None

    def enter_context(self) -> None:
        """A call of the runtime needs the primary context: make it if there is none, and make it current."""
        here = self.contexts.here
        if not here.active:
            self.make_context(here, by_runtime=True)
        if not self.contexts.current:
            self.contexts.use(here.number)

    def make_context(self, context: PrimaryContext, *, by_runtime: bool) -> None:
        """A context is made, which takes the host long; raises when its device is lost, or when nobody may use it."""
        if self.profile.compute_mode(context.number) == cudaComputeMode.cudaComputeModeProhibited:
            raise CudaError(
                cudaError_t.cudaErrorDevicesUnavailable,
                f"device {context.number} is in compute mode PROHIBITED (nvidia-smi -c): no process may make a context "
                "on it",
            )
        self.spend(self.profile.host["initialize"])
        context.active, context.made_by_runtime = True, by_runtime
        for observer in self.observers:
            observer.context_made(context.number)

    def check_thread(self, name: str) -> None:
        """Raise ``cudaErrorNotPermitted`` in a host function, for the call ``name``."""
        if threading.get_ident() in self.host_thread.idents:
            error = CudaError(
                cudaError_t.cudaErrorNotPermitted,
                f"{name} was called in a host function (cudaLaunchHostFunc). A host function must not call CUDA: on a "
                "GPU this can hang. Record an event behind the function, and make the call after waiting for it",
            )
            self.errors.remember(error)
            raise error

    def _host_touched(self, address: int, is_write: bool, frames: Frames) -> None:
        """The program has touched memory that is watched (``machine/memory/host_watch.py``)."""
        with self.lock:
            if self.hazard_report is not None:
                self.hazard_report.host_touched(address, is_write, place_of_frames(frames))

    # -- time ----------------------------------------------------------------------------------------------------------

    def spend(self, ns: float, *, even_if_lost: bool = False, computes: bool = False) -> None:
        """The call takes this long on the host; the device goes on meanwhile. Raises when it is lost by then."""
        self.scheduler.advance(ns, computes=computes)
        if not even_if_lost and self.lost is not None:
            self.raise_if_lost()

    @property
    def is_alone(self) -> bool:
        """Is the caller's thread the only one that has called this device?"""
        return threading.get_ident() == self.host_threads.alone

    def passes(self, ns: int) -> bool:
        """Does nothing happen, and does nobody look, while the host is busy for ``ns``? Then its clock has gone on."""
        if self.depth or self.on_enter or self.recorder.on or not self.is_alone:
            return False
        scheduler, loop = self.scheduler, self.scheduler.loop
        now, due = scheduler.host_ns + ns, loop.next_time
        if scheduler.polling.waiting or scheduler.others is not None or (due is not None and due <= now):
            return False
        scheduler.host_ns = now
        loop.pass_time(now)
        return True

    def trace_opened(self, lines: Callable[[], int]) -> None:
        """From here on a trace follows the calls, and the learner's lines around them, which takes the host time;
        ``lines()`` says how many there have been since it was asked last."""
        self.traces += 1
        if self.traces == 1:
            self._trace_lines, self._trace_calls = lines, 0
            self.scheduler.traced = not self.recorder.on

    def trace_closed(self) -> None:
        self.traces -= 1
        self.scheduler.traced = self.scheduler.traced and self.traces > 0

    def spend_on_trace(self) -> None:
        """The host time that an open trace takes for one call and the lines before it; the first two take longer. A
        recording does without: a replay has no traces."""
        if self.recorder.on:
            return
        host = self.profile.host
        self._trace_calls += 1
        ns = host["trace_call"] + self._trace_lines() * host["trace_line"]
        self.scheduler.advance(ns + (host["trace_first"] if self._trace_calls <= 2 else 0))

    def wait(self, operation: Operation | None) -> None:
        """Keep the host until the operation has ended; raises what went wrong on the device."""
        try:
            self.scheduler.wait_for(operation)
        finally:
            self.flush_prints()
        self._waited()

    def wait_for_all(self, *, seen: bool = True, device: int | None = None) -> None:
        """The same for everything that was enqueued on a device, by default the current one. ``seen=False``: by a call
        that promises no such wait."""
        try:
            self.scheduler.wait_for_all(seen=seen, device=device)
        finally:
            self.flush_prints()
        self._waited()

    def _waited(self) -> None:
        self.raise_if_lost()
        for waited in self.on_wait:
            waited()

    # -- what an execution asks (``machine/execution.py``) -------------------------------------------------------------

    @property
    def time_limit(self) -> float:
        return self.settings.time_limit

    @property
    def workers(self) -> int:
        return self.settings.workers

    def memory_of(self, number: int) -> AbstractContextManager[None]:
        """Within it memory is what kernels of a device reach."""
        if self.profile.devices == 1:
            return _ALL
        return self.memory.seen_by(number, self.contexts[number].peers)

    def printed(self, text: str) -> None:
        """A kernel printed: shown at the next launch or wait, as CUDA does."""
        if not self.recorder.replaying:
            self._prints.append(text)

    def flush_prints(self) -> None:
        """Show what kernels have printed."""
        if self._prints:
            sys.stdout.write("".join(self._prints))
            self._prints.clear()

    # -- operations ----------------------------------------------------------------------------------------------------

    def raise_if_lost(self) -> None:
        """Raise the fault that the device was lost to. What it was is said once; afterwards only how to go on."""
        if self.lost is not None:
            note, self.lost_note = self.lost_note, ""
            raise CudaError(self.lost.code, f"{note}\n{_STAYS}".lstrip(), sticky=True)

    def fault(self, operation: Operation, error: CudaError) -> None:
        """An operation failed: the device is lost, and what was still to run never does."""
        dropped = self.scheduler.pending
        if self.lost is None:
            self.lost, self.lost_note = error, error.note
        self.scheduler.drop_everything()
        for failed in self.on_fault:
            failed(dropped, error)

    def issue(
        self,
        work: Work[RunT],
        stream: Stream,
        after: Iterable[Operation] = (),
        rule: str = "event",
        in_order: bool = True,
        dependent: bool = False,
        primary: Operation | None = None,
        at_start: bool = False,
        launched_by: Operation | None = None,
    ) -> RunT:
        """Hand work of a call to a stream, and let a recording know: all work of the runtime comes by here. A call
        whose work can be a node of a graph asks first whether the stream captures."""
        if stream.capture is not None:
            self.captures.refuse_work(stream, work.title)
        operation = self.scheduler.issue(work, stream, after, rule, in_order, dependent, primary, at_start, launched_by)
        if self.recorder.on:
            self.recorder.issued(operation, self.memory)
        return operation

    def _end(self, operation: Operation) -> None:
        if self.on_end:
            for ended in tuple(self.on_end):  # a listener may have nothing left to listen for
                ended(operation)
        if self.recorder.on:
            self.recorder.ended(operation)
