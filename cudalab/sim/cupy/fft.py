"""``cupy.fft``: Fourier transforms on the device; on a GPU they are cuFFT's. Single precision stays single."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.creation import array
from cudalab.sim.cupy._core.derivation import derived, require_arrays, shaped

_TRANSFORMS = (
    "fft", "fft2", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftn",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _TRANSFORMS:
        function = globals()[name] = derived("cupy.fft", name, _transform(name))
        return function
    raise catalogue.missing("cupy.fft", name)


def __dir__() -> list[str]:
    return sorted({*catalogue.offered("cupy.fft", globals()), *_TRANSFORMS})


def _transform(name: str) -> Any:
    function = getattr(np.fft, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        require_arrays(arguments, 1)
        return shaped(f"cupy_{name}", function, arguments, keywords)

    return call


def fftfreq(n: int, d: float = 1.0) -> ndarray:
    """Frequencies of a transform of ``n`` points."""
    return array(np.fft.fftfreq(n, d))


def rfftfreq(n: int, d: float = 1.0) -> ndarray:
    """Frequencies of a transform of ``n`` real points."""
    return array(np.fft.rfftfreq(n, d))
