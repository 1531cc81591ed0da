"""``cupy.linalg``: linear algebra on the device; on a GPU it is cuSOLVER's and cuBLAS's."""

from __future__ import annotations

from typing import Any

from numpy.linalg import LinAlgError

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core.derivation import MATRICES, matrix_function
from cudalab.sim.cupy._core.manipulation import view_function
from cudalab.sim.cupy._routines.products import matmul

matrix_transpose = view_function("matrix_transpose")

__all__ = ["LinAlgError", "matmul", "matrix_transpose"]


def __getattr__(name: str) -> Any:
    if name in MATRICES:
        function = globals()[name] = matrix_function(name)
        return function
    raise catalogue.missing("cupy.linalg", name)


def __dir__() -> list[str]:
    return sorted({*catalogue.offered("cupy.linalg", globals()), *MATRICES})
