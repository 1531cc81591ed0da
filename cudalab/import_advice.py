"""One sentence for ``import cupy`` where it cannot help.

Every tutorial begins with ``import cupy as cp`` or ``from cuda.bindings import runtime``. Where CuPy is not installed
that import fails, and where it is installed but no GPU works, the first array does, with an error that speaks of
drivers. A finder in ``sys.meta_path`` says in both cases what to write instead: in the error of the import, or in a
warning. The import itself is never changed: what is installed is imported, and code that only asks
(``importlib.util.find_spec``) gets the answer that it would get without this.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_CUPY = "Write `from cudalab import cp` in place of `import cupy as cp`"
_RUNTIME = "Write `from cudalab import cp, cudart, driver`, for CuPy and the calls of runtime and driver"
_KERNELS = "Kernels are CUDA C++ here: write `from cudalab import cp`, and compile with cp.RawKernel or %%cuda"
INSTEAD = {
    "cupy": _CUPY,
    "cupyx": "Write `from cudalab import cp, cupyx` in place of `import cupyx`",
    "cuda": _RUNTIME,
    "cuda.bindings": _RUNTIME,
    "cuda.cudart": _RUNTIME,
    "cuda.cuda": _RUNTIME,
    "cuda.core": "Streams, events and kernels are in CuPy, as `from cudalab import cp`",
    "numba": _KERNELS,
    "nvtx": "Write `from cudalab import cp, cupyx`, and cupyx.profiler.time_range(…)",
    "pycuda": _KERNELS,
}
"""What to write instead of an import, by the module's name."""
_NEEDS_GPU = ("cupy", "cupyx", "cuda.bindings", "cuda.cudart", "cuda.cuda")
_BOTH = "That runs on a GPU where there is one, and on the simulated device elsewhere."


class AdviceFinder:
    """A finder that asks the others, and speaks up when they find nothing, or something that no GPU is there for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        instead = INSTEAD.get(fullname)
        if instead is None:
            return None
        importer = _importer()
        if importer is None:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for finder in others if (found := finder.find_spec(fullname, path, target))), None)
        if spec is None:
            # Under the module's own name Python would drop the error of `from cuda import cudart`.
            raise ModuleNotFoundError(f"No module named {fullname!r}. {instead}. {_BOTH}", name=fullname.split(".")[0])
        if fullname in _NEEDS_GPU and importer.f_globals.get("__name__") == "__main__":
            from cudalab.installation import gpu_probe  # each import of cudalab would pay for it

            gpu = gpu_probe.probe()
            if isinstance(gpu, gpu_probe.NoGpu):
                _warn(
                    f"{fullname} is installed, but {gpu.reason}, so its first call fails. {instead}. {_BOTH}", importer
                )
        return spec


def _importer() -> FrameType | None:
    """The frame that is importing; None when somebody only asks whether the module exists."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib._bootstrap"):
        frame = frame.f_back
    return None if frame is None or frame.f_globals.get("__name__") == "importlib.util" else frame


def _warn(text: str, importer: FrameType) -> None:
    """A warning at the line of the import."""
    warnings.warn_explicit(text, UserWarning, importer.f_code.co_filename, importer.f_lineno)


def install() -> None:
    """Put the finder in front of the others, once."""
    if not any(isinstance(finder, AdviceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AdviceFinder())
