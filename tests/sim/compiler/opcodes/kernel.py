"""A kernel under test: its PTX, what goes in, and what the PTX ISA says must come out.

Every kernel takes two pointers: to its input and to its output. ``Output`` says for a part of the output which
instruction made it and what is expected there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tests.sim.compiler.opcodes import number
from tests.sim.compiler.opcodes.image import Image

HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"
ANY_NAN = "any NaN"
"""Expected where the ISA leaves the bits of a NaN open (``.f64``)."""
RECORDED = 256
"""Of each output at most so many elements of the GPU's answer are kept."""

Expected = int | float | str | None
DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Tolerance:
    """How far an approximate result may lie from the true value (PTX ISA, "Floating Point Instructions")."""

    relative: float = 0.0
    absolute: float = 0.0

    def allows(self, got: float, want: float) -> bool:
        return abs(got - want) <= self.absolute + self.relative * abs(want)


@dataclass(eq=False)
class Output:
    """Elements that one instruction made.

    ``model`` gives for each of ``count`` elements its bits (an int), the true value of an approximation (a float),
    ``ANY_NAN``, or None where the ISA does not say. ``gap`` is the distance of elements in bytes. ``describe`` says
    what the operands of an element were.
    """

    opcode: str
    type: str
    offset: int
    size: int
    count: int
    model: Callable[[], Sequence[Expected]]
    gap: int = 0
    tolerance: Tolerance | None = None
    describe: Callable[[int], str] = field(default=lambda index: "")
    unlike: bool = False
    """A GPU departs from the ISA's text, which is followed."""

    @cached_property
    def expected(self) -> Sequence[Expected]:
        """What the ISA says, computed when first asked for."""
        found = self.model()
        assert len(found) == self.count
        return found

    def take(self, memory: np.ndarray) -> np.ndarray:
        """The elements, from the bytes of the whole output."""
        gap = self.gap or self.size
        end = self.offset + gap * (self.count - 1) + self.size
        part = memory[self.offset : end]
        if gap == self.size:
            return part.view(DTYPES[self.size]).copy()
        rows = np.lib.stride_tricks.sliding_window_view(part, self.size)[::gap]
        return np.ascontiguousarray(rows).view(DTYPES[self.size])[:, 0]


def known(
    opcode: str,
    type: str,
    offset: int,
    size: int,
    expected: Sequence[Expected],
    gap: int = 0,
    describe: Callable[[int], str] = lambda index: "",
) -> Output:
    """An output whose expected elements are at hand."""
    return Output(opcode, type, offset, size, len(expected), lambda: expected, gap, describe=describe)


@dataclass(eq=False)
class Kernel:
    """One kernel with its launch. ``opcodes`` are those it tests; ``declarations`` stand before it in the module;
    handles of ``images`` are its last parameters."""

    name: str
    body: str
    opcodes: frozenset[str]
    input: np.ndarray
    output: np.ndarray
    results: list[Output]
    grid: int = 1
    block: int | tuple[int, int, int] = 512
    declarations: str = ""
    parameters: str = ".param .u64 in, .param .u64 out"
    arguments: bytes = b""
    recorded: bool = True
    images: tuple[Image, ...] = ()
    directives: str = ""

    @property
    def text(self) -> str:
        head = f".visible .entry {self.name}({self.parameters}){self.directives}"
        return f"{self.declarations}\n{head}\n{{\n{self.body}\n}}\n"

    @property
    def digest(self) -> str:
        """Of all that decides what comes out."""
        launch = f"{self.grid} {self.block} {self.arguments.hex()}"
        parts: list[str | bytes] = [HEAD, self.text, launch, self.input.tobytes(), self.output.tobytes()]
        if self.images:
            parts.append(repr(self.images))
        return hashlib.sha256(b"\0".join(p if isinstance(p, bytes) else p.encode() for p in parts)).hexdigest()


def module_text(kernels: Sequence[Kernel]) -> str:
    return HEAD + "".join(kernel.text for kernel in kernels)


def value_of(type: str, bits: int) -> float:
    """The number that a float's bits stand for."""
    f = number.FORMATS[type]
    if number.is_nan(f, bits):
        return float("nan")
    if number.is_infinite(f, bits):
        return -float("inf") if number.negative(f, bits) else float("inf")
    sign, significand, exponent = number.decode(f, bits)
    size = significand * 2.0**exponent if exponent >= -1000 else significand * 2.0**-1000 * 2.0 ** (exponent + 1000)
    return -size if sign else size


def agrees(output: Output, got: int, want: Expected) -> bool:
    """Whether an element is what was expected."""
    if want is None:
        return True
    if want is ANY_NAN:
        return number.is_nan(number.FORMATS[output.type], got)
    if isinstance(want, float):
        assert output.tolerance is not None
        return output.tolerance.allows(value_of(output.type, got), want)
    return got == want


def differences(kernel: Kernel, memory: np.ndarray) -> list[str]:
    """One line for each element that is not as expected."""
    found = []
    for output in kernel.results:
        for index, (got, want) in enumerate(zip(output.take(memory).tolist(), output.expected, strict=True)):
            if got != want and not agrees(output, got, want):
                found.append(describe(kernel, output, index, got, want))
    return found


def describe(kernel: Kernel, output: Output, index: int, got: int, want: Expected) -> str:
    def show(value: Expected) -> str:
        if isinstance(value, int):
            text = f"{value:#0{2 * output.size + 2}x}"
            return f"{text} ({value_of(output.type, value)!r})" if output.type in number.FORMATS else text
        return repr(value)

    operands = output.describe(index)
    return f"{kernel.name}: {output.opcode} [{index}] ({operands}): {show(got)}, expected {show(want)}"
