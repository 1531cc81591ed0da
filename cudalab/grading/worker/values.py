"""Values of Python as messages, and back: arguments, results and exceptions.

Only exact types cross. What is a subclass or anything else becomes :class:`~cudalab.grading.worker.messages.Opaque`,
which equals nothing but itself: an object that claims to be equal to everything leaves its claim behind.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver, runtime

from cudalab.grading.worker import messages
from cudalab.grading.worker.messages import Raised, Value
from cudalab.sim import cupy
from cudalab.sim.cupy.cuda.memory import MemoryPointer, UnownedMemory
from cudalab.sim.cupy.cuda.stream import _BaseStream

_PLAIN = (type(None), bool, float, str)
_DTYPE = re.compile(r"[<>|=][?biufcSU]\d{1,4}")
_MODULES = {"runtime": runtime, "driver": driver}
_HANDLES = frozenset(
    f"{before}{name}{after}"
    for before, after, names in (
        ("CU", "", ("stream", "event", "graph", "graphNode", "graphExec", "context", "device", "deviceptr")),
        ("cuda", "_t", ("Stream", "Event", "Graph", "GraphNode", "GraphExec")),
    )
    for name in names
)
_DEPTH, _ITEMS, _TEXT = 12, 1 << 16, 400
_REPEATED = 1 << 26
"""Bytes that an array may seem to have whose elements lie on one another."""


class NotSent(TypeError):
    """A value cannot cross; the text says why."""


class Opaque:
    """Stands for an object of the other side."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class Values:
    """Packs and unpacks values for one side, which says how its arrays and functions are named."""

    # -- what the sides differ in --------------------------------------------------------------------------------------

    def array(self, array: np.ndarray) -> messages.Array:
        raise NotImplementedError

    def array_of(self, sent: messages.Array) -> np.ndarray:
        raise NotImplementedError

    def function(self, function: Callable[..., Any]) -> messages.Function | messages.Returned:
        raise NotImplementedError

    def function_of(self, sent: messages.Function) -> Callable[..., Any]:
        """A function that calls the other side's."""
        raise NotImplementedError

    def own_function(self, number: int) -> Callable[..., Any]:
        """One of this side's that comes back."""
        raise NotImplementedError

    def check_device_array(self, start: int, size: int) -> None:
        """Raise ``NotSent`` when an array that the other side names is not there."""

    # -- to the other side ---------------------------------------------------------------------------------------------

    def pack(self, value: Any, depth: int = 0) -> Value:
        kind = type(value)
        if kind in _PLAIN:
            return value  # type: ignore[no-any-return]
        if kind is int:
            return value if -(2**63) <= value < 2**64 else messages.Opaque(f"an integer of {value.bit_length()} bits")
        if kind is bytes:
            return messages.Bytes(value)
        if kind in (list, tuple, dict) and (depth > _DEPTH or len(value) > _ITEMS):
            return messages.Opaque(f"a {kind.__name__} of {len(value)} items, nested {depth} deep")
        if kind is list or kind is tuple:
            return messages.Items(kind.__name__, [self.pack(item, depth + 1) for item in value])
        if kind is dict:
            items = [(self.pack(key, depth + 1), self.pack(item, depth + 1)) for key, item in value.items()]
            return messages.Mapping(items)
        return self._pack_object(value)

    def _pack_object(self, value: Any) -> Value:
        if isinstance(value, np.ndarray):
            known = _DTYPE.fullmatch(value.dtype.str)
            return self.array(value.view(np.ndarray)) if known else messages.Opaque(f"an array of {value.dtype}")
        if isinstance(value, np.generic):
            return messages.Scalar(value.dtype.str, value.tobytes()) if _DTYPE.fullmatch(value.dtype.str) else None
        if isinstance(value, cupy.ndarray):
            return messages.DeviceArray(value.dtype.str, value.shape, value.strides, int(value.data.ptr))
        if isinstance(value, _BaseStream):
            return messages.Stream(int(value.ptr), int(value.device_id))
        if isinstance(value, cupy.cuda.Event):
            return messages.Event(int(value.ptr))
        if isinstance(value, cupy.cuda.Graph):
            return messages.Graph(int(value.graph), int(value.graphExec))
        for name, module in _MODULES.items():
            kind = type(value)
            if getattr(module, kind.__name__, None) is kind and _is_number(kind):
                return messages.Named(name, kind.__name__, int(value))
        if callable(value) and not isinstance(value, type):
            return self.function(value)
        return messages.Opaque(_described(value))

    # -- from the other side -------------------------------------------------------------------------------------------

    def unpack(self, value: Value) -> Any:
        match value:
            case messages.Items(kind, items):
                made = [self.unpack(item) for item in items]
                return tuple(made) if kind == "tuple" else made
            case messages.Mapping(items):
                return {_hashable(self.unpack(key)): self.unpack(item) for key, item in items}
            case messages.Bytes(data):
                return data
            case messages.Array():
                return self.array_of(value)
            case messages.DeviceArray():
                return self._device_array(value)
            case messages.Scalar(dtype, data):
                return np.frombuffer(data, dtype_of(dtype), 1)[0]
            case messages.Named(module, name, number):
                return _named(module, name)(number)
            case messages.Stream(pointer, device):
                return _stream(pointer, device)
            case messages.Event(pointer):
                event = cupy.cuda.Event.__new__(cupy.cuda.Event)
                event.ptr = pointer
                event._epoch = None  # another's: not destroyed with this object
                return event
            case messages.Graph(number, executable):
                graph = cupy.cuda.Graph.__new__(cupy.cuda.Graph)
                graph.graph, graph.graphExec, graph.host_funcargs = number, executable, []
                graph._epoch = None  # another's: not destroyed with this object
                return graph
            case messages.Function():
                return self.function_of(value)
            case messages.Returned(number):
                return self.own_function(number)
            case messages.Opaque(text):
                return Opaque(text)
        return value

    def _device_array(self, sent: messages.DeviceArray) -> Any:
        dtype = dtype_of(sent.dtype)
        start, end = bounds(sent.address, sent.shape, sent.strides, dtype.itemsize)
        self.check_device_array(start, end - start)
        memory = UnownedMemory(start, max(1, end - start), self, 0)
        return cupy.ndarray(sent.shape, dtype, MemoryPointer(memory, sent.address - start), sent.strides)


