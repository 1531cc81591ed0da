"""Dynamic stack allocation: ``alloca``, ``stacksave``, ``stackrestore``.

A function's local variables have fixed offsets in its frame, and a callee's frame follows it. In functions that use
``alloca`` this pass adds an explicit stack pointer: a register that is initialised to the end of the frame
(``stacksave`` as the first instruction), advanced by ``alloca``, and passed to callees as the start of their frames.
Being a register, it survives suspension.

NVRTC emits none of these; inline PTX may. Such kernels, and recursive ones, have ``Kernel.dynamic_stack``: their
threads get the device's stack limit (``cudaLimitStackSize``), or ``local_bytes`` where that is more.
"""

from __future__ import annotations

from msgspec.structs import replace

from cudalab.sim.compiler.ptx.nodes import Function, Immediate, Instruction, Label, Vector

_OPCODES = ("alloca", "stacksave", "stackrestore")


def moves_stack(function: Function) -> bool:
    """Whether the function uses one of these instructions."""
    return any(isinstance(each, Instruction) and each.opcode.startswith(_OPCODES) for each in function.body or ())


def track_stack(function: Function) -> Function:
    """``function`` with an explicit stack pointer where it needs one: the last operand of each call and of each
    ``alloca``, which also defines it."""
    if not moves_stack(function):
        return function
    result = replace(function, registers=list(function.registers))
    pointer = result.new_register("u64")
    body: list[Label | Instruction] = []
    assert function.body is not None
    for number, each in enumerate(function.body):
        if not number:
            body.append(Instruction("stacksave.u64", (pointer,), 0, function.location))
        if isinstance(each, Label) or not each.opcode.startswith((*_OPCODES, "call")):
            body.append(each)
            continue
        name, *types = each.opcode.split(".")
        opcode, operands = each.opcode, (*each.operands, pointer)
        if name == "alloca":
            target, size, *alignment = each.operands
            operands = (Vector((target, pointer)), size, alignment[0] if alignment else Immediate(8), pointer)
        elif name in ("stacksave", "stackrestore"):
            wide = "u64" in types
            forward = (each.operands[0], pointer) if name == "stacksave" else (pointer, each.operands[0])
            widths = ("u32", "u64") if name == "stacksave" else ("u64", "u32")
            opcode, operands = ("mov.u64" if wide else f"cvt.{'.'.join(widths)}"), forward
        body.append(Instruction(opcode, operands, each.line, each.location, each.guard, each.negated))
    result.body = body
    return result
