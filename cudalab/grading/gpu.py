"""Correctness on a real GPU, for kernels that the simulated device found right and sound.

The same cases with the same inputs are launched through CuPy, and whole outputs are compared. Nothing else is judged
there: a GPU sees no race that happened not to matter, and counts nothing. Only kernels that came to their end on the
simulated device, within their arrays, get so far.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cudalab.checks.answer import Answer
from cudalab.checks.bench import Buffer, KernelBench
from cudalab.checks.exercise import Exercise, Finding, PartResult, Result
from cudalab.checks.work import Needs

_WITHOUT_ASKING = 48 << 10
"""Bytes of dynamic shared memory that every launch may have."""


def real_cupy() -> Any:
    """CuPy, told to keep what it compiles in memory: a question may write no file."""
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    import cupy

    return cupy


class GpuBench(KernelBench):
    """Tries a kernel on the GPU that ``cupy`` uses."""

    def __init__(self, exercise: Exercise, answer: Answer, cupy: Any, *, seed: int, time_limit: float) -> None:
        super().__init__(exercise, answer, seed=seed, time_limit=time_limit)
        self._cupy = cupy
        self._arrays: dict[int, Any] = {}
        self._function = cupy.RawKernel(answer.source, exercise.kernel, answer.options)

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Any],
        case: str,
        *,
        shared: int = 0,
        needs: Needs | None = None,
        handed_over: Buffer | None = None,
    ) -> None:
        """Launch the answer and wait for it. Nothing is counted, and no order is followed."""
        self._case, self._ran = case, False
        passed = tuple(np.uint64(a.pointer) if isinstance(a, Buffer) else a for a in arguments)
        if shared > _WITHOUT_ASKING:
            self._function.max_dynamic_shared_size_bytes = shared
        self._function(tuple(grid), tuple(block), passed, shared_mem=shared)
        self._cupy.cuda.Device().synchronize()
        self._ran = True
        self._check_surroundings()

    def _allocate(self, name: str, content: np.ndarray, *, defined: bool) -> int:
        array = self._cupy.asarray(content)
        pointer = int(array.data.ptr)
        self._arrays[pointer] = array
        return pointer

    def _read(self, pointer: int, size: int) -> np.ndarray:
        values: np.ndarray = self._arrays[pointer].get()
        return values


def on_gpu(result: Result, exercise: Exercise, answer: Answer, cupy: Any, *, time_limit: float) -> Result:
    """``result``, without its points where the GPU's values are wrong, or where the launch fails there."""
    if any(part.findings or part.skipped for part in result.parts if part.name != "efficiency"):
        return result
    cuda = cupy.cuda
    failures = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError, cuda.compiler.CompileException)
    bench = GpuBench(exercise, answer, cupy, seed=result.seed, time_limit=time_limit)
    try:
        findings = bench.run().findings
    except failures as error:
        findings = (Finding("correctness", "error", str(error)),)
    wrong = tuple(replace(one, text=f"on the GPU: {one.text}") for one in findings if one.part == "correctness")
    if not wrong:
        return result
    parts = tuple(
        PartResult(part.name, 0.0, part.maximum, wrong)
        if part.name == "correctness"
        else PartResult(part.name, 0.0, part.maximum, skipped=True)
        for part in result.parts
    )
    return replace(result, parts=parts)
