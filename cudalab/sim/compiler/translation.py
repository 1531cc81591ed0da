"""``compile``, ``compile_ptx`` and ``native``: from CUDA C++ to object code, through caches and helpers.

On a GPU the same steps are taken by NVRTC (C++ to PTX) and by the driver (PTX to machine code, when a
module is loaded). Here both happen in a helper process, and each result is kept: in memory for this
process, on disk for the next one.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from cudalab.sim import interrupts
from cudalab.sim.compiler import cache, waiting
from cudalab.sim.compiler.frontend import headers, includes, signature
from cudalab.sim.compiler.frontend.diagnostics import (
    CompileError,
    CompilerUnavailable,
    Diagnostic,
    parse_log,
)
from cudalab.sim.compiler.frontend.options import ARCHITECTURE, OptionError, Options, parse_options
from cudalab.sim.compiler.processes import helper
from cudalab.sim.compiler.processes.helper import HelperFailure
from cudalab.sim.compiler.processes.messages import (
    Build,
    Compile,
    Compiled,
    Limits,
    MakeFaultHandler,
    MakeRuntime,
    Native,
    ObjectCode,
)
from cudalab.sim.compiler.program import VARIANTS, InvalidWideCode, Program

_KEPT = 64  # programs remembered in this process

_confined = False

_programs: OrderedDict[str, Program] = OrderedDict()
_running: dict[tuple[str, str], Future[bytes]] = {}
_lock = threading.Lock()
_runtime_lock = threading.Lock()


def confine() -> None:
    """From now on this process compiles for strangers: every source as with ``bundled_headers_only``, and their object
    code in jailed helpers, too."""
    global _confined
    _confined = True


def compile(
    source: str,
    *,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    name: str = "kernel.cu",
    bundled_headers_only: bool = False,
    limits: Limits | None = None,
    architecture: str = ARCHITECTURE,
) -> Program:
    """Compile CUDA C++ for the simulated device.

    Args:
        source: the text of one translation unit.
        options: as for CuPy's ``RawKernel``: ``-DN=4``, ``-I/folder``, ``--std=c++20``, ``-use_fast_math`` …
        name_expressions: C++ names of template instances to make, as for ``RawModule``.
        name: what diagnostics call the source.
        bundled_headers_only: for sources of strangers: CUDA's own headers only, harmless options only,
            in a jailed helper.
        limits: time, memory and size, where not the usual ones (``helper.limits()``).
        architecture: ``sm_90``, or another of ``targets.SUPPORTED``; ``compute_90`` gives PTX without machine code.

    Returns:
        The program. ``lowered_names`` maps each name expression to a kernel's name.

    Raises:
        CompileError: mistakes in the source, or a limit was reached.
        CompilerUnavailable: there is no NVRTC here; says what to install.
    """
    restricted = bundled_headers_only or _confined
    request = _Request(source, options, name_expressions, name, restricted, architecture)
    key = request.key()
    program = _remembered(key)
    if program is not None:
        return program
    name_of_key = key.name if key else ""
    try:
        with waiting.step(waiting.reading(source)):
            reply = helper.call(request.message(), Compiled, bounds=limits, jailed=restricted, program=name_of_key)
    except HelperFailure as failure:
        raise request.error(failure, limits or helper.limits()) from None
    program = request.check(replace(reply.program, key=name_of_key))
    if key is not None:
        _keep(key, program)
    return program


def compile_ptx(ptx: str, *, limits: Limits | None = None) -> Program:
    """Translate a PTX module (PTX ISA, as NVRTC writes it) without C++ source.

    Raises:
        CompileError: not PTX, an instruction outside the simulated device's scope, or a limit.
    """
    key = cache.key("ptx", ptx, cache.backend_identity()[:1])
    program = _remembered(key)
    if program is not None:
        return program
    try:
        reply = helper.call(Build(ptx), Compiled, bounds=limits, jailed=_confined, program=key.name)
    except HelperFailure as failure:
        raise _failure(failure, limits or helper.limits(), "", "module.ptx", ()) from None
    program = replace(reply.program, key=key.name)
    _keep(key, program)
    return program


def native(program: Program, variant: str, *, limits: Limits | None = None) -> bytes:
    """Object code of ``program`` for this processor, in ``variant``: one of ``VARIANTS``.

    The result is also put into ``program.objects``.

    Raises:
        ValueError: no such variant.
        CompileError: a limit was reached.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}")
    found = program.objects.get(variant)
    if found is not None:
        return found
    with _lock:
        future = _running.get((program.key, variant)) if program.key else None
    with waiting.step("LLVM is making code of the kernel for this processor"):
        if future is not None:
            return program.objects.setdefault(variant, _await(future))
        code = _generate(program, variant, limits)
    program.objects[variant] = code
    return code


