"""A profile: everything that makes one simulated device differ from another, as a small data file.

``profiles/NAME.json`` holds the device's properties and attributes (the numbers that ``cudaGetDeviceProperties`` and
``cudaDeviceGetAttribute`` return), its engines, and the constants of the time model. Each constant has a value, a unit
and a source: which measurement it comes from. A profile may extend another and names only what differs.

``CUDALAB_DEVICE=sim:NAME`` chooses one; without it the device is ``h200``, calibrated on a real H200. NAME is one of
those that come with cudalab, a file ``NAME.json`` in :func:`own_folder`, or the path of a file (``sim:./my.json``).
``python -m cudalab calibrate --out FILE`` writes one for the GPU of a machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import platformdirs
from msgspec import Struct

from cudalab.sim.device.pipes import in_kernel_latencies
from cudalab.sim.machine.launch.limits import DeviceLimits

DEFAULT = "h200"
SUFFIX = ".json"


class ProfileError(ValueError):
    """The profile asked for does not exist, or its file is not complete."""


class Constant(Struct, frozen=True):
    """One figure of the time model."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Profile:
    """One simulated device. Look at :func:`load`."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Any]
    """Fields of ``cudaDeviceProp`` by name."""
    attributes: Mapping[str, int]
    """``cudaDeviceAttr`` values; the names lack their prefix ``cudaDevAttr``."""
    driver_attributes: Mapping[str, int]
    """``CUdevice_attribute`` values that the runtime does not have; without ``CU_DEVICE_ATTRIBUTE_``."""
    limits: Mapping[str, int]
    """``cudaLimit`` values at start; without ``cudaLimit``."""
    sm: Mapping[str, Any]
    """What ``cudaDeviceProp`` lacks of an SM: ``schedulers``; ``register_unit`` and ``shared_unit``, in multiples of
    which a warp gets registers and a block shared memory; ``groups``, the SMs of each group that a cluster runs on,
    derived from what ``cuOccupancyMaxActiveClusters`` said on one H200 for 12 cluster sizes (2026-11-21)."""
    engines: Mapping[str, Any]
    """``copy``: number of copy engines (0, 1 or 2); ``copy_queue``: ``ready`` or ``issue``, the order in which an
    engine takes copies; ``concurrent_kernels``; ``max_resident_grids``; for devices of compute capability 3.0 and below
    ``dependency_checks`` and ``separators``, a list of what synchronizes streams implicitly
    (queue/implicit_synchronization.py)."""
    priorities: Mapping[str, int]
    """``least`` and ``greatest`` stream priority."""
    versions: Mapping[str, int]
    devices: int
    """How many of it the machine has; 1 unless the profile says more. Several are linked all to all, which takes the
    constants ``peer_…`` and ``memcpy_peer…``."""
    host_constants: Mapping[str, Constant]
    device_constants: Mapping[str, Constant]
    differing: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """By number: properties in which another device is not like device 0. It holds for what the device says of itself;
    its times are those of device 0."""
    host: Mapping[str, float] = field(init=False)
    """What calls cost the host: values of ``host_constants``."""
    device: Mapping[str, float] = field(init=False)
    """Values of ``device_constants``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", {name: c.value for name, c in self.host_constants.items()})
        object.__setattr__(self, "device", {name: c.value for name, c in self.device_constants.items()})

    @property
    def sms(self) -> int:
        return int(self.properties["multiProcessorCount"])

    @cached_property
    def launch_limits(self) -> DeviceLimits:
        """What an SM and a launch may hold."""
        clock_mhz = round(1000 * self.device["clock"])
        return DeviceLimits.of(self.properties, self.sm, clock_mhz, in_kernel_latencies(self.device))

    def properties_of(self, number: int) -> Mapping[str, Any]:
        """The properties of the device with that number: each has a bus and an identifier of its own, and what
        ``differing`` has for it."""
        if not number:
            return self.properties
        identifier = bytearray.fromhex(self.properties["uuid"])
        identifier[-1] = (identifier[-1] + number) & 0xFF
        bus = self.properties["pciBusID"] + number
        return {**self.properties, "pciBusID": bus, "uuid": identifier.hex(), **self.differing.get(number, {})}

    def compute_mode(self, number: int) -> int:
        """Who may make a context on the device with that number (``cudaComputeMode``)."""
        return int(self.differing.get(number, {}).get("computeMode", self.attributes.get("ComputeMode", 0)))

    def attribute(self, name: str) -> int:
        return int(self.attributes[name])


