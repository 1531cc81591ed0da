"""What an entry of the corpus is: CUDA C++ with its data, its launches, and what must come out.

An entry names every buffer and scalar in ``data``, which draws them from a seeded generator:

=================  ==================================================================================
``ndarray``        a device buffer with these values; if ``expect`` does not name it, it must not change
``np.generic``     a scalar passed by value
``Blank``          an output: memory nobody has written. Plain runs fill it with ``0xA5``, so that an element
                   the kernel forgets is seen; checked runs leave it, so that initcheck sees a read of it
``Scratch``        a buffer with initial values whose end state does not matter
``Global``         a ``__device__`` or ``__constant__`` variable of the module, set before the launches
``Texture``        a 1-, 2- or 3-D CUDA array, read through a texture object
``Surface``        the same, written through a surface object
=================  ==================================================================================

``expect`` computes with NumPy, from the data as it was before, all of what the named buffers hold afterwards. Two
bounds say how equal that is: ``tolerance`` holds against NumPy and against an H200, and is for approximate functions
and float atomics only; ``rounding`` holds against NumPy alone, where both are right but add or contract in another
order. Without them, results agree bit for bit.

Lines of a source that keep threads inside the data end in ``// guard``; barriers, fences and atomics are found by
their names (`sites`). So a test can take any of them away and see whether the sanitizer notices. Where the data leaves
a place idle (a guard that no thread needs, an atomic on which no two threads meet), the entry has `Awkward` data, too.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

f16, f32, f64 = np.float16, np.float32, np.float64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
Data = dict[str, Any]
Expected = dict[str, np.ndarray]


@dataclass(frozen=True)
class Near:
    """``|got - want| <= atol + rtol * |want|`` for every element, and why it is not bit for bit."""

    rtol: float
    atol: float
    why: str


@dataclass(frozen=True)
class Blank:
    """Memory nobody has written: ``Blank((3, 4), f32)``."""

    shape: int | tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class Scratch:
    """A buffer whose end state does not matter."""

    value: np.ndarray


@dataclass(frozen=True)
class Global:
    """A variable of the module that bears the same name."""

    value: np.ndarray


@dataclass(frozen=True)
class Texture:
    """Texels; the last axis is x. ``mode``: 0 wrap, 1 clamp, 2 mirror, 3 border."""

    value: np.ndarray
    mode: int = 1
    linear: bool = False
    normalised: bool = False
    layered: bool = False
    fractions: bool = False


@dataclass(frozen=True)
class Surface:
    """A CUDA array that a kernel writes; its values before."""

    value: np.ndarray


@dataclass(frozen=True)
class Launch:
    """One launch. ``args`` names the data (``"x y n"``); numbers in a tuple are passed as they are."""

    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    args: str | tuple[Any, ...]
    shared: int = 0
    cooperative: bool = False

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple(self.args.split()) if isinstance(self.args, str) else self.args


@dataclass(frozen=True)
class Awkward:
    """Further data of an entry, of a size or content that its first data does not have. It runs on the simulated device
    only, and must agree with NumPy."""

    why: str
    """What it reaches."""
    data: Callable[[np.random.Generator], Data]
    launches: Sequence[Launch] = ()
    """By default those of the entry."""


@dataclass(frozen=True)
class Site:
    """A barrier, fence, atomic or guard in a source: ``mutant`` is the source without it."""

    kind: str
    line: int
    text: str
    mutant: str


@dataclass(frozen=True)
class Entry:
    """One entry of the corpus."""

    name: str
    topic: str
    shows: str
    body: str
    data: Callable[[np.random.Generator], Data]
    launches: Callable[[Data], Sequence[Launch]]
    expect: Callable[[Data], Expected]
    tolerance: Near | None = None
    rounding: Near | None = None
    features: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = ("-std=c++17",)
    prints: Callable[[Data], str] | None = None
    awkward: Awkward | None = None
    _tags: list[frozenset[str]] = field(default_factory=list, repr=False, compare=False)

    @property
    def source(self) -> str:
        """What is compiled: includes and code."""
        return "".join(f"#include <{header}>\n" for header in self.headers) + self.body

    @property
    def tags(self) -> frozenset[str]:
        """``barriers``, ``fences``, ``guards``, ``atomics`` where the source has them, and its features."""
        if not self._tags:
            self._tags.append(frozenset({site.kind + "s" for site in sites(self.body)} | set(self.features)))
        return self._tags[0]

    def inputs(self) -> Data:
        """The data, the same at each call."""
        return self.data(np.random.default_rng(zlib.crc32(self.name.encode())))

    def forms(self) -> list[Entry]:
        """The entry, and the entry with its awkward data."""
        if self.awkward is None:
            return [self]
        fixed = tuple(self.awkward.launches)
        launches = (lambda _: fixed) if fixed else self.launches
        return [self, replace(self, data=self.awkward.data, launches=launches, awkward=None)]


REGISTRY: dict[str, Entry] = {}


def kernel(
    name: str,
    shows: str,
    source: str,
    *,
    data: Callable[[np.random.Generator], Data],
    launch: Launch | Sequence[Launch] | Callable[[Data], Sequence[Launch]],
    expect: Callable[[Data], Expected],
    tolerance: Near | None = None,
    rounding: Near | None = None,
    features: str = "",
    headers: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    options: tuple[str, ...] = ("-std=c++17",),
    prints: Callable[[Data], str] | None = None,
    topic: str = "",
    awkward: Awkward | None = None,
) -> None:
    """Registers an entry.

    Args:
        name: unique; the topic is its module.
        shows: what a reader learns from it.
        source: CUDA C++, without the includes that ``headers`` names.
        data: makes the data, in the order of a seeded generator.
        launch: one launch, several in sequence, or a function of the data that gives them.
        expect: the buffers that change, by name, computed by NumPy.
        tolerance: against NumPy and an H200; only for ``approximate functions: …`` and ``float atomics``.
        rounding: against NumPy only.
        features: what of the language or machine it uses, separated by spaces.
        headers: heavy headers; entries with the same ones are compiled together.
        names: name expressions of templates that are launched.
        options: the compiler's.
        prints: what ``printf`` writes, lines sorted.
        awkward: further data, for what the first does not reach.
    """
    if name in REGISTRY:
        raise ValueError(f"two kernels are called {name!r}")
    if tolerance is not None and not tolerance.why.startswith(("approximate functions", "float atomics")):
        raise ValueError(f"{name}: a tolerance against the H200 needs approximate functions or float atomics")
    topic = topic or __import__("sys")._getframe(1).f_globals["__name__"].rsplit(".", 1)[-1]
    if callable(launch):
        launches: Callable[[Data], Sequence[Launch]] = launch
    else:
        fixed = (launch,) if isinstance(launch, Launch) else tuple(launch)

        def launches(_: Data) -> Sequence[Launch]:
            return fixed

    REGISTRY[name] = Entry(
        name,
        topic,
        shows,
        source,
        data,
        launches,
        expect,
        tolerance,
        rounding,
        tuple(features.split()),
        headers,
        names,
        options,
        prints,
        awkward,
    )


def load_corpus() -> dict[str, Entry]:
    """Imports every topic and returns all entries by name."""
    package = importlib.import_module("tests.corpus.topics")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return REGISTRY


# -- places a test can take away ---------------------------------------------------------------------------------------

_OBJECT = r"\b\w+(?:\[[^\]]*\])?"
_BARRIER = re.compile(
    r"(?:__syncthreads|__syncwarp)\s*\([^;]*?\)\s*;"
    rf"|{_OBJECT}(?:\.|::)(?:sync|wait)\s*\([^;]*?\)\s*;"
    rf"|{_OBJECT}\.(?:arrive_and_wait|producer_acquire|consumer_wait)\s*\(\)\s*;"
    r"|asm\s+volatile\s*\(\s*\"bar(?:rier)?\.[^;]*?;\"[^;]*?\)\s*;"
)
_VOTING_BARRIER = re.compile(r"\b__syncthreads_(?:count|and|or)\s*\(")
_FENCE = re.compile(r"\b__threadfence(?:_block|_system)?\s*\(\s*\)\s*;")
_ATOMIC = re.compile(r"\batomic(Add|Sub|Min|Max|Exch|CAS|And|Or|Xor|Inc|Dec)(?:_block|_system)?\s*\(")
_ATOMIC_REF = re.compile(r"\bcuda::atomic_ref\s*<\s*([\w ]+?)\s*,[^<>]*>")
_WITHOUT_ATOMIC = {
    "Add": "plain_add", "Sub": "plain_sub", "Min": "plain_min", "Max": "plain_max", "Exch": "plain_exch",
    "CAS": "plain_cas", "And": "plain_and", "Or": "plain_or", "Xor": "plain_xor", "Inc": "plain_inc",
    "Dec": "plain_dec",
}  # fmt: skip
PLAIN = """
template <typename T, typename U> __device__ T plain_add(T* p, U v) { T old = *p; *p = old + v; return old; }
template <typename T, typename U> __device__ T plain_sub(T* p, U v) { T old = *p; *p = old - v; return old; }
template <typename T, typename U> __device__ T plain_min(T* p, U v) { T old = *p; *p = old < v ? old : v; return old; }
template <typename T, typename U> __device__ T plain_max(T* p, U v) { T old = *p; *p = old > v ? old : v; return old; }
template <typename T, typename U> __device__ T plain_exch(T* p, U v) { T old = *p; *p = v; return old; }
template <typename T, typename U, typename V> __device__ T plain_cas(T* p, U c, V v) {
    T old = *p; if (old == c) *p = v; return old;
}
template <typename T, typename U> __device__ T plain_and(T* p, U v) { T old = *p; *p = old & v; return old; }
template <typename T, typename U> __device__ T plain_or(T* p, U v) { T old = *p; *p = old | v; return old; }
template <typename T, typename U> __device__ T plain_xor(T* p, U v) { T old = *p; *p = old ^ v; return old; }
template <typename T, typename U> __device__ T plain_inc(T* p, U v) {
    T old = *p; *p = old >= v ? 0 : old + 1; return old;
}
template <typename T, typename U> __device__ T plain_dec(T* p, U v) {
    T old = *p; *p = old == 0 || old > v ? v : old - 1; return old;
}
template <typename T> struct plain_ref {
    T* p;
    __device__ explicit plain_ref(T& place) : p(&place) {}
    template <typename O> __device__ T load(O) const { return *p; }
    template <typename O> __device__ void store(T v, O) const { *p = v; }
    template <typename O> __device__ T fetch_add(T v, O) const { return plain_add(p, v); }
    template <typename O> __device__ T fetch_max(T v, O) const { return plain_max(p, v); }
    template <typename O> __device__ bool compare_exchange_weak(T& c, T v, O) const {
        T old = *p; bool same = old == c; if (same) *p = v; c = old; return same;
    }
};
"""
"""The atomics' effect by a plain load and a plain store, for mutants."""


