"""What a wheel holds, and how the commands that need the course answer where only the wheel is installed."""

import email
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git keeps, so that nothing is left in the checkout."""
    place = tmp_path_factory.mktemp("wheel")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.rstrip("\0").split("\0"):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (place / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "source" / name).write_bytes((ROOT / name).read_bytes())
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", build, str(place)], cwd=place / "source", capture_output=True, check=True
    )
    (made,) = place.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_wheel_says_what_it_is(wheel: Path, names: list[str]) -> None:
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    text = email.message_from_bytes(zipfile.ZipFile(wheel).read(metadata))
    assert text["Name"] == "cudalab" and text["Requires-Python"] == ">=3.11"
    assert text["License-Expression"] == "MIT AND CC-BY-4.0"
    assert {*text.get_all("License-File")} == {"LICENSE", "LICENSE-TEXT"}
    assert text["Description-Content-Type"] == "text/markdown"
    assert (ROOT / "README.md").read_text().splitlines()[0] in text.get_payload()
    assert any(line.startswith("msgspec") for line in text.get_all("Requires-Dist"))


def test_wheel_holds_the_library_and_its_data(names: list[str]) -> None:
    assert {"cudalab/py.typed", "cudalab/__main__.py", "cudalab/sim/cupy/catalogue.json"} <= set(names)
    tracked = subprocess.run(
        ["git", "ls-files", "cudalab"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    missing = {name for name in tracked.split() if (ROOT / name).is_file()} - set(names)
    assert not missing
    foreign = {name.split("/")[0] for name in names} - {"cudalab"}
    assert all(name.endswith(".dist-info") for name in foreign), "no notebooks, exercises or tests"


def test_quiz_questions_are_under_the_licence_of_the_text(wheel: Path, names: list[str]) -> None:
    assert any(name.startswith("cudalab/widgets/questions/") for name in names)
    (licence,) = (name for name in names if name.endswith("/LICENSE-TEXT"))
    assert "cudalab/widgets/questions/" in zipfile.ZipFile(wheel).read(licence).decode()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files in a folder of their own, in place of an installation."""
    place = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(place)
    return place


@pytest.mark.parametrize("command", ["lab", "test", "record", "exercises", "notebooks", "lock", "setup"])
def test_commands_that_need_the_course_answer_with_a_sentence(installed: Path, tmp_path: Path, command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cudalab", command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{command}: this needs the course") and str(installed) in ended.stderr
    assert "Traceback" not in ended.stderr and "make lab" in ended.stderr
