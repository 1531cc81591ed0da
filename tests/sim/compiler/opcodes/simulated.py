"""Run kernels under test on the simulated device."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache

import numpy as np

from cudalab.sim.compiler import compile_ptx
from cudalab.sim.machine.execution import Outcome, execute
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.compiler.opcodes import suite
from tests.sim.compiler.opcodes.image import on_simulated
from tests.sim.compiler.opcodes.kernel import Kernel, module_text
from tests.sim.h200 import LIMITS


class Device:
    """A module of kernels, loaded; ``run`` launches one and returns its output."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.memory = Memory(1 << 28)
        self.module = Module(compile_ptx(module_text(kernels)), self.memory, LIMITS)

    def run(self, kernel: Kernel, variant: str = "plain") -> np.ndarray:
        """The output, as bytes.

        Raises:
            AssertionError: the kernel did not finish.
        """
        outcome, output = self.launch(kernel, variant)
        assert outcome.fault is None, f"{kernel.name}: {outcome.fault}"
        return output

    def launch(self, kernel: Kernel, variant: str = "plain") -> tuple[Outcome, np.ndarray]:
        images = [on_simulated(self.memory, image) for image in kernel.images]
        source, target = (self.memory.allocate(max(1, len(data))) for data in (kernel.input, kernel.output))
        try:
            self.memory.array(source, len(kernel.input), np.uint8)[:] = kernel.input
            output = self.memory.array(target, len(kernel.output), np.uint8)
            output[:] = kernel.output
            handles = struct.pack(f"<{len(images)}Q", *(handle for handle, _ in images))
            arguments = struct.pack("<QQ", source, target) + kernel.arguments + handles
            outcome = execute(
                self.module.kernel(kernel.name).launch(kernel.grid, kernel.block, arguments), variant=variant
            )
            return outcome, output.copy()
        finally:
            self.memory.free(source)
            self.memory.free(target)
            for handle, pointer in images:
                self.memory.images.remove(handle)
                self.memory.free(pointer)


def kernels(family: str, whole: bool) -> tuple[Kernel, ...]:
    """All kernels of a family, or those of this run."""
    return suite.kernels(family) if whole else suite.part(family)


@cache
def device(family: str, whole: bool) -> Device:
    """The module of a family."""
    return Device(kernels(family, whole))


@cache
def outputs(family: str, variant: str, whole: bool) -> dict[str, np.ndarray]:
    """What each kernel of a family gave."""
    loaded = device(family, whole)
    return {kernel.name: loaded.run(kernel, variant) for kernel in kernels(family, whole)}
