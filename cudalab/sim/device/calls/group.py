"""A group of runtime calls over the state of one device, and the decorator that declares a call.

A method marked with :func:`call` is one runtime call. The first that needs the device's primary context makes it. A
call takes its host time, lets the device catch up, fails when the device is lost, and is recorded with its arguments
and its result when a recording is on. What it declares is kept in ``declaration.CALLS``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Concatenate, ParamSpec, TypeVar

from cudalab.sim.device.caller import place_of_call
from cudalab.sim.device.declaration import CALLS, Allocates, Call, InCapture, Waits
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory import host_watch

_QUIET = host_watch.paused()
"""Within a call it is the simulator that touches the host's memory."""

P = ParamSpec("P")
R = TypeVar("R")
G = TypeVar("G", bound="CallGroup")


class CallGroup:
    """Calls about one subject. A group keeps what only its own calls need; all else is in the state."""

    def __init__(self, state: DeviceState) -> None:
        self.state = state
        self.clear()
        state.on_reset.append(self.clear)

    def clear(self) -> None:
        """Forget everything: the device is new, or was reset."""


def call(
    *cuda: str,
    cost: str | None = "query",
    when_lost: bool = False,
    waits: Waits = Waits.NOTHING,
    allocates: Allocates | None = None,
    orders_streams: bool = False,
    needs_context: bool = True,
    observed: bool = True,
    in_capture: InCapture = InCapture.ALLOWED,
) -> Callable[[Callable[Concatenate[G, P], R]], Callable[Concatenate[G, P], R]]:
    """Declare a method to be one runtime call; ``cuda`` are CUDA's names of it. The rest as in :class:`Call`."""

    def mark(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
        declared = Call(
            method,
            cuda,
            cost=cost,
            when_lost=when_lost,
            waits=waits,
            allocates=allocates,
            orders_streams=orders_streams,
            needs_context=needs_context,
            observed=observed,
            in_capture=in_capture,
        )
        if declared.name in CALLS:
            raise ValueError(f"two runtime calls are named {declared.name}")
        CALLS[declared.name] = declared

        @functools.wraps(method)
        def run(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
            state = self.state
            ident = get_ident()
            if ident in state.host_thread.idents:
                state.check_thread(declared.name)
            with state.lock:
                if state.depth:  # one call made by another
                    return method(self, *args, **kwargs)
                with _QUIET:
                    if ident != state.host_threads.alone:
                        state.host_threads.enter(ident)
                    state.scheduler.place = place_of_call(2)  # the caller of this wrapper, or one of its callers
                    state.enter(declared)
                    began = state.scheduler.host_ns
                    recorder = state.recorder
                    entry = None
                    if recorder.on:
                        here, by_driver = state.contexts.number, state.errors.in_driver_call
                        entry = recorder.open(declared, args, kwargs, device=here, by_driver=by_driver)
                    try:
                        if state.traces and cuda:
                            state.spend_on_trace()
                            began = state.scheduler.host_ns
                        if state.captures.active:
                            state.check_captures(declared)
                        if needs_context and not state.contexts.ready:
                            state.enter_context()
                        if cost is not None:
                            state.spend(state.profile.host[cost], even_if_lost=when_lost)
                        elif not when_lost and state.lost is not None:
                            state.raise_if_lost()
                        result = method(self, *args, **kwargs)
                    except CudaError as error:
                        state.errors.remember(error)
                        if entry is not None:
                            recorder.close(entry, None, error, state.scheduler.host_ns)
                        raise
                    except BaseException:
                        if entry is not None:
                            recorder.drop(entry)
                        raise
                    finally:
                        state.depth -= 1
                        if observed and state.observers:
                            state.called(declared, began)
                    if entry is not None:
                        recorder.close(entry, result, None, state.scheduler.host_ns)
                    return result

        return run

    return mark
