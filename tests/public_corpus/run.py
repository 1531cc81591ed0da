"""Takes one file through everything: cut, compile, find launches, run, and compare with a GPU where there is one."""

from __future__ import annotations

import importlib
import itertools
import os
import re
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cudalab.sim.compiler import CompileError, Program, compile
from cudalab.sim.device import Device, reset
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from tests.public_corpus import launches, written
from tests.public_corpus.device_code import LIMITS, NAME, OPTIONS, Source, prepare, why
from tests.public_corpus.images import is_handle, measured
from tests.public_corpus.instances import MOST, candidates
from tests.public_corpus.session import Session

_NUMBERS = itertools.count()
TOLERANCE = 2e-4  # relative to the largest number of the buffer: approximate functions, order of float atomics


@dataclass
class Outcome:
    """What became of one kernel, or of a file none of whose kernels could be compiled."""

    file: str
    kernel: str
    verdict: str
    """``passed``, ``failed``, or ``nvrtc`` where the compiler does not take the source."""
    reason: str = ""
    launch: dict[str, Any] | None = None
    compared: str = ""
    """``exact``, ``close``, ``order`` (depends on the order of threads), or empty where there was no GPU."""
    largest_error: float = 0.0


def attempt(task: tuple[Path, Path]) -> list[Outcome]:
    """`examine` for a file and its repository's folder; a strange file counts as a failure and ends nothing else."""
    gpu: Any = importlib.import_module("cupy") if os.environ.get("CUDALAB_DEVICE") == "gpu" else None
    try:
        return examine(*task, gpu)
    except Exception as error:
        return [Outcome(str(task[0].relative_to(task[1].parent)), "?", "failed", f"{type(error).__name__}: {error}")]


def examine(path: Path, root: Path, gpu: Any = None) -> list[Outcome]:
    """Every kernel of one file. `gpu` is CuPy on a machine with a GPU."""
    name = str(path.relative_to(root.parent))
    source = prepare(path, root, [])
    if source.program is None:
        if source.refused_by_simulator:
            return [Outcome(name, kernel, "failed", source.error) for kernel in source.kernels or ["?"]]
        return [Outcome(name, "", "nvrtc", source.error)]
    refused = source.refused
    expressions, outcomes = _instances(path, source, name)
    outcomes = [outcome for outcome in outcomes if outcome.kernel not in refused]
    outcomes += [Outcome(name, kernel, "nvrtc", reason) for kernel, reason in refused.items()]
    program = compile(source.text, options=OPTIONS, name_expressions=tuple(expressions), name=NAME, limits=LIMITS)
    compiled = gpu and partial(fresh_module, gpu, source.text, expressions)
    outcomes += [Outcome(name, kernel, "failed", reason) for kernel, reason in program.refused.items()]
    for kernel in program.kernels.values():
        by_hand = written.find(name, kernel.name)
        if by_hand is not None:
            outcomes.append(_by_hand(name, kernel.name, by_hand, source.text, expressions, tuple(program.kernels), gpu))
        else:
            outcomes.append(_kernel(name, kernel.name, source, program, gpu, compiled))
    return outcomes


def _by_hand(
    file: str,
    kernel: str,
    by_hand: written.Written,
    text: str,
    expressions: list[str],
    kernels: tuple[str, ...],
    gpu: Any,
) -> Outcome:
    def results(cp: Any) -> dict[str, np.ndarray]:
        module = fresh_module(cp, text, expressions)
        found = by_hand.run(Session(cp, module, kernel, kernels))
        cp.cuda.Device().synchronize()
        return {name: values if isinstance(values, np.ndarray) else values.get() for name, values in found.items()}

    outcome = Outcome(file, kernel, "passed", launch={"written": True, "rule": by_hand.rule})
    simulated: Any = importlib.import_module("cudalab.sim.cupy")
    try:
        ours = results(simulated)
    except Exception as error:
        reset()  # a fault stays until then
        return Outcome(file, kernel, "failed", f"{type(error).__name__}: {error}".splitlines()[0], outcome.launch)
    if gpu is None:
        return outcome
    theirs = results(gpu)
    outcome.compared = "exact"
    for name, a in ours.items():
        b = theirs[name]
        if a.tobytes() == b.tobytes():
            continue
        error = _error(a.astype(np.float64), b.astype(np.float64))
        outcome.largest_error = max(outcome.largest_error, error)
        if a.dtype.kind == "f" and error <= TOLERANCE:
            outcome.compared = "close"
            continue
        wrong = int((a != b).sum())
        outcome.verdict, outcome.compared = "failed", ""
        outcome.reason = f"{name}: {wrong} of {a.size} differ from the GPU's, largest error {error:.3g}"
        break
    return outcome


