"""Exclusion of kernels that use tensor cores or tensor maps from an otherwise supported module.

A source file often has both tensor core kernels and plain ones. The plain kernels are compiled; for the others the
program keeps the reason of refusal, and reports it on lookup. A module without plain kernels does not compile.
"""

from __future__ import annotations

from msgspec.structs import replace

from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.passes.inlining import CallGraph
from cudalab.sim.compiler.ptx import scope
from cudalab.sim.compiler.ptx.errors import UnsupportedInstruction
from cudalab.sim.compiler.ptx.nodes import Function, Instruction, Module


def set_aside(module: Module) -> tuple[Module, dict[str, str]]:
    """The module without such kernels, and why each is refused; the module itself where that would leave none."""
    found = {name: error for name, function in module.functions.items() if (error := _refused(function)) is not None}
    if not found:
        return module, {}
    graph = CallGraph(module)
    why: dict[str, str] = {}
    for kernel in module.kernels:
        error = next((found[name] for name in (kernel.name, *graph.reached_from(kernel.name)) if name in found), None)
        if error is not None:
            why[kernel.name] = _text(error)
    if len(why) == len(module.kernels):
        return module, {}
    return replace(module, functions={n: f for n, f in module.functions.items() if n not in why}), why


def _text(error: UnsupportedInstruction) -> str:
    message, place = str(error), error.location
    if place is None:
        return message
    message = message.removeprefix(f"{place.file}:{place.line}: ")
    place = place.in_source()
    return f"{place.file}:{place.line}: {message}"


def _refused(function: Function) -> UnsupportedInstruction | None:
    for statement in function.body or ():
        if isinstance(statement, Instruction) and TABLE.find(statement.opcode) is None:
            advice = scope.refusal(statement.opcode)
            if advice in (scope.TENSOR, scope.MAPS):
                return UnsupportedInstruction(statement.opcode, advice, statement.location)
    return None
