"""Archives, folders and notebooks that attack whoever reads them. Zoe stands beside each, and loses nothing."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cudalab.checks import find
from cudalab.grading.bank import Bank
from cudalab.grading.grader import wanted
from cudalab.grading.reports.tables import printable
from cudalab.grading.submissions import Submission, collect, files
from tests.grading.handed_in import notebook

WANTED = wanted({"04.1": find("04.1"), "04.2": find("04.2")})
MINE = "%%cuda reverse\n// mine"
RIGHT = "%%cuda reverse\n// Zoe's"


def _bytes(answers: Mapping[str, str], change: Callable[[dict[str, Any]], None] = lambda made: None) -> bytes:
    made = notebook(answers)
    change(made)
    return json.dumps(made).encode()


def _answer_cell(made: dict[str, Any]) -> dict[str, Any]:
    (cell,) = [c for c in made["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "reverse"]
    found: dict[str, Any] = cell
    return found


def _read(folder: Path, *sources: Path) -> tuple[dict[str, Submission], str]:
    """What is read of a folder with Zoe's notebook in it, and what is said to the teacher."""
    (folder / "zoe").mkdir(parents=True, exist_ok=True)
    (folder / "zoe" / "04_lab.ipynb").write_bytes(_bytes({"reverse": RIGHT}))
    found, oddities = collect(sources or [folder], WANTED)
    assert found["zoe"].answers["04.1"] == RIGHT and not found["zoe"].unclear
    return found, "\n".join(map(str, oddities))


# -- archives ---------------------------------------------------------------------------------------------------------


def _archive(folder: Path, entries: Mapping[str, bytes], **change: Any) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zoe/04_lab.ipynb", _bytes({"reverse": RIGHT}))
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            for field, value in change.items():
                setattr(entry, field, value)
            archive.writestr(entry, data)
    return path


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("../../../mallory/x.ipynb", "mallory"),
        ("/etc/cron.d/x.ipynb", "etc"),
        ("..\\..\\mallory\\x.ipynb", "mallory"),
        ("mallory/../zoe/x.ipynb", "mallory"),
        ("<script>alert(1)</script>/x.ipynb", "_script_alert_1__-"),
        ("=cmd|' -C calc'!A0/x.ipynb", "_cmd__ -C calc__A0-"),
        ("mallory\n\x1b[2J/x.ipynb", "mallory___2J-"),
        ("ZOE/x.ipynb", "ZOE"),
        ("ｚｏｅ/x.ipynb", "zoe-"),
    ],
)
def test_a_name_leads_nowhere(name: str, student: str, tmp_path: Path) -> None:
    """Nothing is unpacked, and a name that looks like another's is not taken for it."""
    before = sorted(tmp_path.rglob("*"))
    archive = _archive(tmp_path / "class", {name: _bytes({"reverse": MINE})})
    found, oddities = collect([archive], WANTED)
    assert found["zoe"].answers["04.1"] == RIGHT and not found["zoe"].unclear
    (other,) = [one for one in found.values() if one.student != "zoe"]
    assert other.answers["04.1"] == MINE
    assert other.student.isprintable() and not set(other.student) & set("/\\<>=|'\"")
    assert other.student == student or (student.endswith("-") and other.student.startswith(student) and oddities)
    assert sorted(tmp_path.rglob("*")) == [*before, archive]
    assert printable("\n".join(map(str, oddities))).isprintable()


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    link = (stat.S_IFLNK | 0o777) << 16
    archive = _archive(tmp_path / "class", {"mallory/x.ipynb": b"../zoe/04_lab.ipynb"}, external_attr=link)
    found, oddities = collect([archive], WANTED)
    assert list(found) == ["zoe"] and "a link" in str(oddities)


