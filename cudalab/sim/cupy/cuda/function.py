"""``cupy.cuda.function``: loaded modules and their kernels, as handles of the driver."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import device, driver_errors, epoch, from_destructor, shutting_down
from cudalab.sim.cupy._base.errors import CUDADriverError
from cudalab.sim.cupy.cuda import driver
from cudalab.sim.cupy.cuda._arguments import pack
from cudalab.sim.cupy.cuda.stream import current_pointer

_FILE_NOT_FOUND = 301
_SOURCES = (".cu", ".cuh", ".cpp", ".c", ".h")


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.function", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.function", globals())


class Module:
    """A loaded module: kernels and variables of one compiled program. ``ptr`` is its handle."""

    def __init__(self) -> None:
        self.ptr = 0
        self.mapping: dict[str, str] | None = None
        self._epoch = epoch()

    def load(self, cubin: bytes) -> None:
        """Load PTX text (machine code of a real GPU cannot run here)."""
        self._epoch = epoch()
        self.ptr = driver.moduleLoadData(cubin)

    def load_file(self, filename: str) -> None:
        """Load a ``.ptx`` file."""
        try:
            with open(filename, "rb") as file:
                image = file.read()
        except FileNotFoundError:
            error = CUDADriverError(_FILE_NOT_FOUND)
            error.add_note(f"there is no file {filename!r} in {os.getcwd()}")
            raise error from None
        if image[:4] == b"\x7fELF":
            raise NotImplementedError(
                f"{filename} holds machine code for a real GPU, which the simulated device cannot run. Give it CUDA "
                "C++ (code=…) or a .ptx file."
            )
        try:
            self.load(image)
        except CUDADriverError as error:
            if os.path.splitext(filename)[1] in _SOURCES:
                error.add_note(
                    f"`path` takes compiled code, a .ptx file, and {filename!r} is CUDA C++. Hand over its text: "
                    f"cp.RawModule(code=open({filename!r}).read())"
                )
            raise

    def _load_program(self, program: Any) -> None:
        """Load what ``cudalab.sim.compiler`` made."""
        self._epoch = epoch()
        self.mapping = dict(program.lowered_names)
        with driver_errors():
            self.ptr = device().load_module(program)

    def get_function(self, name: str) -> Function:
        """The kernel called ``name``, as in the PTX."""
        return Function(self, name)

    def get_global_var(self, name: str) -> int:
        """Address of a variable."""
        return driver.moduleGetGlobal(self.ptr, name)

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        pointer, self.ptr = self.ptr, 0
        if pointer:
            from_destructor(lambda: driver.moduleUnload(pointer), self._epoch)


class Function:
    """A kernel of a loaded module. ``ptr`` is its handle."""

    def __init__(self, module: Module, funcname: str) -> None:
        self.module = module  # keeps it loaded
        self.name = funcname
        with driver_errors():
            self.ptr = device().get_function(module.ptr, funcname)

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int = 0,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        """Launch: ``grid`` blocks of ``block`` threads, ``shared_mem`` bytes of dynamic shared memory a block."""
        blocks, threads = _dimensions("grid", grid), _dimensions("block", block)
        self._launch(blocks, threads, args, shared_mem, stream, enable_cooperative_groups)

    def linear_launch(
        self,
        size: int,
        args: Sequence[Any],
        shared_mem: int = 0,
        block_max_size: int = 128,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        """Launch at least ``size`` threads, in blocks of at most ``block_max_size``."""
        blocks = (max(1, min(0x7FFF_FFFF, -(-size // block_max_size))), 1, 1)
        threads = (max(1, min(block_max_size, size)), 1, 1)
        self._launch(blocks, threads, args, shared_mem, stream, enable_cooperative_groups)

    def _launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Any],
        shared: int,
        stream: Any,
        cooperative: bool,
    ) -> None:
        with driver_errors():
            kernel = device().function_info(self.ptr).kernel
        values = tuple(args)
        buffer = pack(self.name, kernel.parameters, values, kernel.parameter_bytes)
        if cooperative:
            grid = self._fitting(grid, block, int(shared))
        with driver_errors():
            device().launch(self.ptr, grid, block, buffer, int(shared), current_pointer(stream), bool(cooperative))

    def _fitting(self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int) -> tuple[int, int, int]:
        """A cooperative launch needs all blocks on the device at once; CuPy cuts a one-dimensional grid down."""
        threads = block[0] * block[1] * block[2]
        with driver_errors():
            most = device().occupancy(self.ptr, threads, shared) * device().properties["multiProcessorCount"]
        if grid[0] * grid[1] * grid[2] <= most:
            return grid
        if grid[1] == grid[2] == 1:
            text = (
                f"The grid size will be reduced from {grid[0]} to {most}, as the specified grid size exceeds the limit."
            )
            warnings.warn(text, stacklevel=5)
            return most, 1, 1
        raise ValueError(
            f"The specified grid size ({grid[0]} * {grid[1]} * {grid[2]}) exceeds the limit ({most}): all blocks of a "
            "cooperative launch must be on the device at once."
        )


def _dimensions(name: str, value: Any) -> tuple[int, int, int]:
    """Three numbers of at least 1, as CuPy makes them of a tuple. That an empty grid runs one block is CuPy's choice,
    too; it is nearly always a mistake, so it comes with a warning."""
    if not isinstance(value, tuple):
        error = TypeError(f"Argument {name!r} has incorrect type (expected tuple, got {type(value).__name__})")
        error.add_note(f"Write {name}=({value},)" if isinstance(value, int) else f"Write {name}=tuple({value!r})")
        raise error
    numbers = []
    for entry in (*value, 1, 1)[:3]:
        if not hasattr(entry, "__index__"):
            error = TypeError(f"{type(entry).__name__!r} object cannot be interpreted as an integer")
            error.add_note(f"{name}={value!r}: the numbers are integers, as (n + 255) // 256 gives them.")
            raise error
        number = entry.__index__()
        if number < 1:
            _warn_of_empty(name, value)
            number = 1
        numbers.append(number)
    return numbers[0], numbers[1], numbers[2]


def _warn_of_empty(name: str, value: tuple[Any, ...]) -> None:
    text = (
        f"{name}={value!r}: CuPy launches 1 where a number is 0 or negative, where CUDA itself refuses the launch. For "
        "as many blocks as n elements need, write (n + threads - 1) // threads; for n = 0, leave the launch out."
    )
    warnings.warn(text, stacklevel=5)
