"""The worker's end of the socket: demands of the answer's code, and what the grader asks for meanwhile."""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from cudalab.grading.worker import messages
from cudalab.grading.worker.channel import Broken, Channel
from cudalab.grading.worker.inside.memory import MappedMemory
from cudalab.grading.worker.messages import Done, ToGrader, ToWorker
from cudalab.grading.worker.values import NotSent, Values, bounds, dtype_of, exception, raised
from cudalab.sim.compiler.program import Program
from cudalab.sim.cupy._base.errors import CUDADriverError, CUDARuntimeError
from cudalab.sim.cupy.cuda.compiler import CompileException
from cudalab.sim.device.caller import place_of_call
from cudalab.sim.device.gate import Gate
from cudalab.sim.device.host_address import UnmappedAddress, read, write

_CUDA_ERRORS: dict[str, Callable[[int], Exception]] = {
    "CUDARuntimeError": CUDARuntimeError,
    "CUDADriverError": CUDADriverError,
}


class Connection(Values):
    """The one connection of this process. ``file`` is what the answer's code is compiled as."""

    def __init__(self, channel: Channel[ToWorker], memory: MappedMemory, file: str) -> None:
        self._channel = channel
        self.memory = memory
        self._file = file
        self.gate = Gate()
        """Inside it the connection is this thread's."""
        self._number = 0
        self._threads = count()
        self._local = threading.local()
        self._local.thread = next(self._threads)
        self._functions: list[Callable[..., Any]] = []
        self.callbacks: dict[int, Callable[..., Any]] = {}
        """Host functions, callbacks and array functions that the device may ask for."""
        self.returned: Any = None
        """What the answer's function returned: streams in it live as long as the exercise uses them."""
        self._runs = False
        """Does the answer's code run, so that it may make calls?"""
        self._waiting: deque[Callable[[], None]] = deque()
        self.handlers: dict[type, Callable[[Any], Any]] = {}
        """What to do for requests that are not served here."""

    # -- demands -------------------------------------------------------------------------------------------------------

    def demand(self, make: Callable[[int, int], messages.Demand]) -> messages.Reply:
        """Send what ``make(thread, line)`` gives, serve the grader meanwhile, and return its answer."""
        thread, line = self.thread, self.line()
        with self.gate:
            self.send(make(thread, line))
            while True:
                body = self.receive()
                if isinstance(body, messages.Reply):
                    return body
                self.serve(body)

    def send(self, body: messages.Demand) -> None:
        self._channel.send(ToGrader(self._number, body))
        self._number += 1

    def receive(self) -> messages.Request:
        message = self._channel.receive()
        if isinstance(message.body, messages.NewDevice):
            self.memory.clear()
        for placement in message.placements:
            self.memory.place(placement)
        return message.body

    @property
    def thread(self) -> int:
        """A small number of the calling thread; 0 for the main one."""
        mine = self._local
        if not hasattr(mine, "thread"):
            mine.thread = next(self._threads)
        found: int = mine.thread
        return found

    def line(self) -> int:
        """The line of the answer that is being run."""
        place = place_of_call(2)
        return place.line if place.file == self._file else self._outer_line()

    def _outer_line(self) -> int:
        """The same where code of a library is in between."""
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename != self._file:
            frame = frame.f_back
        return int(frame.f_lineno or 0) if frame is not None else 0

    def error_line(self, error: BaseException) -> int:
        """The innermost line of the answer that an exception passed."""
        if isinstance(error, SyntaxError) and error.filename == self._file:
            return error.lineno or 0
        found = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._file]
        return found[-1] or 0 if found else 0

    # -- what the grader asks for --------------------------------------------------------------------------------------

    def serve(self, body: messages.Request) -> None:
        """Do what the grader asks for, and send the answer."""
        self.send(self._reply(body))

    def serve_all(self) -> None:
        """Serve until the grader ends."""
        with self.gate:
            body = self.receive()
        while True:
            if isinstance(body, (messages.Load, messages.Run)):
                self._runs = True
                while self._waiting:
                    self._waiting.popleft()()
                reply = self._reply(body)  # other threads of the answer may make calls meanwhile
                self._runs = False
                with self.gate:
                    self.send(reply)
                    body = self.receive()
            else:
                with self.gate:
                    self.send(self._reply(body))
                    body = self.receive()

    def when_free(self, action: Callable[[], None]) -> None:
        """For destructors: do an action that may make calls, now or when it is the worker's turn."""

        def do() -> None:
            if self._runs:
                action()
            else:
                self._waiting.append(action)

        self.gate.later(do)

    def _reply(self, body: messages.Request) -> messages.Demand:
        try:
            return Done(self.pack(self._do(body)))
        except Broken:
            raise
        except BaseException as error:
            return raised(error, self.error_line(error))

    def _do(self, body: messages.Request) -> Any:
        match body:
            case messages.ReadHost(address, size):
                try:
                    return read(address, size).tobytes()
                except UnmappedAddress:
                    return None
            case messages.WriteHost(address, data):
                try:
                    write(address, np.frombuffer(data, np.uint8))
                except UnmappedAddress:
                    return False
                return True
            case messages.HostFunction(number, status):
                function = self.callbacks[number]
                function() if status is None else function(status)
                return None
            case messages.Compute(number, reads, writes):
                for address, data in reads:
                    self.memory.array(address, len(data))[:] = np.frombuffer(data, np.uint8)
                self.callbacks.pop(number)()
                return [self.memory.array(address, size).tobytes() for address, size in writes]
            case messages.Run(number, arguments, keywords):
                given = [self.unpack(argument) for argument in arguments]
                named = {name: self.unpack(value) for name, value in keywords.items()}
                self.returned = self._functions[number](*given, **named)
                return self.returned
        return self.handlers[type(body)](body)

    # -- values --------------------------------------------------------------------------------------------------------

    def array(self, array: np.ndarray) -> messages.Array:
        dtype, address = array.dtype.str, array.ctypes.data
        start, end = bounds(address, array.shape, array.strides, array.itemsize)
        if array.size and self.memory.is_shared(start, end):
            return messages.Array(dtype, array.shape, array.strides, address)
        packed = np.ascontiguousarray(array).reshape(array.shape)
        comes_back = array.flags.c_contiguous and array.flags.writeable
        return messages.Array(dtype, array.shape, packed.strides, address if comes_back else 0, packed.tobytes())

    def array_of(self, sent: messages.Array) -> np.ndarray:
        dtype = dtype_of(sent.dtype)
        if sent.data is not None:
            return np.frombuffer(bytearray(sent.data), dtype).reshape(sent.shape)
        start, end = bounds(sent.address, sent.shape, sent.strides, dtype.itemsize)
        flat = self.memory.array(start, end - start)
        return np.ndarray(sent.shape, dtype, flat.data, sent.address - start, sent.strides)

    def function(self, function: Callable[..., Any]) -> messages.Function | messages.Returned:
        if isinstance(function, _Given):
            return messages.Returned(function.number)
        self._functions.append(function)
        return messages.Function(len(self._functions) - 1)

    def function_of(self, sent: messages.Function) -> Callable[..., Any]:
        return _Given(self, sent.number)

    def own_function(self, number: int) -> Callable[..., Any]:
        return self._functions[number]

    def check_device_array(self, start: int, size: int) -> None:
        pass

    def compile(
        self, code: str, *, options: Sequence[str], name_expressions: Sequence[str], architecture: str
    ) -> Program:
        """Take the place of the compiler, for kernels of the answer's own."""
        answer = self.demand(
            lambda thread, line: messages.Compile(thread, code, list(options), list(name_expressions), architecture)
        )
        match answer:
            case messages.Compiled(number, program):
                return replace(program, key=str(number))
            case messages.Raised(_, text, notes):
                error = CompileException(text + "\n", code, "kernel.cu", tuple(options), "nvrtc")
                for note in notes:
                    error.add_note(note)
                raise error
        raise NotSent("the grader has answered something else")

    def invoke(self, number: int, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a function of the grader's."""
        packed = [self.pack(argument) for argument in arguments]
        named = {name: self.pack(value) for name, value in keywords.items()}
        answer = self.demand(lambda thread, line: messages.Invoke(thread, line, number, packed, named))
        match answer:
            case Done(value, arrays):
                for address, data in arrays:
                    if address:
                        write(address, np.frombuffer(data, np.uint8))
                return self.unpack(value)
            case messages.Raised():
                raise _error(answer)
        raise NotSent("the grader has answered something else")


class _Given:
    """A function that the exercise has handed over."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection, self.number = connection, number

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._connection.invoke(self.number, arguments, keywords)


def _error(sent: messages.Raised) -> BaseException:
    """An exception of a function of the grader, as it would be if that ran here."""
    make = next((_CUDA_ERRORS[kind] for kind in sent.kinds if kind in _CUDA_ERRORS), None)
    if make is None:
        return exception(sent)
    error = make(sent.status)
    for note in sent.notes:
        error.add_note(note)
    return error
