"""The helper process: serves compile requests.

Runs as a process of its own, started by ``helper.py``, because a compiler fed with a learner's source
can run out of memory, crash or never end, and must not take the notebook with it. Nothing of
``cudalab`` above ``sim.compiler`` is imported here.

One request at a time, in and out by the messages of ``codec.py``. A jailed helper, which reads the sources of
strangers, answers each in a child of its own: what one source does to a compiler is gone before the next is read. The
process ends when its input does,
also in the middle of a compile; when a request exceeds its time though nobody is left to see to it; and
after running out of memory, when a compiler's state can no longer be trusted.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, assert_never

from cudalab.sim import free_pages
from cudalab.sim.compiler.frontend import includes, resources, signature
from cudalab.sim.compiler.frontend.nvrtc import Nvrtc, NvrtcError, Output
from cudalab.sim.compiler.frontend.precompiled import Precompiled, Wanted
from cudalab.sim.compiler.processes import codec, jail, zygote
from cudalab.sim.compiler.processes.messages import (
    Build,
    Compile,
    Compiled,
    Limits,
    MakeFaultHandler,
    MakeRuntime,
    Native,
    ObjectCode,
    Order,
    Ready,
    Refusal,
    Reply,
    Request,
)
from cudalab.sim.compiler.program import InvalidWideCode
from cudalab.sim.compiler.ptx.errors import PtxError

_QUIET = 0.25  # seconds without a request after which headers may be precompiled, and memory goes back
_KEPT = 1.0  # seconds after which a forked helper ends: 20 MB, and the next one is there in milliseconds
_MUCH = 48 << 20  # bytes of its own with which it ends at once: CUDA's large headers leave 100 MB in NVRTC
_LIBRARIES = _NVRTC, _LLVM = ("libnvrtc", "libllvmlite")
_HEADER_SECONDS = 60.0  # after which that ends the process
_GRACE = 5.0  # seconds beyond a request's limit before the process ends by itself
_WARM_SOURCE = 'extern "C" __global__ void warm(float *x) { x[threadIdx.x] += 1.0f; }\n'
_MEMORY_WORDS = ("out of memory", "bad_alloc", "cannot allocate memory", "memory allocation fail")


class _Refused(Exception):
    """A request without a result, and the answer that says so."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Worker:
    """Answers requests, one at a time."""

    def __init__(self, library: str, folders: list[str]) -> None:
        self.folders = folders
        self.nvrtc: Nvrtc | None = None
        self.missing = ""
        self.deadline = 0.0
        self.headers: Precompiled | None = None
        self.notify: Callable[[bytes], None] | None = None
        self._library = ""
        try:
            self.nvrtc = Nvrtc(Path(library) if library else None)
        except OSError as error:
            self.missing = str(error)

    def keep_headers(self, home: Path | None) -> None:
        """Write precompiled headers to a folder of this process."""
        if self.nvrtc is not None:
            self.headers = Precompiled(self.nvrtc, home, self.folders)

    def idle(self) -> None:
        """Idle work that speeds up the next request; and what the compilers have freed goes back to the system."""
        if self.notify is None:
            self._write_headers()
        free_pages.give_back()
        for name in _LIBRARIES:
            free_pages.unmap_library(name)
        self._library = ""

    def _turn_to(self, library: str) -> None:
        """Go on with one of the two compilers. The pages of the other's file go, some 40 MB that it needs again only
        with another kernel: 0.2 ms, and 2 when it does."""
        if library != self._library:
            self._library = library
            for other in _LIBRARIES:
                if other != library:
                    free_pages.unmap_library(other)

    def _write_headers(self) -> None:
        if self.headers is None or not self.headers.wants:
            return
        self.deadline = time.monotonic() + _HEADER_SECONDS
        try:
            self.headers.write_wanted()
        except Exception:  # the next compile goes without
            self.headers = None
        finally:
            self.deadline = 0.0

    def say_what_is_wanted(self) -> None:
        """In a forked helper, after an answer: tell the zygote, and which header would have helped."""
        if self.notify is not None:
            wanted = self.headers.take_wanted() if self.headers is not None else None
            self.notify(codec.encode(wanted) if wanted else zygote.ANSWERED)

    def write_header(self, wanted: bytes) -> None:
        """In another copy of the zygote: write that header."""
        if self.headers is not None:
            self.headers.write(codec.decode(Wanted, wanted))

    def answer(self, order: Order) -> Reply:
        """The reply to one request, be it a refusal."""
        self.deadline = time.monotonic() + order.limits.seconds + _GRACE
        _limit_memory(order.limits.memory)
        try:
            return self._result(order.request, order.limits)
        except _Refused as error:
            return error.refusal
        except MemoryError:
            return Refusal("memory", "out of memory")
        except RecursionError:
            return Refusal("depth", "nested too deep")
        except NvrtcError as error:
            return Refusal("memory" if _is_memory(str(error)) else "crash", str(error))
        except PtxError as error:
            return _unsupported(error)
        except Exception as error:  # a mistake in cudalab itself: its traceback is what helps
            import traceback

            text = "".join(traceback.format_exception(error))
            return Refusal("internal", f"{type(error).__name__}: {error}", text)
        finally:
            self.deadline = 0.0

    def _result(self, request: Request, limits: Limits) -> Reply:
        if isinstance(request, Compile):
            return self._compile(request, limits)
        self._turn_to(_LLVM)
        from cudalab.sim.compiler import build  # loads LLVM

        match request:
            case Build():
                _check_size(request.ptx, limits)
                return Compiled(build.build_program(request.ptx, signatures=signature.signatures(request.ptx, "", {})))
            case Native():
                with warnings.catch_warnings(record=True) as found:
                    warnings.simplefilter("always", InvalidWideCode)
                    entries, code = build.module_object(request.ptx, request.variant)
                return ObjectCode(code, entries, [str(each.message) for each in found])
            case MakeRuntime():
                return ObjectCode(build.runtime_object())
            case MakeFaultHandler():
                from cudalab.sim.compiler.object_code import compile_object
                from cudalab.sim.compiler.runtime.host_fault import host_fault_text

                return ObjectCode(compile_object(host_fault_text(), optimise="runtime"))
            case _:
                assert_never(request)

    # ------------------------------------------------------------------ operations
    def _compile(self, request: Compile, limits: Limits) -> Compiled:
        from cudalab.sim.compiler.build import build_program

        if self.nvrtc is None:
            raise _Refused(Refusal("missing", self.missing))
        self._turn_to(_NVRTC)
        source = request.source
        if request.restricted:
            try:
                includes.check_bundled(source, self.folders)
            except includes.IncludeError as error:
                raise _Refused(Refusal("include", str(error), line=error.line)) from None
        probes = list(signature.probe_names(source))
        output = self._run(source, request, probes)
        if output.failed and probes and signature.broken_by_probe(output.log):
            output, probes = self._run(source, request, []), []
        if not output.failed:
            output = self._probe_again(source, request, output, probes)
        log = resources.clean_log(output.log, signature.MARK)
        if output.failed:
            kind = "memory" if "catastrophic error: out of memory" in output.log else "source"
            raise _Refused(Refusal(kind, "does not compile", log))
        ptx = self._own_names(signature.without_probe(output.ptx))
        _check_size(ptx, limits)
        signatures = signature.signatures(ptx, source, output.lowered)
        lowered = {name: symbol for name, symbol in output.lowered.items() if name in request.expressions}
        used = resources.parse_resources(output.log)
        return Compiled(replace(build_program(ptx, source, log, lowered, signatures, used), cubin=output.cubin))

    def _run(self, source: str, request: Compile, probes: list[str]) -> Output:
        assert self.nvrtc is not None
        text = signature.probe_source(source) if probes else source
        expressions = [*request.expressions, *map(signature.probe_expression, probes)]
        if self.headers is None:
            return self.nvrtc.compile(text, request.name, request.arguments, expressions)
        return self.headers.compile(text, request.name, request.arguments, expressions, restricted=request.restricted)

    def _probe_again(self, source: str, request: Compile, output: Output, probes: list[str]) -> Output:
        """Ask for the types of ``extern "C"`` kernels that only the PTX shows: a macro declares them."""
        known = {name.rpartition("::")[2] for name in probes}
        unknown = [name for name in signature.unmangled_entries(output.ptx) if name not in known]
        if not unknown or not source.strip():
            return output
        again = self._run(source, request, [*probes, *unknown])
        return output if again.failed else again

    def _own_names(self, ptx: str) -> str:
        """NVRTC puts its working folder ahead of file names; nobody else knows that folder."""
        folder = os.getcwd()
        for separator in ("/", "\\", "\\\\"):
            ptx = ptx.replace(f'"{folder}{separator}', '"')
        return ptx

    def warm(self) -> None:
        """Compile a first kernel: the libraries are loaded and their tables built before anybody waits."""
        arguments = ["--gpu-architecture=sm_90", "-lineinfo", "--ptxas-options=-v"]
        unbounded = Limits(memory=0)  # what the libraries take is not counted, see _address_space_at_start
        reply = self.answer(Order(Compile(_WARM_SOURCE, "warm.cu", arguments), unbounded))
        if isinstance(reply, Compiled):
            self.answer(Order(Native(reply.program.ptx, "plain"), unbounded))


