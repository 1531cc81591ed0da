"""The pipe, issue cycles and latency of each class of PTX instructions.

A scheduler of an SM issues one warp instruction a cycle, to one of its pipes: floats (and integer multiplication),
integers and logic, doubles, special functions (CUDA C++ Programming Guide, "Arithmetic Instructions"). Some PTX
instructions, divisions and roots, are sequences of machine instructions.

What is simplified: a class has one latency, whichever pipe consumes the result. A learner would notice in long
dependency chains of mixed integer operations, which take up to a fifth longer or shorter.
"""

from __future__ import annotations

from collections.abc import Mapping

from cudalab.sim.compiler.passes.timing.timed_code import UNROLL

Constants = Mapping[str, float]

# class (``compiler.passes.instruction_classes``): (latency constant, pipe, cycles constant of the pipe, machine
# instructions)
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
TICK = 16
"""ns between two reads of the clock in the simulated machine: a loop that waits for the clock takes as long as it
says."""
PIPES = ("float", "integer", "either", "double", "special", "issue")


def in_kernel_latencies(c: Constants) -> dict[str, float]:
    """What each class of instructions takes, in cycles, without contention, for clocks that a kernel reads
    (``compiler.passes.timing.clocks``)."""
    clock, l1 = c["clock"], c["l1_latency"] * c["clock"]
    special = {
        "load": l1,
        "atomic": c["atomic_latency"] * clock,
        "clock": TICK * clock,
        "barrier": c["barrier"] * clock,
        "named_barrier": c["barrier"] * clock + c["barrier_number"],
        "grid_arrive": c["grid_barrier"] * clock,
        "async_copy": c["l2_latency"] * clock,
        "bulk_copy": c["l2_latency"] * clock,
        "heap": c["heap_latency"] * clock,
        "sleep": c["sleep_least"] * clock,
    }
    names = {kind: name for kind, (name, *_) in CLASSES.items()}
    found = {kind: special[name] if name in special else c.get(name, 0.0) for kind, name in names.items()}
    found["branch"] = c["branch"]
    found["repeat"] = c["branch"] / UNROLL
    found["miss"] = c["l2_latency"] * clock - l1
    found["miss_l2"] = c["dram_latency"] * clock - l1
    found["wavefront"] = c["shared_wavefront"]
    return found


def pipe_cycles(kinds: Mapping[str, float], c: Constants) -> dict[str, float]:
    """Cycles of each pipe of a scheduler that the instructions take; ``issue`` is the scheduler itself."""
    taken = dict.fromkeys(PIPES, 0.0)
    for kind, count in kinds.items():
        _, pipe, cycles, machine = CLASSES[kind]
        taken["issue"] += count * machine
        if pipe:
            taken[pipe] += count * c[cycles]
    # additions go to the less loaded of the float and integer pipes
    both = taken["float"] + taken["integer"] + taken.pop("either")
    taken["integer"] = max(taken["integer"], min(both / 2, both - taken["float"]))
    taken["float"] = both - taken["integer"]
    return taken
