"""Lines of Python by layer, with the largest module of each; and the folders with most modules.

    python -m bench.size [ROOT]

Counts every line of every ``.py`` file, comments and blank lines included.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

LAYERS = (
    "cudalab/sim/compiler", "cudalab/sim/machine", "cudalab/sim/device", "cudalab/sim/cudart", "cudalab/sim/driver",
    "cudalab/sim/cupy", "cudalab/sim/cupyx", "cudalab/sim", "cudalab/analysis", "cudalab/cells", "cudalab/checks",
    "cudalab/dev", "cudalab/grading", "cudalab/installation", "cudalab/plots", "cudalab/timeline", "cudalab/widgets",
    "cudalab", "bench", "tests",
)  # fmt: skip
"""A file belongs to the first of these that holds it."""


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lines: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    largest: dict[str, tuple[int, str]] = {}
    for top in ("cudalab", "bench", "tests"):
        for file in (root / top).rglob("*.py"):
            name = file.relative_to(root).as_posix()
            layer = next(layer for layer in LAYERS if name.startswith(f"{layer}/"))
            count = len(file.read_text(encoding="utf-8").splitlines())
            lines[layer] += count
            modules[layer] += 1
            folders[file.parent.relative_to(root).as_posix()] += 1
            largest[layer] = max(largest.get(layer, (0, "")), (count, name))
    print(f"{'layer':<22} {'modules':>8} {'lines':>8}   largest")
    for layer in filter(lines.__getitem__, LAYERS):
        count, name = largest[layer]
        print(f"{layer:<22} {modules[layer]:>8} {lines[layer]:>8,}   {name} ({count})")
    for top in ("cudalab", "bench", "tests"):
        total = sum(count for layer, count in lines.items() if layer.split("/")[0] == top)
        print(f"all of {top:<15} {'':>8} {total:>8,}")
    print("folders with most modules: " + ", ".join(f"{name} ({count})" for name, count in folders.most_common(5)))


if __name__ == "__main__":
    main()
