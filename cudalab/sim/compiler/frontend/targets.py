"""Target architectures: their names, and the PTX that a device accepts.

PTX for ``sm_75`` runs on every later GPU, since the driver compiles it when it is loaded. PTX for a later GPU than the
device is refused, as is PTX of a version that the driver does not know (PTX ISA, ``.target`` and ``.version``). The
suffix ``a`` ties code to one architecture, ``f`` to a family: later ones of the same major number. NVRTC 13.0 compiles
for ``compute_75`` to ``compute_121`` (``nvrtcGetSupportedArchs``).
"""

from __future__ import annotations

import re

from msgspec import Struct

SUPPORTED = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
"""What NVRTC 13.0 compiles for."""
NEWEST_PTX = (9, 0)
"""The newest version of PTX that a driver of CUDA 13.0 takes (seen on an H200 with driver 580)."""
_NAME = re.compile(r"(?:sm|compute)_(\d+)([af]?)$")
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)


class Misfit(Struct, frozen=True):
    """Why a device refuses PTX. ``rule`` is ``version`` or ``target``."""

    rule: str
    message: str


def capability_of(name: str) -> tuple[int, str]:
    """``("sm_100a")`` → ``(100, "a")``.

    Raises:
        ValueError: `name` is no architecture.
    """
    match = _NAME.match(name)
    if match is None:
        raise ValueError(f"{name!r} is no architecture; write sm_90 or compute_90")
    return int(match[1]), match[2]


def architecture(major: int, minor: int) -> str:
    """What CuPy compiles for on a device of this compute capability."""
    return f"sm_{major}{minor}"


def runs_on(target: str, major: int, minor: int) -> bool:
    """Whether a device of this compute capability accepts PTX for ``target``."""
    try:
        number, suffix = capability_of(target)
    except ValueError:
        return False
    own = 10 * major + minor
    if suffix == "a":
        return number == own
    if suffix == "f":
        return number <= own and number // 10 == major
    return number <= own


def misfit(ptx: str, major: int, minor: int) -> Misfit | None:
    """Why a device of this compute capability refuses a PTX module; None if it accepts it."""
    version, target = _VERSION.search(ptx), _TARGET.search(ptx)
    if version is not None and (int(version[1]), int(version[2])) > NEWEST_PTX:
        return Misfit(
            "version",
            f"the PTX is of version {version[1]}.{version[2]}, newer than {NEWEST_PTX[0]}.{NEWEST_PTX[1]}, the last "
            "that the driver knows: compile with CUDA 13.0 or older",
        )
    if target is not None and not runs_on(target[1], major, minor):
        return Misfit(
            "target",
            f"the PTX is for {target[1]}, and the device is of compute capability {major}.{minor}: compile for "
            f"compute_{major}{minor} or older, or take a simulated device of a later compute capability "
            "(CUDALAB_DEVICE=sim:cc120)",
        )
    return None
