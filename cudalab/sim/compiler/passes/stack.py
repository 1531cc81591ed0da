"""``alloca``, ``stacksave``, ``stackrestore``: memory on a thread's stack whose size is known only when it runs.

A function's local variables have fixed places in its frame, and the frame of a called function begins behind it. In
functions that also allocate by ``alloca``, where free memory begins is a value of its own: a register that this pass
adds, which begins behind the frame (``stacksave`` as the first instruction), which ``alloca`` moves on, and from which
frames of called functions count. As a register it outlasts waits.

NVRTC writes none of these; inline PTX may. Such kernels, and recursive ones, have ``Kernel.dynamic_stack``: their
threads get the device's stack limit (``cudaLimitStackSize``), or ``local_bytes`` where that is more.
"""

from __future__ import annotations

from dataclasses import replace

from cudalab.sim.compiler.ptx.nodes import Function, Immediate, Instruction, Label, Vector

_OPCODES = ("alloca", "stacksave", "stackrestore")


def moves_stack(function: Function) -> bool:
    """Does the function use one of these instructions?"""
    return any(isinstance(each, Instruction) and each.opcode.startswith(_OPCODES) for each in function.body or ())


def track_stack(function: Function) -> Function:
    """``function`` with its stack pointer as a register, where it needs one: the last operand of each ``alloca``, also
    among what that writes, and of each call."""
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
