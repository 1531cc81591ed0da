"""What Nsight Compute reads for each held-out launch: instructions, pipes, cycles, traffic.

    python -m bench.fidelity.held_out.hardware OUTPUT.json [--held-out SET] [--instructions] [--seconds 90]

runs itself under ``ncu`` on a machine with a GPU. Caches and clocks are left alone, and each launch is made twice, of
which the second counts: so what may lie in the L2 does. Executed instructions alone (``--instructions``), which do not
depend on caches, take one launch and few passes. With ``--seconds`` no launch begins later than that; the topics take
turns, so that each has its part of those that did.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from bench.fidelity.catalogue import HELD_OUT, HeldOut, catalogue
from bench.fidelity.experiment import Experiment
from bench.fidelity.laboratory import Laboratory

_PIPES = ("alu", "fma", "fmaheavy", "fp64", "xu", "lsu", "cbu", "adu", "uniform", "fp16")
_ACCESSES = (
    *(f"global_{kind}" for kind in ("ld", "st", "atom", "red")),
    *(f"shared_{kind}" for kind in ("ld", "st", "atom")),
    *(f"local_{kind}" for kind in ("ld", "st")),
)
INSTRUCTIONS = (
    "smsp__inst_executed.sum",
    *(f"smsp__inst_executed_op_{access}.sum" for access in _ACCESSES),
)
METRICS = (
    *INSTRUCTIONS,
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_active.sum",
    "smsp__inst_issued.sum",
    "smsp__thread_inst_executed.sum",
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


_SOURCES = {"second": "held_out_*.cu", "third": "third_*.cu"}


class _TimeIsUp(Exception):
    """The next launch would begin too late."""


class _Launches(Laboratory):
    """Makes each launch so many times and measures nothing."""

    def __init__(self, times: int, seconds: float) -> None:
        super().__init__()
        self._times, self._end = times, time.monotonic() + seconds

    def kernel(
        self, topic: str, name: str, grid: Sequence[int] | int, block: Sequence[int] | int, *args: Any, shared: int = 0
    ) -> float:
        if time.monotonic() > self._end:
            raise _TimeIsUp
        kernel = self.large_shared(topic, name, shared) if shared > 48 << 10 else self.kernel_of(topic, name)
        sizes = ((size,) if isinstance(size, int) else tuple(size) for size in (grid, block))
        grid_, block_ = sizes
        for _ in range(self._times):
            kernel(grid_, block_, args, shared_mem=shared)
        return 0.0


def in_turns(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The first of each topic, then the second of each, and so on."""
    topics: dict[str, list[Experiment]] = {}
    for each in experiments:
        topics.setdefault(each.topic, []).append(each)
    return [each for each in chain(*zip_longest(*topics.values())) if each is not None]


def launch_all(held_out: HeldOut, times: int, seconds: float) -> list[str]:
    """Launch everything for which there is time; the names of experiment and variant, in order."""
    laboratory, names = _Launches(times, seconds), []
    try:
        for each in in_turns(catalogue(held_out)):
            for variant, _ in each.program(laboratory):
                names.append(f"{each.name}: {variant}")
    except _TimeIsUp:
        pass
    return names


def kernel_names(held_out: HeldOut) -> list[str]:
    """The kernels of the sources of a held-out set, as ncu takes them."""
    sources = Path(__file__).parent.parent / "kernels"
    text = "".join(path.read_text(encoding="utf-8") for path in sources.glob(_SOURCES[held_out]))
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


def main(output: str, held_out: HeldOut, metrics: Sequence[str], times: int, seconds: float) -> None:
    names_file = Path(output).with_suffix(".names")
    command = [
        "ncu",
        "--csv",
        "--kernel-name",
        f"regex:^({'|'.join(kernel_names(held_out))})$",
        "--print-units",
        "base",
    ]
    command += ["--cache-control", "none", "--clock-control", "none", "--metrics", ",".join(metrics)]
    command += [sys.executable, "-m", "bench.fidelity.held_out.hardware", str(names_file), "--launch"]
    command += ["--held-out", held_out, "--times", str(times), "--seconds", str(seconds)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"CUDALAB_DEVICE": "gpu"}
    )
    counters = read_csv(done.stdout)[times - 1 :: times]
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
    parser = argparse.ArgumentParser(prog="python -m bench.fidelity.held_out.hardware", description=__doc__)
    parser.add_argument("output")
    parser.add_argument("--held-out", choices=HELD_OUT, default="second")
    parser.add_argument("--instructions", action="store_true", help="count executed instructions alone")
    parser.add_argument("--seconds", type=float, default=3600.0, help="no launch begins later")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.launch:
        Path(args.output).write_text(json.dumps(launch_all(args.held_out, args.times, args.seconds)))
    elif args.instructions:
        main(args.output, args.held_out, INSTRUCTIONS, 1, args.seconds)
    else:
        main(args.output, args.held_out, METRICS, 2, args.seconds)