def prefetch(program: Program, variants: Iterable[str] = ("plain", "traced")) -> None:
    """Start making object code in the background and return at once.

    ``native`` then waits for what is under way. Errors appear there.
    """
    for variant in variants:
        if variant not in VARIANTS:
            raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}")
        if variant in program.objects:
            continue
        place = (program.key, variant)
        with _lock:
            if place in _running:
                continue
            future: Future[bytes] = Future()
            _running[place] = future
        threading.Thread(target=_fetch, args=(program, variant, future), daemon=True).start()


def host_fault_code() -> bytes:
    """Object code of the fault handler that watches page-locked memory (``runtime/host_fault.py``).

    Raises:
        CompileError: the helper process did not make it.
    """
    return _object_code(cache.key("host fault", cache.backend_identity()), MakeFaultHandler()).code


def prepare() -> None:
    """Make and link now what every program is linked with: processes that are forked later then have it."""
    from cudalab.sim.compiler.loader import link_runtime  # loads LLVM

    link_runtime(_runtime())


def _fetch(program: Program, variant: str, future: Future[bytes]) -> None:
    try:
        code = _generate(program, variant, None)
        program.objects[variant] = code
        future.set_result(code)
    except BaseException as error:  # handed to whoever asks for the result
        future.set_exception(error)
    finally:
        with _lock:
            _running.pop((program.key, variant), None)


def _await(future: Future[bytes]) -> bytes:
    while not future.done():  # in slices: to be interrupted
        wait([future], timeout=0.1)
        interrupts.check()
    return future.result()


def _generate(program: Program, variant: str, limits: Limits | None) -> bytes:
    from cudalab.sim.compiler.loader import bundle  # loads LLVM

    key = cache.key("object", program.ptx, variant, cache.backend_identity())
    made = _object_code(key, Native(program.ptx, variant), limits, program)
    return bundle(made.entries, _runtime(), made.code)


def _object_code(
    key: cache.Key,
    request: Native | MakeRuntime | MakeFaultHandler,
    limits: Limits | None = None,
    program: Program | None = None,
) -> ObjectCode:
    """The helper's answer to ``request``, kept on disk under ``key``."""
    stored = cache.load(key, ObjectCode)
    if stored is not None:
        return stored
    try:
        known = program.key if program else ""
        made = helper.call(request, ObjectCode, bounds=limits, jailed=_confined, program=known)
    except HelperFailure as failure:
        source = program.source if program else ""
        raise _failure(failure, limits or helper.limits(), source, failure.file or "kernel.cu", ()) from None
    for text in made.invalid:
        warnings.warn(text, InvalidWideCode, stacklevel=4)
    if not made.invalid:  # else the next process is to see the warning, too
        cache.store(key, made)
    return made


def _runtime() -> bytes:
    """The object that every program is linked with (``build.runtime_object``): seconds to make, so it is made once for
    all programs of this version of cudalab."""
    with _runtime_lock:
        return _made_runtime()


@functools.cache
def _made_runtime() -> bytes:
    return _object_code(cache.key("runtime", cache.backend_identity()), MakeRuntime()).code


# ------------------------------------------------------------------------------- one request

