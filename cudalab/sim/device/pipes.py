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
    "cluster_barrier": ("cluster_barrier", "", "", 1.0),
    "cluster_load": ("cluster_load", "", "", 1.0),
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
            if "shared::cluster" in rest:
                return "cluster_load"
            return {"param": "free", "shared": "shared_load", "const": "constant_load"}.get(space, "load")
        case "tex" | "tld4" | "suld":
            return "load"
        case "sust":
            return "store"
        case "st":
            return "shared_store" if space == "shared" else "store"
        case "atom" | "red":
            return "shared_atomic" if space == "shared" else "atomic" if head == "atom" else "store"
        case "cp":  # an asynchronous copy; its commit and its wait are one machine instruction each
            return "load" if operands.startswith("[") and "mbarrier" not in rest[:2] else "logic"
        case "mbarrier":
            waits = rest[:1] in (["try_wait"], ["test_wait"])
            return "barrier" if waits else "shared_store" if rest[:1] in (["init"], ["inval"]) else "shared_atomic"
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
