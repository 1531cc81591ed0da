"""Small grey pictures side by side: what a kernel made of an image."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
import numpy as np
from numpy.typing import NDArray

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import RC, RULE


def image(images: Mapping[str, NDArray[np.uint8]], *, summary: str = "", width: float = 8.6) -> Picture:
    """Show grey images (0 black … 255 white) side by side, each under its name.

    Args:
        images: two-dimensional arrays by name.
        summary: the sentence below; says the sizes when empty.
        width: of the whole figure, in inches.

    Raises:
        ValueError: no image, or an array that is not two-dimensional.
    """
    if not images:
        raise ValueError("image needs at least one array; got none")
    for name, pixels in images.items():
        if np.ndim(pixels) != 2:
            raise ValueError(f"image: {name!r} must have two dimensions (rows, columns); got {np.ndim(pixels)}")
    tallest = max(pixels.shape[0] / pixels.shape[1] for pixels in images.values())
    with matplotlib.rc_context(RC):
        figure = blank(width, 0.36 + (width / len(images) - 0.08) * tallest)
        for axes, (name, pixels) in zip(figure.subplots(1, len(images), squeeze=False)[0], images.items(), strict=True):
            axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(True)
            axes.spines[:].set_color(RULE)
            axes.set_title(name, fontsize=9.5)
    sizes = ", ".join(f"{name} ({pixels.shape[1]} × {pixels.shape[0]})" for name, pixels in images.items())
    return Picture(figure, summary or f"Images: {sizes}.", f"Grey images side by side: {sizes}.")
