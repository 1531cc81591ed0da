"""What all runtime calls share: the lock, the clock, errors, and the recording.

A method marked with :func:`call` is one runtime call. It takes its host time, lets the device catch up, fails when the
device is lost, and is recorded with its arguments and its result when a recording is on.

Errors follow CUDA (checked on an H200): an error that a call returns is remembered for its host thread until
``get_last_error`` takes it; "not ready" is none. A fault in a kernel loses the device: every later call returns it, but
those that only ask for what never changes.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.caller import place_of_call, place_of_frames
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.gate import Gate
from cudalab.sim.device.hazards import Hazard, HazardReport
from cudalab.sim.device.log.recorder import Recorder
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.profile import Profile, load
from cudalab.sim.device.queue.host_thread import HostThread
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.queue.scheduler import Scheduler
from cudalab.sim.machine.launch.clusters import sm_groups
from cudalab.sim.machine.launch.limits import DeviceLimits
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.host_watch import HostWatch
from cudalab.sim.machine.memory.page_trap import Frames

_STAYS = (
    "This error stays: from now on every call returns it. On a GPU restart the notebook's kernel; on the simulated "
    "device cudalab.reset() is enough. Arrays and kernels from before are lost in either case."
)

_QUIET = host_watch.paused()
"""Within a call it is the simulator that touches the host's memory."""

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound="Core")


def call(
    cost: str | None = "query", *, when_lost: bool = False, recorded: bool = True
) -> Callable[[Callable[Concatenate[D, P], R]], Callable[Concatenate[D, P], R]]:
    """Mark a method as one runtime call.

    ``cost`` names the host constant of the profile that it takes (``None``: the method charges itself), ``when_lost``
    says that it works on a lost device, ``recorded`` that it belongs in a recording.
    """

    def mark(method: Callable[Concatenate[D, P], R]) -> Callable[Concatenate[D, P], R]:
        name = method.__name__

        @functools.wraps(method)
        def run(self: D, *args: P.args, **kwargs: P.kwargs) -> R:
            self.check_thread(name)
            with self._lock:
                if self._depth:  # one call made by another
                    return method(self, *args, **kwargs)
                with _QUIET:
                    self._scheduler.place = place_of_call(2)  # the caller of this wrapper, or one of its callers
                    self._enter(name)
                    began = self._scheduler.host_ns
                    recorder = self._recorder
                    entry = recorder.open(name, args, kwargs) if recorded and recorder.on else None
                    try:
                        if cost is not None:
                            self._spend(self.profile.host[cost], even_if_lost=when_lost)
                        elif not when_lost and self._lost is not None:
                            self._raise_if_lost()
                        result = method(self, *args, **kwargs)
                    except CudaError as error:
                        self._remember(error)
                        if entry is not None:
                            recorder.close(entry, None, error, self._scheduler.host_ns)
                        raise
                    except BaseException:
                        if entry is not None:
                            recorder.drop(entry)
                        raise
                    finally:
                        self._depth -= 1
                        if self.observers:
                            self._called(name, began)
                    if entry is not None:
                        recorder.close(entry, result, None, self._scheduler.host_ns)
                    return result

        return run

    return mark


