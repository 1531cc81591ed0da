"""Run random programs on the simulated device, in every kind of native code, and compare with the interpreter."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.compiler.program import VARIANTS as WAYS
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.fuzz import program as p
from tests.fuzz.comparison import OPTIONS, compare, reference, struct_value
from tests.fuzz.data import initial
from tests.fuzz.emit import dynamic_bytes, module, ordered_parameters
from tests.fuzz.scalar import Array
from tests.sim.h200 import LIMITS

VARIANTS = tuple(name for name in WAYS if not name.startswith("sanitize"))
"""The kinds of native code that a launch may ask for; those of the sanitizer are asked for by ``check_launch``."""
TIME_LIMIT = 20.0


@dataclass(frozen=True)
class Difference:
    """What a program did that it should not have. ``stage``: compile, one of ``VARIANTS``, or sanitize."""

    seed: int
    stage: str
    text: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.stage}: {self.text}"


@cache
def _memory() -> Memory:
    return Memory(capacity=1 << 32)


class Batch:
    """Programs compiled as one translation unit."""

    def __init__(self, programs: Sequence[p.Program]) -> None:
        self.programs = list(programs)
        self.module = Module(compile(module(programs), options=OPTIONS, name="fuzz.cu"), _memory(), LIMITS)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.module.unload()

    def check(self, program: p.Program, variants: Sequence[str] = VARIANTS, sanitize: bool = True) -> list[Difference]:
        """Run a program in each variant and under the sanitizer, in a shuffled order."""
        expected = reference(program)
        if expected is None:
            return []
        found = []
        kernel = self.module.kernel(program.name)
        for variant in variants:
            text = self._run(program, kernel, expected, variant)
            if text:
                found.append(Difference(program.seed, variant, text))
        if sanitize:
            text = self._sanitize(program, kernel)
            if text:
                found.append(Difference(program.seed, "sanitize", text))
        return found

    def _run(self, program: p.Program, kernel: LoadedKernel, expected: dict[str, Array], variant: str) -> str:
        with _Arguments(program, kernel) as arguments:
            outcome = execute(
                kernel.launch(program.grid, program.block, arguments.packed, dynamic_bytes(program)),
                Standalone(time_limit=TIME_LIMIT, workers=2 if "atomic" in variant else 1),
                variant=variant,
                interruptible=False,
                footprint=variant.startswith("footprint"),
            )
            if outcome.fault is not None:
                return f"fault: {outcome.fault}"
            return compare(program, expected, arguments.contents())

    def _sanitize(self, program: p.Program, kernel: LoadedKernel) -> str:
        with _Arguments(program, kernel) as arguments:
            before = arguments.contents()
            dynamic = dynamic_bytes(program)
            for seed in (None, program.seed):
                checked = check_launch(
                    kernel.launch(program.grid, program.block, arguments.packed, dynamic),
                    seed=seed,
                    time_limit=TIME_LIMIT,
                )
                if checked.findings:
                    return f"false alarm, order {seed}: {checked.findings[0]}"
                different = compare(program, before, arguments.contents())
                if different:
                    return f"stores are not taken back: {different}"
            return ""


class _Arguments:
    """The parameters of one launch, with arrays in device memory."""

    def __init__(self, program: p.Program, kernel: LoadedKernel) -> None:
        declared = kernel.kernel.parameters
        buffer = bytearray(kernel.kernel.parameter_bytes)
        self.arrays: list[tuple[p.Array, int, Array]] = []
        for parameter, given in zip(declared, ordered_parameters(program), strict=True):
            if isinstance(given, p.Array):
                content = initial(program, given)
                pointer = _memory().allocate(content.nbytes, "device", given.name)
                _memory().view(pointer, content.nbytes)[:] = content.tobytes()
                self.arrays.append((given, pointer, content))
                value = struct.pack("<Q", pointer)
            else:
                value = struct_value(program, given).tobytes()
            buffer[parameter.offset : parameter.offset + len(value)] = value
        self.packed = bytes(buffer)

    def contents(self) -> dict[str, Array]:
        """The arrays as they are now."""
        return {
            array.name: np.frombuffer(bytes(_memory().view(pointer, content.nbytes, write=False)), content.dtype)
            for array, pointer, content in self.arrays
        }

    def __enter__(self) -> _Arguments:
        return self

    def __exit__(self, *exception: object) -> None:
        for _, pointer, _ in self.arrays:
            _memory().free(pointer)


def check(programs: Sequence[p.Program], variants: Sequence[str] = VARIANTS, sanitize: bool = True) -> list[Difference]:
    """Compile the programs together and check each; where that does not compile, one by one."""
    try:
        batch = Batch(programs)
    except CompileError as error:
        if len(programs) == 1:
            return [Difference(programs[0].seed, "compile", str(error)[:2000])]
        return [found for program in programs for found in check([program], variants, sanitize)]
    with batch:
        return [found for program in programs for found in batch.check(program, variants, sanitize)]
