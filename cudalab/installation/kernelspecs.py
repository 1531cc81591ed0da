"""The course's entries of JupyterLab's kernel picker, and its extension: highlighting of ``%%cuda``, the start page.

A kernelspec is a folder with a ``kernel.json``. All start the same Python; they differ in ``CUDALAB_DEVICE``. The
notebooks of the course name the plain ``python3`` kernel, which every Jupyter has and with which cudalab itself takes
the GPU where there is one; these entries are for those who want to choose. The user's own profiles have entries too,
renewed at each start of JupyterLab. Standard library only: set-up calls it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

GPU = "cudalab-gpu"
KERNELSPECS = {
    GPU: ("CUDA: this machine's GPU", "gpu"),
    "cudalab-sim": ("CUDA: simulated H200", "sim:h200"),
    "cudalab-sim-h100": ("CUDA: simulated H100", "sim:h100"),
}
OWN = "cudalab-own-"
"""Prefix of the entries of the user's own profiles."""


def install(
    prefix: Path, python: Path, own_profiles: Mapping[str, str] | None = None, *, gpu: bool = False
) -> list[Path]:
    """Write the kernelspecs and the JupyterLab extension below ``prefix/share/jupyter``; returns the folders.

    ``python`` is the interpreter that the kernels start; ``gpu``: is there a GPU to choose? ``own_profiles`` has the
    titles of the user's own profiles by name; their entries replace those of an earlier call, and ``None`` leaves them
    alone.
    """
    kernels = prefix / "share" / "jupyter" / "kernels"
    wanted = {name: entry for name, entry in KERNELSPECS.items() if gpu or name != GPU}
    for folder in (kernels / name for name in KERNELSPECS.keys() - wanted.keys()):
        shutil.rmtree(folder, ignore_errors=True)
    if own_profiles is not None:
        wanted |= {f"{OWN}{name}": (f"CUDA: {title}", f"sim:{name}") for name, title in own_profiles.items()}
        for folder in kernels.glob(f"{OWN}*"):
            shutil.rmtree(folder)
    written = []
    for name, (title, device) in wanted.items():
        folder = kernels / name
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            # With cudalab's extension, `import cupy` in the first cell is told what to write where there is no GPU.
            "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=cudalab"],
            "display_name": title,
            "language": "python",
            "env": {"CUDALAB_DEVICE": device},
            "metadata": {"debugger": True},
        }
        (folder / "kernel.json").write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
        written.append(folder)
    extension = Path(__file__).parents[1] / "labextension"
    if extension.is_dir():
        folder = prefix / "share" / "jupyter" / "labextensions" / "cudalab"
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(extension, folder)
        written.append(folder)
    return written