def _answer_apart(worker: Worker, order: Order) -> Reply:
    """The reply to one request, made by a child that nothing is left of. Where the child dies, this process dies the
    same way, for ``helper.py`` to tell how."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_REAL, order.limits.seconds + _GRACE)  # nobody watches over it
        with os.fdopen(writing, "wb") as out:
            out.write(codec.encode(worker.answer(order)))
        os._exit(0)
    os.close(writing)
    worker.deadline = time.monotonic() + order.limits.seconds + _GRACE
    with os.fdopen(reading, "rb") as replies:
        data = replies.read()
    _, status = os.waitpid(child, 0)
    worker.deadline = 0.0
    code = os.waitstatus_to_exitcode(status)
    if code:
        os._exit(3 if code == -signal.SIGALRM else 128 - code if code < 0 else code)
    return codec.decode(Reply, data)  # type: ignore[arg-type]  # a union is no `type` to mypy


def _check_size(ptx: str, limits: Limits) -> None:
    if limits.ptx and len(ptx) > limits.ptx:
        raise _Refused(Refusal("size", f"{len(ptx)} bytes of PTX"))


def _is_memory(text: str) -> bool:
    return any(word in text.lower() for word in _MEMORY_WORDS)


def _unsupported(error: PtxError) -> Refusal:
    message, place = str(error), error.location
    if place is not None:
        message = message.removeprefix(f"{place.file}:{place.line}: ")
        place = place.in_source()
    file, line = (place.file, place.line) if place is not None else ("", 0)
    return Refusal("ptx", message, file=file, line=line)


@cache
def _address_space_at_start() -> int:
    """Bytes of address space that this process had once its libraries were loaded. Libraries and allocators reserve
    more of it on machines with many cores, so limits count from here."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * mmap.PAGESIZE


