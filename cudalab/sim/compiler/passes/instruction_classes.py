"""Timing class of each PTX instruction.

``device.pipes`` has the pipe and the latency of each class. A class has one latency, whichever pipe consumes the
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cudalab.sim.compiler.ptx.nodes import Instruction, Register, Special, Symbol

#: Device functions that allocate and free memory.
HEAP_FUNCTIONS = frozenset({"malloc", "free", "__cuda_syscall_aligned_malloc"})
GRAPH_LAUNCH = "cudaGraphLaunch"
_APPROXIMATE = ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt")
_COUNTING = ("popc", "clz", "brev", "bfind", "fns")
_WARP = ("shfl", "vote", "match", "activemask", "redux")
_CLUSTER = "shared::cluster"
_FLOATS = ("f32", "f16", "f16x2", "bf16", "bf16x2", "f32x2")
#: Opcodes that issue to the integer pipe with the latency of ``xor``; "long" where they take 64 bits. One that is in no
#: list here counts as one of these.
LOGIC = frozenset(
    """
    abs add addc alloca and applypriority bfe bfi bmsk brkpt call cnot copysign createpolicy cudalab cvt
    discard dp2a dp4a elect getctarank griddepcontrol lop3 madc mapa max mbarrier min mov neg not or pmevent
    prefetch prefetchu prmt sad selp set setmaxnreg setp shf shl shr slct stackrestore stacksave sub subc suq
    szext testp txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin
    vmin2 vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4 xor
    """.split()
)


def classify(instruction: Instruction) -> str:
    """The class of an instruction."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode.startswith("mov"):
        return _move(operands[-1])
    if opcode.startswith("call"):
        return "heap" if any(type(each) is Symbol and each.name in HEAP_FUNCTIONS for each in operands) else "branch"
    kind = _class_of(opcode)
    return "named_barrier" if kind == "barrier" and _is_named(opcode, operands) else kind


@lru_cache(1 << 12)
def _class_of(opcode: str) -> str:
    """The class determined by the opcode alone."""
    head, *rest = opcode.split(".")
    kind = rest[-1] if rest else ""
    space = next((part for part in rest if part in ("param", "shared", "const", "local", "global")), "")
    match head:
        case "ld" | "ldu":
            if _CLUSTER in rest:
                return "cluster_load"
            return {"param": "free", "shared": "shared_load", "const": "constant_load"}.get(space, "load")
        case "tex" | "tld4" | "suld":
            return "load"
        case "sust" | "sured":
            return "store"
        case "st" | "red" if _CLUSTER in rest:
            return "cluster_store"
        case "atom" if _CLUSTER in rest:
            return "cluster_atomic"
        case "st":
            return "shared_store" if space == "shared" else "store"
        case "atom" | "red":
            return "shared_atomic" if space == "shared" else "atomic" if head == "atom" else "store"
        case "cp":
            return _asynchronous(rest)
        case "mbarrier":
            if rest[0] in ("try_wait", "test_wait"):
                return "object_wait"
            return {"init": "shared_store", "inval": "shared_store", "pending_count": "logic"}.get(
                rest[0], "object_arrive"
            )
        case "nanosleep":
            return "sleep"
        case "barrier" if "cluster" in rest:
            return "cluster_barrier" if "wait" in rest else "shared_store"
        case "mapa" | "getctarank":
            return "logic"
        case "bar" | "barrier":
            if "arrive" in rest:
                return "shared_store"
            return "shuffle" if "warp" in rest else "barrier"
        case "membar" | "fence":
            return "fence"
        case "bra" | "brx" | "ret" | "exit" | "trap":
            return "branch"
        case "cvta" | "isspacep":
            return "free"
        case "cvt":
            return _conversion(rest)
    if head in _WARP:
        return "shuffle"
    if head in _COUNTING or head in _APPROXIMATE:
        return "special"
    return _arithmetic(head, rest, kind)


def _arithmetic(head: str, rest: Sequence[str], kind: str) -> str:
    if head in ("neg", "abs") and kind in ("f32", "f64"):
        return "free"
    if head in ("div", "rem"):
        if kind == "f32":
            return "divide_float" if "rn" in rest else "special"
        return "divide_double" if kind == "f64" else "divide_unsigned" if kind in ("u16", "u32") else "divide_integer"
    if head in ("sqrt", "rcp"):
        if kind == "f64":
            return "divide_double"
        return "special" if "approx" in rest else "root_float"
    if kind == "f64":
        return "double"
    if head in ("add", "sub", "mul", "fma", "mad") and kind in _FLOATS:
        return "float"
    if head in ("mul", "mad", "mul24", "mad24"):
        return "multiply_long" if kind.endswith("64") and "wide" not in rest else "multiply"
    if head in ("add", "sub", "addc", "subc") and not kind.endswith("64"):
        return "add"
    return "long" if kind.endswith("64") and head not in ("setp", "selp") else "logic"


def _move(source: Any) -> str:
    name = source.name if type(source) is Special else ""
    if name.startswith(("%clock", "%globaltimer")):
        return "clock"
    return "register" if name.startswith(("%tid", "%ctaid", "%laneid")) else "free"


def _asynchronous(parts: Sequence[str]) -> str:
    """The class of ``cp.async``, ``cp.async.bulk`` and ``cp.reduce.async.bulk``, by what follows ``cp``."""
    if "commit_group" in parts:
        return "async_commit"
    if "wait_group" in parts or "wait_all" in parts:
        return "async_wait"
    if "mbarrier" in parts[:2]:
        return "async_arrive"
    if "bulk" not in parts:
        return "async_copy"
    if "prefetch" in parts:
        return "store"
    to_shared = next((part for part in parts if part.startswith(("shared", "global"))), "").startswith("shared")
    return "bulk_copy" if to_shared else "bulk_store"


def _is_named(opcode: str, operands: Sequence[Any]) -> bool:
    """Whether it is a barrier of part of the block, or one whose number is in a register. ``bar.red`` of the whole
    block has a result, its number and a predicate."""
    if ".red" in opcode:
        return len(operands) > 3
    return len(operands) > 1 or bool(operands) and type(operands[0]) is Register


def _conversion(parts: Sequence[str]) -> str:
    source, target = parts[-1], parts[-2]
    if not any(name in ("f16", "f32", "f64") for name in (source, target)):
        return "logic" if target == "s64" and source == "s32" else "free"
    return "convert_double" if "f64" in (source, target) else "convert"
