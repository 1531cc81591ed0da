"""What an H200 gave: whole arrays where a tolerance holds, a digest of all bits elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .kernel import Entry, Launch, load_corpus
from .run import digest

STORED = Path(__file__).parent / "h200.npz"
ABOUT = "about"


def save(
    path: str | Path, about: dict[str, Any], results: dict[str, dict[str, np.ndarray]], kept: Stored | None = None
) -> None:
    """Writes results; ``source`` digests tell later which of them are out of date.

    With ``kept``, those of other entries stay as they were; it must come from the same device, driver and CuPy.
    """
    entries = load_corpus()
    digests: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    if kept is not None:
        for key in ("device", "driver", "cupy"):
            if kept.about[key] != about[key]:
                raise ValueError(f"the stored results are of {key} {kept.about[key]}, these of {about[key]}: run all")
        digests = {name: row for name, row in kept.entries.items() if name in entries and name not in results}
        for name in digests:
            arrays |= {f"{name}/{key}": value for key, value in kept.arrays(entries[name]).items()}
    for name, values in results.items():
        entry = entries[name]
        alike = {}
        for key, value in values.items():
            if entry.tolerance is not None and value.dtype.kind in "fc":
                arrays[f"{name}/{key}"] = value
            else:
                alike[key] = digest(value)
        digests[name] = {"of": identity(entry), "digests": alike, "date": about["date"]}
    text = json.dumps({ABOUT: about, "entries": digests}, sort_keys=True)
    np.savez_compressed(path, index=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]


class Stored:
    """Results of an H200 by entry."""

    def __init__(self, path: Path = STORED) -> None:
        with np.load(path) as file:
            self._arrays = {key: file[key] for key in file.files}
        index = json.loads(self._arrays.pop("index").tobytes())
        self.about: dict[str, Any] = index[ABOUT]
        self.entries: dict[str, Any] = index["entries"]

    def names(self) -> set[str]:
        return set(self.entries)

    def fits(self, entry: Entry) -> bool:
        """Whether the entry is still the one that ran there."""
        return entry.name in self.entries and self.entries[entry.name]["of"] == identity(entry)

    def digests(self, entry: Entry) -> dict[str, str]:
        return dict(self.entries[entry.name]["digests"])

    def arrays(self, entry: Entry) -> dict[str, np.ndarray]:
        start = entry.name + "/"
        return {key[len(start) :]: value for key, value in self._arrays.items() if key.startswith(start)}


def _spelled(launches: Sequence[Launch]) -> bytes:
    """Launches in words that do not depend on NumPy's version."""
    rows = [(n.kernel, n.grid, n.block, [str(arg) for arg in n.arguments], n.shared, n.cooperative) for n in launches]
    return repr(rows).encode()


def identity(entry: Entry) -> str:
    """Of what decides an entry's results: code (whatever its layout), inputs, launches."""
    data = entry.inputs()
    parts = [" ".join(entry.source.split()).encode(), repr(entry.options).encode(), _spelled(entry.launches(data))]
    for name, value in data.items():
        value = getattr(value, "value", value)
        parts.append(name.encode() + str(getattr(value, "shape", "")).encode())
        if isinstance(value, np.ndarray | np.generic):
            parts.append(value.tobytes())
    return digest(np.frombuffer(b"\0".join(parts), np.uint8))
