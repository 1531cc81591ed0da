"""Compare the time model with the stored figures of an H200, or record figures of this machine's GPU.

python -m bench.fidelity [--topic TOPIC] [--held-out [SET]] [--measured FILE] [--ptx] [--figures] [--ablate]
                         [--document FILE]
CUDALAB_DEVICE=gpu python -m bench.fidelity --record FILE [--runs 3] [--topic TOPIC] [--held-out [SET]]
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import subprocess
import sys
from pathlib import Path

from bench.fidelity.catalogue import HeldOut, catalogue
from bench.fidelity.stored import HELD_OUT, Stored, everything, read, sound, write


def _git_commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def record(path: Path, runs: int, topic: str, held_out: HeldOut | None) -> int:
    """Run experiments on the GPU of this machine, several times, and store the medians."""
    from bench.fidelity.runner import run
    from cudalab import backend
    from cudalab.device import device

    if backend.choice().kind != "gpu":
        print(f"--record needs a GPU. {backend.choice().reason}", file=sys.stderr)
        return 1
    banner = device()
    chosen = [each for each in catalogue(held_out) if topic in ("", each.topic)]
    found = [run(chosen, print) for _ in range(runs)]
    figures = {
        name: {variant: round(statistics.median(each[name][variant] for each in found), 3) for variant in variants}
        for name, variants in found[0].items()
    }
    spreads = [
        (max(values) - min(values)) / statistics.median(values)
        for name, variants in found[0].items()
        for values in ([each[name][variant] for each in found] for variant in variants)
    ]
    spread = round(statistics.median(spreads), 4)
    today = datetime.date.today().isoformat()
    write(path, Stored(banner.name, banner.driver, today, _git_commit(), runs, spread, figures))
    print(f"written: {path}")
    return 0


def compare(
    topic: str,
    held_out: HeldOut | None,
    measured: Path | None,
    *,
    figures: bool,
    ablate: bool,
    document: Path | None,
) -> int:
    """Run all experiments on the simulated device and print how far they are from the stored figures."""
    from bench.fidelity import ablation, comparison
    from bench.fidelity import document as page
    from bench.fidelity.runner import run

    stored = read(measured) if measured else read(HELD_OUT[held_out]) if held_out else everything()
    chosen = [each for each in catalogue(held_out) if topic in ("", each.topic)]
    found = comparison.Comparison(sound(stored.figures), run(chosen, lambda line: print(line, file=sys.stderr)))
    overview = comparison.by_topic(found) if held_out else comparison.summary(found)
    print(overview, comparison.per_experiment(found), comparison.wrong_pairs(found), sep="\n\n")
    if figures:
        print("", comparison.figures(found), sep="\n")
    losses = ablation.ablate(stored.figures, lambda line: print(line, file=sys.stderr)) if ablate else []
    if losses:
        print("", ablation.table(losses), sep="\n")
    if document is not None:
        document.write_text(page.text(stored, found, losses), encoding="utf-8")
        print(f"written: {document}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fidelity", description=__doc__)
    parser.add_argument("--topic", default="", help="only experiments of one topic")
    parser.add_argument(
        "--held-out",
        metavar="SET",
        nargs="?",
        const="second",
        choices=HELD_OUT,
        help="the launches that never fit the model, only judge it: second (default) or third",
    )
    parser.add_argument(
        "--measured", type=Path, default=None, help="compare with the figures of this file (another card's)"
    )
    parser.add_argument("--ptx", action="store_true", help="time SMs by the PTX, not by the machine code")
    parser.add_argument("--figures", action="store_true", help="print every figure")
    parser.add_argument("--ablate", action="store_true", help="take out each constant in turn (minutes)")
    parser.add_argument("--document", type=Path, default=None, help="write the page of evidence")
    parser.add_argument("--record", type=Path, default=None, help="run on this machine's GPU and store the figures")
    parser.add_argument("--runs", type=int, default=3, help="with --record: how often (default: 3)")
    args = parser.parse_args()
    if args.record is not None:
        return record(args.record, args.runs, args.topic, args.held_out)
    os.environ.setdefault("CUDALAB_DEVICE", "sim")
    if args.ptx:
        from cudalab.sim.device.timing.launch_time import Timer

        Timer.by_machine_code = False
    return compare(
        args.topic, args.held_out, args.measured, figures=args.figures, ablate=args.ablate, document=args.document
    )


if __name__ == "__main__":
    sys.exit(main())
