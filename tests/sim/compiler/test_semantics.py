"""What opcodes say about operation, memory order and scope."""

from __future__ import annotations

import pytest

from cudalab.sim.abi import ImageShape, SiteKind, Space
from cudalab.sim.compiler.program import Location, Site
from cudalab.sim.compiler.semantics import Operation, Order, Scope, semantics_of


@pytest.mark.parametrize(
    ("opcode", "order", "scope", "strong"),
    [
        ("ld.global.f32", Order.WEAK, Scope.DEVICE, False),
        ("ld.volatile.global.u32", Order.RELAXED, Scope.DEVICE, True),
        ("ld.acquire.gpu.u32", Order.ACQUIRE, Scope.DEVICE, True),
        ("st.release.sys.global.u32", Order.RELEASE, Scope.SYSTEM, True),
        ("atom.acq_rel.cta.shared::cta.add.u32", Order.ACQ_REL, Scope.BLOCK, True),
        ("ld.shared::cluster.u32", Order.WEAK, Scope.DEVICE, False),
        ("red.relaxed.cluster.global.add.u32", Order.RELAXED, Scope.CLUSTER, True),
        ("membar.gl", Order.SC, Scope.DEVICE, False),
        ("fence.sc.sys", Order.SC, Scope.SYSTEM, False),
    ],
)
def test_order_and_scope(opcode: str, order: Order, scope: Scope, strong: bool) -> None:
    found = semantics_of(opcode)
    assert (found.order, found.scope, found.strong) == (order, scope, strong)


@pytest.mark.parametrize(
    ("opcode", "publishes"),
    [
        ("st.global.u32", False),
        ("st.volatile.global.u32", True),
        ("st.release.gpu.global.u32", True),
        ("ld.volatile.global.u32", False),
        ("atom.acquire.gpu.global.add.u32", False),
        ("atom.acq_rel.gpu.global.add.u32", True),
        ("atom.global.sys.add.u32", True),
        ("membar.gl", False),
        ("membar.sys", True),
    ],
)
def test_which_instructions_publish(opcode: str, publishes: bool) -> None:
    assert semantics_of(opcode).publishes is publishes


def test_operations() -> None:
    names = {
        "red.global.add.f32": Operation.REDUCTION,
        "bar.sync": Operation.BARRIER,
        "barrier.cluster.wait.aligned": Operation.CLUSTER_BARRIER,
        "mbarrier.try_wait.parity.shared::cta.b64": Operation.MBARRIER,
        "add.s32": Operation.OTHER,
    }
    assert {opcode: semantics_of(opcode).operation for opcode in names} == names


def test_a_texture_fetch_by_integers_reads_linear_memory() -> None:
    assert semantics_of("tex.1d.v4.f32.s32").image is ImageShape.LINEAR
    assert semantics_of("tex.1d.v4.f32.f32").image is ImageShape.ARRAY_1D
    assert semantics_of("suld.b.a2d.b32.trap").image is ImageShape.LAYERED_2D
    assert semantics_of("ld.global.f32").image is None


@pytest.mark.parametrize(("opcode", "waits"), [("shfl.sync.down.b32", True), ("activemask.b32", False)])
def test_activemask_waits_for_no_lane(opcode: str, waits: bool) -> None:
    assert Site(SiteKind.WARP, opcode, Space.GENERIC, 0, Location("", 0)).synchronises_lanes is waits
