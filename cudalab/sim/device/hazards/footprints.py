"""What a kernel touches, remembered for kernels that touch the same bytes in every launch.

Noting every byte that a launch touches takes time. But where neither an address nor a branch depends on what the kernel
loads from memory, the bytes follow from the parameters, the grid and the block alone: vector addition, a matrix product
or a stencil, in contrast to a histogram or a sparse product. For those, one launch with notes is enough, and the same
launch in a loop costs nothing more.

Whether that holds is read from the PTX: what a load, an atomic or a clock gives is *data*, so is all that is computed
from data, and a kernel is *steady* when no address of device memory and no condition is data. Calls of functions that
were not inlined, and textures, count as data. The answer errs on one side only: a kernel that is called steady is.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial

import numpy as np

from cudalab.sim.abi import Space
from cudalab.sim.device.hazards.accesses import ATOMIC, READ, WRITE, Ledger
from cudalab.sim.device.hazards.host import Shared
from cudalab.sim.device.queue.byte_extent import Extent, Runs
from cudalab.sim.device.queue.kernel_launch import Launch
from cudalab.sim.device.queue.operation import Touched
from cudalab.sim.device.queue.publication import publishes
from cudalab.sim.machine.launch.module import LoadedKernel

LaunchKey = tuple[object, ...]
Parts = tuple[tuple[int, tuple[Extent, ...], Runs], ...]
"""By allocation: how, and which bytes, as extents where they are few and else as runs."""

Part = tuple[Ledger, int, Extent]
"""Where, how, and which bytes."""

_FEW = 32

_MOST_LAUNCHES = 256  # remembered of one kernel
_MOST_RUNS = 1 << 16

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"[%$]?[A-Za-z_][\w$.]*")
_LABEL = re.compile(r"^\s*[$\w]+:")
_ALWAYS_DATA = ("%clock", "%globaltimer", "%smid", "%nsmid", "%gridid", "%warpid", "%nwarpid", "%pm")
_LOADS = ("ld", "ldu", "atom", "tex", "tld4", "suld", "txq", "suq", "mbarrier", "ldmatrix", "mapa", "getctarank")
_STRONG = re.compile(r"\.(volatile|relaxed|acquire|release|acq_rel|mmio|sys)\b")
_SEEN = (Space.GLOBAL, Space.GENERIC)
_NO_RESULT = ("st", "red", "sust", "bar", "barrier", "membar", "fence", "cp", "prefetch", "discard", "nanosleep")
_LEAVES = ("bra", "brx", "ret", "exit", "trap", "brkpt")


def is_steady(ptx: str, kernel: str) -> bool:
    """Do the bytes that ``kernel`` touches depend on its parameters, grid and block alone?"""
    body = _body(ptx, kernel)
    if body is None:
        return False
    statements = list(_statements(body))
    data: set[str] = set()
    while True:
        known = len(data)
        for guard, opcode, operands in statements:
            if not _follow(guard, opcode, operands, data):
                return False
        if len(data) == known:
            return True


def _follow(guard: str, opcode: str, operands: list[str], data: set[str]) -> bool:
    """Add to ``data`` what this instruction makes data; False when it uses data as an address or a condition."""
    kind, *qualifiers = opcode.split(".")
    if kind in ("call", "brx"):
        return False
    guarded = guard in data
    if kind in _LEAVES:
        return not guarded
    reaches = _reaches_device_memory(kind, qualifiers)
    if reaches and (guarded or any(_is_data(name, data) for operand in operands for name in _in_brackets(operand))):
        return False
    if kind in _NO_RESULT or not operands:
        return True
    sources = (name for operand in operands[1:] for name in _NAME.findall(operand))
    loads = kind in _LOADS and not (kind == "ld" and qualifiers[:1] == ["param"])
    if loads or guarded or any(_is_data(name, data) for name in sources):
        data.update(_NAME.findall(operands[0]))
    return True


def _reaches_device_memory(kind: str, qualifiers: list[str]) -> bool:
    if kind in ("ld", "ldu", "st", "atom", "red"):
        return not {"shared", "local", "param"} & {qualifier.split("::")[0] for qualifier in qualifiers}
    return kind in ("cp", "tex", "tld4", "suld", "sust", "prefetch", "discard", "st.bulk")


def _is_data(name: str, data: set[str]) -> bool:
    return name in data or name.startswith(_ALWAYS_DATA)


def _in_brackets(operand: str) -> list[str]:
    return [name for part in re.findall(r"\[([^\]]*)\]", operand) for name in _NAME.findall(part)]


def _body(ptx: str, kernel: str) -> str | None:
    """The text between the braces of an entry function."""
    found = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(", ptx)
    if found is None:
        return None
    start = ptx.find("{", found.end())
    depth, position = 0, start
    for brace in re.finditer(r"[{}]", ptx[start:]):
        depth += 1 if brace.group() == "{" else -1
        if not depth:
            position = start + brace.start()
            break
    return _COMMENT.sub("", ptx[start + 1 : position])


def _statements(body: str) -> Iterator[tuple[str, str, list[str]]]:
    """``(guard, opcode, operands)`` of each instruction; the guard is a predicate's name or empty."""
    for line in re.sub(r"^\s*\.loc[^\n]*", "", body, flags=re.MULTILINE).split(";"):
        text = line.strip()
        while (label := _LABEL.match(text)) or text[:1] in ("{", "}"):
            text = text[label.end() if label else 1 :].strip()
        if not text or text.startswith("."):
            continue
        guard = ""
        if text.startswith("@"):
            condition, _, text = text[1:].partition(" ")
            guard = condition.strip().lstrip("!")
            text = text.strip()
        opcode, _, rest = text.replace("\t", " ").partition(" ")
        yield guard, opcode, _split(rest)


