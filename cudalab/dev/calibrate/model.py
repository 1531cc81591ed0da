"""The microbenchmarks as the time model sees them.

What a microbenchmark asks of the device does not depend on the constants, so it is sampled once, on the simulated
machine; its modelled time is then a formula of the constants, which the fit evaluates many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cudalab.dev.calibrate.measurement import COOPERATIVE, module_sources, pack
from cudalab.dev.calibrate.microbenchmark import Buffer, Microbenchmark
from cudalab.sim.compiler import compile
from cudalab.sim.device.profile import Constant, Profile
from cudalab.sim.device.timing.cost import kernel_time
from cudalab.sim.device.timing.workload import Workload
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.arena import Arena


class Model:
    """Modelled times of microbenchmarks, for any constants.

    By the PTX, whose terms the fit is about; what the simulation by the machine code needs beside them is the same on
    the devices that were measured."""

    def __init__(
        self, profile: Profile, benchmarks: Iterable[Microbenchmark], *, by_machine_code: bool = False
    ) -> None:
        from cudalab.sim.device.timing.launch_time import Timer

        self.profile = profile
        self._work: dict[str, Workload] = {}
        memory = Memory(1 << 42, arena=Arena())
        timer = Timer(profile)
        timer.by_machine_code = by_machine_code
        chosen = list(benchmarks)
        wanted = {each.module for each in chosen}
        modules = {
            name: Module(compile(code), memory, profile.launch_limits)
            for name, code in module_sources().items()
            if name in wanted
        }
        for each in chosen:
            sizes = {value.name: value.size for value in each.arguments if isinstance(value, Buffer)}
            addresses = {name: memory.allocate(size) for name, size in sizes.items()}
            kernel = modules[each.module].kernel(each.kernel)
            kernel.max_dynamic_shared = max(kernel.max_dynamic_shared or 0, each.shared)
            args, cooperative = pack(each, addresses), each.module == COOPERATIVE
            launch = kernel.launch(each.blocks, each.threads, args, each.shared, cooperative=cooperative)
            self._work[each.name] = timer.workload(launch)
            for address in addresses.values():
                memory.free(address)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._work)

    def microseconds(self, name: str, constants: Mapping[str, float]) -> float:
        """The modelled time of one microbenchmark with some constants of the device changed."""
        return kernel_time(with_constants(self.profile, constants), self._work[name]).exact_ns / 1000


def with_constants(profile: Profile, constants: Mapping[str, float]) -> Profile:
    """The profile with other values for some constants of the device; unit and source stay."""
    changed = {
        name: Constant(constants[name], old.unit, old.source) if name in constants else old
        for name, old in profile.device_constants.items()
    }
    return replace(profile, device_constants=changed)
