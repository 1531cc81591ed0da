"""Kernels that attack: a class hands them in, beside one student who has it right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.grading.attacks.kernels import ATTACKS, RIGHT, SECRET
from tests.grading.handed_in import grade, hand_in, scores


@pytest.mark.parametrize("aim", ATTACKS)
def test_they_earn_nothing_and_harm_nobody(aim: str, tmp_path: Path, bwrap_path: str) -> None:
    """Each gets a verdict, or is ended, and no mistake of the grader's; nothing is read, nothing written."""
    secret, folder, out = tmp_path / "secret.txt", tmp_path / "submitted", tmp_path / "out"
    secret.write_text(SECRET)
    for name, text in ATTACKS[aim].items():
        hand_in(folder, name, {"reverse": text.replace("{secret}", str(secret)).replace("{folder}", str(tmp_path))})
    hand_in(folder, "zoe", {"reverse": RIGHT})
    (tmp_path / "lab.toml").write_text('exercises = ["04.1"]\nseed = 1\n')
    before = _contents(folder)
    assert grade(folder, "--out", out, "--settings", tmp_path / "lab.toml", "--seconds", "20") in (0, 3)
    got = {name.partition("/")[0]: score for name, score in scores(out).items()}
    earned = {name: score for name, score in got.items() if score["points"]}
    assert list(earned) == ["zoe"] and got["zoe"]["points"] == 3, earned or got["zoe"]
    odd = {name: score["note"] for name, score in got.items() if score["state"] not in ("graded", "ended")}
    assert not odd and got.keys() == {*ATTACKS[aim], "zoe"}
    assert _contents(folder) == before and secret.read_text() == SECRET
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.toml", "out", "secret.txt", "submitted"]
    written = [path for path in out.rglob("*") if path.suffix in (".csv", ".json", ".html", ".txt")]
    assert written and not any(SECRET in path.read_text(encoding="utf-8") for path in written)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.ipynb")}
