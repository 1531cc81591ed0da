"""Every chapter: keeps the rules, and runs from top to bottom on the simulated device with the recorded values."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest

from cudalab.checks import exercises
from cudalab.dev import notebook_format as rules
from cudalab.sim.machine.reports import card
from tests.notebooks import cell_watch, planted
from tests.notebooks.chapter import Printed, fresh_shell

ROOT = Path(__file__).parents[2]
CHAPTERS = rules.course_notebooks(ROOT)
EXPECTED = (
    "00_start_here.ipynb",
    "01_programming_model.ipynb",
    "03_initialization.ipynb",
    "04_device_memory.ipynb",
    "05_l2_persistence.ipynb",
    "06_shared_memory_matmul.ipynb",
    "08_pinned_memory.ipynb",
    "09_memory_order.ipynb",
    "11_streams.ipynb",
    "12_stream_priorities.ipynb",
    "14_events.ipynb",
    "15_graphs.ipynb",
    "21_pipeline.ipynb",
)
CELL_TIMEOUT = 120  # seconds
LEAST_COMPARED = 6  # cells a chapter; the start page teaches no chapter of its own

each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def run_nbval(path, folder, device="sim", watched=None):
    """Run one notebook through nbval in its lax mode, on a device; (pytest's result, what nbval did). To the file
    ``watched`` the kernel writes what the sanitizer and the hazard report say of each cell."""
    witness = Path(folder) / "witness.json"
    command = [sys.executable, "-m", "pytest", str(path), "--nbval-lax", "--nbval-current-env"]
    command += [
        f"--nbval-cell-timeout={CELL_TIMEOUT}",
        "-p",
        "tests.notebooks.nbval_witness",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    command += ["-o", "verbosity_assertions=2"]  # whole comparisons
    command += ["-o", "addopts=", "-o", "filterwarnings=", "-o", "timeout=0", "--rootdir", str(path.parent)]
    environment = os.environ | {"CUDALAB_DEVICE": device, "CUDALAB_WITNESS": str(witness), "PYTHONPATH": str(ROOT)}
    if watched is not None:
        environment["IPYTHONDIR"] = str(cell_watch.startup_folder(Path(folder) / "ipython", watched))
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return ended, json.loads(witness.read_text()) if witness.exists() else None


def test_all_chapters_are_there():
    assert {path.name for path in CHAPTERS} >= set(EXPECTED)


@each_chapter
def test_chapter_has_tests_of_its_compared_cells(path):
    assert path.name == EXPECTED[0] or (Path(__file__).parent / f"test_chapter_{path.name[:2]}.py").exists()


@each_chapter
def test_chapter_keeps_the_rules(path):
    assert [str(breach) for breach in rules.breaches(path)] == []


@each_chapter
def test_chapter_lists_its_exercises(path):
    text = "\n".join(cell.source for cell in rules.read(path).cells if cell.cell_type == "markdown")
    there = [exercise.id for exercise in exercises() if exercise.id.startswith(path.name[:2])]
    assert re.findall(r"^- \*\*(\d\d\.\d)\*\*", text, re.MULTILINE) == there


def listed(path, what):
    """``SENTENCES`` about numbers, or ``GAINS``, that the tests of a chapter list."""
    if path.name == EXPECTED[0]:
        return ()
    return getattr(import_module(f"tests.notebooks.test_chapter_{path.name[:2]}"), what, ())


def test_chapters_that_await_a_gpu_say_so():
    """Those on the list that are there have outputs of the simulated device, so that the list shrinks with them, and
    the README names them."""
    waiting = [path for path in CHAPTERS if path.name[:2] in rules.AWAITING_GPU]
    for path in waiting:
        stamps = [cell.metadata.get(rules.RECORD, {}) for cell in rules.read(path).cells]
        assert any(stamp.get("device", "").startswith(rules.SIMULATED) for stamp in stamps), path.name
    said = re.search(r"recorded on the simulated device so far: ((?:\d\d(?:, )?)+)", (ROOT / "README.md").read_text())
    assert (said[1].split(", ") if said else []) == [path.name[:2] for path in waiting]


@each_chapter
@pytest.mark.timeout(900)
def test_chapter_runs_and_agrees_with_the_record(path, tmp_path):
    """And nothing is found in it but what is wrong on purpose: each launch runs under all tools of the sanitizer, and
    hazards are noted."""
    ended, witness = run_nbval(path, tmp_path, watched=tmp_path / "watched.jsonl")
    assert ended.returncode == 0, ended.stdout[-6000:]
    code = [cell for cell in rules.read(path).cells if cell.cell_type == "code" and cell.source.strip()]
    assert len(witness["collected"]) == len(code)
    marked = [number for number, cell in enumerate(code) if rules.is_compared(cell)]
    assert sorted(witness["compared"]) == marked
    assert len(marked) >= LEAST_COMPARED or path.name == "00_start_here.ipynb"
    printed = {cell.id: Printed.of(witness["outputs"][str(number)]) for number, cell in enumerate(code)}
    assert [str(sentence) for sentence in listed(path, "SENTENCES") if not sentence.is_true(printed)] == []
    recorded = {cell.id: Printed.of(cell.outputs) for cell in code}
    assert [each for gain in listed(path, "GAINS") for each in gain.differences(recorded, printed)] == []
    planted.compare(path, [cell.id for cell in code], cell_watch.written_to(tmp_path / "watched.jsonl"))


def recorded_notebook(tmp_path, *cells):
    path = tmp_path / "small.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=list(cells))), encoding="utf-8")
    return path


def printing(source, text, count=1):
    output = nbformat.v4.new_output("stream", text=text)
    return nbformat.v4.new_code_cell(source, outputs=[output], execution_count=count)


def test_a_wrong_stored_value_is_found(tmp_path):
    path = recorded_notebook(tmp_path, printing("# NBVAL_CHECK_OUTPUT\nprint(6 * 7)", "41\n"))
    ended, witness = run_nbval(path, tmp_path)
    assert ended.returncode == 1 and witness["compared"] == [0]


def test_what_nbval_skips_in_silence_is_seen(tmp_path):
    """A trailing marker, and a cell without an execution count: nbval passes both, and the witness tells."""
    path = recorded_notebook(
        tmp_path,
        printing("print(6 * 7)  # NBVAL_CHECK_OUTPUT", "41\n"),
        nbformat.v4.new_code_cell("# NBVAL_CHECK_OUTPUT\n1"),
    )
    ended, witness = run_nbval(path, tmp_path)
    assert ended.returncode == 0
    assert (witness["collected"], witness["compared"]) == ([0, 1], [])


def test_a_notebook_leaves_no_names_behind():
    """Else the messages of another test call its streams by them."""
    with fresh_shell() as shell:
        assert shell.run_cell("from cudalab import cp\nurgent = cp.cuda.Stream()").success
        assert "urgent" in card.stream_names().values()
    assert "urgent" not in card.stream_names().values()
