"""Memory accesses and the bounds checks that each of them needs.

Accesses of one basic block through the same value of the same pointer register, with different constant offsets, are
checked as a group: in a contiguous allocation all are in bounds if the lowest and the highest are. The check is placed
at the first access. Nothing in between can stop the thread, so the fault is still reported, only before stores that a
GPU might have performed first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.operands import definitions
from cudalab.sim.compiler.passes.pointer_roots import Root, Roots, trailing_zeros
from cudalab.sim.compiler.ptx.nodes import BITS, Address, Instruction, Register, Symbol, Variable

_KINDS = {
    "ld": SiteKind.LOAD,
    "ldu": SiteKind.LOAD,
    "st": SiteKind.STORE,
    "atom": SiteKind.ATOMIC,
    "red": SiteKind.ATOMIC,
}
_IMAGE_KINDS = {
    "tex": SiteKind.LOAD,
    "tld4": SiteKind.LOAD,
    "suld": SiteKind.LOAD,
    "sust": SiteKind.STORE,
    "sured": SiteKind.ATOMIC,
    "txq": SiteKind.OTHER,
    "suq": SiteKind.OTHER,
}
_SPACES = {
    "global": Space.GLOBAL,
    "const": Space.CONSTANT,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.CLUSTER,
    "local": Space.LOCAL,
    "param": Space.PARAM,
    "param::entry": Space.PARAM,
    "param::func": Space.PARAM,
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


class Extent(IntEnum):
    """The memory an access is checked against. The values appear in the tables that compiled code passes to the runtime
    object when a check fails."""

    ROOT = 0  # the allocation of a root
    VARIABLE = 1  # a shared variable: [low, low + length)
    DYNAMIC_SHARED = 2
    SHARED = 3  # all of the block's shared memory
    LOCAL = 4  # all of the thread's local memory
    SHADOW = 5  # any live allocation
    PARAMETERS = 7  # of the kernel, read through a pointer
    CLUSTER = 8  # shared memory of any block of the cluster; the runtime object finds it
    LOCAL_VARIABLE = 6  # a function's local memory: [stack + low, stack + low + length)


_ALONE = (Extent.SHADOW, Extent.CLUSTER)
"""Extents whose accesses are checked individually."""


@dataclass(eq=False)
class Access:
    """One load, store or atomic.

    ``base`` is the pointer (a register, or the symbol of a variable), ``offset`` the constant added to it, ``size`` the
    bytes moved per thread, ``width`` the bytes per element. ``extent``, ``root`` (index into the kernel's roots),
    ``low`` and ``length`` define the range it is checked against; ``window``: the address is generic but the extent is
    shared or local. ``aligned``: the distance from the root (or the address within its space) is known to be a multiple
    of ``size``. ``site`` is filled in when sites are numbered.
    """

    instruction: Instruction
    kind: SiteKind
    space: Space
    base: Register | Symbol | None
    offset: int
    size: int
    width: int
    extent: Extent = Extent.SHADOW
    root: int = -1
    low: int = 0
    length: int = 0
    window: bool = False
    aligned: bool = False
    read_only: bool = False
    site: int = -1


@dataclass(eq=False)
class Group:
    """Accesses covered by one check, in program order."""

    members: list[Access] = field(default_factory=list)

    @property
    def first(self) -> int:
        """Lowest offset."""
        return min(access.offset for access in self.members)

    @property
    def span(self) -> int:
        """Bytes from the lowest offset to the end of the highest access."""
        return max(access.offset + access.size for access in self.members) - self.first

    @property
    def alignment(self) -> int:
        return max(access.size for access in self.members)

    @property
    def aligned_at(self) -> int:
        """The offset that must be a multiple of the alignment, counted from address 0: that of the widest access. The
        others are aligned when it is, because offsets in a group are multiples of the sizes."""
        return max(self.members, key=lambda access: access.size).offset


def describe(instruction: Instruction) -> tuple[SiteKind, Space, int, int] | None:
    """Kind, space, size and element width of a memory access; None for other instructions and plain parameters."""
    parts = instruction.opcode.split(".")
    kind = _KINDS.get(parts[0])
    if kind is None or parts[1:2] == ["async"]:
        return None
    space = next((_SPACES[part] for part in parts if part in _SPACES), Space.GENERIC)
    if space is Space.PARAM and not _is_indexed(instruction):
        return None
    width = next((BITS[part] // 8 for part in reversed(parts) if part in BITS), 4)
    count = next((_VECTORS[part] for part in parts if part in _VECTORS), 1)
    return kind, space, width * count, width


def describe_image(instruction: Instruction) -> tuple[SiteKind, int] | None:
    """Kind and size (bytes per thread) of a texture or surface access; None for other instructions. The size of a texel
    is known only at run time: 1 stands for the whole texel."""
    name, *parts = instruction.opcode.split(".")
    kind = _IMAGE_KINDS.get(name)
    if kind is None:
        return None
    size = 1
    if name.startswith("su") and kind is not SiteKind.OTHER:
        size = next((BITS[part] // 8 for part in reversed(parts) if part in BITS), 4)
        size *= next((_VECTORS[part] for part in parts if part in _VECTORS), 1)
    return kind, size


def _is_indexed(instruction: Instruction) -> bool:
    """Whether a parameter is read through a register."""
    address = address_of(instruction)
    return address is not None and type(address.base) is Register


def address_of(instruction: Instruction) -> Address | None:
    """The memory operand of an access."""
    return next((operand for operand in instruction.operands if type(operand) is Address), None)


def find_accesses(blocks: list[Block]) -> list[Access]:
    """All memory accesses in program order, not yet resolved."""
    found = []
    for block in blocks:
        for instruction in block.instructions:
            described = describe(instruction)
            address = address_of(instruction)
            if described is not None and address is not None:
                kind, space, size, width = described
                found.append(Access(instruction, kind, space, address.base, address.offset, size, width))
    return found


def find_groups(blocks: list[Block], accesses: dict[Instruction, Access]) -> dict[Instruction, Group]:
    """The group of each access that is checked by extent; accesses checked against the shadow memory form groups of
    one."""
    groups: dict[Instruction, Group] = {}
    for block in blocks:
        current: dict[object, dict[tuple[object, ...], Group]] = {}  # by base, then by extent
        for instruction in block.instructions:
            access = accesses.get(instruction)
            if access is not None and access.extent not in _ALONE and not access.read_only:
                base = access.base.name if isinstance(access.base, Symbol) else access.base
                key = (access.extent, access.root, access.low, access.window, access.space, access.aligned)
                if access.offset % access.size == 0:
                    group = current.setdefault(base, {}).setdefault(key, Group())
                else:
                    group = Group()
                group.members.append(access)
                groups[instruction] = group
            elif instruction.opcode.startswith("call"):
                current.clear()
            for register in definitions(instruction):
                current.pop(register, None)
    return groups


def base_root(access: Access, roots: Roots, variable: Variable | None) -> Root | None:
    """The root of an access's pointer."""
    if isinstance(access.base, Symbol):
        return Root(variable.space, access.base.name) if variable is not None and variable.space != "param" else None
    if isinstance(access.base, Register):
        return roots.root(access.base)
    return None


def known_zeros(access: Access, roots: Roots) -> int:
    """Trailing zero bits of the access's distance from its root."""
    zeros = 64 if not isinstance(access.base, Register) else roots.zeros.get(access.base, 0)
    return min(zeros, trailing_zeros(access.offset))
