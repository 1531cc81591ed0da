"""DLPack: arrays handed from one library to another without a copy (Python Specification for DLPack).

On a GPU the capsule holds an address of device memory, which the other library's kernels use. Memory of the simulated
device is of no use to them, so an array stays within this CuPy (:func:`from_dlpack` gives a view of it), or goes to the
host as a copy, as ``np.from_dlpack(a, device="cpu")`` asks for.
"""

from __future__ import annotations

from typing import Any

from cudalab.sim.cupy._core.array import define, ndarray

_CPU, _CUDA, _CUDA_MANAGED = 1, 2, 13
_INSTEAD = "cp.asnumpy(a) gives a NumPy array, which every library takes, and cp.asarray(b) brings one back"


def _dlpack_device(a: ndarray) -> tuple[int, int]:
    """Kind of memory (2: CUDA) and number of the device."""
    return _CUDA, int(a.device.id)


def _dlpack(
    a: ndarray,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule of a copy on the host, for ``dl_device=(1, 0)``. Raises ``BufferError`` for any other."""
    if dl_device is None or dl_device[0] != _CPU:
        raise BufferError(f"other libraries cannot reach memory of the simulated device: {_INSTEAD}")
    if copy is False:
        raise ValueError("an array on the device reaches the host by a copy only; leave copy=False out")
    return a.get(order="A").__dlpack__()


def from_dlpack(array: Any, *, device: Any = None, copy: bool | None = None) -> ndarray:
    """An array from another array library, without a copy.

    Raises:
        TypeError: the array is on the host.
        BufferError: it is in memory that the simulated device does not have.
    """
    if device is not None:
        # CuPy's own limit, and its words
        raise NotImplementedError("from_dlpack() does not support device yet.")
    if isinstance(array, ndarray):
        return array.copy() if copy else array.view()
    kind = array.__dlpack_device__()[0] if hasattr(array, "__dlpack_device__") else None
    if kind == _CPU:
        raise TypeError(
            "CPU arrays cannot be directly imported to CuPy. Use `cupy.array(numpy.from_dlpack(input))` instead."
        )
    if kind not in (_CUDA, _CUDA_MANAGED, None):
        raise TypeError(f"Unsupported array type: {kind}")
    raise BufferError(
        f"the simulated device cannot reach the memory of a {type(array).__name__}: bring it to the host first, and "
        "from there with cp.asarray(…)"
    )


define("__dlpack__", _dlpack)
define("__dlpack_device__", _dlpack_device)
