"""Write ``docs/evidence/counters.md``: the simulated device's counters beside Nsight Compute's, from the stored data.

python -m tests.sim.machine.counters.report_counters
"""

from __future__ import annotations

import statistics
from pathlib import Path

from tests.sim.machine.counters.hardware_counters import PROGRAMS, RECORDED, counted, counts_of, expected

REPORT = Path(__file__).parents[4] / "docs" / "evidence" / "counters.md"
_INSTRUCTIONS = "smsp__inst_executed.sum"
_SHOWN = (
    "load stride 1",
    "load of 16 bytes",
    "store stride 1",
    "shared load random",
    "shared load of 16 bytes random 0",
    "shared atomic bank",
    "transpose padded by 1",
    "column sum by columns",
    "lanes take turns",
    "ragged loops",
    "histogram",
    "reduction",
    "local array",
    "tiled matmul 256",
    "matmul with register tiles",
)


def text() -> str:
    """The document."""
    return "\n\n".join([_head(), _equal(), _merged(), _instructions()]) + "\n"


def _head() -> str:
    device = RECORDED["device"].replace(", ", ", driver ")
    return f"""# Counters against Nsight Compute

Nsight Compute (`ncu`) read these on {device}, {RECORDED["date"]}; the programs are in
`tests/sim/machine/counters/counter_programs.py`, each launched once.

    cd tests/sim/machine/counters && python record_counters.py data/ncu_h200.json    # on a GPU: renews the data
    python -m tests.sim.machine.counters.report_counters                             # anywhere: renews this page"""


def _equal() -> str:
    names = list(expected(PROGRAMS["load stride 0"]))
    rows = ["| metric | launches | of them not 0 | equal |", "| --- | ---: | ---: | ---: |"]
    for name in names:
        chosen = [program for program in PROGRAMS.values() if name in expected(program) and not program.unlike]
        values = [(counted(program)[name], expected(program)[name]) for program in chosen]
        equal, used = sum(ours == theirs for ours, theirs in values), sum(theirs != 0 for _, theirs in values)
        label = f"`{name}`" if "__" in name else f"global {name}, `op_atom` and `op_red` together"
        rows.append(f"| {label} | {len(values)} | {used} | {equal} |")
    unlike = [f"*{program.name}*: {program.unlike}." for program in PROGRAMS.values() if program.unlike]
    predicated = ", ".join(f"*{program.name}*" for program in PROGRAMS.values() if program.predicated)
    return "\n".join(
        [
            f"## What is equal\n\n{len(PROGRAMS)} launches.\n",
            *rows,
            "\nLeft out of all rows: " + " ".join(unlike),
            f"\nLeft out of the rows of `smsp__inst_executed_op_shared`: {predicated}, where the assembler switches "
            "shared accesses off by a predicate. An instruction that no lane executes counts as executed, and makes no "
            "wavefront.",
            "\nTheoretical occupancy, and its bounds by warps, blocks and registers, are equal in all launches.",
        ]
    )


def _merged() -> str:
    rows = [
        "| program | shared loads in the PTX | in the machine code | ncu | wavefronts | ncu |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in PROGRAMS:
        counts, found = counts_of(name), RECORDED["counters"][name]
        loads = counts.shared_loads
        if loads.requests_in_ptx != loads.requests:
            executed = found["smsp__inst_executed_op_shared_ld.sum"]
            turns = found["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]
            rows.append(
                f"| {name} | {loads.requests_in_ptx:,.0f} | {loads.requests:,.0f} | {executed:,.0f} "
                f"| {loads.wavefronts:,.0f} | {turns:,.0f} |"
            )
    return (
        "## What the assembler merges\n\nThe assembler makes one wide access of neighbouring ones to shared memory. "
        "Which, is read from the machine code that NVRTC makes beside the PTX (`compiler/cubin.py`).\n\n"
        + "\n".join(rows)
    )


def _instructions() -> str:
    ratios = {}
    for name in PROGRAMS:
        ratios[name] = counts_of(name).instructions / RECORDED["counters"][name][_INSTRUCTIONS]
    values = sorted(ratios.values())
    cuts = statistics.quantiles(values, n=10)
    low, high = min(ratios, key=lambda name: ratios[name]), max(ratios, key=lambda name: ratios[name])
    rows = ["| program | PTX | machine, ncu | PTX over machine |", "| --- | ---: | ---: | ---: |"]
    for name in _SHOWN:
        ours, theirs = counts_of(name).instructions, RECORDED["counters"][name][_INSTRUCTIONS]
        rows.append(f"| {name} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |")
    return (
        "## What is not equal: instructions\n\n`cudalab.profile` counts PTX instructions that warps execute, `ncu` "
        f"machine instructions. PTX over machine: median {statistics.median(values):.2f}, four fifths of the launches "
        f"between {cuts[0]:.2f} and {cuts[-1]:.2f}, smallest {ratios[low]:.2f} ({low}), largest "
        f"{ratios[high]:.2f} ({high}). The assembler drops moves and parameter loads, unrolls loops further, "
        "merges accesses, and predicates short branches.\n\n" + "\n".join(rows)
    )


if __name__ == "__main__":
    REPORT.write_text(text())