def _split(text: str) -> list[str]:
    """Operands, split at commas outside of brackets and braces."""
    operands, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and not depth:
            operands.append(text[start:position])
            start = position + 1
    operands.append(text[start:])
    return [operand.strip() for operand in operands if operand.strip()]


class Placement:
    """The bytes of a footprint, with the ledgers that they belong to now."""

    __slots__ = ("parts", "runs", "shared", "versions")

    def __init__(
        self, parts: list[Part], runs: list[tuple[Ledger, int, Runs]], shared: tuple[Shared, ...], versions: object
    ) -> None:
        self.parts = parts
        self.runs = runs
        """What has many runs."""
        self.shared = shared
        """What the host can touch without a call."""
        self.versions = versions
        """Of the memory and the ledgers for which this holds."""


class KernelFootprints:
    """What launches of one kernel touched."""

    def __init__(self, kernel: LoadedKernel, forget: Callable[[], object]) -> None:
        self._ptx, self._name = kernel.module.program.ptx, kernel.name
        self._kernel = weakref.ref(kernel, lambda _: forget())
        self.launches: dict[LaunchKey, Parts] = {}
        self.placements: dict[LaunchKey, Placement] = {}
        """The same with the ledgers that the bytes belong to (report.py)."""

    def belongs_to(self, kernel: LoadedKernel) -> bool:
        """Is it this kernel's, and not that of one whose memory the kernel has now?"""
        return self._kernel() is kernel

    @cached_property
    def steady(self) -> bool:
        return is_steady(self._ptx, self._name)

    @cached_property
    def talks(self) -> bool:
        kernel = self._kernel()
        return kernel is not None and talks_to_others(kernel)


def talks_to_others(kernel: LoadedKernel) -> bool:
    """Does a kernel order its accesses to memory itself, by volatile, acquire, release or system-scope ones, or by a
    fence for the system? Such kernels report progress to the host, or wait for flags that it sets."""
    return any(_STRONG.search(site.opcode) for site in kernel.kernel.sites if site.space in _SEEN) or publishes(kernel)


class Footprints:
    """Remembered footprints of steady kernels."""

    def __init__(self) -> None:
        self._kernels: dict[int, KernelFootprints] = {}
        """By the kernel's identity: quicker than a dictionary of weak references, and asked for every launch."""

    def of(self, kernel: LoadedKernel) -> KernelFootprints:
        """What is known of a kernel."""
        key = id(kernel)
        known = self._kernels.get(key)
        if known is None or not known.belongs_to(kernel):
            forget = partial(self._kernels.pop, key, None)
            known = self._kernels[key] = KernelFootprints(kernel, forget)
        return known

    def take(
        self, launch: Launch, touched: Touched, by_allocation: Callable[[Runs], Iterable[tuple[object, Runs]]]
    ) -> Parts:
        """What a launch has touched, as parts; remembered where the next one will touch the same."""
        parts = tuple(
            (kind, *_extents_or_runs(here))
            for kind, runs in ((READ, touched.reads), (WRITE, touched.writes), (ATOMIC, touched.atomics))
            for _, here in (by_allocation(runs) if isinstance(runs, np.ndarray) else ())
        )
        memory = self.of(launch.kernel)
        small = sum(len(runs) for _, _, runs in parts) <= _MOST_RUNS
        if small and memory.steady:
            if len(memory.launches) >= _MOST_LAUNCHES:
                memory.launches.clear()
                memory.placements.clear()
            memory.launches[key_of(launch)] = parts
        return parts


_NONE = np.empty((0, 2), np.int64)


def _extents_or_runs(runs: Runs) -> tuple[tuple[Extent, ...], Runs]:
    if len(runs) > _FEW:
        return (), runs
    return tuple((start, end - start, ()) for start, end in runs.tolist()), _NONE


def key_of(launch: Launch) -> LaunchKey:
    """What a steady kernel's bytes follow from."""
    return launch.grid, launch.block, launch.args, launch.shared