def test_a_bomb_is_not_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few KB that would be gigabytes; and many of them use up what is read in all, of their own only."""
    monkeypatch.setattr(files, "LARGEST_NOTEBOOK", 1 << 20)
    archive = _archive(tmp_path / "class", {f"mallory/{at}.ipynb": bytes(8 << 20) for at in range(3)})
    assert archive.stat().st_size < 100_000
    found, oddities = collect([archive], WANTED)
    assert list(found) == ["zoe"] and str(oddities).count("more than 1 MB") == 3


def test_archives_in_archives_end(tmp_path: Path) -> None:
    inner = _bytes({"reverse": MINE})
    for _ in range(5):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("x.ipynb" if inner.startswith(b"{") else "x.zip", inner)
        inner = data.getvalue()
    archive_path = _archive(tmp_path / "class", {"mallory.zip": inner})
    found, oddities = collect([archive_path], WANTED)
    assert list(found) == ["zoe"] and "an archive in an archive" in str(oddities)


def test_an_archive_of_one_student_is_read(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("04_device_memory.ipynb", _bytes({"reverse": MINE}))
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "mallory.zip").write_bytes(data.getvalue())
    found, _ = _read(tmp_path / "class")
    assert found["mallory"].answers["04.1"] == MINE


@pytest.mark.parametrize("kind", ["a folder", "an archive"])
def test_the_dates_in_an_archive_of_ones_own_do_not_count(kind: str, tmp_path: Path) -> None:
    """Mallory's archive is of today, and says that its notebook is of 1999."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(zipfile.ZipInfo("04_lab.ipynb", (1999, 1, 1, 0, 0, 0)), _bytes({"reverse": MINE}))
    if kind == "an archive":
        source = _archive(tmp_path / "class", {"mallory.zip": data.getvalue()}, date_time=(2026, 11, 23, 0, 0, 0))
    else:
        source = tmp_path / "class"
        source.mkdir()
        (source / "mallory.zip").write_bytes(data.getvalue())
    handed_in = collect([source], WANTED)[0]["mallory"].modified
    assert handed_in is not None and handed_in.year >= 2026


