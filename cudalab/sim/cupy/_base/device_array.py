"""The base of ``cupy.ndarray``, by which launches and textures, which arrays themselves rest on, know an array."""

from __future__ import annotations


class DeviceArray:
    """Elements of ``dtype`` in the memory of the device, the first at ``data.ptr``."""

    __slots__ = ()
