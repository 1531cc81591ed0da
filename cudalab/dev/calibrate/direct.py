"""Constants that a measurement gives at once: what calls keep the host for, and how fast copies are.

Each is a call's time, less that of a call that does nothing, or a difference of two measurements that have all but one
thing in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cudalab.sim.device.profile import load

KB, MB = 1 << 10, 1 << 20
LINES = 28 / 3
"""Lines that a trace follows in a step of ``calls._STEPS``, on the average, with entering and leaving functions."""
Measured = Mapping[str, float]


def _call(name: str) -> Callable[[Measured], float]:
    """ns of one call."""
    return lambda found: (found[name] - found["call nothing"]) * 1000


def _by_bindings(name: str) -> Callable[[Measured], float]:
    """ns of one call by CuPy, of which ``cuda.bindings`` was measured."""
    return lambda found: _call(name)(found) - load().host["bindings_call"]


def _each(name: str) -> Callable[[Measured], float]:
    """ns on the device of one more in a row."""
    return lambda found: (found[f"behind 17 {name}"] - found[f"behind 1 {name}"]) / 16 * 1000


def _more(name: str, than: str) -> Callable[[Measured], float]:
    """ns that one takes more than another."""
    return lambda found: (found[name] - found[than]) * 1000


def _bus_byte(found: Measured) -> float:
    slopes = [(found[f"done {way} {64 * MB}"] - found[f"done {way} {16 * MB}"]) / (48 * MB) for way in ("h2d", "d2h")]
    return sum(slopes) / 2 * 1000


HOST: dict[str, Callable[[Measured], float]] = {
    "launch": lambda found: found["launch 0 arguments"] * 1000,
    "launch_argument": lambda found: (
        sum(found[name] - found["launch 0 arguments"] for name in ("launch 4 numbers", "launch 3 arrays and a number"))
        / 8
        * 1000
    ),
    "memcpy_async": _call("call h2d 1 MB"),
    "memcpy_device": _call("call d2d asynchronous"),
    "memset": _call("call memset"),
    "event_record": _by_bindings("call record"),
    "event_query": _by_bindings("call query event"),
    "event_elapsed": _call("call elapsed"),
    "stream_query": _by_bindings("call query stream"),
    "stream_wait_event": _by_bindings("call wait event"),
    "synchronize": _by_bindings("call synchronize stream"),
    "query": _call("call last error"),
    "staging_start": _call("call pageable h2d 4"),
    "memset_kernel": _more("call memset 64 KB", "call memset"),
    "array_operation": _more("launch an array operation in a stream", "launch in a stream"),
    "interpreter_handover": _more("launch in two threads", "launch in one thread"),
    "trace_call": _more("step with records", "step"),
    "trace_line": lambda found: _more("step in a trace", "step with records")(found) / LINES,
    "trace_first": _more("first step with records", "first step"),
}
"""Constants of the host by name: from measurements to nanoseconds."""

DEVICE: dict[str, Callable[[Measured], float]] = {
    "bus_byte": _bus_byte,
    "copy_h2d_start": lambda found: _each("h2d 4096")(found) - 4 * KB * _bus_byte(found),
    "copy_d2h_start": lambda found: _each("d2h 4096")(found) - 4 * KB * _bus_byte(found),
    "copy_d2d_start": _each("d2d 4096"),
    "memset_inline": _each("memset 4"),
    "memset_inline_byte": lambda found: (_each("memset 4096")(found) - _each("memset 4")(found)) / (4 * KB - 4),
    "memset_start": _each("memset 65536"),
    "bus_contention": lambda found: found["done both ways 64 MB"] / found[f"done h2d {64 * MB}"],
    "event_record": _each("record"),
    "host_function_notice": lambda found: (found["done kfkfkfk"] - found["done kkkk"]) / 3 * 1000,
}
"""The same of the device; ``bus_contention`` is a ratio."""