_BUILT_IN = "__nv_nvrtc_builtin_header.h"
"""What NVRTC calls the declarations that it has in itself; where a file of this name would be, none is read."""


class _Request:
    """What ``compile`` was asked for, checked."""

    def __init__(
        self,
        source: str,
        options: Sequence[str],
        expressions: Sequence[str],
        name: str,
        restricted: bool,
        architecture: str,
    ) -> None:
        if not isinstance(source, str):
            raise TypeError(f"source must be a str, got {type(source).__name__}")
        if "\0" in source:
            raise CompileError(f"{name}: the source contains a null character", source=source, name=name)
        self.source = source.encode("utf-8", "replace").decode()  # lone surrogates cannot be sent
        self.name = re.sub(r'[\\/"\x00-\x1f]', "_", name) or "kernel.cu"  # a folder in it would be searched for headers
        self.given = tuple(options)
        self.restricted = restricted
        if isinstance(expressions, str):
            raise TypeError(f"name_expressions must be a sequence of strings, got the string {expressions!r}")
        self.expressions = list(expressions)
        self.bundled = headers.include_directories()
        try:
            self.options: Options = parse_options(options, restricted=restricted, architecture=architecture)
        except OptionError as error:
            raise self.refusal(str(error), 0) from None

    def refusal(self, text: str, line: int) -> CompileError:
        diagnostic = Diagnostic(self.name, line, 0, "error", text)
        message = diagnostic.show(self.source, self.name)
        return CompileError(message, "", (diagnostic,), source=self.source, name=self.name, options=self.given)

    def key(self) -> cache.Key | None:
        """What the result depends on; None where it cannot be cached."""
        options = self.options
        reached: Any = []  # while grading, only CUDA's own headers are
        if not self.restricted:
            reached = includes.dependencies(self.source, options.folders, options.pre_includes)
        if reached is None:
            return None
        parts = [self.source, options.flags, options.folders, options.pre_includes, options.notes, reached]
        parts += [options.architecture, options.asked]
        return cache.key("program", parts, self.expressions, self.name, self.restricted, cache.compiler_identity())

    def message(self) -> Compile:
        return Compile(self.source, self.name, self.options.arguments(self.bundled), self.expressions, self.restricted)

    def check(self, program: Program) -> Program:
        """Add the options' notes to the log; while grading, see that no foreign file was read."""
        if self.restricted:
            self._only_known_files(program.log, re.findall(r'(?m)^\s*\.file\s+\d+\s+"([^"]*)"', program.ptx))
        notes = [f"cudalab: note: {note}" for note in self.options.notes]
        return replace(program, log="\n".join([*notes, program.log]).strip()) if notes else program

    def error(self, failure: HelperFailure, limits: Limits) -> Exception:
        if failure.kind == "source":
            if self.restricted:
                self._only_known_files(failure.log, [])
            from cudalab.sim.compiler.frontend.compile_error import compile_error  # loads the hints

            return compile_error(failure.log, self.source, self.name, self.given)
        if failure.kind == "include":
            return self.refusal(str(failure), failure.line)
        return _failure(failure, limits, self.source, self.name, self.given)

    def _only_known_files(self, log: str, files: list[str]) -> None:
        files = [*files, *(entry.file for entry in parse_log(log, self.source, self.name))]
        own = {self.name, signature.MARK, "__nv_name_map", ""}
        roots = [Path(folder).resolve() for folder in self.bundled]
        for file in files:
            path = Path(file)
            known = path.is_absolute() and any(path.resolve().is_relative_to(root) for root in roots)
            if file not in own and not known and path.name != _BUILT_IN:
                raise self.refusal("the source includes a file other than CUDA's own headers, or renames itself", 0)


# ------------------------------------------------------------------------------- results


def _remembered(key: cache.Key | None) -> Program | None:
    if key is None:
        return None
    with _lock:
        program = _programs.get(key.name)
        if program is not None:
            _programs.move_to_end(key.name)
            return program
    stored = cache.load(key, Program)
    if stored is None:
        return None
    program = replace(stored, key=key.name)
    _remember(program)
    return program


