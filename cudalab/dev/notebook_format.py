"""The rules that every notebook of the course keeps, and the canonical form it is stored in.

Stored outputs are evidence: they came from a run on a real GPU, and tests on the simulated device are compared with
them. So each code cell that was recorded carries, under ``metadata.cudalab``, the hash of the code that led to its
output (its own, and that of the cells it depends on: ``dataflow.py``), the device, the driver and the date. When code
changes, the hash no longer fits, and a test says which cell is stale until the notebook is recorded again.

Three kinds of cells give nothing of a device and are left out of that: those that only ask (predictions, questions),
those that only draw (``drawing_cells.py``), and those that the learner writes (``now_you.py``).
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.warnings import DuplicateCellId

from cudalab.dev import chapter_form, drawing_cells, now_you
from cudalab.dev.dataflow import Dataflow
from cudalab.installation.environment import project_root

MARKER = "# NBVAL_CHECK_OUTPUT"
MARKERS = (MARKER, "# NBVAL_IGNORE_OUTPUT", "# NBVAL_SKIP", "# NBVAL_RAISES_EXCEPTION")
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}
RECORD = "cudalab"  # the key in a cell's metadata
AWAITING_GPU: frozenset[str] = frozenset()
"""Chapters that were recorded on the simulated device so far, and say so; the others are recorded on a GPU."""
_CELL_KEYS = {"tags", RECORD, "nbgrader", "jupyter", "slideshow", "editable", "deletable"}
_WIDGET_TYPES = ("application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json")
_ID = re.compile(r"^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$")
_RANDOM_ID = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}")
_HOST_CLOCK = re.compile(r"\b(?:time\.\w+|perf_counter\w*|from time import|timeit|datetime\.now)\b|^%%?time\b", re.M)
_MACHINE_PATH = re.compile(r"/(?:home|root|tmp|usr|opt|work|mnt|var)/\w|[A-Z]:\\\\?Users")
_BARE_BOOLEAN = re.compile(r"(?:True|False)\s*")

SIMULATED = "simulated "
"""How the device of a stamp begins where it was the simulated one."""

Notebook = Any  # nbformat.NotebookNode


@dataclass(frozen=True)
class Breach:
    """One broken rule."""

    notebook: str
    cell: str
    rule: str

    def __str__(self) -> str:
        return f"{self.notebook}, cell {self.cell!r}: {self.rule}" if self.cell else f"{self.notebook}: {self.rule}"


def read(path: Path) -> Notebook:
    """The notebook as nbformat 4; ``ValueError`` names the file when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateCellId)  # `breaches` reports them
            return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises several kinds for what is no notebook
        raise ValueError(f"{path} is not a notebook: {error}") from error


