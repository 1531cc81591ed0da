"""What the assembler answered (``record``), kept in ``accepted.npz``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_name("accepted.npz")
ARCHITECTURES = ("sm_90", "sm_100", "sm_100a", "sm_120a")
"""The simulated device's own, and newer ones whose forms a learner may compile for."""


def save(answers: dict[str, np.ndarray], digest: str, version: str) -> None:
    about = json.dumps({"digest": digest, "assembler": f"nvidia-nvjitlink {version}"}).encode()
    np.savez_compressed(PATH, about=np.frombuffer(about, np.uint8), **answers)  # type: ignore[arg-type]


def load() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The number of the operands taken for each form (0: none), by architecture; and where the answers come from."""
    with np.load(PATH) as stored:
        answers = {name: stored[name] for name in stored.files if name != "about"}
        return answers, json.loads(stored["about"].tobytes())
