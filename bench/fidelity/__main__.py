"""Compare the time model with figures of an H200, stored ones or of this machine's GPU, and write a page of it.

python -m bench.fidelity [--gpu] [--topic TOPIC] [--held-out [SET]] [--measured FILE] [--ptx] [--figures] [--ablate]
                         [--modelled FILE] [--document FILE]
python -m bench.fidelity --record FILE [--runs 3] [--seconds S] [--topic TOPIC] [--held-out [SET]]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # these imports decide which device the process has
    from bench.fidelity.catalogue import HeldOut
    from bench.fidelity.experiment import Experiment

TWO_DEVICES = "sim:h200-x2"
"""Simulated: an H200, and a second one for the experiments that take two."""


def _git_commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def chosen(topics: Sequence[str], held_out: HeldOut | None) -> list[Experiment]:
    """The experiments of some topics, or all."""
    from bench.fidelity.catalogue import catalogue

    return [each for each in catalogue(held_out) if not topics or each.topic in topics]


def record(path: Path, runs: int, seconds: float, experiments: Sequence[Experiment]) -> int:
    """Run experiments on the GPU of this machine, several times, and store the medians. No experiment begins later than
    ``seconds``."""
    from bench.fidelity.runner import Figures, run
    from bench.fidelity.stored import Stored, medians, write
    from cudalab import backend
    from cudalab.device import device

    if backend.choice().kind != "gpu":
        print(f"--record needs a GPU. {backend.choice().reason}", file=sys.stderr)
        return 1
    banner, end, today = device(), time.monotonic() + seconds, datetime.date.today().isoformat()
    found: list[Figures] = []
    failed: list[str] = []
    while len(found) < runs and time.monotonic() < end:
        found.append(run(experiments, print, seconds=end - time.monotonic(), failed=failed))
        write(path, Stored(banner.name, banner.driver, today, _git_commit(), len(found), *medians(found)))
    print(f"written: {path}, {len(found)} runs", *failed, sep="\n")
    return 1 if failed else 0


def measure(topics: Sequence[str], held_out: HeldOut | None, runs: int, seconds: float) -> Path:
    """Measure on this machine's GPU, in a process of its own; the file of figures."""
    path = Path(tempfile.mkdtemp(prefix="cudalab-fidelity-")) / "measured.json"
    command = [sys.executable, "-m", "bench.fidelity", "--record", str(path), "--runs", str(runs)]
    command += ["--seconds", str(seconds), *(f"--topic={topic}" for topic in topics)]
    command += [f"--held-out={held_out}"] if held_out else []
    subprocess.run(command, check=True, env=os.environ | {"CUDALAB_DEVICE": "gpu"})
    return path


def nothing_in_common(experiments: Sequence[Experiment], ours: Mapping[str, object]) -> str:
    """Why there is nothing to compare, as a sentence."""
    if ours:
        return f"No GPU has run {', '.join(ours)} yet: measure them with --gpu, or name a file of figures (--measured)."
    devices = max((each.devices for each in experiments), default=0)
    if devices < 2:
        return "No experiment was asked for: --topic and --held-out name none in common."
    return (
        f"None of these {len(experiments)} experiments can run: they take {devices} devices, and CUDALAB_DEVICE="
        f"{os.environ.get('CUDALAB_DEVICE', '')} has fewer. Try CUDALAB_DEVICE={TWO_DEVICES}."
    )


def compare(
    topics: Sequence[str],
    held_out: HeldOut | None,
    measured: Path | None,
    modelled: Path | None,
    *,
    figures: bool,
    ablate: bool,
    document: Path | None,
) -> int:
    """Run all experiments on the simulated device and print how far they are from the measured figures."""
    from bench.fidelity import ablation, comparison
    from bench.fidelity import document as page
    from bench.fidelity.runner import run
    from bench.fidelity.stored import HELD_OUT, everything, read, sound

    stored = read(measured) if measured else read(HELD_OUT[held_out]) if held_out else everything()
    experiments = chosen(topics, held_out)
    if modelled is not None and modelled.exists():
        ours = json.loads(modelled.read_text(encoding="utf-8"))
    else:
        ours = run(experiments, lambda line: print(line, file=sys.stderr))
        if modelled is not None:
            modelled.write_text(json.dumps(ours, indent=1) + "\n", encoding="utf-8")
    found = comparison.common(sound(stored.figures), ours, stored.spreads)
    if not found.names():
        print(nothing_in_common(experiments, ours), file=sys.stderr)
        return 1
    overviews = [comparison.summary(found), comparison.by_topic(found)]
    print(*overviews, comparison.per_experiment(found), comparison.wrong_pairs(found), sep="\n\n")
    if figures:
        print("", comparison.figures(found, stored.spreads), sep="\n")
    losses = ablation.ablate(stored.figures, lambda line: print(line, file=sys.stderr)) if ablate else []
    if losses:
        print("", ablation.table(losses), sep="\n")
    if document is not None:
        page.write(document, stored, found, losses)
        print(f"written: {document}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fidelity", description=__doc__)
    parser.add_argument("--topic", action="append", default=[], help="only experiments of this topic, or these")
    parser.add_argument(
        "--held-out",
        metavar="SET",
        nargs="?",
        const="second",
        choices=("second", "third"),
        help="the launches that never fit the model, only judge it: second (default) or third",
    )
    parser.add_argument(
        "--measured", type=Path, default=None, help="compare with the figures of this file (another card's)"
    )
    parser.add_argument("--gpu", action="store_true", help="measure on this machine's GPU first")
    parser.add_argument(
        "--modelled", type=Path, default=None, help="take the model's figures from this file, or store them there"
    )
    parser.add_argument("--ptx", action="store_true", help="time SMs by the PTX, not by the machine code")
    parser.add_argument("--figures", action="store_true", help="print every figure")
    parser.add_argument("--ablate", action="store_true", help="take out each constant in turn (minutes)")
    parser.add_argument("--document", type=Path, default=None, help="write the page of evidence")
    parser.add_argument("--record", type=Path, default=None, help="measure on this machine's GPU, store the figures")
    parser.add_argument("--runs", type=int, default=3, help="measuring: how often (default: 3)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="measuring: how long (default: an hour)")
    args = parser.parse_args()
    if args.record is not None:
        os.environ.setdefault("CUDALAB_DEVICE", "gpu")
        return record(args.record, args.runs, args.seconds, chosen(args.topic, args.held_out))
    os.environ.setdefault("CUDALAB_DEVICE", TWO_DEVICES)
    measured = measure(args.topic, args.held_out, args.runs, args.seconds) if args.gpu else args.measured
    if args.ptx:
        from cudalab.sim.device.timing.launch_time import Timer

        Timer.by_machine_code = False
    wanted = {"figures": args.figures, "ablate": args.ablate, "document": args.document}
    return compare(args.topic, args.held_out, measured, args.modelled, **wanted)


if __name__ == "__main__":
    sys.exit(main())
