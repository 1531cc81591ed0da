"""Small CuPy programs, one behaviour each, that both the real and the simulated CuPy run.

They stand in `programs.txt`. `facts.json` holds what the real one answered (`record.py` writes it on a machine with a
GPU). `cp` and `np` are there for each. The families `kernels…` launch kernels; `differs` lists where CuPy is not NumPy.
"""

from __future__ import annotations

from pathlib import Path


def _read() -> dict[str, str]:
    found: dict[str, str] = {}
    _, *families = (Path(__file__).parent / "programs.txt").read_text().split("\n== ")
    for text in families:
        name, _, body = text.partition("\n")
        before, mark, after = body.partition("\n--\n")
        common, programs = (before.strip("\n") + "\n", after) if mark else ("", body)
        for number, program in enumerate(part.strip("\n") for part in programs.split("\n\n") if part.strip()):
            found[f"{name}.{number:03d}"] = common + program
    return found


PROGRAMS = _read()
