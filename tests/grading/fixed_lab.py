"""A lab whose scores are stored, so that every machine that runs the tests compares its own with them.

    python -m tests.grading.fixed_lab --store      # anew: the answers of today's tables, and their scores
    python -m tests.grading.fixed_lab --confirm    # all of it on this machine, which is noted where all is the same

``--jobs`` grades as many answers at a time, ``--no-jail`` those in Python where bubblewrap does not work, and ``--out``
writes another file, also where scores differ: then it says by answer what they were before and are now.

``docs/evidence/2026-11-23-scores.json`` has the answers as they were handed in, right, wrong and cheating, kernels and
Python; for each the seed, the points, the rules that it breaks and what each gate has measured; and the machines on
which all of that came out. After a change to a check that changes scores, or counts, store it anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import queue
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from cudalab.checks import find
from cudalab.grading.examiner import Examiner
from cudalab.grading.limits import Limits
from cudalab.grading.messages import Outcome, Question, ResultRecord
from cudalab.sim.compiler.frontend import headers
from cudalab.sim.compiler.object_code import host_features, lanes_of_host
from cudalab.sim.compiler.processes import jail
from tests.checks.answers.answer import ROOT, Answer
from tests.checks.answers.every import ANSWERS
from tests.grading.handed_in import CACHE

STORED = ROOT / "docs" / "evidence" / "2026-11-23-scores.json"
EXERCISES = ("01.2", "04.2", "05.2", "06.1", "03.3", "08.4", "11.2", "12.2", "14.2", "15.1")
SEED = 20261123


def chosen(exercise: str) -> list[Answer]:
    """Two right ones, the first that fails in each part, and the first two that cheat. How often one polls hangs on the
    modelled times, which may change."""
    mine = [answer for answer in ANSWERS if answer.exercise == exercise and "poll" not in answer.name]
    right = [answer for answer in mine if answer.right][:2]
    wrong = {answer.part: answer for answer in reversed(mine) if not answer.right and not answer.cheat}
    return [*right, *wrong.values(), *[answer for answer in mine if answer.cheat][:2]]


def handed_in(answer: Answer) -> str:
    """The cell."""
    exercise = find(answer.exercise)
    magic = exercise.answer == "kernel" and not answer.text.startswith("%%cuda")
    return f"%%cuda {exercise.kernel}\n{answer.text}" if magic else answer.text


def score(outcome: Outcome) -> dict[str, Any]:
    """Points, rules and counts. What findings tell besides depends on addresses."""
    if not isinstance(outcome, ResultRecord):
        return {"ended": repr(outcome)}
    return {
        "points": sum(part.points for part in outcome.parts),
        "parts": [
            {
                "name": part.name,
                "points": part.points,
                "skipped": part.skipped,
                "rules": [[one.rule, one.mistake] for one in part.findings],
                "gates": [[one.name, one.value, one.case, one.earned] for one in part.gates],
            }
            for part in outcome.parts
        ],
    }


def graded(examiner: Examiner, lab: Iterable[dict[str, Any]], *, jailed: bool = True) -> list[dict[str, Any]]:
    """The score of each answer, here and now."""
    asked = [Question(one["exercise"], one["text"], one["seed"], Limits(), jailed=jailed) for one in lab]
    return [score(examiner.ask(one)) for one in asked]


def graded_by(jobs: int, lab: list[dict[str, Any]], *, jailed: bool) -> list[dict[str, Any]]:
    """The score of each answer, ``jobs`` at a time."""
    free: queue.SimpleQueue[Examiner] = queue.SimpleQueue()
    examiners = [Examiner(CACHE) for _ in range(jobs)]
    for examiner in examiners:
        free.put(examiner)

    def one_graded(one: dict[str, Any]) -> dict[str, Any]:
        examiner = free.get()
        try:
            return graded(examiner, [one], jailed=jailed)[0]
        finally:
            free.put(examiner)

    try:
        with ThreadPoolExecutor(jobs) as threads:
            return list(threads.map(one_graded, lab))
    finally:
        for examiner in examiners:
            examiner.stop()


def machine() -> dict[str, Any]:
    """This machine, as far as a score could depend on it."""
    features = host_features()
    named = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    level = next((name for name in ("avx512f", "avx2", "avx") if features.get(name)), "no AVX")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "processor": named[0] if named else platform.processor(),
        "family, model, stepping": [_number(name) for name in ("cpu family", "model", "stepping")],
        "features": sorted(name for name, on in features.items() if on and name.startswith(("avx", "fma", "amx"))),
        "level": level,
        "lanes": lanes_of_host(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in ("numpy", "llvmlite", "msgspec")},
        "nvrtc": _compiler(),
        "walls": jail.kinds(),
    }


def _compiler() -> dict[str, str]:
    """NVRTC: what its package says, and what the file holds."""
    library = headers.nvrtc_library()
    named = [one for one in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13") if _installed(one)]
    digest = hashlib.blake2b(library.read_bytes(), digest_size=8).hexdigest() if library else ""
    return {"package": metadata.version(named[0]) if named else "", "digest": digest}


def _installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def _number(name: str) -> str:
    return next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.split("\t")[0] == name), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--store", action="store_true", help="the answers of today's tables, and their scores")
    how.add_argument("--confirm", action="store_true", help="grade what is stored, and note this machine")
    parser.add_argument("--jobs", type=int, default=1, help="answers at a time (default: %(default)s)")
    parser.add_argument("--no-jail", action="store_true", help="answers in Python without bubblewrap")
    parser.add_argument("--out", type=Path, default=STORED, help="where it is written (default: %(default)s)")
    args = parser.parse_args()
    known = {} if args.store else json.loads(STORED.read_text(encoding="utf-8"))
    lab = known.get("lab") or [
        {"exercise": answer.exercise, "name": answer.name, "seed": SEED, "text": handed_in(answer)}
        for exercise in EXERCISES
        for answer in chosen(exercise)
    ]
    scores = graded_by(args.jobs, lab, jailed=not args.no_jail)
    differ = [one for one, now in zip(lab, scores, strict=True) if one.setdefault("score", now) != now]
    machines = [*known.get("machines", []), {**machine(), "jobs": args.jobs, "jailed": not args.no_jail}]
    if differ:
        here = [{**one, "here": now} for one, now in zip(lab, scores, strict=True) if one in differ]
        if args.out != STORED:
            _write(args.out, machines, here)
        raise SystemExit(f"other scores on this machine: {', '.join(one['name'] for one in differ)}")
    _write(args.out, machines, lab)
    print(f"{len(lab)} answers, {sum(one['score']['points'] for one in lab):g} points, on {machines[-1]['processor']}")


def _write(path: Path, machines: list[dict[str, Any]], lab: list[dict[str, Any]]) -> None:
    lines = [",\n".join(json.dumps(one, ensure_ascii=False) for one in each) for each in (machines, lab)]
    path.write_text(f'{{"machines": [\n{lines[0]}\n],\n"lab": [\n{lines[1]}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