def sites(source: str) -> Iterator[Site]:
    """Every barrier, fence, atomic and guard of a source, in order of lines, each with the mutant that lacks it.

    A barrier's or a fence's mutant has an empty statement instead, or the thread's own value where a barrier votes; an
    atomic's does the same by a plain load and store, and so does every use of an ``atomic_ref``; a guard's goes on as
    if its condition allowed all threads (``if (outside) return;`` is dropped, also with more before the ``return`` in
    braces; ``if (inside)`` and ``inside ?`` become true).
    """
    found = []
    for kind, pattern in (("barrier", _BARRIER), ("fence", _FENCE)):
        for match in pattern.finditer(source):
            found.append((match.start(), kind, source[: match.start()] + ";" + source[match.end() :]))
    for match in _VOTING_BARRIER.finditer(source):
        found.append((match.start(), "barrier", source[: match.start()] + "(int)(" + source[match.end() :]))
    for match in _ATOMIC.finditer(source):
        mutant = source[: match.start()] + _WITHOUT_ATOMIC[match[1]] + "(" + source[match.end() :]
        found.append((match.start(), "atomic", PLAIN + mutant))
    for match in _ATOMIC_REF.finditer(source):
        mutant = source[: match.start()] + f"plain_ref<{match[1]}>" + source[match.end() :]
        found.append((match.start(), "atomic", PLAIN + mutant))
    for match in re.finditer(r"// guard\b", source):
        start = source.rfind("\n", 0, match.start()) + 1
        line, after = source[start : match.start()], source[match.start() :]
        found.append((start, "guard", source[:start] + _unguarded(line, _leaves(line, after)) + after))
    for at, kind, mutant in sorted(found):
        line_number = source.count("\n", 0, at) + 1
        yield Site(kind, line_number, source.splitlines()[line_number - 1].strip(), mutant)


