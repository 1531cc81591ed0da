"""What compute-sanitizer finds of the planted bugs: ``python -m tests.planted.record [--only NAME …]``, on a GPU.

Each bug is run under memcheck and under the tool of its class, each time in a process of its own, several at a time. A
run that does not end within the limit is noted as such: most barrier mistakes hang on a GPU. With ``--only`` the
answers about other bugs are kept.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.planted.bugs import BUGS
from tests.planted.planted import Planted

DATA = Path(__file__).parent / "data" / "compute_sanitizer.json"
LIMIT = 25.0  # seconds a run
_NUMBER = re.compile(r"0x[0-9a-f]+|\b\d+\b")


def run(bug: Planted, tool: str) -> dict[str, object]:
    """The count of errors and the kinds of messages of one run."""
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "3", sys.executable, "-m", "tests.planted.launch"]
    try:
        done = subprocess.run([*command, bug.name], capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return {"hangs": True}
    lines = [line[10:].strip() for line in done.stdout.splitlines() if line.startswith("========= ")]
    summary = next((line for line in lines if "SUMMARY" in line), "")
    kinds = [
        line
        for line in lines
        if re.match(r"(Invalid|Error|Warning|Uninit|Barrier|Race|Out-of|Address|Program hit)", line)
    ]
    return {"summary": summary, "messages": list(dict.fromkeys(_NUMBER.sub("N", kind) for kind in kinds))[:4]}


def found(outcome: dict[str, object]) -> bool:
    """Whether the tool says that something is wrong with the kernel."""
    summary = str(outcome.get("summary", ""))
    count = re.search(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", summary)
    return bool(count and int(count.group(1)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted.record", description=__doc__)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--only", nargs="*", default=[""], help="bugs whose names contain one of these")
    given = parser.parse_args()
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=True).stdout
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    tasks = [
        (bug, tool) for bug in BUGS if any(part in bug.name for part in given.only) for tool in {"memcheck", bug.tool}
    ]
    with ThreadPoolExecutor(given.jobs) as pool:
        outcomes = list(pool.map(lambda task: run(*task), tasks))
    known = json.loads(DATA.read_text(encoding="utf-8"))["results"] if given.only != [""] and DATA.exists() else {}
    results: dict[str, dict[str, object]] = {bug.name: known[bug.name] for bug in BUGS if bug.name in known}
    for (bug, tool), outcome in zip(tasks, outcomes, strict=True):
        results[bug.name] = {**results.get(bug.name, {}), tool: outcome}
    about = {
        "date": datetime.date.today().isoformat(),
        "device": device,
        "compute_sanitizer": version.strip().splitlines()[-1],
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")
    caught = sum(any(found(outcome) for outcome in tools.values()) for tools in results.values())
    print(f"{caught} of {len(results)} planted bugs found by compute-sanitizer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
