"""Measure all, and write after each part."""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.host_time import calls, programs
from bench.host_time.instruments import Bench, conditions, is_gpu

CALLS_IN_A_ROW = 20


class Record:
    """The file of figures. After ``seconds`` no part is begun any more."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._end, self._begin = path, time.monotonic() + seconds, time.monotonic()
        self.found: dict[str, Any] = {"about": _about(), "errors": {}, "skipped": [], "seconds": {}}

    def take(self, place: tuple[str, ...], measure: Callable[[], Any]) -> None:
        name = " / ".join(place)
        if time.monotonic() > self._end:
            self.found["skipped"].append(name)
            return
        began = time.monotonic()
        try:
            figures = measure()
        except Exception as error:  # one part that fails must not cost the others
            self.found["errors"][name] = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
            print(f"FAILED {name}: {error}", file=sys.stderr)
            return
        *path, last = place
        level = self.found
        for part in path:
            level = level.setdefault(part, {})
        level[last] = figures
        self.found["seconds"]["/".join(place[:2])] = round(
            self.found["seconds"].get("/".join(place[:2]), 0) + time.monotonic() - began, 2
        )

    def write(self) -> None:
        self._path.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        print(f"{time.monotonic() - self._begin:6.1f} s", file=sys.stderr)


def _about() -> dict[str, Any]:
    from cudalab.device import device

    banner = device()
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    found = {
        "device": str(banner.name),
        "driver": str(banner.driver),
        "date": datetime.date.today().isoformat(),
        "commit": done.stdout.strip() or "unknown",
        "python": sys.version.split()[0],
        "label": "measured" if is_gpu() else "modelled",
    }
    for package in ("cupy-cuda13x", "cuda-bindings", "cupti-python"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "none"
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        found["cpu"] = next(
            line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")
        )
    except (OSError, StopIteration):
        found["cpu"] = "unknown"
    return found


def _all(record: Record) -> None:
    bench = Bench()
    for family, make in {**calls.QUEUED, **calls.IDLE}.items():
        try:
            made = make(bench)
        except Exception as error:  # as above
            record.found["errors"][family] = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
            continue
        for condition, on in conditions().items():

            def timed(condition: str = condition, family: str = family, made: calls.Made = made) -> None:
                for name, call in made.items():
                    place = ("calls", condition, name)
                    record.take((*place, "idle"), lambda call=call: bench.idle(call))
                    if family in calls.QUEUED:
                        record.take((*place, "queued"), lambda call=call: bench.queued(call, CALLS_IN_A_ROW))

            try:
                with on():
                    timed()
            except Exception as error:  # as above: CUPTI may refuse
                record.found["errors"][f"{family} / {condition}"] = f"{type(error).__name__}: {error}"
            gc.collect()
        record.write()
    for name, program in programs.PROGRAMS.items():
        for condition in conditions():
            record.take((name, condition), lambda program=program, condition=condition: program(bench, condition))
            gc.collect()
        record.write()
    for name, program in programs.ONCE.items():
        record.take((name,), lambda program=program: program(bench, "plain"))
        record.write()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.host_time", description="Host time of calls from Python.")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--seconds", type=float, default=85, help="begin no further part after so many (default: 85)")
    args = parser.parse_args()
    record = Record(args.out, args.seconds)
    gc.collect()
    gc.disable()  # nobody's destructors in the middle of a measurement
    try:
        _all(record)
    finally:
        gc.enable()
        record.write()
    print(f"written: {args.out}; errors: {len(record.found['errors'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
