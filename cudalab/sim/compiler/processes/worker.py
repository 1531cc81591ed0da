"""The helper process: it waits for a request, compiles, and answers.

Runs as a process of its own, started by ``helper.py``, because a compiler fed with a learner's source
can run out of memory, crash or never end, and must not take the notebook with it. Nothing of
``cudalab`` above ``sim.compiler`` is imported here.

One request at a time, in and out by the messages of ``codec.py``. The process ends when its input does,
also in the middle of a compile; when a request exceeds its time though nobody is left to see to it; and
after running out of memory, when a compiler's state can no longer be trusted.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from cudalab.sim.compiler.frontend import includes, resources, signature
from cudalab.sim.compiler.frontend.nvrtc import Nvrtc, NvrtcError, Output
from cudalab.sim.compiler.frontend.precompiled import Precompiled
from cudalab.sim.compiler.processes import codec, jail
from cudalab.sim.compiler.ptx.errors import PtxError

_QUIET = 0.25  # seconds without a request after which headers may be precompiled
_HEADER_SECONDS = 60.0  # after which that ends the process
_GRACE = 5.0  # seconds beyond a request's limit before the process ends by itself
_WARM_SOURCE = 'extern "C" __global__ void warm(float *x) { x[threadIdx.x] += 1.0f; }\n'
_MEMORY_WORDS = ("out of memory", "bad_alloc", "cannot allocate memory", "memory allocation fail")


class _Refused(Exception):
    """An answer that is an error. ``fields`` go to the caller."""

    def __init__(self, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.fields = {"kind": kind, "message": message, **fields}


class Worker:
    """Answers requests: one method for each, by the request's ``do``."""

    def __init__(self, library: str, folders: list[str]) -> None:
        self.folders = folders
        self.nvrtc: Nvrtc | None = None
        self.missing = ""
        self.deadline = 0.0
        self.headers: Precompiled | None = None
        try:
            self.nvrtc = Nvrtc(Path(library) if library else None)
        except OSError as error:
            self.missing = str(error)

    def keep_headers(self, home: Path | None) -> None:
        """Write precompiled headers to a folder of this process."""
        if self.nvrtc is not None:
            self.headers = Precompiled(self.nvrtc, home, self.folders)

    def idle(self) -> None:
        """Do what helps the next request while nobody waits."""
        if self.headers is None or not self.headers.wants:
            return
        self.deadline = time.monotonic() + _HEADER_SECONDS
        try:
            self.headers.write_wanted()
        except Exception:  # the next compile goes without
            self.headers = None
        finally:
            self.deadline = 0.0

    def answer(self, request: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """The reply to one request, be it an error."""
        limits = request.get("limits", {})
        self.deadline = time.monotonic() + limits.get("seconds", 30.0) + _GRACE
        _limit_memory(limits.get("memory", 0))
        try:
            operations = {
                "compile": self._compile,
                "build": self._build,
                "native": self._native,
                "runtime": self._runtime,
                "trap": self._trap,
            }
            return operations[request["do"]](request)
        except _Refused as error:
            return {"error": error.fields}, []
        except MemoryError:
            return {"error": {"kind": "memory", "message": "out of memory"}}, []
        except RecursionError:
            return {"error": {"kind": "depth", "message": "nested too deep"}}, []
        except NvrtcError as error:
            kind = "memory" if _is_memory(str(error)) else "crash"
            return {"error": {"kind": kind, "message": str(error)}}, []
        except PtxError as error:
            return {"error": _unsupported(error)}, []
        except Exception as error:  # a mistake in cudalab itself: its traceback is what helps
            import traceback

            text = "".join(traceback.format_exception(error))
            return {"error": {"kind": "internal", "message": f"{type(error).__name__}: {error}", "log": text}}, []
        finally:
            self.deadline = 0.0

    # ------------------------------------------------------------------ operations
    def _compile(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        if self.nvrtc is None:
            raise _Refused("missing", self.missing)
        source, expressions = request["source"], request["expressions"]
        if request["restricted"]:
            try:
                includes.check_bundled(source, self.folders)
            except includes.IncludeError as error:
                raise _Refused("include", str(error), line=error.line) from None
        probes = list(signature.probe_names(source))
        output = self._run(source, request, probes)
        if output.failed and probes and signature.broken_by_probe(output.log):
            output, probes = self._run(source, request, []), []
        if not output.failed:
            output = self._probe_again(source, request, output, probes)
        log = resources.clean_log(output.log, signature.MARK)
        if output.failed:
            kind = "memory" if "catastrophic error: out of memory" in output.log else "source"
            raise _Refused(kind, "does not compile", log=log)
        ptx = self._own_names(signature.without_probe(output.ptx))
        _check_size(ptx, request)
        signatures = signature.signatures(ptx, source, output.lowered)
        lowered = {name: symbol for name, symbol in output.lowered.items() if name in expressions}
        used = resources.parse_resources(output.log)
        return self._reply(ptx, source, log, lowered, signatures, used, output.cubin)

    def _run(self, source: str, request: dict[str, Any], probes: list[str]) -> Output:
        assert self.nvrtc is not None
        text = signature.probe_source(source) if probes else source
        expressions = [*request["expressions"], *map(signature.probe_expression, probes)]
        if self.headers is not None:
            return self.headers.compile(text, request, expressions)
        return self.nvrtc.compile(text, request["name"], request["arguments"], expressions)

    def _probe_again(self, source: str, request: dict[str, Any], output: Output, probes: list[str]) -> Output:
        """Ask for the types of ``extern "C"`` kernels that only the PTX shows: a macro declares them."""
        known = {name.rpartition("::")[2] for name in probes}
        unknown = [name for name in signature.unmangled_entries(output.ptx) if name not in known]
        if not unknown or not source.strip():
            return output
        again = self._run(source, request, [*probes, *unknown])
        return output if again.failed else again

    def _build(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        ptx = request["ptx"]
        _check_size(ptx, request)
        return self._reply(ptx, "", "", {}, signature.signatures(ptx, "", {}), {})

    def _reply(
        self,
        ptx: str,
        source: str,
        log: str,
        lowered: dict[str, str],
        signatures: dict[str, Any],
        used: dict[str, Any],
        cubin: bytes = b"",
    ) -> tuple[dict[str, Any], list[bytes]]:
        from cudalab.sim.compiler.build import build_program

        program = replace(build_program(ptx, source, log, lowered, signatures, used), cubin=cubin)
        blobs: list[bytes] = []
        return {"program": codec.encode(program, blobs)}, blobs

    def _native(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        from cudalab.sim.compiler.build import module_object

        entries, code = module_object(request["ptx"], request["variant"])
        return {"entries": entries}, [code]

    def _runtime(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        from cudalab.sim.compiler.build import runtime_object

        return {}, [runtime_object()]

    def _trap(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        from cudalab.sim.compiler.object_code import compile_object
        from cudalab.sim.compiler.runtime.host_fault import host_fault_text

        return {"object": 0}, [compile_object(host_fault_text(), optimise="runtime")]

    def _own_names(self, ptx: str) -> str:
        """NVRTC puts its working folder ahead of file names; nobody else knows that folder."""
        folder = os.getcwd()
        for separator in ("/", "\\", "\\\\"):
            ptx = ptx.replace(f'"{folder}{separator}', '"')
        return ptx

    def warm(self) -> None:
        """Compile a first kernel: the libraries are loaded and their tables built before anybody waits."""
        request = {"source": _WARM_SOURCE, "name": "warm.cu", "expressions": [], "restricted": False}
        request["arguments"] = ["--gpu-architecture=sm_90", "-lineinfo", "--ptxas-options=-v"]
        reply, blobs = self.answer({"do": "compile", **request}, [])
        if "program" in reply:
            from cudalab.sim.compiler.program import Program

            program = codec.decode(Program, reply["program"], blobs)
            self.answer({"do": "native", "ptx": program.ptx, "variant": "plain"}, [])


def _check_size(ptx: str, request: dict[str, Any]) -> None:
    most = request.get("limits", {}).get("ptx", 0)
    if most and len(ptx) > most:
        raise _Refused("size", f"{len(ptx)} bytes of PTX")


def _is_memory(text: str) -> bool:
    return any(word in text.lower() for word in _MEMORY_WORDS)


def _unsupported(error: PtxError) -> dict[str, Any]:
    message, place = str(error), error.location
    if place is not None:
        message = message.removeprefix(f"{place.file}:{place.line}: ")
        while os.path.isabs(place.file) and place.inlined_at is not None:
            place = place.inlined_at  # out of CUDA's headers, to the learner's own line
    file, line = (place.file, place.line) if place is not None else ("", 0)
    return {"kind": "ptx", "message": message, "file": file, "line": line}


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


def _quiet(descriptor: int) -> bool:
    """Wait a moment for the next request; True when none came. Pipes cannot be waited for on Windows."""
    try:
        import select

        return not select.select([descriptor], [], [], _QUIET)[0]
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


def main(configuration: dict[str, Any]) -> None:
    """Serve until the input ends. ``configuration``: library, folders, readable (jailed when not empty)."""
    requests, replies = _streams()
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass
    worker = Worker(configuration["library"], configuration["folders"])
    worker.keep_headers(None if configuration["readable"] else Path(os.getcwd(), f"headers-{os.getpid()}"))
    worker.warm()
    _address_space_at_start()
    walls = ["landlock"] if configuration["readable"] and jail.restrict(configuration["readable"]) else []
    version = list(worker.nvrtc.version) if worker.nvrtc else []
    threading.Thread(target=_watch, args=(worker, requests.fileno()), daemon=True).start()
    ready = {"ready": True, "nvrtc": version, "missing": worker.missing, "walls": walls}
    replies.write(codec.pack(ready, []))
    replies.flush()
    while True:
        if _quiet(requests.fileno()):
            worker.idle()
        try:
            message = codec.read(requests)
        except codec.CodecError:
            break
        if message is None:
            break
        reply, blobs = worker.answer(*message)
        replies.write(codec.pack(reply, blobs))
        replies.flush()
        if reply.get("error", {}).get("kind") in ("memory", "crash"):
            break
    if worker.headers is not None:
        worker.headers.close()
    sys.stderr.flush()
    os._exit(0)  # skips the destructors of a compiler that may be in any state
