"""``python -m cudalab record``: runs notebooks on a real GPU and stores their outputs.

A stored output is what a reader without a live kernel sees, and what the tests on the simulated device are compared
with. Widgets leave their static picture and its sentence; live views and their state are not stored. Each code cell
is stamped with the hash of the code behind it, the device, the driver and the date (``cudalab.dev.notebook_format``).
"""

from __future__ import annotations

import copy
import datetime
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from nbclient.exceptions import CellExecutionError
from tqdm import tqdm

from cudalab.backend import VARIABLE
from cudalab.dev import notebook_format as rules
from cudalab.dev.now_you import is_now_you
from cudalab.installation.environment import project_root

# Asked in the notebook's own process, after its cells, so that it is the device they ran on.
_ASK = (
    "import json as _json, cudalab as _cudalab\n"
    "_found = _cudalab.device()\n"
    "print(_json.dumps({'name': _found.name, 'kind': _found.kind, 'driver': _found.driver}))"
)


class RecordError(RuntimeError):
    """A notebook could not be recorded."""


def record(path: Path, *, device: str = "gpu", timeout: int = 300, stale: bool = False) -> dict[str, str]:
    """Run one notebook and store its outputs in it; returns the stamp that its cells got.

    ``device`` is the ``CUDALAB_DEVICE`` it runs with, ``timeout`` the seconds a cell may take. With ``stale`` all cells
    run, but those whose stored output fits their code keep it. Raises ``RecordError`` when a cell fails that is not
    tagged ``raises-exception``; the file is then left as it was.
    """
    notebook = rules.read(path)
    notebook.nbformat_minor = 5
    hashes = rules.source_hashes(notebook)
    kept = {cell.id: copy.deepcopy(cell) for cell in _unchanged(notebook, hashes)} if stale else {}
    for cell in notebook.cells:
        cell.metadata.pop(rules.RECORD, None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = nbclient.NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name=rules.KERNELSPEC["name"],
        resources={"metadata": {"path": str(path.resolve().parent)}},
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
    )
    asking = nbformat.v4.new_code_cell(_ASK)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = device  # the kernel inherits it
    try:
        with client.setup_kernel():
            _run_cells(client, notebook, path)
            notebook.cells.append(asking)
            client.execute_cell(asking, len(notebook.cells) - 1)
            notebook.cells.pop()
    except CellExecutionError as error:
        raise RecordError(f"{path.name}: a cell failed on the device {device!r}:\n{error}") from None
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
    stamp = _stamp(asking)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            without_paths(output)
        if cell.id in hashes:
            cell.metadata[rules.RECORD] = {"source_hash": hashes[cell.id], **stamp}
    notebook.cells = [kept.get(cell.id, cell) for cell in notebook.cells]
    rules.draw(notebook)
    path.write_text(rules.canonical(notebook), encoding="utf-8")
    return stamp


def _unchanged(notebook: Any, hashes: Mapping[str, str]) -> Iterator[Any]:
    """The cells that keep their outputs, comparisons with what such a cell has printed among them."""
    valid = False
    for cell in notebook.cells:
        if cell.id in hashes:
            valid = _is_valid(cell, hashes)
        if valid and (cell.id in hashes or ".compare(" in cell.source):
            yield cell


def _is_valid(cell: Any, hashes: Mapping[str, str]) -> bool:
    """Does the stored output of the cell fit its code?"""
    return cell.id in hashes and cell.metadata.get(rules.RECORD, {}).get("source_hash") == hashes[cell.id]


def _run_cells(client: Any, notebook: Any, path: Path) -> None:
    """Run all code cells but those that the learner writes."""
    cells = [(at, cell) for at, cell in enumerate(notebook.cells) if cell.cell_type == "code" and not is_now_you(cell)]
    for index, cell in tqdm(cells, desc=path.name, unit="cell", leave=False, disable=None):
        client.execute_cell(cell, index)


def _stamp(asked: Any) -> dict[str, str]:
    text = "".join(output.text for output in asked.outputs if output.output_type == "stream")
    found = json.loads(text.strip().split("\n")[-1])
    name = found["name"] if found["kind"] == "gpu" else f"simulated {found['name']}"
    return {"device": name, "driver": f"CUDA {found['driver']}", "date": datetime.date.today().isoformat()}


_PATHS = (
    (re.compile(r"(?:[A-Z]:)?[^\s'\"(<>]*[/\\](?:site|dist)-packages[/\\]"), ""),
    (re.compile(r"[^\s'\"(<>]*[/\\]ipykernel_\d+[/\\]\d+\.py"), "cell"),
    (re.compile(re.escape(str(project_root())) + r"[/\\]"), ""),
    (re.compile(re.escape(str(Path.home())) + r"[/\\]"), "~/"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"[/\\][^\s'\"():]*[/\\]"), ""),
)


def without_paths(output: Any) -> None:
    """Cut paths of this machine down to what any reader has: tracebacks and warnings name files."""
    for key in ("text", "evalue", "traceback"):
        if key in output:
            found = output[key]
            output[key] = [_cut(line) for line in found] if isinstance(found, list) else _cut(found)
    if "text/plain" in output.get("data", {}):
        output.data["text/plain"] = _cut(output.data["text/plain"])


def _cut(text: str) -> str:
    for pattern, put in _PATHS:
        text = pattern.sub(lambda _, put=put: put, text)  # type: ignore[misc]
    return text


def record_all(paths: list[Path], *, device: str = "gpu", timeout: int = 300, stale: bool = False) -> int:
    """Record the notebooks (default: all chapters) and say how it went; returns the exit code."""
    failures = 0
    for path in paths or rules.course_notebooks():
        try:
            stamp = record(path, device=device, timeout=timeout, stale=stale)
        except (RecordError, ValueError) as error:
            failures += 1
            print(f"record: {error}", file=sys.stderr)
        else:
            print(f"{path.name}: recorded on {stamp['device']}, {stamp['driver']}, {stamp['date']}")
    return 1 if failures else 0