def own_folder() -> Path:
    """Where the user's own profiles lie. It need not exist."""
    return Path(platformdirs.user_config_path("cudalab")) / "profiles"


def own_names() -> list[str]:
    """The user's own profiles."""
    return sorted(file.stem for file in own_folder().glob(f"*{SUFFIX}"))


def names() -> list[str]:
    """The profiles that come with cudalab."""
    folder = resources.files(__package__) / "profiles"
    return sorted(entry.name[: -len(SUFFIX)] for entry in folder.iterdir() if entry.name.endswith(SUFFIX))


@cache
def load(name: str = DEFAULT) -> Profile:
    """Read a profile: a name, or the path of a file, which ends with ``.json``.

    The profile's own name is the one that finds it again: of a file that was named by its path, the absolute path.

    Raises ``ProfileError`` when there is none, naming those that exist, and when a file is not complete, saying which
    file and what is wrong with it.
    """
    data = _read(name)
    try:
        host, device = ({key: Constant(**value) for key, value in data[part].items()} for part in ("host", "device"))
        return Profile(
            name=str(Path(name).resolve()) if name.endswith(SUFFIX) else name,
            title=data["title"],
            description=data["description"],
            properties=data["properties"],
            attributes=data["attributes"],
            driver_attributes=data["driver_attributes"],
            limits=data["limits"],
            sm=data["sm"],
            engines=data["engines"],
            priorities=data["priorities"],
            versions=data["versions"],
            devices=data.get("devices", 1),
            host_constants=host,
            device_constants=device,
        )
    except KeyError as missing:
        raise ProfileError(
            f'the profile {name!r} has no {missing.args[0]!r}. A profile with "extends": "{DEFAULT}" needs only what '
            "differs from that one."
        ) from None
    except (TypeError, AttributeError):
        raise ProfileError(
            f'the profile {name!r}: each entry of "host" and "device" is an object with "value", "unit" and '
            '"source", no more and no less.'
        ) from None


def _read(name: str, extended_by: tuple[str, ...] = ()) -> dict[str, Any]:
    where, text = _text(name)
    if name in extended_by:
        raise ProfileError(f"the profile {name!r} extends itself, by way of {', '.join(extended_by)}")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ProfileError(f"{where} is no profile, which is one JSON object: {error}") from None
    if not isinstance(data, dict):
        raise ProfileError(f"{where} is no profile, which is one JSON object (got {type(data).__name__})")
    parent = data.pop("extends", None)
    return _merged(_read(parent, (*extended_by, name)), data) if parent else data


def _text(name: str) -> tuple[str, str]:
    """A profile's file and what it holds."""
    if name.endswith(SUFFIX):
        file = Path(name)
    elif name in names():
        return name, (resources.files(__package__) / "profiles" / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    elif name in own_names():
        file = own_folder() / f"{name}{SUFFIX}"
    else:
        raise ProfileError(
            f"there is no simulated device called {name!r}; the profiles are: {', '.join([*names(), *own_names()])}. "
            f"Your own go into {own_folder()}, or are named by their path: ./{name}{SUFFIX}"
        )
    try:
        return str(file), file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"the profile {str(file)!r} cannot be read: {error}") from None


def _merged(base: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``change``; a constant (it has a unit) is replaced as a whole."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        nested = isinstance(value, dict) and isinstance(old, dict) and "unit" not in value
        result[key] = _merged(old, value) if nested else value  # type: ignore[arg-type]
    return result