def canonical(notebook: Notebook) -> str:
    """The one text that a notebook is stored as: keys sorted, one space of indentation, UTF-8, no widget state, figures
    without their live form, no metadata that depends on the machine."""
    recorded = {cell_id for cell_id, _ in recorded_code(notebook)}
    drawn = {cell.get("id", "") for cell in notebook.cells if drawing_cells.is_drawing(cell)}
    kept = json.loads(nbformat.writes(notebook))
    kept["metadata"] = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE}
    kept["nbformat"], kept["nbformat_minor"] = 4, 5
    for cell in kept["cells"]:
        cell["metadata"] = {key: value for key, value in cell["metadata"].items() if key in _CELL_KEYS}
        if cell["cell_type"] == "code":
            name = cell.get("id", "")
            if name not in recorded | drawn:
                cell["metadata"].pop(RECORD, None)
            if now_you.is_now_you(cell):
                cell["outputs"], cell["execution_count"] = [], None
            cell["outputs"] = [output for output in map(_static, cell["outputs"]) if output is not None]
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = cell["execution_count"]
    return json.dumps(kept, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _static(output: dict[str, Any]) -> dict[str, Any] | None:
    """The output without its live view; None when nothing else was in it."""
    data = output.get("data")
    if data is None:
        return output
    if "cudalab-error" in "".join(data.get("text/html", "")):
        return None  # the error itself is an output, too
    live = {kind for kind in _WIDGET_TYPES if kind in data}
    if live:
        live |= {"text/plain", "text/html"}  # they say what is missing where it cannot be shown
    elif "image/svg+xml" in data:
        live.add("text/html")  # the figure with its script, for a page with a kernel
    rest = {kind: value for kind, value in data.items() if kind not in live}
    return {**output, "data": rest} if rest else None


def source_hashes(notebook: Notebook) -> dict[str, str]:
    """Cell id → hash of the code that led to its output, for every code cell that gives something of a device."""
    cells = recorded_code(notebook)
    flow = Dataflow([code for _, code in cells])
    hashes = {}
    for at, (name, code) in enumerate(cells):
        parts = [*(cells[earlier][1] for earlier in flow.led_to(at)), code]
        hashes[name] = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return hashes


def recorded_code(notebook: Notebook) -> list[tuple[str, str]]:
    """Id and code of every cell that gives something of a device, in order: without what only asks, drawings, and what
    the learner writes."""
    predictions: set[str] = set()
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and not now_you.is_now_you(cell) and not drawing_cells.is_drawing(cell):
            code = without_questions(cell.source, predictions)
            if code:
                found.append((cell.get("id", ""), code))
    return found


def without_questions(source: str, predictions: set[str]) -> str:
    """The code of a cell without the statements that only ask. ``predictions`` are the names bound to predictions so
    far; those that the cell binds are added."""
    if source.startswith("%%"):
        return source.strip()
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a line magic, say
        return source.strip()
    lines = source.split("\n")
    for statement in reversed([each for each in statements if _asks(each, predictions)]):
        del lines[statement.lineno - 1 : statement.end_lineno]
    return "\n".join(lines).strip()


def _asks(statement: ast.stmt, predictions: set[str]) -> bool:
    """``x = cudalab.predict(…)``, ``cudalab.quiz(…)``, a loop over such, or ``x.compare(…)`` of a prediction."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)):
            if ast.unparse(called) == "cudalab.predict":
                predictions.add(name)
                return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="compare"))):
            return name in predictions
        case ast.Expr(value=ast.Call(func=called)):
            return ast.unparse(called) == "cudalab.quiz"
        case ast.For(body=body):
            return all(_asks(each, predictions) for each in body)
    return False


def is_compared(cell: Any) -> bool:
    """Does nbval compare this cell's output in its lax mode? The marker must stand alone on the first line; a cell
    tagged ``raises-exception`` is always compared."""
    if cell.cell_type != "code":
        return False
    first = cell.source.split("\n", 1)[0].rstrip()
    return first == MARKER or "raises-exception" in cell.metadata.get("tags", [])


def runs_simulated(cell: Any) -> bool:
    """Does the cell run on the simulated device wherever the notebook does? Then its output may come from there."""
    return bool(cell.cell_type == "code" and cell.source.startswith("%%isolated sim"))


def breaches(path: Path) -> Iterator[Breach]:
    """Every rule that the notebook breaks."""
    text = path.read_text(encoding="utf-8")
    notebook = read(path)
    if text != canonical(notebook):
        yield Breach(path.name, "", "not in canonical form; run `python -m cudalab notebooks --fix`")
    # asked of the text: nbformat mends ids that stand twice when it reads
    ids = Counter(cell.get("id", "") for cell in json.loads(text)["cells"])
    for name, count in ids.items():
        if count > 1 or not name:
            yield Breach(path.name, name, f"{count} cells have this id; each needs one of its own")
    hashes = source_hashes(notebook)
    chapter = path.name[:2]
    for name, rule in now_you.broken(notebook, chapter):
        yield Breach(path.name, name, rule)
    if path.parent.name == "notebooks":
        for name, rule in chapter_form.broken(path, notebook):
            yield Breach(path.name, name, rule)
    for cell in notebook.cells:
        for rule in _cell_rules(cell):
            yield Breach(path.name, cell.id, rule)
        if cell.cell_type == "code":
            simulated = chapter in AWAITING_GPU or runs_simulated(cell)
            for rule in _record_rules(cell, hashes.get(cell.id), simulated=simulated):
                yield Breach(path.name, cell.id, rule)


def _cell_rules(cell: Any) -> Iterator[str]:
    if not _ID.match(cell.id) or _RANDOM_ID.match(cell.id):
        yield "its id is not readable (lower-case words joined by hyphens)"
    if cell.cell_type != "code":
        return
    lines = cell.source.split("\n")
    for number, line in enumerate(lines, start=1):
        if any(marker in line for marker in MARKERS) and (number > 1 or line.rstrip() != MARKER):
            yield f"line {number}: {MARKER} must stand alone on the first line, and no other nbval marker is used"
    if is_compared(cell) and cell.source.rstrip().endswith(";"):
        yield "it is compared and ends with `;`, which nbval does not heed; end with a print, or assign the value"
    code = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    if not code.startswith("%%cuda") and _HOST_CLOCK.search(code):
        yield "uses the host's clock; take cudalab.clock(), cudalab.host_work() or cudalab.benchmark()"


def _record_rules(cell: Any, wanted: str | None, *, simulated: bool) -> Iterator[str]:
    """``simulated``: may its output come from the simulated device?"""
    record = cell.metadata.get(RECORD)
    if drawing_cells.is_drawing(cell):
        yield from drawing_cells.rules(cell, record)
        return
    if wanted is None:
        if record is not None:
            yield "nothing of a device is recorded in it; run `python -m cudalab notebooks --fix`"
        return
    if record is None:
        if cell.outputs or is_compared(cell):
            yield "it was never recorded; run `python -m cudalab record` on a machine with a GPU"
        return
    if record.get("source_hash") != wanted:
        yield "its stored output is stale: code changed since; run `python -m cudalab record` on a machine with a GPU"
    if missing := [key for key in ("device", "driver", "date") if not record.get(key)]:
        yield f"its record lacks {', '.join(missing)}"
    if str(record.get("device", "")).startswith(SIMULATED) and not simulated:
        yield "its stored output came from the simulated device; run `python -m cudalab record` with a GPU"
    if _MACHINE_PATH.search(json.dumps(cell.outputs)):
        yield "its stored output names a path of the machine that recorded it"
    if is_compared(cell):
        yield from _compared_rules(cell)


def _compared_rules(cell: Any) -> Iterator[str]:
    if not cell.outputs:
        yield "it is compared but has no stored output"
    if cell.execution_count is None:
        yield "it is compared but has no execution count, and nbval takes that for a cell that was never run"
    for output in cell.outputs:
        if output.output_type == "error":
            continue
        text = output.get("text") if output.output_type == "stream" else output.data.get("text/plain", "")
        if output.output_type != "stream" and set(output.data) != {"text/plain"}:
            yield f"it is compared and must print text only, but its output has {', '.join(sorted(output.data))}"
        if output.output_type == "stream" and output.name != "stdout":
            yield f"it is compared, but writes to {output.name}"
        if _BARE_BOOLEAN.fullmatch(text or ""):
            yield "it is compared and shows a bare True or False; print the computed values"


def draw(notebook: Notebook) -> None:
    """Put the picture of every drawing cell in its place, with its stamp."""
    for cell in notebook.cells:
        if drawing_cells.is_drawing(cell):
            drawing_cells.draw(cell)
            cell.metadata[RECORD] = {"source_hash": drawing_cells.drawing_hash(cell.source)}


def course_notebooks(root: Path | None = None) -> list[Path]:
    """The chapters, in order."""
    return sorted(((root or project_root()) / "notebooks").glob("*.ipynb"))


def check_all(paths: list[Path], *, fix: bool = False) -> int:
    """Print every breach of the notebooks (default: all chapters); returns the exit code. ``fix`` first draws the
    drawings and writes the canonical form."""
    count = 0
    for path in paths or course_notebooks():
        if fix:
            notebook = read(path)
            draw(notebook)
            path.write_text(canonical(notebook), encoding="utf-8")
        for breach in breaches(path):
            print(breach)
            count += 1
    print(f"{count} rules broken" if count else "every rule is kept", file=sys.stderr)
    return 1 if count else 0
