"""Names of streams: the learner's own variable where one holds the stream, a number otherwise.

``upload = cp.cuda.Stream()`` gives the row ``upload``; ``streams = [...]`` gives ``streams[0]``, ``streams[1]``. The
variables are those of the code that the trace stands in, looked at when its block ends. A stream that the runtime made
(``cudaStreamCreate``) gets a number, or the name that ``trace(streams={"upload": handle})`` gives it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

LEGACY, LEGACY_HANDLE, PER_THREAD = 0, 1, 2
DEFAULT_NAMES = {
    LEGACY: "default stream",
    LEGACY_HANDLE: "default stream",
    PER_THREAD: "per-thread default stream",
}
_MOST = 256  # entries of one container that are looked at
_LOOP_NAMES = frozenset({"s", "st", "q", "stream", "each", "one"})


def handle_of(value: object) -> int | None:
    """The handle of a CuPy stream, of a ``cudaStream_t`` or ``CUstream``, or a plain integer; None for anything
    else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    kind = type(value).__name__
    if kind in ("cudaStream_t", "CUstream"):
        result: int | None = int(value)  # type: ignore[call-overload]
        return result
    if "Stream" in kind:
        pointer = getattr(value, "ptr", None)
        return pointer if isinstance(pointer, int) else None
    return None


def names_in(frame: FrameType | None) -> dict[int, str]:
    """Names by handle, from the variables that the code in ``frame`` sees."""
    if frame is None:
        return {}
    namespaces = [frame.f_locals] if frame.f_locals is frame.f_globals else [frame.f_locals, frame.f_globals]
    found = _names(namespaces)
    if len(namespaces) == 2 and sys.version_info < (3, 13) and sys.gettrace() is None:
        # A function's frame keeps this copy of its variables (PEP 667); arrays in it would outlive their `del`.
        namespaces[0].clear()
    return found


def names_among(variables: Mapping[str, Any]) -> dict[int, str]:
    """Names by handle, from these variables."""
    return _names([variables])


def names_of(function: Callable[..., Any]) -> dict[str, int]:
    """Handles by name, from the variables that a function of the learner's uses from outside."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    if code is None:
        return {}
    cells = zip(code.co_freevars, inner.__closure__ or (), strict=False)
    outside = {name: cell.cell_contents for name, cell in cells if cell.cell_contents is not inner}
    return {name: handle for handle, name in _names([outside, inner.__globals__]).items()}


def _names(namespaces: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    found: dict[int, str] = {}
    bare = [pair for names in namespaces for pair in _bare(names)]
    loose = [pair for pair in bare if pair[1] in _LOOP_NAMES]
    held = [pair for names in namespaces for pair in _held(names)]
    for handle, name in (*(pair for pair in bare if pair[1] not in _LOOP_NAMES), *held, *loose):
        found.setdefault(handle, name)
    for handle in DEFAULT_NAMES:
        found.pop(handle, None)
    return found


def given(streams: Mapping[str, object] | None) -> dict[int, str]:
    """Names that the learner gave: ``trace(streams={"upload": s1})``. Raises ``TypeError`` for what is no stream."""
    found = {}
    for name, stream in (streams or {}).items():
        handle = handle_of(stream)
        if handle is None:
            raise TypeError(
                f"trace: streams[{name!r}] must be a CuPy stream, a cudaStream_t or a handle; got {stream!r}"
            )
        found[handle] = name
    return found


def _is_stream(value: object) -> bool:
    """A stream that lives as long as the variable does. A bare handle, or CuPy's object for one, may be of a stream
    that was destroyed; a GPU's driver does not survive a question about that."""
    if type(value).__name__ != "Stream":
        return False
    foreign = getattr(value, "_foreign_stream_ref", getattr(value, "_foreign", None))
    return foreign is None and handle_of(value) is not None


def _visible(names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(names.items()):
        if not name.startswith("_"):
            yield name, value


def _bare(names: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for name, value in _visible(names):
        if not isinstance(value, type) and _is_stream(value):
            handle = handle_of(value)
            assert handle is not None
            yield handle, name


def _held(names: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for name, value in _visible(names):
        entries: Iterable[tuple[object, object]]
        if type(value) in (list, tuple) and len(value) <= _MOST:
            entries = enumerate(value)
        elif type(value) is dict and len(value) <= _MOST:
            entries = list(value.items())
        else:
            continue
        for key, entry in entries:
            if _is_stream(entry):
                handle = handle_of(entry)
                assert handle is not None
                yield handle, f"{name}[{key!r}]"


_BUILT_IN = {
    "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short",
    "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "f": "float", "d": "double",
}  # fmt: skip


def kernel_name(name: str) -> str:
    """A kernel's name as its source has it: ``scale<float>`` for ``_Z5scaleIfEvPT_S0_``. Arguments of templates other
    than built-in types and numbers are left out (Itanium C++ ABI, "Mangling")."""
    if not name.startswith("_Z"):
        return name.removeprefix("cupy_")  # what CuPy calls the kernels of its own
    at = 3 if name.startswith("_ZN") else 2
    parts: list[str] = []
    while at < len(name) and name[at].isdigit():
        digits = re.match(r"\d+", name[at:])
        assert digits is not None
        at += len(digits[0])
        parts.append(name[at : at + int(digits[0])])
        at += int(digits[0])
    if not parts:
        return name
    readable = "::".join(part for part in parts if not part.startswith(("_GLOBAL__N", "_INTERNAL")))
    return (readable or parts[-1]) + _template_arguments(name[at:])


def _template_arguments(rest: str) -> str:
    """``<float, 4>`` for ``IfLi4EE…``; nothing where it holds what is not built in."""
    if not rest.startswith("I"):
        return ""
    at, found = 1, []
    while at < len(rest) and rest[at] != "E":
        literal = re.match(r"L([a-z])(n?)(\d+)E", rest[at:])
        if literal is not None:
            value = {"0": "false", "1": "true"}.get(literal[3], literal[3]) if literal[1] == "b" else literal[3]
            found.append(("-" if literal[2] else "") + value)
            at += len(literal[0])
        elif rest[at] in _BUILT_IN:
            found.append(_BUILT_IN[rest[at]])
            at += 1
        else:
            return ""
    return f"<{', '.join(found)}>"
