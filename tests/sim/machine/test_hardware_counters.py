"""Counters against Nsight Compute on an H200: equal for every program that was recorded there.

``python tests/sim/machine/record_counters.py tests/sim/machine/data/ncu_h200.json`` records anew on a GPU.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.cupy._core.arguments import pack
from cudalab.sim.machine.memory import Memory
from cudalab.sim.machine.module import Module
from cudalab.sim.machine.sample import count_launch
from tests.sim.machine.counter_programs import Program, programs

RECORDED = json.loads((Path(__file__).parent / "data" / "ncu_h200.json").read_text())
PROGRAMS = {program.name: program for program in programs()}


@cache
def memory() -> Memory:
    return Memory(1 << 30)


def counted(program: Program) -> dict[str, float]:
    kernel = Module(compile(program.code), memory()).kernel("k")
    values = []
    for value in program.args:
        if isinstance(value, np.ndarray):
            address = memory().allocate(value.nbytes)
            memory().array(address, value.nbytes)[:] = value.reshape(-1).view(np.uint8)
            value = address
        values.append(value)
    args = pack("k", kernel.kernel.parameters, values, kernel.kernel.parameter_bytes)
    grid, block = (*program.grid, 1, 1)[:3], (*program.block, 1, 1)[:3]
    counts = count_launch(kernel, grid, block, args)
    assert counts.complete and counts.sampled == counts.blocks
    return {
        **counts.metrics,
        "atomic requests": counts.global_atomics.requests,
        "atomic sectors": counts.global_atomics.sectors,
    }


def expected(program: Program) -> dict[str, float]:
    found = RECORDED["counters"][program.name]
    names = [
        *(f"l1tex__t_{w}_pipe_lsu_mem_global_op_{op}.sum" for w in ("requests", "sectors") for op in ("ld", "st")),
        *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
        *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
    ]
    out = {name: found[name] for name in names}
    for word in ("requests", "sectors"):
        kinds = [f"l1tex__t_{word}_pipe_lsu_mem_global_op_{op}.sum" for op in ("atom", "red")]
        out[f"atomic {word}"] = sum(found[kind] for kind in kinds)
    return out


def test_every_program_was_recorded() -> None:
    assert list(RECORDED["counters"]) == list(PROGRAMS)
    assert "H200" in RECORDED["device"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_counters_equal_the_hardware_s(name: str) -> None:
    program = PROGRAMS[name]
    ours, theirs = counted(program), expected(program)
    different = {key: (ours[key], value) for key, value in theirs.items() if ours[key] != value}
    assert bool(different) == bool(program.unlike), different
