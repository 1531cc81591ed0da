"""What Nsight Compute reads for each held-out launch: instructions, pipes, cycles, traffic.

    python -m bench.fidelity.held_out.hardware OUTPUT.json

runs itself under ``ncu`` on a machine with a GPU. Caches and clocks are left alone, and each launch is made twice, of
which the second counts: so what may lie in the L2 does.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.fidelity.catalogue import catalogue
from bench.fidelity.laboratory import Laboratory

_PIPES = ("alu", "fma", "fmaheavy", "fp64", "xu", "lsu", "cbu", "adu", "uniform", "fp16")
_ACCESSES = (
    *(f"global_{kind}" for kind in ("ld", "st", "atom", "red")),
    *(f"shared_{kind}" for kind in ("ld", "st", "atom")),
    *(f"local_{kind}" for kind in ("ld", "st")),
)
METRICS = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_active.sum",
    "smsp__inst_executed.sum",
    "smsp__inst_issued.sum",
    "smsp__thread_inst_executed.sum",
    *(f"smsp__inst_executed_op_{access}.sum" for access in _ACCESSES),
    *(f"smsp__inst_executed_pipe_{pipe}.sum" for pipe in _PIPES),
    "smsp__warps_launched.sum",
    "smsp__cycles_active.sum",
    "smsp__warps_active.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_read_lookup_hit.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_sectors_op_red.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "launch__registers_per_thread",
)


class _Launches(Laboratory):
    """Makes each launch twice and measures nothing."""

    def kernel(
        self, topic: str, name: str, grid: Sequence[int] | int, block: Sequence[int] | int, *args: Any, shared: int = 0
    ) -> float:
        kernel = self.large_shared(topic, name, shared) if shared > 48 << 10 else self.kernel_of(topic, name)
        sizes = ((size,) if isinstance(size, int) else tuple(size) for size in (grid, block))
        grid_, block_ = sizes
        for _ in range(2):
            kernel(grid_, block_, args, shared_mem=shared)
        return 0.0


def launch_all() -> list[str]:
    """Launch everything; the names of experiment and variant, in order."""
    laboratory = _Launches()
    return [f"{each.name}: {variant}" for each in catalogue(held_out=True) for variant in each.run(laboratory)]


def kernel_names() -> list[str]:
    """The kernels of the held-out sources, as ncu takes them."""
    sources = Path(__file__).parent.parent / "kernels"
    text = "".join(path.read_text(encoding="utf-8") for path in sources.glob("held_out_*.cu"))
    return [part.split("(")[0].strip() for part in text.split("__global__ void ")[1:]]


def read_csv(text: str) -> list[dict[str, float]]:
    """One dictionary of metrics for each launch."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines[start:]):
        value = row["Metric Value"].replace(",", "")
        if value not in ("", "n/a"):
            found.setdefault(row["ID"], {})[row["Metric Name"]] = float(value)
    return [found[key] for key in sorted(found, key=int)]


def main(output: str) -> None:
    names_file = Path(output).with_suffix(".names")
    command = ["ncu", "--csv", "--kernel-name", f"regex:^({'|'.join(kernel_names())})$", "--print-units", "base"]
    command += ["--cache-control", "none", "--clock-control", "none", "--metrics", ",".join(METRICS)]
    command += [sys.executable, "-m", "bench.fidelity.held_out.hardware", "--launch", str(names_file)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"CUDALAB_DEVICE": "gpu"}
    )
    counters = read_csv(done.stdout)[1::2]
    names = json.loads(names_file.read_text())
    names_file.unlink()
    if len(counters) != len(names):
        sys.exit(f"ncu read {len(counters)} launches of {len(names)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(smi, capture_output=True, text=True, check=True).stdout.strip()
    data = {
        "device": device,
        "date": datetime.date.today().isoformat(),
        "counters": dict(zip(names, counters, strict=True)),
    }
    Path(output).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        Path(sys.argv[2]).write_text(json.dumps(launch_all()))
    else:
        main(sys.argv[1])
