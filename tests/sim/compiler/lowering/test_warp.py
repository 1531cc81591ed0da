"""Barriers and warp operations of every form, in converged and in diverged warps, against models over the lanes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cudalab.sim.compiler.lowering import TABLE
from tests.sim.compiler.kernel_runner import HEADER, Compiled, cuda

FULL = 0xFFFFFFFF
THREADS = 64
WARP_NAMES = ("shfl", "vote", "match", "redux", "elect", "activemask", "bar", "barrier")


def signed(value: int, bits: int) -> int:
    """The low bits of ``value`` as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _inputs(seed: int) -> list[int]:
    source = random.Random(seed)
    return [
        source.choice([source.getrandbits(32), source.randrange(4), 0x80000000 + source.randrange(9)])
        for _ in range(THREADS)
    ]


def shuffle(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Source lane and predicate, by the pseudo-code of the PTX ISA."""
    clamp, segment, b = c & 31, c >> 8 & 31, b & 31
    top, low = lane & segment | clamp & ~segment, lane & segment
    source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | b & ~segment}[mode]
    inside = source >= top if mode == "up" else source <= top
    return (source if inside else lane), inside


_KERNEL = """
.visible .entry {name}(.param .u64 {name}_in, .param .u64 {name}_b, .param .u64 {name}_out, .param .u32 {name}_mask)
{{
.reg .b64 %in, %bs, %out, %at, %a64;
.reg .b32 %t, %a, %b, %d, %q, %mask;
.reg .pred %p, %pa, %bit;
ld.param.u64 %in, [{name}_in];
ld.param.u64 %bs, [{name}_b];
ld.param.u64 %out, [{name}_out];
ld.param.u32 %mask, [{name}_mask];
cvta.to.global.u64 %in, %in;
cvta.to.global.u64 %bs, %bs;
cvta.to.global.u64 %out, %out;
mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, 4;
add.s64 %in, %in, %at;
add.s64 %bs, %bs, %at;
add.s64 %out, %out, %at;
add.s64 %out, %out, %at;
ld.global.u32 %a, [%in];
ld.global.u32 %b, [%bs];
cvt.u64.u32 %a64, %a;
shl.b64 %a64, %a64, 31;
setp.lt.u32 %pa, %a, 3;
mov.u32 %d, 0;
mov.u32 %q, 0;
mov.u32 %at_lane, %laneid;
{guard}
{body}
skip:
st.global.u32 [%out], %d;
st.global.u32 [%out+4], %q;
ret;
}}
"""


def _kernel(name: str, body: str, guard: str = "") -> str:
    return _KERNEL.format(name=name, body=body, guard=guard).replace("%d, %q, %mask;", "%d, %q, %mask, %at_lane;")


_GUARD = "shr.u32 %q, %mask, %at_lane;\nand.b32 %q, %q, 1;\nsetp.eq.u32 %bit, %q, 0;\nmov.u32 %q, 0;\n@%bit bra skip;"
_PREDICATE = "selp.u32 {}, 1, 0, %p;"


def _run(
    body: str, a: list[int], b: list[int] | None = None, mask: int = FULL, guard: str = "", variant: str = "plain"
):  # type: ignore[no-untyped-def]
    out = np.zeros((THREADS, 2), np.uint32)
    module = Compiled(HEADER + _kernel("k", body, guard))
    values, others = np.array(a, np.uint32), np.array(b or [0] * THREADS, np.uint32)
    module("k", 1, THREADS, values, others, out, mask, variant=variant)
    return out[:, 0].tolist(), out[:, 1].tolist()


def _lanes(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def _by_warp(compute, a: list[int], mask: int) -> list[int]:  # type: ignore[no-untyped-def]
    """``compute(values of the warp, lane)`` for each lane in the mask, 0 elsewhere."""
    return [
        compute(a[warp * 32 : warp * 32 + 32], lane) if mask >> lane & 1 else 0 for warp in (0, 1) for lane in range(32)
    ]


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("c", [31, 0, 0x1800 | 31, 0x1C00 | 31, 0x1C00, 0x1F00 | 31, 7])
def test_shuffles(mode: str, literal: bool, c: int) -> None:
    a = _inputs(1)
    steps = [random.Random(c).randrange(32)] * THREADS if literal else [k * 7 % 37 for k in range(THREADS)]
    b = str(steps[0]) if literal else "%b"
    found, predicates = _run(f"shfl.sync.{mode}.b32 %d|%p, %a, {b}, {c}, -1;\n{_PREDICATE.format('%q')}", a, steps)
    right = [shuffle(mode, k % 32, steps[k], c) for k in range(THREADS)]
    assert found == [a[k // 32 * 32 + source] for k, (source, _) in enumerate(right)]
    assert predicates == [int(inside) for _, inside in right]


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_without_predicate(mode: str) -> None:
    a = _inputs(2)
    for c in (31, 0, 0x1000 | 31):
        found, _ = _run(f"shfl.sync.{mode}.b32 %d, %a, 3, {c}, -1;", a)
        assert found == [a[k // 32 * 32 + shuffle(mode, k % 32, 3, c)[0]] for k in range(THREADS)]


@pytest.mark.parametrize("mask", [FULL, 0x0000FFFF, 0xF0F0F0F0, 0x80000001])
def test_shuffle_among_some_lanes(mask: int) -> None:
    a = _inputs(3)
    found, _ = _run("shfl.sync.bfly.b32 %d, %a, 1, 31, %mask;", a, mask=mask, guard=_GUARD)
    for k in range(THREADS):
        if mask >> k % 32 & 1 and mask >> (k % 32 ^ 1) & 1:
            assert found[k] == a[k ^ 1]


MASKS = [FULL, 0x0000FFFF, 0xAAAAAAAA, 0x00000010]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("mode", ["all", "any", "uni", "ballot"])
def test_votes(mode: str, mask: int) -> None:
    for a in (_inputs(4), [1] * THREADS, [9] * THREADS):
        if mode == "ballot":
            found, _ = _run("vote.sync.ballot.b32 %d, %pa, %mask;", a, mask=mask, guard=_GUARD)
        else:
            body = f"vote.sync.{mode}.pred %p, %pa, %mask;\n{_PREDICATE.format('%d')}"
            found, _ = _run(body, a, mask=mask, guard=_GUARD)

        def right(values: list[int], lane: int) -> int:
            votes = [values[other] < 3 for other in _lanes(mask)]
            outcome = {"all": all(votes), "any": any(votes), "uni": len(set(votes)) == 1}
            return int(outcome.get(mode, sum(1 << other for other in _lanes(mask) if values[other] < 3)))

        assert found == _by_warp(right, a, mask)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "opcode", ["match.any.sync.b32", "match.any.sync.b64", "match.all.sync.b32", "match.all.sync.b64"]
)
def test_matches(opcode: str, mask: int) -> None:
    operand = "%a64" if "b64" in opcode else "%a"
    for a in ([k % 5 for k in _inputs(5)], [7] * THREADS):
        target = "%d|%p" if "all" in opcode else "%d"
        after = _PREDICATE.format("%q") if "all" in opcode else ""
        found, predicates = _run(f"{opcode} {target}, {operand}, %mask;\n{after}", a, mask=mask, guard=_GUARD)

        def same(values: list[int], lane: int) -> int:
            group = sum(1 << other for other in _lanes(mask) if values[other] == values[lane])
            return group if "any" in opcode or group == mask else 0

        right = _by_warp(same, a, mask)
        assert found == right
        if "all" in opcode:
            assert predicates == [int(value != 0) for value in right]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("opcode", [opcode for row in TABLE.rows["redux"] for opcode in row.opcodes()])
def test_reductions(opcode: str, mask: int) -> None:
    a = _inputs(6)
    found, _ = _run(f"{opcode} %d, %a, %mask;", a, mask=mask, guard=_GUARD)
    operation, kind = opcode.split(".")[2:4]

    def right(values: list[int], lane: int) -> int:
        chosen = [signed(values[other], 32) if kind == "s32" else values[other] for other in _lanes(mask)]
        result = chosen[0]
        for value in chosen[1:]:
            result = {
                "add": lambda x, y: x + y,
                "min": min,
                "max": max,
                "and": lambda x, y: x & y,
                "or": lambda x, y: x | y,
                "xor": lambda x, y: x ^ y,
            }[operation](result, value)
        return result & FULL

    assert found == _by_warp(right, a, mask)


@pytest.mark.parametrize("mask", MASKS)
def test_elect_and_active_mask_and_sync(mask: int) -> None:
    leader = _lanes(mask)[0]
    found, elected = _run(f"elect.sync %d|%p, %mask;\n{_PREDICATE.format('%q')}", _inputs(7), mask=mask, guard=_GUARD)
    assert found == _by_warp(lambda values, lane: leader, found, mask)
    assert elected == _by_warp(lambda values, lane: int(lane == leader), found, mask)
    found, _ = _run("bar.warp.sync %mask;\nactivemask.b32 %d;", _inputs(7), mask=mask, guard=_GUARD)
    assert found == _by_warp(lambda values, lane: mask, found, mask)


@pytest.mark.parametrize("variant", ["plain", "atomic", "traced"])
@pytest.mark.parametrize(
    "opcode", [opcode for name in ("bar", "barrier") for row in TABLE.rows[name] for opcode in row.cover()]
)
def test_block_barriers(opcode: str, variant: str) -> None:
    if "warp" in opcode or "arrive" in opcode or "cluster" in opcode:
        return  # test_elect_and_active_mask_and_sync; opcodes/cluster.py
    a = _inputs(8)
    count = sum(value < 3 for value in a)
    if ".popc" in opcode:
        found, _ = _run(f"{opcode} %d, 0, %pa;", a, variant=variant)
        assert found == [count] * THREADS
    elif ".red" in opcode:
        for values, right in (
            (a, {"and": 0, "or": 1}),
            ([0] * THREADS, {"and": 1, "or": 1}),
            ([9] * THREADS, {"and": 0, "or": 0}),
        ):
            found, _ = _run(f"{opcode} %p, 3, %pa;\n{_PREDICATE.format('%d')}", values, variant=variant)
            assert found == [right[opcode.split(".red.")[1].split(".")[0]]] * THREADS
    else:
        body = (
            ".shared .align 4 .b8 cells[256];\n.reg .b32 %own, %other;\n"
            "shl.b32 %own, %t, 2;\nst.shared.u32 [%own], %a;\n"
            f"{opcode} 0;\nsub.u32 %other, 252, %own;\nld.shared.u32 %d, [%other];\n{opcode} 1, 64;\n"
        )
        found, _ = _run(body, a, variant=variant)
        assert found == a[::-1]


def test_named_barriers_of_half_blocks() -> None:
    """Two halves of a block each with a barrier of their own, many times, one more often than the other."""
    source = """
    extern "C" __global__ void halves(int *out) {
        __shared__ int cells[128];
        int t = threadIdx.x, half = t / 64, other = half * 64 + (t + 1) % 64, sum = 0;
        for (int k = 0; k < 5 + half * 4; k++) {
            cells[t] = t * k;
            asm volatile("bar.sync %0, 64;" :: "r"(half + 1) : "memory");
            sum += cells[other];
            asm volatile("bar.sync %0, 64;" :: "r"(half + 1) : "memory");
        }
        out[t] = sum;
    }"""
    out = np.zeros(128, np.int32)
    cuda(source)("halves", 1, 128, out)
    t = np.arange(128)
    other = t // 64 * 64 + (t + 1) % 64
    assert (out == other * np.where(t < 64, 10, 36)).all()


def test_every_warp_row_is_tried() -> None:
    tried = {"shfl": 1, "vote": 2, "match": 1, "redux": 2, "elect": 1, "activemask": 1, "bar": 5, "barrier": 6}
    for name in WARP_NAMES:
        assert len(TABLE.rows[name]) == tried[name], f"a row of {name} is new: add a test for it"
