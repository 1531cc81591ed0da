"""Keeps what a run on a GPU found: ``python -m tests.public_corpus.store [RUN.json …]``.

Each RUN is what ``python -m tests.public_corpus --json`` wrote with CUDALAB_DEVICE=gpu; the files that it looked at
replace what is stored of them, so that a run of some files renews those. Without a RUN only the page is written anew.
"""

from __future__ import annotations

import collections
import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.public_corpus.sources import REPOSITORIES

DATA = Path(__file__).parent / "data" / "results.json"
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "2026-11-21-public-corpus.md"
_EXPLAINED = (
    ("simpleHyperQ.cu", "d_o", "a clock reading is the result"),
    (
        "EGLStream_CUDA_CrossGPU/kernel.cu",
        "numErr",
        "probably: CuPy keeps one module for equal sources, and on the GPU an earlier kernel has changed its variable",
    ),
    (
        "reduction_kernel.cu",
        "g_odata",
        "with 32 threads a block the sample's __shfl_down_sync reads lanes that its mask leaves out, whose values are "
        "undefined by the guide",
    ),
    (
        "warpAggregatedAtomicsCG.cu",
        "dst",
        "where an element goes depends on the order of warps: the sample compares sorted",
    ),
    (
        "lecture_012/flash_attention.cu",
        "out",
        "the sample lacks a barrier between its last use of V_j and the next tile's load (racecheck names both lines)",
    ),
    ("simpleCubemapTexture.cu", "no launch", "cubemaps are not simulated"),
    ("grcuda/kernel/saxpy.cu", "expected", 'since C++11 "C"__global__ without a space is one literal'),
    ("MC_EstimatePiInlineQ/src/piestimator.cu", "no instance", "its template arguments were not guessed"),
    ("globalToShmemAsyncCopy.cu", "CUDADriverError", "an instance that the sample never makes: 34 warps in a block"),
    (
        "flash_attention_spilling_from_registers.cu",
        "no launch",
        "it counts on blocks of 16 times 16 threads and rows of 128",
    ),
    (
        "vulkanImageCUDA.cu",
        "surface",
        "probably: the machine code fuses four sums more, across basic blocks, than the simulated device",
    ),
)
"""How a reason goes on: the end of the file's path, the beginning of the reason, why that is."""

_HOW = {
    "exact": "every byte of every buffer equal",
    "close": "floats equal within 0.02 % of the largest, all else exactly (approximate functions)",
    "order": "ran, but the guessed launch has a race or reads what nobody wrote, and the results differ: says nothing",
}


def load() -> dict[str, Any]:
    """The stored results."""
    stored: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return stored