def _instances(path: Path, source: Source, file: str) -> tuple[list[str], list[Outcome]]:
    taken: list[str] = []
    failures: list[Outcome] = []
    host = path.read_text(errors="replace")
    for name, expressions in candidates(source.text + "\n" + host).items():
        good: list[str] = []
        reason = "no instance found"
        for expression in expressions:
            try:
                compile(source.text, options=OPTIONS, name_expressions=(expression,), name=NAME, limits=LIMITS)
            except CompileError as error:
                refused = "simulated device" in str(error)
                reason = str(error).splitlines()[0] if refused else why(source, name, error)
                if refused:
                    failures.append(Outcome(file, expression, "failed", reason))
                continue
            good.append(expression)
            if len(good) == MOST:
                break
        taken += good
        if not good and not any(f.kernel.startswith(name + "<") for f in failures):
            failures.append(Outcome(file, name, "nvrtc", reason))
    return taken, failures


def _kernel(file: str, name: str, source: Source, program: Program, gpu: Any, compiled: Any) -> Outcome:
    device = Device()
    try:
        loaded = Module(program, device.memory, device.limits).kernel(name)
        flat = not re.search(r"threadIdx\.y|blockIdx\.y|tid\.y", source.text)
        found = launches.find(loaded, device, flat, "this_grid(" in source.text)
        if found is None:
            return Outcome(file, name, "failed", "no launch found that the sanitizer lets pass")
        ours = _simulate(loaded, device, found)
        if isinstance(ours, str):
            return Outcome(file, name, "failed", ours, asdict(found))
        outcome = Outcome(file, name, "passed", "", asdict(found))
        if compiled is not None:
            _compare(outcome, ours, _measure(gpu, compiled, loaded, found), loaded)
        return outcome
    except CompileError as error:
        return Outcome(file, name, "failed", str(error).splitlines()[0])
    finally:
        device.memory.free_all()


def _simulate(loaded: LoadedKernel, device: Device, found: launches.Launch) -> list[np.ndarray | None] | str:
    trial = launches.Trial(device, loaded.kernel, found.images)
    packed = launches.pack(loaded.kernel, trial.values, found.size)
    outcome = execute(
        loaded.launch(found.grid, found.block, packed, found.shared, cooperative=found.cooperative),
        Standalone(time_limit=launches.TIME_LIMIT),
    )
    return str(outcome.fault).splitlines()[0] if outcome.fault is not None else trial.results()


def _measure(gpu: Any, compiled: Any, loaded: LoadedKernel, found: launches.Launch) -> list[np.ndarray | None]:
    kernel = loaded.kernel
    arrays = [gpu.asarray(b) if b is not None else None for b in launches.buffers(kernel)]
    objects = [measured(gpu, image) for image in found.images]
    handles, values = iter(objects), []
    for p, array in zip(kernel.parameters, arrays, strict=True):
        given = array.data.ptr if array is not None else next(handles).ptr if objects and is_handle(p) else 0
        raw = launches.argument(p, given, found.size)
        values.append(np.frombuffer(raw, np.dtype([("bytes", np.uint8, len(raw))]))[0])
    module = compiled()
    function = _mangled(module, kernel.name)
    function(
        found.grid, found.block, tuple(values), shared_mem=found.shared, enable_cooperative_groups=found.cooperative
    )
    gpu.cuda.Device().synchronize()
    return [a.get() if a is not None else None for a in arrays]


def fresh_module(cp: Any, text: str, expressions: list[str]) -> Any:
    """A module whose variables are as they are at the start. CuPy keeps one module for equal sources, so each gets a
    number."""
    return cp.RawModule(code=f"{text}\n// {next(_NUMBERS)}\n", options=OPTIONS, name_expressions=expressions or None)


def _mangled(compiled: Any, name: str) -> Any:
    compiled.compile()
    return compiled.module.get_function(name)


def _compare(
    outcome: Outcome, ours: list[np.ndarray | None], theirs: list[np.ndarray | None], loaded: LoadedKernel
) -> None:
    outcome.compared = "exact"
    for p, a, b in zip(loaded.kernel.parameters, ours, theirs, strict=True):
        if a is None or b is None or np.array_equal(a, b):
            continue
        kind = np.float64 if "double" in p.pointee else np.float16 if "half" in p.pointee else np.float32
        error = _error(a.view(kind).astype(np.float64), b.view(kind).astype(np.float64))
        outcome.largest_error = max(outcome.largest_error, error)
        if ("float" in p.pointee or "double" in p.pointee or "half" in p.pointee) and error <= TOLERANCE:
            outcome.compared = "close"
            continue
        if outcome.launch and outcome.launch["findings"]:
            outcome.compared = "order"
            return
        outcome.verdict = "failed"
        outcome.reason = f"{p.name}: {int((a != b).sum())} bytes differ from the GPU's, largest error {error:.3g}"
        return


def _error(a: np.ndarray, b: np.ndarray) -> float:
    both = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(
        a[~both & ~np.isnan(a)], b[~both & ~np.isnan(b)]
    ):
        return float("inf")
    scale = np.abs(b[both]).max(initial=0.0) or 1.0
    return float(np.abs(a[both] - b[both]).max(initial=0.0) / scale)
