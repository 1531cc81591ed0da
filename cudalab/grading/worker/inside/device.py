"""The device of a worker: every runtime call is a message to the grader, as its declaration says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
from cuda.bindings.runtime import cudaError_t

from cudalab.grading.worker import messages
from cudalab.grading.worker.inside.connection import Connection
from cudalab.grading.worker.values import exception
from cudalab.sim.compiler.program import Program
from cudalab.sim.device.calls.graphs.graph_parameters import Update
from cudalab.sim.device.calls.kernels import FunctionInfo
from cudalab.sim.device.declaration import CALLS, Call, Role
from cudalab.sim.device.device import Device
from cudalab.sim.device.error import CudaError, NotSimulated
from cudalab.sim.device.log.log import has_role, plain, revived
from cudalab.sim.device.profile import Constant, Profile

_LOCAL_TO_THREAD = threading.local()


class _Context:
    """The primary context of one device."""

    def __init__(self, contexts: _Contexts, number: int, handle: int, active: bool) -> None:
        self._contexts = contexts
        self.number, self.handle, self.active = number, handle, active
        self.peers: frozenset[int] = frozenset()


class _Contexts:
    """Asks the grader which contexts are current."""

    def __init__(self, ask: Callable[..., Any], devices: int) -> None:
        self._ask, self._several = ask, devices > 1
        self.answers = False
        """Does the grader answer? It does from when the device is set up; until then device 0 is meant."""

    def __getitem__(self, number: int) -> _Context:
        handle, active = self._ask("context_of", number)
        return _Context(self, number, handle, active)

    @property
    def number(self) -> int:
        return self._ask("context")[0] if self._several and self.answers else 0

    @property
    def current(self) -> int:
        return self._ask("context")[1]  # type: ignore[no-any-return]

    @property
    def ready(self) -> bool:
        return self._ask("context")[2]  # type: ignore[no-any-return]

    @property
    def here(self) -> _Context:
        return self[self.number]

    def number_of(self, handle: int) -> int:
        return self._ask("number_of", handle)  # type: ignore[no-any-return]

    def use(self, number: int) -> None:
        self._ask("use", number)


class RemoteDevice(Device):
    """Stands in for ``Device``. What the facades use is here; all else of a device is the grader's alone."""

    def __init__(self, connection: Connection, profile: Profile) -> None:
        self._connection = connection
        self.profile = profile
        self.limits = profile.launch_limits
        self.memory = connection.memory  # type: ignore[assignment]
        self.asked = _Contexts(self._ask, profile.devices)
        self.contexts = self.asked  # type: ignore[assignment]
        self.when_free = connection.when_free
        self.check_thread = partial(self._ask, "check_thread")
        self._numbers = count()
        self._infos: dict[int, FunctionInfo] = {}
        self._forget_epoch()
        for name, declared in CALLS.items():
            setattr(self, name, partial(self._call, declared, tuple(declared.parameters)))

    def _forget_epoch(self) -> None:
        """Pointers and handles from before are dead."""
        self.state = SimpleNamespace(scheduler=SimpleNamespace(token=object()))  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise NotSimulated(f"{name} is not available to an answer that is graded")

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, call: Call, names: tuple[str, ...], *arguments: Any, **keywords: Any) -> Any:
        given = dict(zip(names, arguments, strict=False)) | keywords
        sent = {name: self._plain(value, call.parameters[name]) for name, value in given.items()}
        driver = self._in_driver_call
        answer = self._connection.demand(lambda thread, line: messages.Call(thread, line, call.name, sent, driver))
        result = _result(answer)
        if call.name == "reset":
            self._forget_epoch()
        if call.name in ("reset", "function_set_attribute"):
            self._infos.clear()
        return (
            msgspec.convert(result, call.result, strict=False) if _is_one(call.result) else revived(result, call.result)
        )

    def _plain(self, value: Any, kind: Any) -> Any:
        if isinstance(value, Program):
            return int(value.key)  # the grader's number of it
        if has_role(kind, Role.LOCAL) and value is not None:
            number = next(self._numbers)
            self._connection.callbacks[number] = value
            return number
        return plain(value)

    def _ask(self, name: str, *arguments: int | str) -> Any:
        driver = self._in_driver_call
        return _result(
            self._connection.demand(lambda thread, line: messages.Ask(thread, name, list(arguments), driver))
        )

    # -- without a call ------------------------------------------------------------------------------------------------

    @property
    def _in_driver_call(self) -> bool:
        return getattr(_LOCAL_TO_THREAD, "driver", False)

    @contextmanager
    def driver_call(self) -> Iterator[None]:
        """Calls made inside come from the driver API."""
        before = self._in_driver_call
        _LOCAL_TO_THREAD.driver = True
        try:
            yield
        finally:
            _LOCAL_TO_THREAD.driver = before

    def fail(self, code: cudaError_t, note: str = "") -> CudaError:
        self._ask("fail", int(code), note)
        return CudaError(code, note)

    @property
    def properties(self) -> Mapping[str, Any]:
        return self.profile.properties

    @property
    def clock_ns(self) -> int:
        return self._ask("clock")  # type: ignore[no-any-return]

    @property
    def capturing(self) -> bool:
        return self._ask("capturing")  # type: ignore[no-any-return]

    def buffer_id(self, address: int) -> int:
        return self._ask("buffer_id", address)  # type: ignore[no-any-return]

    def address_range(self, address: int) -> tuple[int, int] | None:
        found = self._ask("address_range", address)
        return None if found is None else (found[0], found[1])

    def pool_of(self, address: int) -> int:
        return self._ask("pool_of", address)  # type: ignore[no-any-return]

    def function_info(self, function: int) -> FunctionInfo:
        info = self._infos.get(function)
        if info is None:
            info = msgspec.convert(self._ask("function_info", function), FunctionInfo, strict=False)
            self._infos[function] = info
        return info

    def function_names(self, module: int) -> list[str]:
        return self._ask("function_names", module)  # type: ignore[no-any-return]

    def graph_update_result(self) -> Update:
        return msgspec.convert(self._ask("graph_update_result"), Update, strict=False)


def _is_one(kind: Any) -> bool:
    return isinstance(kind, type)


def _result(answer: messages.Reply) -> Any:
    match answer:
        case messages.Result(value):
            return value
        case messages.Refused(code, note, sticky):
            raise CudaError(cudaError_t(code), note, sticky=sticky)
        case messages.Raised():
            raise exception(answer)
    raise RuntimeError("the grader has answered something else")


def profile_of(text: str) -> Profile:
    """A profile from JSON."""
    data = msgspec.json.decode(text)
    for name in ("host_constants", "device_constants"):
        data[name] = {key: Constant(**value) for key, value in data[name].items()}
    data["differing"] = {int(number): properties for number, properties in data["differing"].items()}
    return Profile(**data)