def _limit_memory(most: int) -> None:
    """Bound the address space that a request may add; where the system cannot, ``helper.py`` watches instead."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space_at_start() + most if most > 0 else hard
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard) if limit != resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _watch(worker: Worker, descriptor: int) -> None:
    """Ends the process when its parent is gone, or when a request takes longer than it may."""
    poll = None
    try:
        import select

        poll = select.poll()
        poll.register(descriptor, 0)  # hang-up is reported without being asked for
    except (ImportError, AttributeError):
        pass  # Windows: the pipe breaks at the next message, and the deadline bounds the time until then
    while True:
        if poll is None:
            time.sleep(1.0)
        elif poll.poll(1000):
            os._exit(0)
        if worker.deadline and time.monotonic() > worker.deadline:
            os._exit(3)


def _quiet(descriptor: int, seconds: float) -> bool:
    """Wait for the next request; True when none came. Pipes cannot be waited for on Windows."""
    try:
        import select

        return not select.select([descriptor], [], [], seconds)[0]
    except (ImportError, OSError, ValueError):
        return False


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes, moved away from the standard streams: compilers print when they die."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")


def _own_memory() -> int:
    """Bytes of memory that are this process's, files left out. Linux only."""
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * mmap.PAGESIZE


def _has_retired(descriptor: int, memory: int) -> bool:
    """For a forked helper that has been idle for a moment: whether it is to end. ``memory``: its bytes at first."""
    return _own_memory() - memory > _MUCH or _quiet(descriptor, _KEPT)


def main(configuration: dict[str, Any]) -> None:
    """Serve until the input ends. ``configuration``: library, folders, readable (jailed when not empty), apart
    (each request in a child), precompile (headers, in idle time), control (fork helpers at the orders that come
    through it)."""
    control: int | None = configuration["control"]
    if control is None:
        requests, replies = _streams()
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass
    worker = Worker(configuration["library"], configuration["folders"])
    worker.keep_headers(Path(os.getcwd(), f"headers-{os.getpid()}") if configuration["precompile"] else None)
    worker.warm()
    _address_space_at_start()
    worker.idle()
    if control is not None:
        requests, replies, worker.notify = zygote.serve(control, worker.write_header)
    jailed = bool(configuration["readable"]) and jail.restrict(configuration["readable"])
    threading.Thread(target=_watch, args=(worker, requests.fileno()), daemon=True).start()
    replies.write(codec.frame(Ready(("landlock",) if jailed else ())))
    replies.flush()
    memory = _own_memory() if worker.notify else 0
    while True:
        if _quiet(requests.fileno(), _QUIET):
            worker.idle()
            if worker.notify and _has_retired(requests.fileno(), memory):
                break
        try:
            message = codec.read(requests)
            order = codec.decode(Order, message) if message is not None else None
        except codec.CodecError:
            break
        if order is None:
            break
        if worker.notify is not None:
            worker.notify(zygote.BEGUN)
        reply = _answer_apart(worker, order) if configuration["apart"] else worker.answer(order)
        replies.write(codec.frame(reply))
        replies.flush()
        worker.say_what_is_wanted()
        if isinstance(reply, Refusal) and reply.kind in ("memory", "crash"):
            break
    if worker.headers is not None and worker.notify is None:
        worker.headers.close()
    sys.stderr.flush()
    os._exit(0)  # skips the destructors of a compiler that may be in any state
