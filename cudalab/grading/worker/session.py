"""The grader's end of a worker: hands over what an exercise gives to an answer, and makes the answer's calls.

What the exercise passes to the answer's function, arrays, streams, functions and lists of them, becomes what the worker
has in its place. A function of the exercise runs here when the worker calls it, and only those that were handed over
can be called. Runtime calls are made on the grader's device, each in a thread that stands for the worker's, and from a
place that stands for the answer's line (``lines.py``), so whatever watches the device sees what it would see if the
answer ran here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import numpy as np

from cudalab.grading.worker import lines, messages
from cudalab.grading.worker.calls import QUESTIONS, OwnKernels
from cudalab.grading.worker.channel import Broken, Channel
from cudalab.grading.worker.host_memory import Inward, Outward, WorkerMemory, unmarked
from cudalab.grading.worker.log import Recording, Replay, TooLong
from cudalab.grading.worker.messages import Ask, Call, Compile, Done, Invoke, Raised, ToGrader, ToWorker
from cudalab.grading.worker.threads import StandIn
from cudalab.grading.worker.values import NotSent, Values, bounds, dtype_of, exception, raised
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.program import Program
from cudalab.sim.device import host_address
from cudalab.sim.device.caller import UNKNOWN, place_of_call
from cudalab.sim.device.declaration import CALLS, Allocates, Role
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.log.log import has_role, plain, relocated, revived
from cudalab.sim.machine.memory.allocation import InvalidPointer

if TYPE_CHECKING:
    from cudalab.grading.worker.shared_memory import SharedMemory, Witness
    from cudalab.sim.device.device import Device

CAPACITY = 1 << 30
"""Bytes of the graded device that can be in use at once, on every machine alike."""
MOST_PROGRAMS = 32
_RUNS_CODE = (messages.Load, messages.Run, messages.HostFunction)
"""The requests during which the answer's code runs, and may make calls."""


class _Proxy:
    """A function of the worker."""

    def __init__(self, session: Session, number: int) -> None:
        self._session, self.number = session, number

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        session = self._session
        packed = [session.pack(argument) for argument in arguments]
        named = {name: session.pack(value) for name, value in keywords.items()}
        return session.unpack(session.ask(messages.Run(self.number, packed, named)))