@pytest.mark.parametrize("kind", ["a folder", "an archive"])
@pytest.mark.parametrize("limit", ["MOST_FILES", "MOST_BYTES"])
def test_nobody_uses_up_what_others_hand_in(
    kind: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory's files are many, or large; Zoe comes after."""
    monkeypatch.setattr(files, limit, {"MOST_FILES": 50, "MOST_BYTES": 1 << 20}[limit])
    large = json.dumps({"cells": [], "nbformat": 4, "x": " " * 20_000}).encode()
    entries = {f"mallory/{number}/{at}.ipynb": large for number in range(2) for at in range(50)}
    if kind == "an archive":
        source = _archive(tmp_path / "class", entries)
    else:
        source = tmp_path / "class"
        for name, data in {**entries, "zoe/04_lab.ipynb": _bytes({"reverse": RIGHT})}.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(data)
    found, oddities = collect([source], WANTED)
    assert found["zoe"].answers["04.1"] == RIGHT
    assert {"MOST_FILES": "mallory: more than 50 files", "MOST_BYTES": "more than 1 MB"}[limit] in str(oddities[-1])


def _twice(archive: zipfile.ZipFile) -> None:
    for number in range(2):
        archive.writestr("x.ipynb", _bytes({"reverse": f"{MINE}{number}"}))


def _packed(kind: int) -> Callable[[zipfile.ZipFile], None]:
    """A bomb that another method has packed."""
    return lambda archive: archive.writestr("x.ipynb", bytes(20 << 20), kind)


def _deep(archive: zipfile.ZipFile) -> None:
    archive.writestr("a/" * 5000 + "x.ipynb", _bytes({"reverse": MINE}))


def _named(name: str) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr(name, _bytes({"reverse": MINE}))


def _beside(archive: zipfile.ZipFile) -> None:
    """Modules that shadow others, if anybody imported from here."""
    for name in ("numpy.py", "sitecustomize.py", "cudalab/__init__.py", "__main__.py"):
        archive.writestr(name, "raise SystemExit('owned')")
    archive.writestr("x.ipynb", _bytes({"reverse": MINE}))


TRICKS: dict[str, tuple[Callable[[zipfile.ZipFile], None], str | None, str]] = {
    "the same name twice": (_twice, None, "more than once"),
    "a bomb of bzip2": (_packed(zipfile.ZIP_BZIP2), None, "more than 16 MB"),
    "a bomb of LZMA": (_packed(zipfile.ZIP_LZMA), None, "more than 16 MB"),
    "5000 folders": (_deep, MINE, ""),
    "a name of 60,000 characters": (_named("x" * 60_000 + ".ipynb"), MINE, ""),
    "a name with a null": (_named("x\0.ipynb"), None, ""),
    "the name of a drive": (_named("C:\\x.ipynb"), MINE, ""),
    "modules beside it": (_beside, MINE, ""),
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_trick_of_an_archive(trick: str, tmp_path: Path) -> None:
    fill, answer, said = TRICKS[trick]
    (tmp_path / "class").mkdir()
    with zipfile.ZipFile(tmp_path / "class" / "mallory.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        fill(archive)
    found, oddities = _read(tmp_path / "class")
    mallory = found.get("mallory", Submission("mallory"))
    assert (None if mallory.unclear else mallory.answers.get("04.1")) == answer
    assert said in oddities and set(found) <= {"mallory", "zoe"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["class"]


def test_a_size_that_is_a_lie(tmp_path: Path) -> None:
    """Both headers say one byte."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.ipynb", bytes(20 << 20))
    raw = bytearray(data.getvalue())
    for head, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", raw, raw.index(head) + at, 1)
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "mallory.zip").write_bytes(raw)
    found, oddities = _read(tmp_path / "class")
    assert not found.get("mallory", Submission("mallory")).answers and "mallory" in oddities


@pytest.mark.parametrize("damage", ["no archive", "cut off", "a wrong checksum", "encrypted"])
def test_a_damaged_archive_costs_its_own(damage: str, tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("x.ipynb", _bytes({"reverse": MINE}))
    raw = bytearray(data.getvalue())
    if damage == "no archive":
        raw = bytearray(b"PK\x03\x04 and no more")
    elif damage == "cut off":
        del raw[len(raw) // 2 :]
    elif damage == "a wrong checksum":
        raw[60] ^= 0xFF
    else:
        for head, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            struct.pack_into("<H", raw, raw.index(head) + at, 1)
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "mallory.zip").write_bytes(raw)
    found, oddities = _read(tmp_path / "class")
    assert list(found) == ["zoe"] and "mallory.zip" in oddities


# -- folders ----------------------------------------------------------------------------------------------------------


def _link(folder: Path) -> None:
    (folder / "x.ipynb").symlink_to("../zoe/04_lab.ipynb")


def _link_to_a_folder(folder: Path) -> None:
    (folder / "x").symlink_to("../zoe", target_is_directory=True)


def _circle(folder: Path) -> None:
    (folder / "again").symlink_to("..", target_is_directory=True)


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "x.ipynb")


def _device(folder: Path) -> None:
    (folder / "x.ipynb").symlink_to("/dev/zero")


def _folder(folder: Path) -> None:
    (folder / "x.ipynb").mkdir()


@pytest.mark.parametrize("make", [_link, _link_to_a_folder, _circle, _pipe, _device, _folder], ids=lambda m: m.__name__)
def test_what_is_no_file_is_left_out(make: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "class" / "mallory").mkdir(parents=True)
    make(tmp_path / "class" / "mallory")
    found, oddities = _read(tmp_path / "class")
    assert list(found) == ["zoe"] and ("left out" in oddities or make is _folder)


# -- notebooks --------------------------------------------------------------------------------------------------------

TWICE = {
    "the id": (b'"grade_id": "reverse"', b'"grade_id": "other", "grade_id": "reverse"'),
    "the text": (b'"source": "%%cuda reverse', b'"source": "%%cuda reverse // another", "source": "%%cuda reverse'),
    "a mark before all": (b"{", b"\xef\xbb\xbf{"),
}


@pytest.mark.parametrize("name", TWICE)
def test_of_what_is_said_twice_the_last_counts(name: str, tmp_path: Path) -> None:
    """As for Jupyter."""
    old, new = TWICE[name]
    (tmp_path / "class" / "mallory").mkdir(parents=True)
    data = _bytes({"reverse": MINE})
    assert old in data
    (tmp_path / "class" / "mallory" / "x.ipynb").write_bytes(data.replace(old, new, 1))
    found, oddities = _read(tmp_path / "class")
    assert found["mallory"].answers["04.1"] == MINE and not oddities


UNREADABLE = {
    "empty": b"",
    "no JSON": b"\x00\x01\x02",
    "cut off": _bytes({"reverse": MINE})[:-100],
    "nested deep": b"[" * 200_000 + b"]" * 200_000,
    "nested deep in a cell": b'{"nbformat": 4, "cells": ' + b'[{"a":' * 100_000 + b"1" + b"}]" * 100_000 + b"}",
    "UTF-16": _bytes({"reverse": MINE}).decode().encode("utf-16"),
    "cells are none": b'{"nbformat": 4, "cells": {"a": 1}}',
    "a number": b"1e99999",
    "a pickle": b"cos\nsystem\n(S'true'\ntR.",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_notebook_costs_its_own(name: str, tmp_path: Path) -> None:
    (tmp_path / "class" / "mallory").mkdir(parents=True)
    (tmp_path / "class" / "mallory" / "x.ipynb").write_bytes(UNREADABLE[name])
    found, oddities = _read(tmp_path / "class")
    assert not found["mallory"].answers and "mallory" in oddities


def _set(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda made: _answer_cell(made).update({field: value})


def _again(text: str) -> Callable[[dict[str, Any]], None]:
    return lambda made: made["cells"].append({**_answer_cell(made), "source": text})


def _grade_id(value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda made: _answer_cell(made)["metadata"]["nbgrader"].update(grade_id=value)


def _insert_garbage(made: dict[str, Any]) -> None:
    made["cells"][:0] = [1, "x", None, {"cell_type": []}, {"source": {"a": 1}}, {"metadata": []}]


def _without_tests(made: dict[str, Any]) -> None:
    made["cells"] = [cell for cell in made["cells"] if not cell["metadata"].get("nbgrader", {}).get("grade")]


def _with_forged_tests(made: dict[str, Any]) -> None:
    for cell in made["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade"):
            about["points"] = 1000
            cell["source"] = "3"
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "passed"}]
    made["metadata"]["cudalab"] = {"release": "x" * 10_000}


def _many_cells(made: dict[str, Any]) -> None:
    made["cells"] += [{"cell_type": "code", "source": "", "metadata": {}}] * 20_000


def _with_transformers(made: dict[str, Any]) -> None:
    """What would blank the tests, if cells were run."""
    text = "get_ipython().input_transformers_post.append(lambda lines: ['passed = True'])"
    made["cells"].insert(0, {"cell_type": "code", "source": text, "metadata": {}, "outputs": []})


def _with_tests_twice(made: dict[str, Any]) -> None:
    made["cells"] += [cell for cell in made["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]


def _with_one_id(made: dict[str, Any]) -> None:
    for cell in made["cells"]:
        cell["id"] = "same"


def _without_ids(made: dict[str, Any]) -> None:
    for cell in made["cells"]:
        del cell["id"]


def _with_no_numbers(made: dict[str, Any]) -> None:
    """What Jupyter itself writes where an output has them, and a text that has their names."""
    made["cells"][0]["metadata"]["x"] = [float("nan"), float("inf"), -float("inf")]
    _answer_cell(made)["source"] += "\n// NaN, -Infinity, \\"


def _with_large_numbers(made: dict[str, Any]) -> None:
    made["metadata"]["x"] = int("9" * 4000)
    _answer_cell(made)["execution_count"] = -(10**30)


def _with_a_look_alike(made: dict[str, Any]) -> None:
    """A second cell whose id looks the same: a Cyrillic letter."""
    about = {"nbgrader": {"grade_id": "r\u0435verse", "solution": True}}
    made["cells"].insert(0, {**_answer_cell(made), "source": "%%cuda reverse\n// another", "metadata": about})


NOTEBOOKS: dict[str, tuple[Callable[[dict[str, Any]], None], str | None, str]] = {
    "tests deleted": (_without_tests, MINE, ""),
    "tests and points forged": (_with_forged_tests, MINE, ""),
    "tests twice": (_with_tests_twice, MINE, ""),
    "input transformers": (_with_transformers, MINE, ""),
    "one id for all cells": (_with_one_id, MINE, ""),
    "no ids": (_without_ids, MINE, ""),
    "numbers that JSON has not": (_with_no_numbers, MINE + "\n// NaN, -Infinity, \\", ""),
    "numbers without end": (_with_large_numbers, MINE, ""),
    "an id that looks like the answer's": (_with_a_look_alike, MINE, ""),
    "cells of any shape": (_insert_garbage, MINE, "not of the usual form"),
    "more cells than anybody writes": (_many_cells, MINE, "more than 5000 cells"),
    "the answer twice": (_again(MINE), MINE, ""),
    "two answers": (_again("%%cuda reverse\n// another"), None, "more than once"),
    "the answer renamed": (_grade_id("other"), None, "looks like this answer"),
    "the answer's id gone": (_grade_id(None), None, "not of the usual form"),
    "the answer's id a list": (_grade_id(["reverse"]), None, "not of the usual form"),
    "the answer as text": (_set("cell_type", "markdown"), None, "no answer cell"),
    "the answer no text": (_set("source", 7), None, "not of the usual form"),
    "the answer in pieces": (_set("source", ["%%cuda reverse\n", "// mine"]), MINE, ""),
    "the answer too long": (_set("source", "x" * 200_000), None, "characters"),
    "half a character": (_set("source", "%%cuda reverse\n// \ud800"), None, "no notebook that can be read"),
    "metadata that are none": (lambda made: made.update(metadata=[1]), MINE, "metadata"),
    "another format": (lambda made: made.update(nbformat=3), MINE, "format 3"),
}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_only_the_answer_cell_counts(name: str, tmp_path: Path) -> None:
    change, answer, said = NOTEBOOKS[name]
    (tmp_path / "class" / "mallory").mkdir(parents=True)
    (tmp_path / "class" / "mallory" / "x.ipynb").write_bytes(_bytes({"reverse": MINE}, change))
    found, oddities = _read(tmp_path / "class")
    mallory = found["mallory"]
    assert (None if mallory.unclear else mallory.answers.get("04.1")) == answer
    assert said in oddities and len(max(mallory.releases.values(), default="")) <= 80


def test_a_second_file_with_another_answer_is_unclear(tmp_path: Path) -> None:
    (tmp_path / "class" / "mallory").mkdir(parents=True)
    for number in range(2):
        text = f"%%cuda reverse\n// {number}"
        (tmp_path / "class" / "mallory" / f"{number}.ipynb").write_bytes(_bytes({"reverse": text}))
    found, oddities = _read(tmp_path / "class")
    assert "04.1" in found["mallory"].unclear and "more than once" in oddities


# -- whose it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "student", "number"),
    [
        ("alice/lab/04_device_memory.ipynb", "alice", ""),
        ("submitted/alice/lab/04_device_memory.ipynb", "alice", ""),
        ("alice.ipynb", "alice", ""),
        ("Alice Ampere_4711_assignsubmission_file/04_device_memory.ipynb", "Alice Ampere", "4711"),
        ("amperealice_123_456_04_device_memory.ipynb", "amperealice", "123"),
        ("amperealice_LATE_123_456_04_device_memory-1.ipynb", "amperealice", "123"),
        ("04_device_memory.ipynb", "class", ""),
    ],
)
def test_whose_a_notebook_is(path: str, student: str, number: str, tmp_path: Path) -> None:
    file = tmp_path / "class" / path
    file.parent.mkdir(parents=True)
    file.write_bytes(_bytes({"reverse": MINE}))
    ((name, found),) = collect([tmp_path / "class"], WANTED)[0].items()
    assert (name, found.number, found.answers["04.1"]) == (student, number, MINE)


def test_the_same_id_in_two_chapters(tmp_path: Path) -> None:
    """Chapters 08 and 11 have an answer `serve` each; whose it is, the other cells say, and the file's name."""
    known = {name: one for name, one in Bank().exercises.items() if one.kernel == "serve"}
    assert len(known) == 2
    for chapter in ("08", "11"):
        (tmp_path / "alice").mkdir(exist_ok=True)
        made = json.dumps(notebook({"serve": f"def serve(): return {chapter!r}"}, chapter))
        (tmp_path / "alice" / f"of {chapter}.ipynb").write_text(made)
        only = {"cells": [c for c in json.loads(made)["cells"] if "def serve" in "".join(c["source"])], "nbformat": 4}
        (tmp_path / "bob").mkdir(exist_ok=True)
        (tmp_path / "bob" / f"{chapter}_x.ipynb").write_text(json.dumps(only))
    found, _ = collect([tmp_path], wanted(Bank().exercises))
    for student in ("alice", "bob"):
        texts = {name: text for name, text in found[student].answers.items() if name in known}
        assert texts == {name: f"def serve(): return {name[:2]!r}" for name in known} and not found[student].unclear


def test_a_notebook_given_by_itself_is_its_folders(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    path = tmp_path / "alice" / "04_device_memory.ipynb"
    path.write_bytes(_bytes({"reverse": MINE}))
    assert list(collect([path], WANTED)[0]) == ["alice"]
