"""``cupy.cuda.compiler``: the error of a kernel that does not compile."""

from __future__ import annotations

from typing import Any

from cudalab.sim.cupy._base import catalogue


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.compiler", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.compiler", globals())


class CompileException(Exception):
    """CUDA C++ that does not compile; the text is the compiler's log.

    Args:
        msg: the log.
        source: the CUDA C++.
        name: name of the file in the log.
        options: compiler options.
        backend: ``nvrtc``.
    """

    def __init__(self, msg: str, source: str, name: str, options: tuple[str, ...], backend: str = "nvrtc") -> None:
        self._msg = msg
        self.source = source
        self.name = name
        self.options = options
        self.backend = backend
        super().__init__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._msg, self.source, self.name, self.options, self.backend)

    def __str__(self) -> str:
        return self._msg

    __repr__ = __str__

    def get_message(self) -> str:
        """The compiler's log."""
        return self._msg

    def dump(self, f: Any) -> None:
        """Write log, options and numbered source to the open file ``f``."""
        f.write(f"{self.backend.upper()} compilation error: {self}\n-----\nName: {self.name}\n")
        f.write(f"Options: {' '.join(self.options)}\nCUDA source:\n")
        lines = self.source.split("\n")
        width = len(str(len(lines)))
        for number, line in enumerate(lines, 1):
            f.write(f"{number:0{width}d} {line.rstrip()}\n")
        f.write("-----\n")
        f.flush()
