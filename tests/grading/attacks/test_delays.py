"""What is handed in to keep the grader itself busy, before any limit of a question counts: texts that a careless
pattern reads again and again. Each is read, and its layout looked at, in a time that grows with its length alone."""

from __future__ import annotations

import io
import json
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cudalab.checks import find
from cudalab.grading.grader import wanted
from cudalab.grading.layout import without_layout
from cudalab.grading.reports.tables import printable
from cudalab.grading.submissions import collect
from cudalab.grading.submissions.notebook import LONGEST_ANSWER, read
from tests.grading.handed_in import notebook

WANTED = wanted({"04.1": find("04.1"), "04.2": find("04.2"), "04.4": find("04.4")})
MOST = 8.0
"""Seconds of processor time; what is tried here takes minutes to days where a pattern reads again and again, and about
one second otherwise."""


def _takes_no_time(act: Callable[[], object]) -> None:
    began = time.process_time()
    act()
    assert time.process_time() - began < MOST


def _cells(text: str) -> bytes:
    """A notebook of code cells that carry no id."""
    cell = {"cell_type": "code", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
    return json.dumps({"cells": [cell] * 40, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


NOTEBOOKS = {
    "a text that does not end": b'NaN {"cells": ["' + b'\\"' * (4 << 20),
    "quotation marks": b'"' * (8 << 20),
    "quotation marks, and a number that is none": b"NaN" + b'"' * (1 << 20),
    "half of a number": b"-" * (8 << 20) + b"Infinity",
    "lines that begin with magics": _cells("%%cuda " * (LONGEST_ANSWER // 7)),
    "lines that nearly define": _cells("def " * (LONGEST_ANSWER // 4)),
    "magics, a line each": _cells("%%cuda\n" * (LONGEST_ANSWER // 7)),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_read_in_time(name: str) -> None:
    _takes_no_time(lambda: read(NOTEBOOKS[name], WANTED, "04_lab.ipynb"))


NAMES = {
    "as from Canvas": "_1" * 30_000 + "\n.x",
    "as from Moodle": "_1" * 10_000 + "_assignsubmission_" * 2000 + "!",
    "nearly the course's": "04_" + "1" * 50_000 + "!",
    "digits and lines": "_1_1\n" * 12_000,
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("inside", [True, False], ids=["a folder", "a file"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_in_time(name: str, inside: bool, tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(NAMES[name] + ("/a.ipynb" if inside else ".ipynb"), json.dumps(notebook({})))
    path = tmp_path / "class.zip"
    path.write_bytes(data.getvalue())
    _takes_no_time(lambda: collect([path], WANTED))


def test_a_list_of_files_that_fills_the_memory_is_not_read(tmp_path: Path) -> None:
    """A student's archive of nothing but names, a million of them: ``zipfile`` would make an object of each."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    names = entry * 1_000_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1_000_000 & 0xFFFF, 1_000_000 & 0xFFFF, len(names), 0, 0)
    (tmp_path / "mallory.zip").write_bytes(names + end)
    found, oddities = collect([tmp_path], WANTED)
    assert not found and [one.text for one in oddities] == ["a list of files of 44 MB; left out"]


ANSWERS = {
    "comments that do not end": "%%cuda reverse\n" + "/*" * (LONGEST_ANSWER // 2 - 10),
    "strings that do not end": "%%cuda reverse\n" + '"\\' * (LONGEST_ANSWER // 2 - 10),
    "characters that do not end": "%%cuda reverse\n" + "'\\" * (LONGEST_ANSWER // 2 - 10),
    "one long word": "%%cuda reverse\n" + "a" * (LONGEST_ANSWER - 20),
    "prefixes of strings": "%%cuda reverse\n" + "a'\n" * (LONGEST_ANSWER // 4),
    "signs": "%%cuda reverse\n" + "/+" * (LONGEST_ANSWER // 2 - 10),
    "directives": "%%cuda reverse\n" + "#" * (LONGEST_ANSWER - 20),
    "nearly a directive": "%%cuda reverse\n" + "# \t" * (LONGEST_ANSWER // 3 - 10),
    "blanks": "%%cuda reverse\n#" + " " * (LONGEST_ANSWER - 20),
    "Python: brackets": "a = " + "(" * (LONGEST_ANSWER - 10),
    "Python: a long line": "a = " + "1+" * (LONGEST_ANSWER // 2 - 10) + "1",
    "Python: strings in a row": "a = " + "''" * (LONGEST_ANSWER // 2 - 10),
    "Python: a string of many lines": "a = '''" + "\n" * (LONGEST_ANSWER - 20),
    "Python: lines that go on": "a = 1" + "\\\n" * (LONGEST_ANSWER // 2 - 10),
    "Python: numbers": "a = " + "1_" * (LONGEST_ANSWER // 2 - 10),
    "Python: steps": "\n".join(" " * at + "if 1:" for at in range(400)),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ANSWERS)
def test_the_layout_of_an_answer_is_looked_at_in_time(name: str) -> None:
    assert len(ANSWERS[name]) <= LONGEST_ANSWER
    _takes_no_time(lambda: without_layout(ANSWERS[name]))
    _takes_no_time(lambda: printable(ANSWERS[name]))
