"""Which pipe of an SM a PTX instruction takes, for how long, and after how many cycles its result is there.

A scheduler of an SM issues one instruction of a warp a cycle, to a pipe: for floats (also integer multiplication), for
integers and logic, for doubles, for special functions (CUDA C++ Programming Guide, "Arithmetic Instructions"). Some PTX
instructions are many machine instructions: divisions and roots.

What is simplified: a class of instructions has one latency, whatever pipe the result goes to. A learner would notice in
long chains of mixed integer operations, which take up to a fifth longer or shorter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Constants = Mapping[str, float]

# class: (latency constant, pipe, cycles constant of the pipe, machine instructions)
CLASSES: dict[str, tuple[str, str, str, float]] = {
    "free": ("", "", "", 0.0),
    "float": ("latency_float", "", "", 1.0),
    "multiply": ("latency_float", "float", "cycles_integer", 1.0),
    "multiply_long": ("latency_multiply_long", "float", "cycles_multiply_long", 4.0),
    "add": ("latency_integer", "either", "cycles_integer", 1.0),
    "logic": ("latency_integer", "integer", "cycles_integer", 1.0),
    "long": ("latency_integer", "integer", "cycles_long", 2.0),
    "double": ("latency_double", "double", "cycles_double", 1.0),
    "special": ("latency_special", "special", "cycles_special", 1.0),
    "convert": ("latency_convert", "special", "cycles_convert", 1.0),
    "convert_double": ("latency_special", "special", "cycles_special", 1.0),
    "divide_float": ("latency_divide_float", "issue", "cycles_divide_float", 0.0),
    "root_float": ("latency_divide_float", "issue", "cycles_root_float", 0.0),
    "divide_unsigned": ("latency_divide_unsigned", "issue", "cycles_divide_unsigned", 0.0),
    "divide_integer": ("latency_divide_integer", "issue", "cycles_divide_integer", 0.0),
    "divide_double": ("latency_divide_double", "issue", "cycles_divide_double", 0.0),
    "register": ("latency_special", "", "", 1.0),
    "clock": ("clock", "", "", 1.0),
    "shuffle": ("latency_shuffle", "", "", 1.0),
    "load": ("load", "", "", 1.0),
    "shared_load": ("latency_shared", "", "", 1.0),
    "constant_load": ("latency_shared", "", "", 1.0),
    "shared_atomic": ("latency_shared", "", "", 1.0),
    "atomic": ("atomic", "", "", 1.0),
    "store": ("", "", "", 1.0),
    "shared_store": ("", "", "", 1.0),
    "barrier": ("barrier", "", "", 1.0),
    "named_barrier": ("named_barrier", "", "", 1.0),
    "object_arrive": ("latency_shared", "", "", 1.0),
    "object_wait": ("object_wait", "", "", 1.0),
    "cluster_barrier": ("cluster_barrier", "", "", 1.0),
    "cluster_load": ("cluster_load", "", "", 1.0),
    "cluster_atomic": ("cluster_atomic", "", "", 1.0),
    "cluster_store": ("", "", "", 1.0),
    "grid_arrive": ("grid_arrive", "", "", 1.0),
    "grid_look": ("", "", "", 1.0),
    "async_copy": ("async_copy", "", "", 1.0),
    "async_commit": ("", "", "", 1.0),
    "async_arrive": ("", "", "", 1.0),
    "async_wait": ("", "", "", 1.0),
    "bulk_copy": ("bulk_copy", "", "", 1.0),
    "bulk_store": ("bulk_store", "", "", 1.0),
    "heap": ("heap", "", "", 1.0),
    "sleep": ("sleep", "", "", 1.0),
    "fence": ("atomic", "", "", 1.0),
    "branch": ("", "", "", 1.0),
}
PIPES = ("float", "integer", "either", "double", "special", "issue")

_APPROXIMATE = ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt")
_COUNTING = ("popc", "clz", "brev", "bfind", "fns")
_WARP = ("shfl", "vote", "match", "activemask", "redux")


def classify(opcode: str, operands: str) -> str:
    """The class of a PTX instruction."""
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
        case "sust":
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
            return "shuffle" if "warp" in rest else "named_barrier" if _is_named(rest, operands) else "barrier"
        case "membar" | "fence":
            return "fence"
        case "call" if re.search(r"\b(malloc|free|__cuda_syscall_aligned_malloc)\b", operands):
            return "heap"
        case "bra" | "brx" | "ret" | "exit" | "call" | "trap":
            return "branch"
        case "mov":
            if re.search(r"%(clock|globaltimer)", operands):
                return "clock"
            return "register" if re.search(r"%(tid|ctaid|laneid)", operands) else "free"
        case "cvta" | "isspacep":
            return "free"
        case "cvt":
            return _conversion(rest)
    if head in _WARP:
        return "shuffle"
    if head in _COUNTING or head in _APPROXIMATE:
        return "special"
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
    if head in ("add", "sub", "mul", "fma", "mad") and kind in ("f32", "f16", "f16x2", "bf16", "bf16x2"):
        return "float"
    if head in ("mul", "mad"):
        return "multiply_long" if kind.endswith("64") and "wide" not in rest else "multiply"
    if head in ("add", "sub", "addc", "subc") and not kind.endswith("64"):
        return "add"
    return "long" if kind.endswith("64") and head not in ("setp", "selp") else "logic"


_CLUSTER = "shared::cluster"


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


def _is_named(parts: Sequence[str], operands: str) -> bool:
    """Is it a barrier of a part of the block, or one whose number stands in a register? ``bar.red`` of the whole block
    has a result, its number and a predicate."""
    names = [name.strip() for name in operands.split(",")]
    if "red" in parts:
        return len(names) > 3
    return len(names) > 1 or names[0].startswith("%")


def _conversion(parts: Sequence[str]) -> str:
    source, target = parts[-1], parts[-2]
    floats = sum(
        name[0] in "fb" and name[1:] in ("16", "32", "64", "f16") and name[0] == "f" for name in (source, target)
    )
    if not floats:
        return "logic" if target == "s64" and source == "s32" else "free"
    return "convert_double" if "f64" in (source, target) else "convert"


def pipe_cycles(kinds: Mapping[str, float], c: Constants) -> dict[str, float]:
    """Cycles of a scheduler that the instructions take of each pipe; ``issue`` is the scheduler itself."""
    taken = dict.fromkeys(PIPES, 0.0)
    for kind, count in kinds.items():
        _, pipe, cycles, machine = CLASSES[kind]
        taken["issue"] += count * machine
        if pipe:
            taken[pipe] += count * c[cycles]
    # additions go where there is room: to the pipe of floats or to that of integers
    both = taken["float"] + taken["integer"] + taken.pop("either")
    taken["integer"] = max(taken["integer"], min(both / 2, both - taken["float"]))
    taken["float"] = both - taken["integer"]
    return taken
