"""What an H200 answered: ``h200.npz``, written by ``record``.

For each recorded kernel it holds the elements of its outputs one after the other, at most ``RECORDED`` of each, and a
digest of the kernel with its input, so that a stale answer is noticed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.sim.compiler.opcodes.kernel import DTYPES, RECORDED, Kernel, Output

PATH = Path(__file__).parent / "h200.npz"


def pack(kernel: Kernel, memory: np.ndarray) -> np.ndarray:
    """The part of a kernel's output that is kept."""
    parts = [output.take(memory)[:RECORDED].view(np.uint8) for output in kernel.results]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8)


def unpack(kernel: Kernel, stored: np.ndarray) -> list[tuple[Output, np.ndarray]]:
    """Outputs and the device's elements."""
    found, offset = [], 0
    for output in kernel.results:
        size = output.size * min(RECORDED, output.count)
        found.append((output, stored[offset : offset + size].view(DTYPES[output.size])))
        offset += size
    return found


def save(path: Path, answers: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(path, about=text, **answers)


def load(path: Path = PATH) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Answers by kernel, and what is known of the device and of the kernels (``digests``)."""
    with np.load(path) as archive:
        answers = {name: archive[name] for name in archive.files}
    about = json.loads(answers.pop("about").tobytes())
    return answers, about
