"""Read the counters of ``counter_programs.py`` with Nsight Compute, on a machine with a GPU.

    python tests/sim/machine/counters/record_counters.py OUTPUT.json

runs itself under ``ncu`` and writes, for each program, the metrics that ``cudalab.profile`` claims to equal.
"""

from __future__ import annotations

import csv
import datetime
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from counter_programs import programs  # noqa: E402

_ACCESSES = ["global_op_ld", "global_op_st", "local_op_ld", "local_op_st", "global_op_atom", "global_op_red"]
METRICS = [
    *(f"l1tex__t_{what}_pipe_lsu_mem_{kind}.sum" for what in ("requests", "sectors") for kind in _ACCESSES),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
    *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
    *(f"smsp__inst_executed_op_shared_{op}.sum" for op in ("ld", "st", "atom")),
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__sass_branch_targets.sum",
    "smsp__sass_branch_targets_threads_divergent.sum",
    "smsp__sass_branch_targets_threads_uniform.sum",
    "launch__registers_per_thread",
    *(f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "shared_mem", "warps")),
    "sm__maximum_warps_per_active_cycle_pct",
]


def launch_all() -> None:
    """Launch each program once, in order."""
    import cupy as cp

    for program in programs():
        kernel = cp.RawKernel(program.code, "k")
        arguments = tuple(cp.asarray(a) if isinstance(a, np.ndarray) else a for a in program.args)
        kernel(program.grid, program.block, arguments)
    cp.cuda.Device().synchronize()


def read_csv(text: str) -> list[dict[str, float]]:
    """One dictionary of metrics for each launch of ``k``."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines[start:]):
        value = row["Metric Value"].replace(",", "")
        if row["Metric Name"] in METRICS and value not in ("", "n/a"):
            found.setdefault(row["ID"], {})[row["Metric Name"]] = float(value)
    return [found[key] for key in sorted(found, key=int)]


def main(output: str) -> None:
    command = ["ncu", "--csv", "--kernel-name", "k", "--cache-control", "none", "--clock-control", "none"]
    command += ["--metrics", ",".join(METRICS), sys.executable, __file__, "--launch"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500)
    counters = read_csv(run.stdout)
    names = [program.name for program in programs()]
    if len(counters) != len(names):
        sys.exit(f"ncu read {len(counters)} launches of {len(names)}:\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}")
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(smi, capture_output=True, text=True).stdout.strip()
    data = {
        "device": device,
        "date": datetime.date.today().isoformat(),
        "counters": dict(zip(names, counters, strict=True)),
    }
    Path(output).write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        launch_all()
    else:
        main(sys.argv[1])