def _remember(program: Program) -> None:
    with _lock:
        _programs[program.key] = program
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)


def _keep(key: cache.Key, program: Program) -> None:
    """Remember a new program, for this process and on disk; object code has entries of its own."""
    _remember(program)
    cache.store(key, replace(program, objects={}))


def forget() -> None:
    """Drop what this process remembers; the disk cache stays."""
    with _lock:
        _programs.clear()


_LIMIT = {
    "time": "the compiler was stopped by the time limit of {seconds:g} s",
    "memory": "the compiler was stopped by the memory limit of {megabytes:,} MB",
    "size": "the compiler was stopped by the size limit: {message}, at most {ptx:,} are translated",
    "crash": "the compiler crashed ({message})",
    "depth": "the compiler was stopped: the code is nested too deep",
}
_ADVICE = {
    "time": "look for a template that instantiates itself without end, a constexpr loop of billions of steps, or a "
    "#pragma unroll over very many iterations.",
    "memory": "look for a large array with an initialiser (leave that out, and fill the array from a kernel or by a "
    "copy), a template that instantiates itself very often, or a macro that doubles itself.",
    "size": "look for #pragma unroll over very many iterations, or functions that inline each other many times.",
    "crash": "make the kernel smaller step by step to find what the compiler does not bear; code nested thousands of "
    "levels deep does that.",
    "depth": "split the expression, or the function, into parts.",
}
_CACHE_HINT = re.compile(r'"[^"\n]*\b(?:prefetchu?|discard|applypriority)\.')
_KNOWN_ADDRESS = (
    "give this instruction an address in an array: the compiler's assembler crashes on a number that it knows, as in "
    '"l"((char *)4096). With CuPy on a GPU it takes the notebook\'s kernel along.'
)


def _failure(failure: HelperFailure, limits: Limits, source: str, name: str, options: Sequence[str]) -> Exception:
    kind, message = failure.kind, str(failure)
    if kind == "missing":
        return CompilerUnavailable(unavailable_message(message))
    if kind == "ptx":
        file, line = failure.file or name, failure.line
        diagnostic = Diagnostic(file, line, 0, "error", message)
        return CompileError(
            diagnostic.show(source, name), failure.log, (diagnostic,), source=source, name=name, options=options
        )
    if kind in _LIMIT:
        text = _LIMIT[kind].format(
            seconds=limits.seconds, megabytes=limits.memory >> 20, ptx=limits.ptx, message=message
        )
        place = _CACHE_HINT.search(source) if kind == "crash" else None
        line = source.count("\n", 0, place.start()) + 1 if place else 0
        diagnostic = Diagnostic(name, line, 0, "error", text, hint=_KNOWN_ADDRESS if place else _ADVICE[kind])
        limit = kind if kind in ("time", "memory", "size") else ""
        message = diagnostic.show(source, name) if place else f"{name}: {text}"
        return CompileError(message, failure.log, (diagnostic,), source=source, name=name, options=options, limit=limit)
    error = CompileError(f"{name}: {message}", failure.log, source=source, name=name, options=options)
    error.add_note("This is a mistake in cudalab, not in your kernel. Please report it with the source.")
    if failure.log:
        error.add_note(failure.log.rstrip())
    return error


def unavailable_message(cause: str, platform: str = sys.platform) -> str:
    """What to tell someone whose machine has no NVRTC."""
    if platform == "darwin":
        return (
            "cudalab cannot compile CUDA C++ here: NVIDIA makes no NVRTC for macOS. "
            "Run cudalab in its container instead (see docs, “Install”: the container)."
        )
    return (
        "cudalab cannot compile CUDA C++ here: the NVRTC library was not found. Install it with "
        '"pip install nvidia-cuda-nvrtc" (or "conda install -c conda-forge cuda-nvrtc"), then restart. '
        f"[{cause.strip() or 'no NVRTC library'}]"
    )