class Session(Values):
    """One worker, from its start to its end. ``allowed`` are the calls that it may make;
    ``file`` names the answer in findings, ``length`` is its lines."""

    def __init__(
        self,
        channel: Channel[ToGrader] | Replay,
        shared: SharedMemory,
        recording: Recording,
        allowed: Collection[str],
        file: str,
        length: int,
    ) -> None:
        self._channel = channel
        self._recording = recording
        self._shared = shared
        self._file, self._length = file, length
        self._device: Device
        self._number = 0
        """Of the next message of the worker."""
        self._depth = 0
        """Requests that wait for their answer, one within another."""
        self._broken = ""
        self._functions: list[Callable[..., Any]] = []
        self._programs: list[Program] = []
        """What the answer has had compiled."""
        self._own = OwnKernels(allowed)
        self._threads: dict[int, StandIn] = {}
        self._sent: list[tuple[np.ndarray, bytes, int]] = []
        """Arrays that came with their bytes in the present call of a function, those bytes, and where they are from."""
        self.memory = WorkerMemory(lambda request: self.unpack(self.ask(request)))

    # -- the exercise --------------------------------------------------------------------------------------------------

    def begin(self, device: Device, witness: Witness) -> None:
        """A new case begins, on a fresh device."""
        self._device = device
        device.memory.capacity = CAPACITY
        self._functions.clear()
        self._own.clear()
        self._end_threads()
        self._shared.bind(device, witness)
        self._inward, self._outward = Inward(self._shared, device), Outward(self._shared)
        profile = device.profile
        data = {name: getattr(profile, name) for name in profile.__match_args__}
        self.ask(messages.NewDevice(msgspec.json.encode(data).decode()))

    def check(self, source: str) -> None:
        """Raise ``SyntaxError`` for what is not Python."""
        self.ask(messages.Check(source))

    def load(self, source: str, name: str) -> Any:
        """Run the cell, and return what it binds to ``name``: of a function a proxy, None where there is nothing."""
        return self.unpack(self.ask(messages.Load(source, name)))

    @property
    def whole(self) -> bool:
        """Has the worker said all that it was asked for?"""
        return not self._broken

    def close(self) -> None:
        self._broken = self._broken or "the question is over"
        self._end_threads()
        self._channel.close()

    def _end_threads(self) -> None:
        for thread in self._threads.values():
            thread.end()
        self._threads.clear()

    # -- messages ------------------------------------------------------------------------------------------------------

    def ask(self, request: messages.Request) -> messages.Value:
        """Send a request, serve calls until the answer comes, and return it; an exception of the worker is raised."""
        if self._depth > 16:
            raise self._break("functions of the answer and of the exercise that call each other without end")
        self._depth += 1
        try:
            self._send(request)
            while True:
                body = self._receive()
                match body:
                    case Done(value):
                        return value
                    case Raised():
                        self._raise(body)
                if not isinstance(request, _RUNS_CODE):
                    raise self._break("a call out of turn")
                self._serve(body)
        finally:
            self._depth -= 1

    def _raise(self, sent: Raised) -> NoReturn:
        """Raise the worker's exception from the answer's line that it came from."""
        error = exception(sent)

        def here() -> None:
            raise error

        lines.at(self._file, self._line(sent.line), here)
        raise error

    def _send(self, body: messages.Request) -> None:
        if self._broken:
            raise Broken(self._broken)
        message = ToWorker(body, self._shared.give())
        self._recording.tell(message, self._shared.given.digest())
        try:
            self._channel.send(message)
        except Broken as error:
            raise self._break(str(error)) from None

    def _receive(self) -> messages.Demand:
        if self._broken:
            raise Broken(self._broken)
        try:
            message = self._channel.receive()
        except Broken as error:
            raise self._break(str(error)) from None
        if message.number != self._number:
            raise self._break("a message out of turn")
        self._number += 1
        line = self._line(getattr(message.body, "line", 0))
        written = self._shared.take(lines.at(self._file, line, place_of_call) if line else UNKNOWN)
        try:
            self._recording.hear(message, written)
        except TooLong as error:
            raise self._break(str(error)) from None
        return message.body

    def _break(self, why: str) -> Broken:
        self._broken = self._broken or why
        return Broken(self._broken)

    def _line(self, line: int) -> int:
        return line if 0 < line <= self._length else 0

    # -- what the worker asks for --------------------------------------------------------------------------------------

    def _serve(self, body: Call | Ask | Compile | Invoke) -> None:
        depth = self._depth
        answer = partial(self._answer, body)
        if depth == 1 and body.thread:
            thread = self._threads.get(body.thread)
            if thread is None:
                if len(self._threads) >= 64:
                    raise self._break("more than 64 threads that make runtime calls")
                thread = self._threads[body.thread] = StandIn()
            reply = thread.run(answer)
        else:
            reply = answer()
        if self._depth != depth:
            raise self._break("a host function has not returned")
        self._send(reply)

    def _answer(self, body: Call | Ask | Compile | Invoke) -> messages.Reply:
        try:
            match body:
                case Invoke():
                    return self._invoke(body)
                case Compile():
                    return self._compile(body)
            with self._device.driver_call() if body.driver else nullcontext():
                return self._question(body) if isinstance(body, Ask) else self._call(body)
        except CudaError as error:
            if isinstance(body, Invoke):
                return raised(error, 0)
            return messages.Refused(int(error.code), unmarked(error.note), error.sticky)
        except Broken:
            raise
        except Exception as error:
            return raised(error, 0)

    def _call(self, body: Call) -> messages.Result:
        call = CALLS.get(body.name)
        if call is None:
            raise self._break("a runtime call that there is none of")
        arguments = {}
        for name, value in body.arguments.items():
            if name not in call.parameters:
                raise self._break(f"{call.name} with an argument that it does not take")
            arguments[name] = self._argument(call.parameters[name], value)
        self._own.check(call, arguments)
        if call.name == "array_operation":
            arguments["run"] = self._array_function(body.arguments.get("run"), arguments)
        if call.allocates in (Allocates.PAGE_LOCKED, Allocates.MANAGED):
            self._shared.check_room(arguments["size"])
        if call.allocates is Allocates.REGISTERED and arguments["pointer"] & host_address.ELSEWHERE:
            arguments["pointer"] = self._register(arguments["pointer"], arguments["size"])
        method = getattr(self._device, call.name)
        result = lines.at(self._file, self._line(body.line), method, **arguments)
        self._own.note(call, result)
        return messages.Result(plain(relocated(result, call.result, self._outward)))

    def _compile(self, body: Compile) -> messages.Compiled:
        if len(self._programs) == MOST_PROGRAMS:
            raise self._break(f"more than {MOST_PROGRAMS} kernels of its own")
        program = compile(
            body.source,
            options=body.options,
            name_expressions=body.expressions,
            architecture=body.architecture,
            bundled_headers_only=True,
        )
        self._programs.append(program)
        return messages.Compiled(len(self._programs) - 1, replace(program, objects={}, cubin=b"", ptx=""))

    def _argument(self, kind: Any, value: Any) -> Any:
        if kind is Program:
            if not isinstance(value, int) or not 0 <= value < len(self._programs):
                raise self._break("a program that the grader has not compiled")
            return self._programs[value]
        if has_role(kind, Role.LOCAL):
            return self._callback(value) if isinstance(value, int) else None
        try:
            return relocated(revived(value, kind), kind, self._inward)
        except msgspec.ValidationError as error:
            raise TypeError(f"an argument of another type: {error}") from None

    def _callback(self, number: int) -> Callable[..., None]:
        def run(status: int | None = None) -> None:
            self.ask(messages.HostFunction(number, status))

        return run

    def _array_function(self, number: Any, arguments: dict[str, Any]) -> Callable[[], None]:
        """An array function runs in the worker, on copies of what it reads; what it writes comes back."""
        memory = self._device.memory
        reads, writes = list(arguments["reads"]), list(arguments["writes"])

        def run() -> None:
            given = [(start, memory.view(start, size, write=False).tobytes()) for start, size in [*reads, *writes]]
            made = self.unpack(self.ask(messages.Compute(int(number), given, writes)))
            if not isinstance(made, list) or [len(data) for data in made] != [size for _, size in writes]:
                raise self._break("an array function that has written something else")
            for (start, size), data in zip(writes, made, strict=True):
                memory.array(start, size)[:] = np.frombuffer(data, np.uint8)

        return run

    def _register(self, pointer: int, size: int) -> int:
        """Memory of the worker's own is page-locked: it is shared from now on."""
        address = pointer & ~host_address.ELSEWHERE
        if not 0 < size <= CAPACITY:
            return pointer
        self._shared.check_room(size)
        try:
            self._shared.register(address, host_address.read(pointer, size))
        except host_address.UnmappedAddress:
            return pointer  # the call says so
        here = self._shared.here(address)
        assert here is not None
        return here

    def _question(self, body: Ask) -> messages.Result:
        question = QUESTIONS.get(body.name)
        if question is None:
            raise self._break("a question that there is none of")
        return messages.Result(plain(question(self._device, self._inward, *body.arguments)))

    def _invoke(self, body: Invoke) -> messages.Done:
        if not 0 <= body.function < len(self._functions):
            raise self._break("a function that was not handed over")
        before, self._sent = self._sent, []
        try:
            arguments = [self.unpack(argument) for argument in body.arguments]
            keywords = {name: self.unpack(value) for name, value in body.keywords.items()}
            function = self._functions[body.function]
            with self._shared.exercise_runs():
                value = lines.at(self._file, self._line(body.line), function, *arguments, **keywords)
            written = [(address, a.tobytes()) for a, data, address in self._sent if a.tobytes() != data]
            return Done(self.pack(value), written)
        finally:
            self._sent = before

    # -- values --------------------------------------------------------------------------------------------------------

    def array(self, array: np.ndarray) -> messages.Array:
        address = array.ctypes.data
        data = None
        if not array.size:
            data = b""
        elif self._device.memory.find(address) is None:
            address = self._shared.adopt(array)
        return messages.Array(array.dtype.str, array.shape, array.strides, address, data)

    def array_of(self, sent: messages.Array) -> np.ndarray:
        dtype = dtype_of(sent.dtype)
        start, end = bounds(sent.address, sent.shape, sent.strides, dtype.itemsize)
        if sent.data is not None:
            array = np.frombuffer(bytearray(sent.data), dtype)
            if array.size != int(np.prod(sent.shape)):
                raise NotSent("an array with other bytes than its shape says")
            array = array.reshape(sent.shape)
            self._sent.append((array, sent.data, sent.address))
            return array
        slot = self._shared.find(start, end - start)
        if slot is None:
            raise NotSent("an array in memory that is not shared")
        return np.ndarray(sent.shape, dtype, slot.local.data, sent.address - slot.address, sent.strides)

    def function(self, function: Callable[..., Any]) -> messages.Function | messages.Returned:
        if isinstance(function, _Proxy):
            return messages.Returned(function.number)
        for number, known in enumerate(self._functions):
            if known is function:
                return messages.Function(number)
        self._functions.append(function)
        return messages.Function(len(self._functions) - 1)

    def function_of(self, sent: messages.Function) -> Callable[..., Any]:
        return _Proxy(self, sent.number)

    def own_function(self, number: int) -> Callable[..., Any]:
        if not 0 <= number < len(self._functions):
            raise NotSent("a function that was not handed over")
        return self._functions[number]

    def check_device_array(self, start: int, size: int) -> None:
        try:
            self._device.memory.view(start, size, write=False)
        except InvalidPointer as error:
            raise NotSent(f"an array that is not in the device's memory: {error}") from None
