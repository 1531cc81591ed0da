"""Errors in PTX: invalid syntax, and instructions that the simulated device does not support."""

from __future__ import annotations

from cudalab.sim.compiler.program import Location


class PtxError(Exception):
    """PTX that cannot be translated. ``location`` is the learner's line where it is known."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        where = f"{location.file}:{location.line}: " if location is not None and location.line else ""
        super().__init__(where + message)
        self.location = location


class PtxSyntaxError(PtxError):
    """Text that is not PTX. ``line`` is the line of the PTX."""

    def __init__(self, message: str, line: int, location: Location | None = None) -> None:
        super().__init__(f"PTX line {line}: {message}", location)
        self.line = line


class UnsupportedInstruction(PtxError):
    """An opcode, modifier or construct outside the scope of the simulated device."""

    def __init__(self, opcode: str, advice: str, location: Location | None = None) -> None:
        super().__init__(f"the simulated device does not execute `{opcode}`: {advice}", location)
        self.opcode = opcode
        self.advice = advice
