"""The two entries of JupyterLab's kernel picker, and the syntax highlighting of ``%%cuda`` cells.

A kernelspec is a folder with a ``kernel.json``. Both start the same Python; they differ in ``CUDALAB_DEVICE``. The
notebooks of the course name the plain ``python3`` kernel, which every Jupyter has and with which cudalab itself takes
the GPU where there is one; the two entries are for those who want to choose. Standard library only: set-up calls it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

KERNELSPECS = {
    "cudalab-gpu": ("CUDA: this machine's GPU", "gpu"),
    "cudalab-sim": ("CUDA: simulated H200", "sim:h200"),
}


def install(prefix: Path, python: Path) -> list[Path]:
    """Write the kernelspecs and the JupyterLab extension below ``prefix/share/jupyter``; returns the folders.

    ``python`` is the interpreter that the kernels start.
    """
    written = []
    for name, (title, device) in KERNELSPECS.items():
        folder = prefix / "share" / "jupyter" / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
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
