"""Run kernels given as PTX or CUDA C++ on the simulated device's machine, with NumPy arrays as arguments."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from cudalab.sim.compiler import build
from cudalab.sim.compiler import cache as disk
from cudalab.sim.compiler.loader import load
from cudalab.sim.compiler.program import Program
from cudalab.sim.machine.execution import Outcome, execute
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


@cache
def memory() -> Memory:
    """One device memory for all tests of a process."""
    return Memory(capacity=1 << 32)


def _kept(make: Callable[[], bytes], *key: object) -> bytes:
    """What ``make`` gives, from the compiler's cache on disk if it is there: its keys hold the compiler's source."""
    wanted = disk.key("tests", *key, disk.compiler_identity(), disk.backend_identity())
    stored = disk.load(wanted, bytes)
    if stored is None:
        stored = make()
        disk.store(wanted, stored)
    return stored


@cache
def compile_cuda(source: str, *options: str) -> str:
    """PTX of a CUDA C++ source."""
    return _kept(lambda: _compile(source, options).encode(), "ptx", source, options, os.getcwd()).decode()


def _compile(source: str, options: tuple[str, ...]) -> str:
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    flags = [b"--gpu-architecture=sm_90", b"-lineinfo", b"--std=c++17", b"-default-device"]
    flags += [option.encode() for option in options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size + 1)  # never one byte: Python keeps those objects, and NVRTC writes into them
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = bytes(size + 1)
    nvrtc.nvrtcGetPTX(program, ptx)
    # NVRTC puts the working folder before the file's name; the learner's source has a bare name
    return ptx.rstrip(b"\0").decode().replace(f'"{os.getcwd()}/', '"')


def _link(program: Program, variant: str) -> Any:
    return load(_kept(lambda: build.generate(program.ptx, variant), "native", program.ptx, variant))


class Compiled:
    """A module that tests can call: ``kernel("name", grid, block, *arguments)``."""

    def __init__(self, ptx: str, source: str = "") -> None:
        self.program = build.build_program(ptx, source)
        self.module = Module(self.program, memory(), LIMITS, linker=_link)

    def kernel(self, name: str) -> LoadedKernel:
        return self.module.kernel(name)

    def pack(self, name: str, arguments: tuple[Any, ...]) -> tuple[bytes, list[tuple[np.ndarray, int]]]:
        """The parameter buffer; arrays are copied to device memory."""
        kernel = self.module.kernel(name).kernel
        assert len(arguments) == len(kernel.parameters), kernel.parameters
        buffer, copies = bytearray(kernel.parameter_bytes), []
        for parameter, argument in zip(kernel.parameters, arguments, strict=True):
            if isinstance(argument, np.ndarray):
                pointer = memory().allocate(max(1, argument.nbytes), "device", "argument")
                memory().view(pointer, argument.nbytes)[:] = argument.tobytes()
                copies.append((argument, pointer))
                argument = struct.pack("<Q", pointer)
            elif isinstance(argument, float):
                argument = struct.pack("<f" if parameter.size == 4 else "<d", argument)
            elif isinstance(argument, int):
                argument = (argument & ((1 << 8 * parameter.size) - 1)).to_bytes(parameter.size, "little")
            buffer[parameter.offset : parameter.offset + len(argument)] = argument
        return bytes(buffer), copies

    def run(
        self,
        name: str,
        grid: Any,
        block: Any,
        *arguments: Any,
        shared: int = 0,
        cluster: Any = None,
        cooperative: bool = False,
        variant: str = "plain",
        **options: Any,
    ) -> Outcome:
        """Launch, and copy arrays back. The outcome may hold a fault."""
        packed, copies = self.pack(name, arguments)
        launch = self.kernel(name).launch(grid, block, packed, shared, cluster=cluster, cooperative=cooperative)
        outcome = execute(launch, variant=variant, **options)
        for array, pointer in copies:
            array[...] = np.frombuffer(bytes(memory().view(pointer, array.nbytes)), array.dtype).reshape(array.shape)
            memory().free(pointer)
        return outcome

    def __call__(self, name: str, grid: Any, block: Any, *arguments: Any, **options: Any) -> Outcome:
        """As ``run``, for launches that must not fault."""
        outcome = self.run(name, grid, block, *arguments, **options)
        assert outcome.fault is None, str(outcome.fault)
        return outcome


@cache
def cuda(source: str, *options: str) -> Compiled:
    """A compiled CUDA C++ source."""
    return Compiled(compile_cuda(source, *options), source)