class Core:
    """State of one device. :class:`cudalab.sim.device.Device` adds the calls."""

    def __init__(
        self,
        profile: str | Profile = "h200",
        *,
        memory: Memory | None = None,
        record: bool = False,
        hazards: bool = True,
    ) -> None:
        self.profile = load(profile) if isinstance(profile, str) else profile
        self.memory = memory if memory is not None else Memory()
        self.limits = _limits(self.profile)
        self._lock = Gate()
        self._depth = 0
        self._host_thread = HostThread()
        self._last_error: dict[int, cudaError_t] = {}
        self._last_note: dict[int, str] = {}
        self._driver_threads: set[int] = set()
        self._prints: list[str] = []
        self._recorder = Recorder(self.profile.name, on=record)
        self.observers: list[Observer] = []
        """Who is told of calls and operations."""
        self.hazard_report: HazardReport | None = None
        """What finds unordered operations on the same bytes; None when the device was made with ``hazards=False``."""
        if hazards:
            watch = HostWatch(self.memory, self._host_touched)
            self.hazard_report = HazardReport(self.memory, lambda: self._scheduler.streams.several, watch)
            self.observers.append(self.hazard_report)
        self._reset_state()

    def _reset_state(self) -> None:
        self._lost: CudaError | None = None
        self._scheduler = Scheduler(self.profile, self.memory, self._on_fault, self._on_end, self.observers)
        for observer in self.observers:
            observer.reset()

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _enter(self, name: str) -> None:
        self._depth += 1
        if self._scheduler.implicit is not None:
            self._scheduler.implicit.called(name)

    def check_thread(self, name: str) -> None:
        """Raise ``cudaErrorNotPermitted`` in a host function, for the call ``name``."""
        if self._host_thread.is_current:
            error = CudaError(
                cudaError_t.cudaErrorNotPermitted,
                f"{name} was called in a host function (cudaLaunchHostFunc). A host function must not call CUDA: on a "
                "GPU this can hang. Record an event behind the function, and make the call after waiting for it",
            )
            self._remember(error)
            raise error

    def _called(self, name: str, began: int) -> None:
        """A call ends: tell those who watch."""
        place = self._scheduler.place or place_of_call()
        for observer in self.observers:
            observer.called(name, place, began, self._scheduler.host_ns)

    def when_free(self, action: Callable[[], None]) -> None:
        """For destructors: do ``action``, which must not raise, now or when the call that is under way has ended."""
        self._lock.later(action)

    def _host_touched(self, address: int, is_write: bool, frames: Frames) -> None:
        """The program has touched memory that is watched (machine/host_watch.py)."""
        with self._lock:
            if self.hazard_report is not None:
                self.hazard_report.host_touched(address, is_write, place_of_frames(frames))

    def _spend(self, ns: float, *, even_if_lost: bool = False) -> None:
        """The call takes this long on the host; the device goes on meanwhile. Raises when it is lost by then."""
        self._scheduler.advance(ns)
        if not even_if_lost:
            self._raise_if_lost()

    def _wait(self, operation: Operation | None) -> None:
        try:
            self._scheduler.wait_for(operation)
        finally:
            self._flush_prints()
        self._raise_if_lost()

    def _wait_for_all(self, *, seen: bool = True) -> None:
        try:
            self._scheduler.wait_for_all(seen=seen)
        finally:
            self._flush_prints()
        self._raise_if_lost()

    def _printed(self, text: str) -> None:
        """A kernel printed: shown at the next launch or wait, as CUDA does."""
        if not self._recorder.replaying:
            self._prints.append(text)

    def _flush_prints(self) -> None:
        if self._prints:
            sys.stdout.write("".join(self._prints))
            self._prints.clear()

    # -- errors --------------------------------------------------------------------------------------------------------

    def _remember(self, error: CudaError) -> None:
        thread = threading.get_ident()
        self._last_note[thread] = error.note
        if error.code != cudaError_t.cudaErrorNotReady and thread not in self._driver_threads:
            self._last_error[thread] = error.code

    @contextmanager
    def driver_call(self) -> Iterator[None]:
        """Calls made inside come from the driver API, whose errors ``cudaGetLastError`` does not know."""
        thread = threading.get_ident()
        nested = thread in self._driver_threads
        self._driver_threads.add(thread)
        try:
            yield
        finally:
            if not nested:
                self._driver_threads.discard(thread)

    @property
    def last_note(self) -> str:
        """What the last error of this host thread means: where, which rule, which value, what to try."""
        return self._last_note.get(threading.get_ident(), "")

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise CudaError(self._lost.code, f"{self._lost.note}\n{_STAYS}".lstrip(), sticky=True)

    def _on_fault(self, operation: Operation, error: CudaError) -> None:
        """An operation failed: the device is lost, and what was still to run never does."""
        if self._lost is None:
            self._lost = error
        self._scheduler.drop_everything()

    def _on_end(self, operation: Operation) -> None:
        """An operation ended."""

    @staticmethod
    def _invalid(note: str) -> CudaError:
        return CudaError(cudaError_t.cudaErrorInvalidValue, note)

    @property
    def hazards(self) -> list[Hazard]:
        """Pairs of lines whose operations touched the same bytes without an order, as far as found by now: an operation
        is judged when it has ended."""
        return self.hazard_report.hazards if self.hazard_report is not None else []

    # -- clock ---------------------------------------------------------------------------------------------------------

    @property
    def clock_ns(self) -> int:
        """The host's modelled clock, ns since the device was made."""
        return self._scheduler.host_ns


def _limits(profile: Profile) -> DeviceLimits:
    p = profile.properties
    return DeviceLimits(
        name=p["name"],
        multiprocessors=p["multiProcessorCount"],
        warp_size=p["warpSize"],
        grid=tuple(p["maxGridSize"]),
        block=tuple(p["maxThreadsDim"]),
        threads_per_block=p["maxThreadsPerBlock"],
        threads_per_sm=p["maxThreadsPerMultiProcessor"],
        blocks_per_sm=p["maxBlocksPerMultiProcessor"],
        warps_per_sm=p["maxThreadsPerMultiProcessor"] // p["warpSize"],
        registers_per_sm=p["regsPerMultiprocessor"],
        registers_per_block=p["regsPerBlock"],
        shared_per_sm=p["sharedMemPerMultiprocessor"],
        shared_per_block=p["sharedMemPerBlock"],
        shared_per_block_optin=p["sharedMemPerBlockOptin"],
        shared_reserved=p["reservedSharedMemPerBlock"],
        sm_groups=sm_groups(p["multiProcessorCount"]),
    )
