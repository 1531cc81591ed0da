"""One instruction on registers: its PTX, the types of its operands and a model of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.sim.compiler.opcodes.kernel import Tolerance

_SLOT = re.compile(r"\[\.?([^\]]+)\]|<([^>]+)>|([^.\[\]<>]+)")


@dataclass(frozen=True, eq=False)
class Case:
    """An instruction and what it does to one vector of operands.

    Args:
        opcode: as in the PTX.
        results: types of what it writes, ``"u32"`` or ``"u32 pred"``.
        operands: types of the registers that it reads, likewise.
        model: bits of the operands → bits of the result (or a tuple of them); see ``kernel.Output.expected``.
        body: the PTX, with ``{d0}`` … for results and ``{a0}`` … for operands; by default the opcode with all results
            and operands in order.
        tolerance: of approximate instructions.
        unlike: an H200 gives something else for some operands; the ISA's text is followed.
        recorded: False for what assemblers for GPUs do not take, though the simulated device does.
    """

    opcode: str
    results: str
    operands: str
    model: Callable[..., Any]
    body: str = ""
    tolerance: Tolerance | None = None
    recorded: bool = True
    unlike: bool = False

    @property
    def result_types(self) -> tuple[str, ...]:
        return tuple(self.results.split())

    @property
    def operand_types(self) -> tuple[str, ...]:
        return tuple(self.operands.split())

    def ptx(self, results: list[str], operands: list[str]) -> str:
        """The instruction on these registers."""
        if not self.body:
            return f"{self.opcode} {', '.join([*results, *operands])};"
        names = {f"d{number}": register for number, register in enumerate(results)}
        names |= {f"a{number}": register for number, register in enumerate(operands)}
        return re.sub(r"\{([ad]\d)\}", lambda match: names[match[1]], self.body)


def opcodes(pattern: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """All opcodes of a pattern such as ``add[.rn|rz][.ftz].f32``, each with the choices made in its slots."""
    choices = []
    for optional, required, plain in _SLOT.findall(pattern):
        if optional:
            choices.append(["", *optional.split("|")])
        else:
            choices.append((required or plain).split("|"))
    for chosen in itertools.product(*choices):
        yield ".".join(token for token in chosen if token), chosen
