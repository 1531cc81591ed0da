"""Kernels written in Python for tests of the machine: they do to a context what compiled code does.

A body is called for each block with a :class:`Block`; it reads and writes through the same checks as native code.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence

from cudalab.sim.abi import (
    GRANULE,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    WINDOW_SIZE,
    Context,
    FaultKind,
    Record,
    Root,
    SiteKind,
    Space,
    Status,
    Undo,
)
from cudalab.sim.compiler.program import (
    GlobalVariable,
    Kernel,
    Location,
    Parameter,
    Program,
    Resources,
    RootSource,
    Site,
)
from cudalab.sim.machine.launch.module import ENTRY, LoadedKernel, Module
from cudalab.sim.machine.launch.printf import ENTRY_HEADER
from cudalab.sim.machine.launch.workspace import DRAIN
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

SOURCE = "\n".join(f"line {n};" for n in range(1, 21))


class Stopped(Exception):
    """The block cannot go on; carries the status."""


class Block:
    """One running block, as compiled code sees it."""

    def __init__(self, context: Context, index: int, traced: bool, kernel: Kernel) -> None:
        self.context, self.index, self.traced, self.kernel = context, index, traced, kernel

    def threads(self) -> Iterator[int]:
        order = self.context.thread_order
        for i in range(self.context.threads):
            yield (ctypes.c_uint32 * self.context.threads).from_address(order)[i] if order else i

    def argument(self, code: str, offset: int) -> int:
        size = struct.calcsize(code)
        return struct.unpack("<" + code, ctypes.string_at(self.context.params + offset, size))[0]

    def record(self, site: int, thread: int, address: int = 0) -> None:
        trace = self.context.trace
        if not self.traced or not trace.data:
            return
        if trace.used + 16 > trace.capacity:
            trace.lost += 1
            return
        Record.from_address(trace.data + trace.used).__init__(address, site, thread, 0)
        trace.used += 16

    def fault(
        self, kind: FaultKind, site: int, thread: int, address: int = 0, size: int = 0, root: int = 0, detail: int = 0
    ):
        f = self.context.fault
        f.kind, f.site, f.block, f.thread, f.size = kind, site, self.index, thread, size
        f.address, f.root, f.detail = address, root, detail
        raise Stopped(Status.FAULT)

    def access(self, site: int, thread: int, address: int, root: int = 0) -> int:
        """Record and check; returns the host address to touch."""
        size = self.kernel.sites[site].size
        self.record(site, thread, address)
        c = self.context
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE:
            if address - SHARED_WINDOW + size > c.shared_size:
                self.fault(FaultKind.OUT_OF_BOUNDS, site, thread, address, size, root)
            return c.shared + address - SHARED_WINDOW
        if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE:
            return c.local + thread * c.local_size + address - LOCAL_WINDOW
        if address % size:
            self.fault(FaultKind.MISALIGNED, site, thread, address, size, root)
        if root:
            r = Root.from_address(c.roots + 16 * (root - 1))
            good = r.base <= address and address + size <= r.base + r.length
        else:
            offset = address - c.arena
            good = 0 <= offset < c.arena_size
            if good:
                live = ctypes.c_uint16.from_address(c.shadow + offset // GRANULE * 2).value
                good = offset % GRANULE + size <= live
        if not good:
            self.fault(FaultKind.OUT_OF_BOUNDS, site, thread, address, size, root)
        return address

    def load(self, site: int, thread: int, address: int, root: int = 0, code: str = "i") -> int:
        at = self.access(site, thread, address, root)
        return struct.unpack("<" + code, ctypes.string_at(at, struct.calcsize(code)))[0]

    def store(self, site: int, thread: int, address: int, value: int, root: int = 0, code: str = "i") -> None:
        at = self.access(site, thread, address, root)
        data = struct.pack("<" + code, value)
        if at == address:
            self._log(at, len(data))
        ctypes.memmove(at, data, len(data))

    def _log(self, address: int, size: int) -> None:
        undo = self.context.undo
        if not undo.data:
            return
        if undo.used + ctypes.sizeof(Undo) > undo.capacity:
            DRAIN(undo.drain)(ctypes.pointer(self.context), ctypes.pointer(undo))
        entry = Undo.from_address(undo.data + undo.used)
        entry.address, entry.size = address, size
        ctypes.memmove(ctypes.addressof(entry) + Undo.old.offset, address, size)
        undo.used += ctypes.sizeof(Undo)

    def print(self, thread: int, template: int, arguments: bytes = b"") -> None:
        out = self.context.print
        size = -(-len(arguments) // 8) * 8
        if out.used + ENTRY_HEADER.size + size > out.capacity:
            if out.drain:
                DRAIN(out.drain)(ctypes.pointer(self.context), ctypes.pointer(out))
            if out.used + ENTRY_HEADER.size + size > out.capacity:
                out.lost += 1
                return
        entry = ENTRY_HEADER.pack(self.index, thread, len(arguments), template, 0, 0) + arguments.ljust(size, b"\0")
        ctypes.memmove(out.data + out.used, entry, len(entry))
        out.used += len(entry)

    def poll(self) -> None:
        if self.context.stop:
            raise Stopped(Status.STOPPED)


Body = Callable[[Block], None]


class PythonCode:
    """Native code whose entry points are Python functions."""

    def __init__(self, program: Program, bodies: dict[str, Body], variant: str) -> None:
        self._entries = {}
        for name, body in bodies.items():
            self._entries[f"run_{name}"] = ENTRY(
                self._runner(program.kernels[name], body, variant in ("traced", "sanitize_trace"))
            )

    @staticmethod
    def _runner(kernel: Kernel, body: Body, traced: bool) -> Callable[[int, int, int], int]:
        def run(address: int, first: int, end: int) -> int:
            context = Context.from_address(address)
            for index in range(first, end):
                try:
                    if context.stop:
                        return Status.STOPPED
                    body(Block(context, index, traced, kernel))
                except Stopped as stopped:
                    return int(stopped.args[0])
                context.blocks_done += 1
            return Status.DONE

        return run

    def address(self, symbol: str) -> int:
        return ctypes.cast(self._entries[symbol], ctypes.c_void_p).value or 0


def site(
    kind: SiteKind,
    space: Space = Space.GLOBAL,
    size: int = 4,
    line: int = 1,
    opcode: str = "",
    instructions: int = 0,
) -> Site:
    return Site(kind, opcode or kind.name.lower(), space, size, Location("kernel.cu", line), instructions)


def pointer(index: int, name: str, pointee: str = "int") -> Parameter:
    return Parameter(index, name, f"{pointee}*", "pointer", 8, 8, 8 * index, pointee)


def make(
    body: Body,
    *,
    sites: Sequence[Site] = (),
    parameters: Sequence[Parameter] = (),
    memory: Memory | None = None,
    static_shared: int = 0,
    local_bytes: int = 0,
    registers: int = 16,
    max_threads: int = 1024,
    globals: Sequence[GlobalVariable] = (),
    source: str = SOURCE,
    name: str = "k",
) -> LoadedKernel:
    """A loaded kernel whose code is `body`. Every pointer parameter is a root."""
    kernel = Kernel(
        name=name,
        parameters=tuple(parameters),
        resources=Resources(registers, static_shared, 0),
        parameter_bytes=max((p.offset + p.size for p in parameters), default=0),
        static_shared=static_shared,
        local_bytes=local_bytes,
        frame_bytes=0,
        scratch_bytes=0,
        roots=tuple(RootSource(p.offset) for p in parameters if p.kind == "pointer"),
        sites=tuple(sites),
        max_threads=max_threads,
        location=Location("kernel.cu", 1),
    )
    program = Program(source, "", "", {name: kernel}, {g.name: g for g in globals}, {}, f"{name}-{id(body)}")
    memory = Memory(1 << 30) if memory is None else memory
    module = Module(program, memory, LIMITS, linker=lambda program, variant: PythonCode(program, {name: body}, variant))
    return module.kernel(name)


def pack(*pointers: int) -> bytes:
    return struct.pack(f"<{len(pointers)}Q", *pointers)