def bounds(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """First address of an array's bytes, and the end. Raises ``NotSent``."""
    if len(shape) != len(strides) or len(shape) > 32 or any(n < 0 for n in shape):
        raise NotSent(f"an array of shape {shape} and strides {strides}")
    if 0 in shape:
        return address, address
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    start = address + sum(step for step in reach if step < 0)
    end = address + sum(step for step in reach if step > 0) + itemsize
    if not 0 <= start < end < 1 << 63 or math.prod(shape) * itemsize > max(end - start, _REPEATED):
        raise NotSent(f"an array of shape {shape} and strides {strides}")
    return start, end


def dtype_of(text: str) -> np.dtype[Any]:
    """Raises ``NotSent`` for anything but numbers and texts."""
    if not _DTYPE.fullmatch(text):
        raise NotSent(f"an array of {text!r}")
    try:
        return np.dtype(text)
    except TypeError:
        raise NotSent(f"an array of {text!r}") from None


def _named(module: str, name: str) -> Any:
    kind = getattr(_MODULES.get(module), name, None)
    if not isinstance(kind, type) or not _is_number(kind):
        raise NotSent(f"{module}.{name} is neither an enumeration nor a handle")
    return kind


def _stream(pointer: int, device: int) -> Any:
    stream = cupy.cuda.Stream.__new__(cupy.cuda.Stream)
    _BaseStream.__init__(stream, pointer, device)
    stream._epoch, stream._foreign = None, True  # another's: not destroyed with this object
    return stream


def _is_number(kind: type) -> bool:
    return issubclass(kind, int) or kind.__name__ in _HANDLES


def _hashable(key: Any) -> Any:
    return key if isinstance(key, (str, int, float, bytes, bool, type(None))) else repr(key)


def _described(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "?"
    return f"{type(value).__name__}: {text}"[:_TEXT]


# -- exceptions --------------------------------------------------------------------------------------------------------


def raised(error: BaseException, line: int) -> Raised:
    """An exception as a message; ``line`` is the answer's."""
    status = getattr(error, "status", None) or getattr(error, "code", None) or 0
    try:
        text = str(error)
    except Exception:
        text = type(error).__name__
    return Raised(
        kinds=[kind.__name__[:_TEXT] for kind in type(error).__mro__[:_DEPTH]],
        text=text[: 16 * _TEXT],
        notes=[str(note)[: 16 * _TEXT] for note in getattr(error, "__notes__", ())][:_DEPTH],
        line=line,
        status=int(status) if isinstance(status, int) else 0,
        name=str(getattr(error, "name", ""))[:_TEXT] if isinstance(error, NameError) else "",
        source=(error.text or "")[:_TEXT] if isinstance(error, SyntaxError) else "",
    )


def exception(sent: Raised) -> Exception | SystemExit:
    """An exception with the other side's name, text and notes, of the builtin class that its own is derived from."""
    found = (getattr(builtins, kind, None) for kind in sent.kinds)
    base = next((c for c in found if isinstance(c, type) and issubclass(c, (Exception, SystemExit))), Exception)
    if issubclass(base, ExceptionGroup):  # which is none without exceptions in it
        base = Exception
    name = next((kind for kind in sent.kinds if kind.isidentifier()), "Exception")
    kind: Any = type(name, (base,), {"__str__": lambda self: sent.text, "__module__": "answer"})
    error: Exception | SystemExit = kind.__new__(kind)
    for note in sent.notes:
        error.add_note(note)
    if isinstance(error, NameError):
        error.name = sent.name
    if isinstance(error, SyntaxError):
        error.lineno, error.msg, error.text = sent.line, sent.text, sent.source
    return error
