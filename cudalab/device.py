"""The device banner: ``cudalab.device()``; ``cudalab.reset()`` and ``cudalab.time_limit()``.

Properties are those of ``cudaGetDeviceProperties`` (CUDA Runtime API, "Device Management"), which the simulated device
fills from its profile. The banner says whether times are measured, on a GPU, or modelled, on the simulated device, and
why the other was not taken.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from typing import Any

from cudalab import backend

MIB = 1 << 20
GIB = 1 << 30


class DeviceError(RuntimeError):
    """The device could not be asked, or not be reset; the message says what to do."""


@dataclass(frozen=True)
class DeviceBanner:
    """Which device runs the cells. Shown by Jupyter as a small table."""

    name: str
    """As the driver names it, e.g. ``NVIDIA H200``."""

    kind: str
    """``gpu`` or ``sim``."""

    label: str
    """What times are: ``measured`` or ``modelled``."""

    reason: str
    """Why this device, and why not the other."""

    capability: tuple[int, int]
    """Compute capability (guide, "Compute Capabilities")."""

    driver: str
    """CUDA version of the driver, as ``13.0``."""

    properties: dict[str, Any]
    """The fields of ``cudaDeviceProp`` by name; sizes in bytes."""

    memory_bandwidth: float
    """Peak of global memory in GB/s: memory clock × two transfers a clock × bus width."""

    @property
    def limits(self) -> dict[str, str]:
        """The limits that a launch meets first, as text with units (guide, "Technical Specifications")."""
        of = self.properties
        sizes = (of["maxThreadsDim"], of["maxGridSize"])
        block, grid = (" × ".join(f"{size:,}" for size in dims) for dims in sizes)
        return {
            "streaming multiprocessors": f"{of['multiProcessorCount']}",
            "threads in a warp": f"{of['warpSize']}",
            "threads in a block": f"{of['maxThreadsPerBlock']:,} (at most {block})",
            "blocks in a grid": grid,
            "resident threads an SM": f"{of['maxThreadsPerMultiProcessor']:,}",
            "resident blocks an SM": f"{of['maxBlocksPerMultiProcessor']}",
            "registers an SM": f"{of['regsPerMultiprocessor']:,}",
            "shared memory a block": f"{of['sharedMemPerBlock'] / 1024:.0f} KiB, "
            f"{of['sharedMemPerBlockOptin'] / 1024:.0f} KiB on request",
            "shared memory an SM": f"{of['sharedMemPerMultiprocessor'] / 1024:.0f} KiB",
            "constant memory": f"{of['totalConstMem'] / 1024:.0f} KiB",
            "L2 cache": f"{of['l2CacheSize'] / MIB:.0f} MiB",
            "global memory": f"{of['totalGlobalMem'] / GIB:.1f} GiB",
            "memory bandwidth": f"{self.memory_bandwidth:,.0f} GB/s",
            "copy engines": f"{of['asyncEngineCount']}",
        }

    @property
    def title(self) -> str:
        """One line: the device, and what its times are."""
        which = "" if self.kind == "gpu" else "simulated "
        major, minor = self.capability
        return f"{which}{self.name} (compute capability {major}.{minor}); times are {self.label}"

    def __repr__(self) -> str:
        width = max(map(len, self.limits))
        table = "\n".join(f"  {name:<{width}}  {value}" for name, value in self.limits.items())
        return f"Device: {self.title}.\n{self.reason}\n{table}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left;font-weight:normal'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self.limits.items()
        )
        colour = "#009E73" if self.kind == "gpu" else "#0072B2"
        return (
            f"<div style='border-left:4px solid {colour};padding:2px 10px'>"
            f"<strong>Device: {html.escape(self.title)}.</strong><br>{html.escape(self.reason)}"
            f"<details><summary>Limits of this device</summary><table>{rows}</table></details></div>"
        )


def device() -> DeviceBanner:
    """The device that runs the cells of this process.

    Raises ``DeviceError`` when it cannot be asked (after a sticky error, say), and ``DeviceChoiceError`` when
    ``CUDALAB_DEVICE`` asks for one that cannot be had.
    """
    chosen = backend.choice()
    cudart = backend.cudart
    code, found = cudart.cudaGetDeviceProperties(0)
    if int(code) != 0:
        raise DeviceError(
            f"cudaGetDeviceProperties returned {code.name} ({int(code)}). If an earlier error ended this process's "
            "CUDA, restart the notebook's kernel; on the simulated device cudalab.reset() is enough."
        )
    version = int(cudart.cudaDriverGetVersion()[1])
    properties = _fields(found)
    return DeviceBanner(
        name=properties["name"],
        kind=chosen.kind,
        label=chosen.label,
        reason=chosen.reason,
        capability=(properties["major"], properties["minor"]),
        driver=f"{version // 1000}.{version % 1000 // 10}",
        properties=properties,
        memory_bandwidth=_memory_bandwidth(cudart),
    )


def _memory_bandwidth(cudart: Any) -> float:
    wanted = cudart.cudaDeviceAttr
    _, kilohertz = cudart.cudaDeviceGetAttribute(wanted.cudaDevAttrMemoryClockRate, 0)
    _, bits = cudart.cudaDeviceGetAttribute(wanted.cudaDevAttrGlobalMemoryBusWidth, 0)
    return 2 * int(kilohertz) * 1e3 * int(bits) / 8 / 1e9


def _fields(found: Any) -> dict[str, Any]:
    """Public fields of a ``cudaDeviceProp``: numbers, tuples of numbers, and the name as text."""
    fields: dict[str, Any] = {}
    for name in dir(found):
        if name.startswith("_") or name in ("uuid", "luid", "reserved", "getPtr"):
            continue
        value = getattr(found, name)
        if isinstance(value, bytes):
            value = value.split(b"\0")[0].decode(errors="replace")
        elif isinstance(value, (list, tuple)):
            value = tuple(value)
        elif callable(value):
            continue
        fields[name] = value
    return fields


def time_limit(seconds: float | None = None) -> float:
    """The time limit in seconds, which is set to ``seconds`` if given.

    The simulated device stops a launch when none of its blocks has finished for so long, and a host function that has
    not returned; the environment variable ``CUDALAB_TIME_LIMIT`` is the limit at start, 10 without it. ``math.inf``
    takes the limit away: interrupting the cell still stops a launch. A GPU has no limit, and the call no effect there.

    Raises ``TypeError`` for what is no number, and ``ValueError`` for one that is not above 0.
    """
    given: object = seconds  # callers are not held to the type
    if given is not None and not isinstance(given, Real):
        raise TypeError(f"time_limit takes a number of seconds, got {given!r} ({type(given).__name__}).")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"time_limit takes a number of seconds above 0, got {seconds}.")
    if backend.choice().kind == "gpu":
        return math.inf
    settings = backend.simulated_device().settings
    if seconds is not None:
        settings.time_limit = float(seconds)
    return float(settings.time_limit)


def reset() -> None:
    """Bring the simulated device back to its state at start: memory freed, errors gone, clock at zero.

    Arrays and kernels made before are lost. On a GPU nothing short of a new process does this, and ``DeviceError`` says
    how to get one.
    """
    if backend.choice().kind == "gpu":
        raise DeviceError(
            "A real GPU's context lives as long as its process, and an error such as cudaErrorIllegalAddress stays for "
            "as long. Restart the notebook's kernel (menu Kernel, Restart Kernel), then run the cells again. "
            "%%isolated runs a cell in a process of its own, so that this is not needed."
        )
    backend.simulated_device()
    import_module("cudalab.sim.device").reset()
