"""Which repositories, at which commits, and where a clone of each is looked for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".cu", ".cuh")


@dataclass(frozen=True)
class Repository:
    """A public repository; `commit` is what the stored results were made from."""

    owner: str
    name: str
    commit: str

    @property
    def url(self) -> str:
        return f"https://github.com/{self.owner}/{self.name}.git"

    def clone(self, folder: Path) -> Path:
        """Its files below `folder`, cloned there when they are not.

        Raises:
            subprocess.CalledProcessError: git cannot fetch it.
        """
        target = folder / self.name
        if not target.is_dir():
            subprocess.run(["git", "init", "--quiet", str(target)], check=True)
            git = ["git", "-C", str(target)]
            subprocess.run([*git, "fetch", "--quiet", "--depth=1", self.url, self.commit], check=True)
            subprocess.run([*git, "checkout", "--quiet", "FETCH_HEAD"], check=True)
        return target

    def files(self, folder: Path) -> Iterator[Path]:
        """Every CUDA source of the clone, in order."""
        root = folder / self.name
        yield from sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file())

    def kernel_files(self, folder: Path) -> list[Path]:
        """Those that hold kernels, without headers that another of them includes."""
        found = {path: path.read_text(encoding="utf-8", errors="replace") for path in self.files(folder)}
        included = {
            name.split("/")[-1] for text in found.values() for name in re.findall(r'#\s*include\s*"([^"]+)"', text)
        }
        return [path for path, text in found.items() if "__global__" in text and path.name not in included]


REPOSITORIES = (
    Repository("NVIDIA", "cuda-samples", "c94ff366aed18c797b8a85dfaac7817b0228b420"),
    Repository("NVIDIA-developer-blog", "code-samples", "72d62ec464442786a36754508bcb1094d197d6a5"),
    Repository("ENCCS", "gpu-programming", "87fab1cb29329f6fcf5bf592b96b22ca1c61cec6"),
    Repository("ENCCS", "CUDA", "e1fa6021529f79e57e5e96fe78b87e983eb642d2"),
    Repository("gpu-mode", "lectures", "7cb40f67ad68f59a7c13e9a8c4d8a816a3c68e7a"),
)
