"""What an operation of a random program is: how it is written in CUDA C++, and what it computes with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.scalar import Array, Scalar


@dataclass(frozen=True)
class Operation:
    """``text`` has ``{0}``, ``{1}`` … for the operands; ``compute`` takes arrays of exactly the operand types and
    gives one of the result's type."""

    name: str
    operands: tuple[Scalar, ...]
    result: Scalar
    text: str
    compute: Callable[..., Array]
    header: str = ""
    """A header that the text needs: ``fp16`` or ``bf16``."""

    def __repr__(self) -> str:
        return self.name


class Catalogue:
    """Operations by name and by the type they give."""

    def __init__(self) -> None:
        self.by_name: dict[str, Operation] = {}
        self.by_result: dict[str, list[Operation]] = {}

    def add(
        self,
        name: str,
        operands: tuple[Scalar, ...],
        result: Scalar,
        text: str,
        compute: Callable[..., Array],
        header: str = "",
    ) -> None:
        assert name not in self.by_name, name
        operation = Operation(name, operands, result, text, compute, header)
        self.by_name[name] = operation
        self.by_result.setdefault(result.name, []).append(operation)
