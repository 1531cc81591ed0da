"""Barriers in shared memory (PTX ISA, ``mbarrier``).

One thread plays with one object after the other. Each opcode has a *scene*: what is done, and what must come out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.sim.compiler.opcodes.case import opcodes
from tests.sim.compiler.opcodes.kernel import Kernel, known

_MOST = 24
_OWN = "[.shared|shared::cta]"
_ARRIVALS = "mbarrier.<arrive|arrive_drop>"
_SCOPE = "<cta|cluster>"


@dataclass(frozen=True)
class Scene:
    """``lines``: ``OUT r`` stands for storing the 32-bit register ``r``, one for each of ``expected``."""

    opcode: str
    lines: tuple[str, ...]
    expected: tuple[int, ...]


def _init(count: int) -> str:
    return f"mbarrier.init.shared.b64 [object], {count};"


_ARRIVE = "mbarrier.arrive.shared.b64 %state, [object];"
_COUNT = (_ARRIVE, "mbarrier.pending_count.b64 %r, %state;", "OUT %r")
"""Arrives, and stores how many arrivals were pending before: as many as are expected, when a phase has just begun."""


def _scene(opcode: str) -> Scene:
    parts = opcode.split(".")
    name = parts[1]
    generic = not any(part.startswith("shared") for part in parts)
    place = "[%generic]" if generic else "[object]"
    if name == "init":
        return Scene(opcode, (f"{opcode} {place}, 3;", *_COUNT, *_COUNT, *_COUNT, *_COUNT), (3, 2, 1, 3))
    if name == "inval":
        return Scene(opcode, (_init(7), _ARRIVE, f"{opcode} {place};", _init(2), *_COUNT, *_COUNT, *_COUNT), (2, 1, 2))
    if name in ("arrive", "arrive_drop"):
        state = "_" if "shared::cluster" in parts else "%state"
        return _arrival(opcode, parts, place, state)
    if name in ("expect_tx", "complete_tx"):
        other = "complete_tx" if name == "expect_tx" else "expect_tx"
        first, second = f"{opcode} {place}, 48;", f"mbarrier.{other}.shared.b64 [object], 48;"
        if name == "complete_tx":
            first, second = second, first
        return Scene(opcode, (_init(2), first, *_COUNT, *_COUNT, second, *_COUNT, *_COUNT, *_COUNT), (2, 1, 2, 1, 2))
    if name == "pending_count":
        lines = (_init(9), "mbarrier.arrive.shared.b64 _, [object], 4;", _ARRIVE, f"{opcode} %r, %state;", "OUT %r")
        return Scene(opcode, lines, (5,))
    return _wait(opcode, parts, place)


def _arrival(opcode: str, parts: list[str], place: str, state: str) -> Scene:
    """Of three arrivals the first is the one under test; the phase after it expects fewer when it was the last."""
    operand, completing = ", 1" if "noComplete" in parts else "", ()
    if "expect_tx" in parts:
        operand, completing = ", 32", ("mbarrier.complete_tx.shared.b64 [object], 32;",)
    lines = (_init(3), f"{opcode} {state}, {place}{operand};", *_COUNT, *_COUNT, *completing, *_COUNT, *_COUNT, *_COUNT)
    return Scene(opcode, lines, (2, 1, 2, 1, 2) if parts[1] == "arrive_drop" else (2, 1, 3, 2, 1))


def _wait(opcode: str, parts: list[str], place: str) -> Scene:
    """A look before the phase is over, and one after it. Some give a time, in nanoseconds."""
    which = "0" if "parity" in parts else "%state"
    hint = ", 100" if parts[1] == "try_wait" and ("acquire" in parts or len(parts) < 5) else ""
    look = (f"{opcode} %p, {place}, {which}{hint};", "selp.u32 %r, 1, 0, %p;", "OUT %r")
    return Scene(opcode, (_init(2), _ARRIVE, *look, _ARRIVE, *look), (0, 1))


def scenes() -> Iterator[Scene]:
    patterns = [
        f"mbarrier.<init|inval>{_OWN}.b64",
        f"{_ARRIVALS}{_OWN}.b64",
        f"{_ARRIVALS}.<release|relaxed>.{_SCOPE}{_OWN}.b64",
        f"{_ARRIVALS}.shared::cluster.b64",
        f"{_ARRIVALS}.<release|relaxed>.cluster.shared::cluster.b64",
        f"{_ARRIVALS}.noComplete{_OWN}.b64",
        f"{_ARRIVALS}.noComplete.release.cta{_OWN}.b64",
        f"{_ARRIVALS}.expect_tx{_OWN}.b64",
        f"{_ARRIVALS}.expect_tx.<release|relaxed>.{_SCOPE}{_OWN}.b64",
        f"{_ARRIVALS}.expect_tx.shared::cluster.b64",
        f"{_ARRIVALS}.expect_tx.<release|relaxed>.cluster.shared::cluster.b64",
        f"mbarrier.<expect_tx|complete_tx>{_OWN}.b64",
        "mbarrier.<expect_tx|complete_tx>.shared::cluster.b64",
        f"mbarrier.<expect_tx|complete_tx>.relaxed.{_SCOPE}{_OWN}.b64",
        f"mbarrier.<expect_tx|complete_tx>.relaxed.{_SCOPE}.shared::cluster.b64",
        f"mbarrier.<test_wait|try_wait>[.parity]{_OWN}.b64",
        f"mbarrier.<test_wait|try_wait>[.parity].<acquire|relaxed>.{_SCOPE}{_OWN}.b64",
        "mbarrier.pending_count.b64",
    ]
    for pattern in patterns:
        for opcode, _ in opcodes(pattern):
            yield _scene(opcode)


_HEAD = (
    ".shared .align 8 .b64 object;",
    ".reg .pred %p;",
    ".reg .b32 %r;",
    ".reg .b64 %out, %state, %generic;",
    "ld.param.u64 %out, [out];",
    "mov.u64 %generic, object;",
    "cvta.shared.u64 %generic, %generic;",
)


def _kernel(number: int, members: list[Scene]) -> Kernel:
    lines, results, offset = list(_HEAD), [], 0
    for scene in members:
        start = offset
        for line in scene.lines:
            if line.startswith("OUT"):
                lines.append(f"st.global.b32 [%out+{offset}], {line.split()[1]};")
                offset += 4
            else:
                lines.append(line)
        lines.append("mbarrier.inval.shared.b64 [object];")
        assert offset - start == 4 * len(scene.expected), scene.opcode
        results.append(known(scene.opcode, "b32", start, 4, list(scene.expected)))
    lines.append("ret;")
    return Kernel(
        name=f"mbarrier_{number}",
        body="\n".join(lines),
        opcodes=frozenset(scene.opcode for scene in members),
        input=np.zeros(16, np.uint8),
        output=np.full(offset, 0xA5, np.uint8),
        results=results,
        block=1,
    )


def kernels() -> list[Kernel]:
    members = list(scenes())
    return [_kernel(start // _MOST, members[start : start + _MOST]) for start in range(0, len(members), _MOST)]
