"""The text of an answer: from a kernel object, or from the source itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    source: str
    """CUDA C++."""
    options: tuple[str, ...] = ()
    """Compiler options the learner gave."""


def read_answer(given: object) -> Answer:
    """The answer in ``given``: CUDA C++ text, or an object with ``code`` and ``options`` (a ``RawKernel``).

    Raises:
        TypeError: ``given`` is neither; the message says what to pass.
    """
    if isinstance(given, str):
        return Answer(given)
    source, options = getattr(given, "code", None), getattr(given, "options", ())
    if isinstance(source, str):
        return Answer(source, tuple(options))
    raise TypeError(
        f"check: the answer is of type {type(given).__name__}; pass the kernel itself (the name after %%cuda, or a "
        "cp.RawKernel) or its CUDA C++ source as a string"
    )
