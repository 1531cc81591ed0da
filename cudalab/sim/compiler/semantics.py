"""What an opcode says about an access: operation, memory order, scope (PTX ISA, "Memory Consistency Model").

The machine asks through ``Site.semantics`` instead of looking at opcodes. Each opcode is taken apart once in a process.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache

from msgspec import Struct

from cudalab.sim.abi import ImageShape


class Operation(IntEnum):
    """The kind of instruction, as far as anybody asks."""

    OTHER = 0
    LOAD = 1
    STORE = 2
    ATOMIC = 3
    """``atom``: gives back what was there."""
    REDUCTION = 4
    """``red``: an atomic without result."""
    FENCE = 5
    BARRIER = 6
    """Of the block, or of named threads of it, or of lanes of a warp."""
    CLUSTER_BARRIER = 7
    MBARRIER = 8
    ACTIVE_MASK = 9
    SLEEP = 10
    BRANCH = 11


class Order(IntEnum):
    """Memory order. Volatile and mmio accesses are relaxed ones."""

    WEAK = 0
    RELAXED = 1
    ACQUIRE = 2
    RELEASE = 3
    ACQ_REL = 4
    SC = 5
    """Of fences alone; ``membar`` is one."""


class Scope(IntEnum):
    """Which threads an order holds for; each scope includes those before it."""

    BLOCK = 0
    CLUSTER = 1
    DEVICE = 2
    SYSTEM = 3


class Semantics(Struct, frozen=True):
    """An opcode taken apart."""

    operation: Operation
    order: Order = Order.WEAK
    scope: Scope = Scope.DEVICE
    """``DEVICE`` where the opcode names none."""
    volatile: bool = False
    asynchronous: bool = False
    """An access that goes on after the instruction: ``cp.async``, ``st.async``, bulk copies; and what waits for it."""
    bulk: bool = False
    """A bulk copy (``cp.async.bulk``), or what orders them."""
    arrives: bool = False
    """Arrives at a barrier without waiting."""
    expects_bytes: bool = False
    """Tells an mbarrier how many bytes copies will bring (``expect_tx``)."""
    read_only: bool = False
    """A load through the read-only data cache: nobody may write there while the kernel runs."""
    exchanges: bool = False
    """An atomic whose new value does not depend on the old one."""
    swaps: bool = False
    """A compare-and-swap."""
    floating: bool = False
    """Its type is a floating-point one."""
    integer_word: bool = False
    """Its type is a 64-bit integer: what it loads may be an address."""
    image: ImageShape | None = None
    """Of texture and surface accesses: the shape that the object must have."""
    surface: bool = False

    @property
    def strong(self) -> bool:
        """Other threads may access the same place at the same time."""
        return Order.WEAK < self.order < Order.SC

    @property
    def acquires(self) -> bool:
        return self.order in (Order.ACQUIRE, Order.ACQ_REL, Order.SC)

    @property
    def releases(self) -> bool:
        return self.order in (Order.RELEASE, Order.ACQ_REL, Order.SC)

    @property
    def takes_lock(self) -> bool:
        """Is it an atomic with which a loop takes a lock: compare-and-swap, or exchange?"""
        return self.swaps or self.exchanges

    @property
    def publishes(self) -> bool:
        """Is it a store, or a fence, that threads outside the device see take effect while the kernel runs?"""
        if self.operation is Operation.FENCE:
            return self.scope is Scope.SYSTEM
        writes = self.operation in (Operation.STORE, Operation.ATOMIC, Operation.REDUCTION)
        return writes and (self.scope is Scope.SYSTEM or (self.strong and self.order is not Order.ACQUIRE))


_OPERATIONS = {
    "ld": Operation.LOAD,
    "ldu": Operation.LOAD,
    "st": Operation.STORE,
    "atom": Operation.ATOMIC,
    "red": Operation.REDUCTION,
    "membar": Operation.FENCE,
    "fence": Operation.FENCE,
    "bar": Operation.BARRIER,
    "barrier": Operation.BARRIER,
    "mbarrier": Operation.MBARRIER,
    "activemask": Operation.ACTIVE_MASK,
    "nanosleep": Operation.SLEEP,
    "bra": Operation.BRANCH,
    "brx": Operation.BRANCH,
}
_ORDERS = {
    "sc": Order.SC,
    "acq_rel": Order.ACQ_REL,
    "release": Order.RELEASE,
    "acquire": Order.ACQUIRE,
    "relaxed": Order.RELAXED,
    "volatile": Order.RELAXED,
    "mmio": Order.RELAXED,
}
_SCOPES = {"cta": Scope.BLOCK, "cluster": Scope.CLUSTER, "gpu": Scope.DEVICE, "gl": Scope.DEVICE, "sys": Scope.SYSTEM}
_FLOATS = ("f16", "f16x2", "f32", "f64")
_SHAPES = {
    "1d": ImageShape.ARRAY_1D,
    "2d": ImageShape.ARRAY_2D,
    "3d": ImageShape.ARRAY_3D,
    "a1d": ImageShape.LAYERED_1D,
    "a2d": ImageShape.LAYERED_2D,
    "cube": ImageShape.CUBE,
    "acube": ImageShape.LAYERED_CUBE,
}
_IMAGES = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq")


@cache
def semantics_of(opcode: str) -> Semantics:
    """What ``opcode`` says, as PTX writes it (``ld.global.acquire.gpu.u32``)."""
    name, *parts = opcode.split(".")
    operation = _OPERATIONS.get(name, Operation.OTHER)
    if operation is Operation.BARRIER and "cluster" in parts:
        operation = Operation.CLUSTER_BARRIER
    order = next((found for word, found in _ORDERS.items() if word in parts), Order.WEAK)
    if name == "membar":
        order = Order.SC
    type = parts[-1] if parts else ""
    return Semantics(
        operation=operation,
        order=order,
        scope=next((_SCOPES[part] for part in parts if part in _SCOPES), Scope.DEVICE),
        volatile="volatile" in parts,
        asynchronous=any(part.startswith("async") for part in parts),
        bulk=any(part.startswith("bulk") for part in parts),
        arrives=any(part.startswith("arrive") for part in parts),
        expects_bytes="expect_tx" in parts,
        read_only="nc" in parts,
        exchanges="exch" in parts,
        swaps=name == "atom" and "cas" in parts,
        floating=type.endswith(_FLOATS),
        integer_word=type in ("u64", "b64", "s64"),
        image=_image(name, parts),
        surface=name.startswith("su"),
    )


def _image(name: str, parts: list[str]) -> ImageShape | None:
    """Of a texture fetch by integer coordinates: a piece of linear memory, whose elements it numbers."""
    if name not in _IMAGES:
        return None
    if name == "tex" and "1d" in parts and parts[-1] == "s32":
        return ImageShape.LINEAR
    return next((_SHAPES[part] for part in parts if part in _SHAPES), ImageShape.ARRAY_1D)
