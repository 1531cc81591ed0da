"""Ask a real GPU: ``python -m tests.sim.compiler.opcodes.record [--out FILE] [--only FAMILY …]``.

With ``--only`` the answers of the other families are taken over from the stored file.

Every family's PTX module is loaded by the driver, each kernel runs once on the same input as on the simulated device,
and the answers are stored. Needs ``cuda-bindings`` and NumPy.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

from tests.sim.compiler.opcodes import hardware, suite
from tests.sim.compiler.opcodes.image import on_gpu
from tests.sim.compiler.opcodes.kernel import Kernel, differences, module_text


def check(result: tuple[Any, ...]) -> Any:
    """What a driver call returned beside its status."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver says {status!r}")
    return values[0] if len(values) == 1 else tuple(values)


def load_module(text: str) -> Any:
    """Assemble PTX; an error carries the assembler's log."""
    log = bytearray(1 << 16)
    options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    status, module = driver.cuModuleLoadDataEx(text.encode() + b"\0", 2, options, [log, len(log)])
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{status!r}: {log.rstrip(b'%c' % 0).decode(errors='replace')[:4000]}")
    return module


def run(module: Any, kernel: Kernel) -> np.ndarray:
    """Launch a kernel and return its output."""
    function = check(driver.cuModuleGetFunction(module, kernel.name.encode()))
    source = check(driver.cuMemAlloc(max(1, len(kernel.input))))
    target = check(driver.cuMemAlloc(max(1, len(kernel.output))))
    check(driver.cuMemcpyHtoD(source, np.ascontiguousarray(kernel.input).ctypes.data, len(kernel.input)))
    check(driver.cuMemcpyHtoD(target, np.ascontiguousarray(kernel.output).ctypes.data, len(kernel.output)))
    values = [np.array([int(source)], np.uint64), np.array([int(target)], np.uint64)]
    if kernel.arguments:
        values.append(np.frombuffer(kernel.arguments, np.uint8))
    values += [np.array([on_gpu(driver, check, image)], np.uint64) for image in kernel.images]
    pointers = np.array([value.ctypes.data for value in values], np.uint64)
    block = kernel.block if isinstance(kernel.block, tuple) else (kernel.block, 1, 1)
    check(driver.cuLaunchKernel(function, kernel.grid, 1, 1, *block, 0, 0, pointers.ctypes.data, 0))
    check(driver.cuCtxSynchronize())
    output = np.zeros(len(kernel.output), np.uint8)
    check(driver.cuMemcpyDtoH(output.ctypes.data, target, len(output)))
    check(driver.cuMemFree(source))
    check(driver.cuMemFree(target))
    return output


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=hardware.PATH)
    arguments.add_argument("--only", nargs="*", default=list(suite.FAMILIES), choices=suite.FAMILIES)
    given = arguments.parse_args()
    path = given.out
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    name = check(driver.cuDeviceGetName(128, device)).split(b"\0")[0].decode()
    answers: dict[str, np.ndarray] = {}
    digests: dict[str, str] = {}
    stored, known = hardware.load() if set(given.only) != set(suite.FAMILIES) else ({}, {"digests": {}})
    for family in suite.FAMILIES:
        if family not in given.only:
            for kernel in suite.kernels(family):
                if kernel.name in stored:
                    answers[kernel.name], digests[kernel.name] = stored[kernel.name], known["digests"][kernel.name]
            continue
        kernels = [kernel for kernel in suite.kernels(family) if kernel.recorded]
        module = load_module(module_text(kernels))
        unlike = 0
        for kernel in kernels:
            output = run(module, kernel)
            answers[kernel.name], digests[kernel.name] = hardware.pack(kernel, output), kernel.digest
            found = differences(kernel, output)
            unlike += len(found)
            for opcode in dict.fromkeys(line.split(" [")[0] for line in found):
                lines = [line for line in found if line.split(" [")[0] == opcode]
                print(f"  unlike the model, {len(lines)} times: {lines[0]}")
        print(f"{family}: {len(kernels)} kernels, {unlike} elements unlike the model", flush=True)
    about = {
        "device": name,
        "driver": check(driver.cuDriverGetVersion()),
        "date": datetime.date.today().isoformat(),
        "digests": digests,
    }
    hardware.save(path, answers, about)
    print(f"{path}: {path.stat().st_size:,} bytes, {name}")


if __name__ == "__main__":
    main()
