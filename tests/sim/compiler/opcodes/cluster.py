"""Clusters, and barriers that some of a block's warps come to (PTX ISA, ``barrier.cluster``, ``mapa``, ``bar.arrive``).

The kernels are launched without a cluster: a block is then one by itself, of rank 0. What blocks of one cluster do with
each other is in ``tests/conformance/programs/clusters.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.sim.compiler.opcodes import atomic
from tests.sim.compiler.opcodes.atomic import Atomic
from tests.sim.compiler.opcodes.case import opcodes
from tests.sim.compiler.opcodes.kernel import Kernel, known

_THREADS = 64
_SCOPES = ("cta", "cluster", "gpu", "sys")
_LATE = ("add.<u32|s32|u64>", "<min|max>.<u32|s32|u64|s64>", "<and|or|xor>.<b32|b64>")


def _atomics() -> Iterator[Atomic]:
    """On shared memory by its address in the cluster; and reductions with order and scope behind the operation."""
    for name in ("atom", "red"):
        for operation, type in atomic._forms(name):
            yield Atomic(f"{name}.shared::cluster.{operation}.{type}", operation, type, "shared::cluster")
            if operation != "add.noftz":
                yield Atomic(f"{name}.shared::cluster.cluster.{operation}.{type}", operation, type, "shared::cluster")
    for pattern in _LATE:
        for _, (operation, type) in opcodes(pattern.replace("add.", "<add>.")):
            for number, scope in enumerate(_SCOPES):
                for order in ("", ("relaxed", "release")[number % 2]):
                    middle = ".".join(token for token in (str(operation), order, scope) if token)
                    yield Atomic(f"red.{middle}.{type}", str(operation), str(type), "")


def _names(pattern: str) -> list[str]:
    return [opcode for opcode, _ in opcodes(pattern)]


class _Body:
    """A kernel of 64 threads in which each takes some steps, each of which leaves a 32-bit word."""

    def __init__(self) -> None:
        self.lines = [
            ".reg .b64 %out, %at, %shared, %generic, %wide, %next;",
            ".reg .b32 %t, %u, %narrow, %near;",
            ".reg .b128 %long;",
            ".reg .pred %p, %low;",
            f".shared .align 16 .b8 words[{16 * _THREADS}];",
            "ld.param.u64 %out, [out];",
            "mov.u32 %t, %tid.x;",
            "mov.u64 %shared, words;",
            "mul.wide.u32 %at, %t, 16;",
            "add.s64 %shared, %shared, %at;",
            "cvta.shared.u64 %generic, %shared;",
            "cvt.u32.u64 %narrow, %shared;",
        ]
        self.opcodes: list[str] = []
        self.expected: list[tuple[str, list[int]]] = []

    def step(self, opcode: str, lines: list[str], expected: list[int]) -> None:
        """``lines`` leave a word in ``%u``."""
        self.opcodes.append(opcode)
        self.expected.append((opcode, expected))
        self.lines += ["mov.u32 %u, -1;", *lines, f"st.global.u32 [%base+{4 * len(self.expected) - 4}], %u;"]

    def kernel(self, name: str, extra: tuple[str, ...] = ()) -> Kernel:
        stride = 4 * len(self.expected)
        head = [".reg .b64 %base;"]
        start = [f"mul.wide.u32 %at, %t, {stride};", "add.s64 %base, %out, %at;", "st.shared.u32 [%shared], %t;"]
        lines = [*head, *self.lines[:12], *start, *self.lines[12:], "ret;"]
        return Kernel(
            name=name,
            body="\n".join(lines),
            opcodes=frozenset([*self.opcodes, *extra]),
            input=np.zeros(8, np.uint8),
            output=np.zeros(stride * _THREADS, np.uint8),
            results=[
                known(opcode, "b32", 4 * position, 4, values, gap=stride)
                for position, (opcode, values) in enumerate(self.expected)
            ],
            block=_THREADS,
        )


_OWN, _ONES, _ZEROS = list(range(_THREADS)), [1] * _THREADS, [0] * _THREADS


def addresses() -> Kernel:
    """The own block by its address in the cluster."""
    body = _Body()
    for opcode in _names("mapa.<u32|u64>"):  # generic
        if opcode.endswith("u64"):
            body.step(opcode, [f"{opcode} %wide, %generic, 0;", "ld.u32 %u, [%wide];"], _OWN)
    body.step(
        "mapa.shared::cluster.u64", ["mapa.shared::cluster.u64 %wide, %shared, 0;", "ld.shared.u32 %u, [%wide];"], _OWN
    )
    mapped = ["mapa.shared::cluster.u32 %near, %narrow, 0;", "ld.shared::cluster.u32 %u, [%near];"]
    body.step("mapa.shared::cluster.u32", mapped, _OWN)
    body.step("getctarank.u64", ["getctarank.u64 %u, %generic;"], _ZEROS)
    body.step("getctarank.shared::cluster.u64", ["getctarank.shared::cluster.u64 %u, %shared;"], _ZEROS)
    body.step("getctarank.shared::cluster.u32", ["getctarank.shared::cluster.u32 %u, %narrow;"], _ZEROS)
    body.step("cvta.shared::cluster.u64", ["cvta.shared::cluster.u64 %wide, %shared;", "ld.u32 %u, [%wide];"], _OWN)
    back = ["cvta.to.shared::cluster.u64 %wide, %generic;", "ld.shared::cluster.u32 %u, [%wide];"]
    body.step("cvta.to.shared::cluster.u64", back, _OWN)
    asked = ["isspacep.shared::cluster %p, %generic;", "selp.u32 %u, 1, 0, %p;"]
    body.step("isspacep.shared::cluster", asked, _ONES)
    stored = ["st.shared::cluster.u32 [%shared+4], 77;", "ld.shared::cluster.u32 %u, [%shared+4];"]
    body.step("ld.shared::cluster.u32", stored, [77] * _THREADS)
    for opcode in ("atom.shared::cluster.exch.b128", "atom.shared::cluster.cta.exch.b128"):
        lines = [
            "cvt.u64.u32 %wide, %t;",
            "st.shared.v2.u64 [%shared], {%wide, %wide};",
            "mov.b128 %long, {%generic, %wide};",
            f"{opcode} %long, [%shared], %long;",
            "mov.b128 {%next, %wide}, %long;",
            "cvt.u32.u64 %u, %wide;",
        ]
        body.step(opcode, lines, _OWN)
    return body.kernel("cluster_addresses", ("st.shared::cluster.u32",))


def barriers() -> Kernel:
    """Each pair of arrival and wait publishes what a neighbour stored."""
    body = _Body()
    arrivals = _names("barrier.cluster.arrive[.release|relaxed][.aligned]")
    waits = _names("barrier.cluster.wait[.acquire][.aligned]")
    for number, arrival in enumerate(arrivals):
        wait = waits[number % len(waits)]
        lines = [
            f"add.u32 %near, %t, {100 * number};",
            "st.shared.u32 [%shared+8], %near;",
            "fence.acq_rel.cluster;",
            f"{arrival};",
            f"{wait};",
            f"xor.b32 %near, %t, {_THREADS - 1};",
            "mul.wide.u32 %wide, %near, 16;",
            "mov.u64 %next, words;",
            "add.s64 %next, %next, %wide;",
            "ld.shared.u32 %u, [%next+8];",
            "bar.sync 0;",
        ]
        body.step(arrival, lines, [_THREADS - 1 - t + 100 * number for t in range(_THREADS)])
        body.opcodes.append(wait)
    return body.kernel("cluster_barriers", ("cudalab.cluster_done",))


def arrivals() -> Kernel:
    """The first warp arrives, the second waits for it."""
    body = _Body()
    forms = [*_names("bar[.cta].arrive"), *_names("barrier[.cta].arrive[.aligned]")]
    for number, opcode in enumerate(forms):
        lines = [
            f"add.u32 %near, %t, {number};",
            "setp.lt.u32 %low, %t, 32;",
            f"@!%low bra wait{number};",
            "st.shared.u32 [%shared+12], %near;",
            f"{opcode} {1 + number}, 64;",
            "mov.u32 %u, 5;",
            f"bra done{number};",
            f"wait{number}:",
            f"bar.sync {1 + number}, 64;",
            "ld.shared.u32 %u, [%shared+-500];",
            f"done{number}:",
            "bar.sync 0;",
        ]
        body.step(opcode, lines, [5] * 32 + [t - 32 + number for t in range(32, _THREADS)])
    return body.kernel("cluster_arrivals")


def kernels() -> list[Kernel]:
    unique = list(dict.fromkeys(_atomics()))
    most = atomic._MOST
    found = [
        atomic._kernel(f"cluster_atomic_{at // most}", unique[at : at + most]) for at in range(0, len(unique), most)
    ]
    return [*found, addresses(), barriers(), arrivals()]
