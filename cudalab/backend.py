"""The one place that decides: a real GPU, or the simulated device.

``CUDALAB_DEVICE`` asks for one: ``gpu``, ``sim`` (a simulated H200) or ``sim:PROFILE``. Unset, the GPU is taken where
driver, CuPy and ``cuda.bindings`` work together, and the simulated device elsewhere. Asking for a GPU that cannot be
used is an error that says why, never a silent fall-back. The decision is taken once, when one of ``cp``, ``cudart``,
``driver`` and ``cupyx`` is first used, and holds for the life of the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

from cudalab.installation.gpu_probe import Gpu, NoGpu, probe

VARIABLE = "CUDALAB_DEVICE"
DEFAULT_PROFILE = "h200"


class DeviceChoiceError(RuntimeError):
    """The device that ``CUDALAB_DEVICE`` asks for cannot be had; the message says why and what to do."""


@dataclass(frozen=True)
class Choice:
    """Which device runs the cells, and why."""

    kind: Literal["gpu", "sim"]
    profile: str
    """Name of the simulated device's profile; empty on a GPU."""

    reason: str
    """One sentence: why this device, and why the other was not taken."""

    @property
    def label(self) -> str:
        """What its times are: ``measured`` or ``modelled``."""
        return "measured" if self.kind == "gpu" else "modelled"


def installed_cupy() -> dict[str, str]:
    """CuPy distributions that are installed, name → version (two at once disturb each other)."""
    found = {}
    for name in ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def gpu_problem(gpu: Gpu) -> str | None:
    """Why Python cannot use this GPU and how to mend it; None when it can."""
    mend = f"run `python -m cudalab setup` in the course's folder, or `pip install 'cudalab[{gpu.extra}]'`"
    if find_spec("cupy") is None:
        return f"{gpu.names[0]} is here, but CuPy is not installed; {mend}"
    for name in installed_cupy():
        if name.startswith("cupy-cuda") and int(name[9:11]) > gpu.cuda[0]:
            driver = f"{gpu.cuda[0]}.{gpu.cuda[1]}"
            return f"{gpu.names[0]} is here, but {name} is installed and its driver runs CUDA {driver} at most; {mend}"
    try:
        import_module("cuda.bindings.runtime")
        import_module("cupy").cuda.runtime.getDeviceCount()
    except Exception as error:  # a broken installation can fail in any way; the reason goes to the learner
        return f"{gpu.names[0]} is here, but CuPy cannot use it ({type(error).__name__}: {error}); {mend}"
    return None


def decide(
    request: str,
    found: Gpu | NoGpu,
    problem: Callable[[Gpu], str | None] = gpu_problem,
) -> Choice:
    """Choose a device.

    ``request`` is the text of ``CUDALAB_DEVICE`` (empty when unset), ``found`` what the driver says, ``problem`` tells
    why a GPU cannot be used from Python. Raises ``DeviceChoiceError``.
    """
    wanted, _, profile = request.partition(":")
    if wanted not in ("", "gpu", "sim") or (profile and wanted != "sim"):
        raise DeviceChoiceError(
            f"{VARIABLE} is {request!r}, which names no device. Use gpu, sim, or sim:PROFILE, or leave it unset."
        )
    if wanted == "sim":
        profiles = import_module("cudalab.sim.device.profile")
        try:
            profile = profiles.load(profile or DEFAULT_PROFILE).name
        except profiles.ProfileError as error:
            raise DeviceChoiceError(f"{VARIABLE} is {request!r}: {error}") from None
        return Choice("sim", profile, f"{VARIABLE}={request} asks for the simulated device.")
    trouble = found.reason if isinstance(found, NoGpu) else problem(found)
    if wanted == "gpu":
        if trouble is not None:
            raise DeviceChoiceError(
                f"{VARIABLE}=gpu asks for a real GPU, but {trouble}. To use the simulated device, choose the kernel "
                f"'CUDA: simulated H200', or set {VARIABLE}=sim, and restart."
            )
        return Choice("gpu", "", f"{VARIABLE}=gpu asks for this machine's GPU.")
    if trouble is None:
        return Choice(
            "gpu", "", f"A working GPU was found, so the simulated device is not used ({VARIABLE}=sim takes it)."
        )
    return Choice("sim", DEFAULT_PROFILE, f"The simulated device is used because {trouble}.")


@cache
def choice() -> Choice:
    """The decision of this process."""
    return decide(os.environ.get(VARIABLE, ""), probe())


def simulated_device() -> Any:
    """The simulated device of this process (``cudalab.sim.device.Device``), made when it is first needed."""
    if choice().kind != "sim":
        raise DeviceChoiceError("This process uses a real GPU; there is no simulated device to ask.")
    return import_module("cudalab.sim.device").current_device()


_MODULES = {
    ("cp", "gpu"): "cudalab.recording",
    ("cp", "sim"): "cudalab.sim.cupy",
    ("cudart", "gpu"): "cuda.bindings.runtime",
    ("cudart", "sim"): "cudalab.sim.cudart",
    ("driver", "gpu"): "cuda.bindings.driver",
    ("driver", "sim"): "cudalab.sim.driver",
    ("cupyx", "gpu"): "cupyx",
    ("cupyx", "sim"): "cudalab.sim.cupyx",
}


def __getattr__(name: str) -> ModuleType:
    if name not in ("cp", "cudart", "driver", "cupyx"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_MODULES[name, choice().kind])
    if module.__name__ == "cudalab.recording":
        module = module.cp
    if name == "cupyx":
        import_module(f"{module.__name__}.profiler")
    globals()[name] = module
    return module
