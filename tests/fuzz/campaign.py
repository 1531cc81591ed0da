"""Many seeds in child processes. A child says what it begins and what comes out: a crash or a hang has a seed."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.generator import BATCH, generate
from tests.fuzz.regressions import COMPILER_CRASHES

_ROOT = Path(__file__).resolve().parents[2]
_SILENCE = 300.0
"""Seconds without a word from a child after which it counts as hung."""
_PORTION = 20
"""Batches that one child does before a fresh one takes over."""


@dataclass
class Summary:
    """What a campaign found."""

    kind: str
    done: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        rate = self.done / self.seconds if self.seconds else 0.0
        found = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{self.kind}: {self.done} in {self.seconds:.0f} s ({rate:.1f} a second), {len(self.failures)} failures"
            f"{'; ' + found if found else ''}"
        )


def report(summary: Summary) -> int:
    """Print a summary; the number of failures."""
    for failure in summary.failures:
        print(failure)
    print(summary)
    return len(summary.failures)


def run(kind: str, seeds: range, jobs: int = 1) -> Summary:
    """Work through seeds. ``kind``: ``programs``, ``all`` or ``damaged``."""
    summary, began = Summary(kind), time.monotonic()
    portions: queue.Queue[range] = queue.Queue()
    for first in range(seeds.start, seeds.stop, BATCH * _PORTION):
        portions.put(range(first, min(seeds.stop, first + BATCH * _PORTION)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            try:
                portion = portions.get_nowait()
            except queue.Empty:
                return
            _portion(kind, portion, summary, lock)
            rate = summary.done / (time.monotonic() - began)
            print(f"… {kind}: {summary.done} of {len(seeds)}, {rate:.1f} a second", file=sys.stderr, flush=True)

    workers = [threading.Thread(target=work) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    summary.seconds = time.monotonic() - began
    return summary


def _portion(kind: str, seeds: range, summary: Summary, lock: threading.Lock) -> None:
    """One child after the other until all seeds are done; each goes on behind the seed that ended the one before."""
    first = seeds.start
    while first < seeds.stop:
        begun, status = _watch(kind, range(first, seeds.stop), summary, lock)
        if status == 0:
            return
        text = f"seeds {begun} and following, {kind}: the process ended with status {status}"
        with lock:
            summary.failures.append(text)
        print(text, flush=True)
        first = begun + (1 if kind == "damaged" else BATCH)


def _watch(kind: str, seeds: range, summary: Summary, lock: threading.Lock) -> tuple[int, int]:
    """Listen to one child until it ends; the seed it began last, and its status."""
    command = [sys.executable, "-m", "tests.fuzz.campaign", kind, str(seeds.start), str(seeds.stop)]
    begun = seeds.start
    with subprocess.Popen(
        command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, env={**_SETTINGS, **os.environ}
    ) as child:
        assert child.stdout is not None
        silence = threading.Timer(_SILENCE, child.kill)
        silence.start()
        for line in child.stdout:
            silence.cancel()
            silence = threading.Timer(_SILENCE, child.kill)
            silence.start()
            message = json.loads(line) if line.startswith("{") else {}
            begun = message.get("begin", begun)
            with lock:
                summary.done += message.get("done", 0)
                summary.outcomes.update(message.get("outcomes", {}))
                summary.failures += message.get("failures", [])
            for failure in message.get("failures", []):
                print(failure, flush=True)
        silence.cancel()
    return begun, child.returncode


_SETTINGS = {"CUDALAB_DEVICE": "sim"}


def _child(kind: str, seeds: range) -> None:
    step = 1 if kind == "damaged" else BATCH
    for first in range(seeds.start, seeds.stop, step):
        _say({"begin": first})
        if kind == "damaged":
            _say(_damaged(first))
        else:
            _say(_programs(range(first, min(seeds.stop, first + step)), kind == "all"))


def _say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def turn(seed: int) -> tuple[tuple[str, ...], bool]:
    """The variants a batch runs in besides plain code, and whether the sanitizer looks at it: by turns."""
    from tests.fuzz.simulated import VARIANTS

    number = seed // BATCH % len(VARIANTS)
    return (("plain",), True) if number == 0 else (("plain", VARIANTS[number]), False)


def _programs(seeds: range, everything: bool) -> dict[str, object]:
    from tests.fuzz import simulated

    variants, sanitize = (simulated.VARIANTS, True) if everything else turn(seeds.start)
    programs = [generate(seed) for seed in seeds if seed not in COMPILER_CRASHES]
    found = simulated.check(programs, variants, sanitize)
    return {"done": len(seeds), "failures": [str(each)[:1500] for each in found]}


def _damaged(seed: int) -> dict[str, object]:
    from tests.fuzz import mutation

    failures, outcomes = [], Counter[str]()
    for is_ptx in (True, False):
        what = "PTX" if is_ptx else "CUDA C++"
        try:
            outcome = mutation.outcome(seed, is_ptx)
        except Exception as error:
            failures.append(f"seed {seed}, damaged {what}: {type(error).__name__}: {error}"[:1500])
            continue
        outcomes[f"{what} {outcome.split(':')[0]}"] += 1
        if mutation.is_mistake(outcome):
            failures.append(f"seed {seed}, damaged {what}: {outcome}"[:1500])
    return {"done": 1, "failures": failures, "outcomes": outcomes}


def shrink_seed(seed: int, stage: str) -> int:
    """Print the smallest failing program found; 1 when the seed does not fail."""
    from tests.fuzz import simulated
    from tests.fuzz.emit import Emitter
    from tests.fuzz.shrink import shrink

    variants, sanitize = ((), True) if stage == "sanitize" else ((stage,), False)

    def fails(program: object) -> bool:
        found = simulated.check([program], variants, sanitize)  # type: ignore[list-item]
        return any(each.stage == stage for each in found)

    program = generate(seed)
    if not fails(program):
        print(f"seed {seed} does not fail at {stage}")
        return 1
    program = shrink(program, fails)
    print(Emitter(program).text())
    print(f"grid {program.grid}, block {program.block}")
    for found in simulated.check([program], variants, sanitize):
        print(found)
    return 0


if __name__ == "__main__":
    _child(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])))