def _leaves(line: str, after: str) -> bool:
    """Does the guard open a block in which threads leave: is its condition that of threads outside?"""
    if not line.rstrip().endswith("{"):
        return False
    depth = 1
    for at, character in enumerate(after):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return re.search(r"\b(?:return|continue|break)\s*;\s*$", after[:at]) is not None
    raise ValueError(f"the guard's block does not end: {line.strip()}")


def _unguarded(line: str, leaves: bool) -> str:
    opening = re.search(r"\b(?:if|while)\s*\(", line)
    if opening is None:
        question = line.find("?")
        close = line.rfind(")", 0, question)
        if question < 0 or close < 0:
            raise ValueError(f"no condition on the guard's line: {line.strip()}")
        first = _opening(line, close)
        return line[:first] + "(true)" + line[close + 1 :]
    first = opening.end() - 1
    last = _closing(line, first)
    if leaves or re.match(r"\s*(?:return|continue|break)\b", line[last + 1 :]):
        return line[:first] + "(false)" + line[last + 1 :]
    return line[:first] + "(true)" + line[last + 1 :]


def _closing(line: str, first: int) -> int:
    depth = 0
    for at in range(first, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 0:
            return at
    raise ValueError(f"the guard's condition goes on in the next line: {line.strip()}")


def _opening(line: str, last: int) -> int:
    depth = 0
    for at in range(last, -1, -1):
        depth += {")": 1, "(": -1}.get(line[at], 0)
        if depth == 0:
            return at
    raise ValueError(f"the guard's condition begins in another line: {line.strip()}")


# -- words the oracles share -------------------------------------------------------------------------------------------


def blocks(n: int, size: int) -> int:
    """Blocks of ``size`` threads that cover ``n``."""
    return -(-n // size)


def fma(a: Any, b: Any, c: Any) -> np.ndarray:
    """``a * b + c`` of float32, rounded once: the compiler contracts a product and a sum."""
    return (np.asarray(a, f64) * np.asarray(b, f64) + np.asarray(c, f64)).astype(f32)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers in float32."""
    return rng.standard_normal(shape, dtype=f32)


def whole(rng: np.random.Generator, low: int, high: int, *shape: int, dtype: Any = f32) -> np.ndarray:
    """Whole numbers from ``low`` up to and without ``high``: float sums of few of them are exact."""
    return rng.integers(low, high, shape).astype(dtype)