def merge(stored: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The stored results with those of one run in place of what they have of the same files."""
    files = set(run["files"])
    kernels = [row for row in stored.get("kernels", []) if row["file"] not in files]
    commits = {repository.name: repository for repository in REPOSITORIES}
    for outcome in run["outcomes"]:
        repository = commits[outcome["file"].split("/")[0]]
        launch = outcome["launch"] or {}
        row = {
            "repository": f"{repository.owner}/{repository.name}",
            "commit": repository.commit,
            "file": outcome["file"],
            "kernel": outcome["kernel"],
            "verdict": outcome["verdict"],
            "reason": _explained(outcome["file"], outcome["reason"]),
            "compared": outcome["compared"],
            "rule": launch.get("rule", ""),
            "written": bool(launch.get("written")),
            "findings": list(launch.get("findings", ())),
            "largest_error": outcome["largest_error"],
            **run["machine"],
        }
        kernels.append({name: value for name, value in row.items() if value not in ("", 0.0, [], False)})
    kernels.sort(key=lambda row: (row["file"], row.get("kernel", "")))
    missed = {*stored.get("missed", []), *run["missed"]} - {row["file"] for row in kernels}
    return {"missed": sorted(missed), "kernels": kernels}


def _explained(file: str, reason: str) -> str:
    for end, begin, why in _EXPLAINED:
        if file.endswith(end) and reason.startswith(begin):
            return f"{reason} ({why})"
    return reason


def counts(stored: dict[str, Any]) -> dict[str, int]:
    """How many kernels of each verdict and each way of comparing; ``compiled`` are those that NVRTC takes."""
    rows = stored["kernels"]
    found = collections.Counter(row["verdict"] for row in rows)
    how = collections.Counter(row["compared"] for row in rows if row["verdict"] == "passed")
    return {"compiled": found["passed"] + found["failed"], **found, **how}


def page(stored: dict[str, Any]) -> str:
    """The evidence page."""
    rows, total = stored["kernels"], counts(stored)
    seen = {(row["device"], row["driver"], row["date"]) for row in rows}
    machines = "; ".join(f"{device}, driver {driver}, {date}" for device, driver, date in sorted(seen))
    lines = [
        "# The public corpus",
        "",
        "Kernels that others published, taken as they are: host code is cut away, a launch is found under the",
        "sanitizer (or written by hand as the sample's host code has it), the simulated device runs it, and every",
        f"buffer is compared with what a GPU leaves behind. {machines}.",
        "",
        "    python -m tests.public_corpus --from FOLDER --fetch       # anywhere: on the simulated device alone",
        "    CUDALAB_DEVICE=gpu python -m tests.public_corpus --from FOLDER --json RUN.json   # on a GPU: compares",
        "    python -m tests.public_corpus.store RUN.json              # anywhere: renews the data and this page",
        "",
        "## Pass rate",
        "",
        f"NVRTC compiles {total['compiled']} kernels (two instances at most of each template); "
        f"**{total['passed']} pass, {total['passed'] / total['compiled']:.1%}**. "
        "Without those whose comparison says nothing (`order`) "
        f"{_said(total)} pass, {_said(total) / total['compiled']:.1%}.",
        "",
        "| compared | kernels | meaning |",
        "| --- | ---: | --- |",
        *(f"| {how} | {total.get(how, 0)} | {meaning} |" for how, meaning in _HOW.items()),
        "",
        "| repository | commit | compiled | pass |",
        "| --- | --- | ---: | ---: |",
        *_repositories(rows),
        "",
        "## Failures",
        "",
        "| file | kernel | reason |",
        "| --- | --- | --- |",
        *(_row(row, row["reason"]) for row in rows if row["verdict"] == "failed"),
        "",
        "Not looked at, because the time was over: "
        + (", ".join(f"`{file}`" for file in stored["missed"]) or "nothing")
        + ".",
        "",
        "## Compared by a rule",
        "",
        "| file | kernel | rule |",
        "| --- | --- | --- |",
        *(_row(row, row["rule"]) for row in rows if row.get("rule")),
        "",
        "## Ran, but not comparable",
        "",
        "| file | kernel | what the sanitizer says of the guessed launch |",
        "| --- | --- | --- |",
        *(_row(row, ", ".join(row["findings"])) for row in rows if row.get("compared") == "order"),
        "",
        "## What NVRTC does not compile",
        "",
        "Not counted above: without host compiler, host headers and libraries this is no complete source. cuRAND's",
        "headers were there.",
        "",
        "| file | kernel | reason |",
        "| --- | --- | --- |",
        *(_row(row, row["reason"]) for row in rows if row["verdict"] == "nvrtc"),
    ]
    return "\n".join(lines) + "\n"


def _said(total: dict[str, int]) -> int:
    return total["passed"] - total.get("order", 0)


def _repositories(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for repository in REPOSITORIES:
        name = f"{repository.owner}/{repository.name}"
        verdicts = collections.Counter(row["verdict"] for row in rows if row["repository"] == name)
        compiled = verdicts["passed"] + verdicts["failed"]
        lines.append(f"| {name} | `{repository.commit[:12]}` | {compiled} | {verdicts['passed']} |")
    return lines


def _row(row: dict[str, Any], text: str) -> str:
    return f"| {row['file']} | {_plain(row.get('kernel', ''))} | {text.replace('|', chr(92) + '|')[:300]} |"


def _plain(kernel: str) -> str:
    """A kernel's name as in the source, with the template arguments' letters where it is an instance."""
    mangled = re.match(r"_Z(\d+)(\w+)", kernel)
    if not mangled:
        return f"`{kernel}`" if kernel else ""
    length = int(mangled.group(1))
    instance = re.match(r"I(\w*?)EE?v", mangled.group(2)[length:])
    return f"`{mangled.group(2)[:length]}`" + (f" `{instance.group(1)}`" if instance else "")


def main() -> int:
    stored = load() if DATA.is_file() else {"missed": [], "kernels": []}
    for path in sys.argv[1:]:
        stored = merge(stored, json.loads(Path(path).read_text(encoding="utf-8")))
    lines = ",\n".join(json.dumps(row) for row in stored["kernels"])
    missed = json.dumps(stored["missed"])
    DATA.write_text('{"missed": ' + missed + ', "kernels": [\n' + lines + "\n]}\n", encoding="utf-8")
    PAGE.write_text(page(stored), encoding="utf-8")
    print(counts(stored))
    return 0


if __name__ == "__main__":
    sys.exit(main())
