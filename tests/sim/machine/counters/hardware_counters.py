"""What Nsight Compute read for the programs of ``counter_programs.py``, and what the simulated device counts for them.

``python tests/sim/machine/counters/record_counters.py FILE`` records anew on a GPU (``data/ncu_h200.json``).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from cudalab.sim.compiler import compile
from cudalab.sim.cupy.cuda._arguments import pack
from cudalab.sim.machine.counters.metrics import Counts
from cudalab.sim.machine.counters.sampling import count_launch
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS
from tests.sim.machine.counters.counter_programs import Program, programs

RECORDED = json.loads((Path(__file__).parent / "data" / "ncu_h200.json").read_text())
PROGRAMS = {program.name: program for program in programs()}


@cache
def memory() -> Memory:
    return Memory(1 << 30)


@cache
def counts_of(name: str) -> Counts:
    """Counters of one program, by name."""
    program = PROGRAMS[name]
    kernel = Module(compile(program.code), memory(), LIMITS).kernel("k")
    values = []
    for value in program.args:
        if isinstance(value, np.ndarray):
            address = memory().allocate(value.nbytes)
            memory().array(address, value.nbytes)[:] = value.reshape(-1).view(np.uint8)
            value = address
        values.append(value)
    args = pack("k", kernel.kernel.parameters, values, kernel.kernel.parameter_bytes)
    grid, block = (*program.grid, 1, 1)[:3], (*program.block, 1, 1)[:3]
    total = grid[0] * grid[1] * grid[2]
    counts = count_launch(kernel.launch(grid, block, args), blocks=program.blocks or total)
    assert counts.complete and counts.sampled == (program.blocks or total)
    return counts


def counted(program: Program) -> dict[str, float]:
    """Our counters under Nsight Compute's names."""
    counts = counts_of(program.name)
    return {
        **counts.metrics,
        "atomic requests": counts.global_atomics.requests,
        "atomic sectors": counts.global_atomics.sectors,
    }


def expected(program: Program) -> dict[str, float]:
    """Those of Nsight Compute's counters that ours must equal."""
    found = RECORDED["counters"][program.name]
    names = [
        *(f"l1tex__t_{w}_pipe_lsu_mem_global_op_{op}.sum" for w in ("requests", "sectors") for op in ("ld", "st")),
        *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
        *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
        *(f"smsp__inst_executed_op_shared_{op}.sum" for op in ("ld", "st", "atom") if not program.predicated),
    ]
    out = {name: found[name] for name in names}
    for word in ("requests", "sectors"):
        kinds = [f"l1tex__t_{word}_pipe_lsu_mem_global_op_{op}.sum" for op in ("atom", "red")]
        out[f"atomic {word}"] = sum(found[kind] for kind in kinds)
    return out
