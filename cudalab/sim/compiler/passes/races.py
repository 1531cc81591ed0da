"""Races that a serial order of threads would hide: lost updates, and reads of shared memory before a barrier.

Threads run one after the other here, so that a racy kernel could give the right result in every run: each ``+=`` would
see the one before it, and shared memory would be written before it is read. A GPU shows neither. So where a race is
likely, threads run in another of the orders that a GPU might have:

- *Lost updates.* A plain store to an address that the thread has loaded before, where other threads have the same
  address (``thread_dependence``), gets a suspension point (``INTERLEAVE``): all threads of the resident blocks load
  before any of them stores. At later ones of a thread this holds for the threads of its block.
- *Missing barriers.* In a region that loads from shared memory what another thread may store in it
  (``find_unordered``), the driver runs warps in another order, and shared memory starts with a pattern instead of what
  an earlier block left there (``runtime.driver``).

A learner would notice that the wrong result of such a kernel is the same in every run; on a GPU it changes. Left alone
are kernels that poll memory or wait in other ways of their own, volatile accesses, and lanes of one warp that
communicate through shared memory without a barrier, which hardware before compute capability 7.0 allowed.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudalab.sim.compiler.passes.control_flow import Block, End, reachable_from
from cudalab.sim.compiler.passes.operands import definitions
from cudalab.sim.compiler.passes.regions import Region
from cudalab.sim.compiler.passes.suspension import INTERLEAVE
from cudalab.sim.compiler.passes.thread_dependence import BLOCK, THREAD, ThreadDependence
from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Register, Symbol

_SHARED = ("shared", "shared::cta")
_PRIVATE = ("local", "param", "param::entry", "param::func", "const", "shared::cluster")
_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio", "async")
_ORDERING = ("membar", "fence", "mbarrier", "cp.async", "nanosleep")
_MOST_POINTS = 8
"""Stores of a kernel that get a suspension point: each makes the native code longer."""
_MOST_PAIRS = 1 << 12
"""Stores times loads of shared memory beyond which a kernel is taken to be in order: the search would take long."""
_Place = tuple[Register | str, int]


def insert_interleaving(blocks: list[Block]) -> None:
    """Insert a suspension point before each store that may overwrite other threads' updates. Changes ``blocks``."""
    instructions = [instruction for block in blocks for instruction in block.instructions]
    loaded = _places(instructions, "ld")
    stores = [each for each in instructions if _accesses(each, "st") and _place(each) in loaded]
    if not stores or any(each.opcode.startswith(_ORDERING) for each in instructions):
        return
    stored = _places(stores, "st")
    dependence = ThreadDependence(blocks)
    chosen = [
        (block, store)
        for block, before in _loaded_before(blocks, stored)
        for store in _stores_after_loads(block, before)
        if not _is_private(dependence, block, store)
    ]
    for block, store in reversed(chosen[:_MOST_POINTS]):  # the first store of a block is split off last
        _split(blocks, block, store)


def _accesses(instruction: Instruction, kind: str) -> bool:
    """Whether it is a plain load (``ld``) or store (``st``) of memory that threads share. Damaged PTX may lack the
    address."""
    parts = instruction.opcode.split(".")
    if parts[0] != kind or not any(type(each) is Address for each in instruction.operands):
        return False
    return not any(part in _PRIVATE or part in _STRONG or part == "nc" for part in parts)


def _address(instruction: Instruction) -> Address:
    found = next(each for each in instruction.operands if type(each) is Address)
    assert isinstance(found, Address)
    return found


def _place(instruction: Instruction) -> _Place | None:
    """The address of an access, as far as the text tells."""
    address = _address(instruction)
    if address.base is None:
        return None
    base = address.base.name if type(address.base) is Symbol else address.base
    assert not isinstance(base, Symbol)
    return base, address.offset


def _places(instructions: list[Instruction], kind: str) -> set[_Place]:
    """The places that plain loads or stores access."""
    found = {_place(each) for each in instructions if _accesses(each, kind)}
    return {place for place in found if place is not None}


def _loaded_before(blocks: list[Block], places: set[_Place]) -> Iterator[tuple[Block, set[_Place]]]:
    """The blocks that store, each with those of ``places`` that a thread may have loaded before it comes there."""
    loading = {block.index: found for block in blocks if (found := _places(block.instructions, "ld") & places)}
    reached = {index: set(reachable_from(blocks, index, through_suspensions=True)) for index in loading}
    for block in blocks:
        if any(_accesses(each, "st") for each in block.instructions):
            others = [index for index in loading if index != block.index and block.index in reached[index]]
            yield block, {place for index in others for place in loading[index]}


def _stores_after_loads(block: Block, before: set[_Place]) -> list[Instruction]:
    """The stores of a block to places that the thread has loaded ``before`` or in it."""
    held: dict[Register | str, set[_Place]] = {}
    for each in before:
        held.setdefault(each[0], set()).add(each)
    found = []
    for instruction in block.instructions:
        place = _place(instruction) if _accesses(instruction, "ld") or _accesses(instruction, "st") else None
        if place is not None and _accesses(instruction, "ld"):
            held.setdefault(place[0], set()).add(place)
        elif place is not None and place in held.get(place[0], ()):
            found.append(instruction)
            held[place[0]].discard(place)
        for register in definitions(instruction):
            held.pop(register, None)
    return found


def _is_private(dependence: ThreadDependence, block: Block, store: Instruction) -> bool:
    """Whether no other thread is likely to store to the same address."""
    own = dependence.of(_address(store)) | dependence.pinned(block.index)
    indices = {"%tid.x", *(each for each in THREAD if each in dependence.read)}
    if not _is_shared(store, "st"):
        indices.update(each for each in BLOCK if each in dependence.read)
        if not own.indices:
            indices.add("%ctaid.x")  # else a kernel that does not read it is written for one block
    return own.tells_apart(indices)


def _split(blocks: list[Block], block: Block, store: Instruction) -> None:
    """End a block before ``store`` and let its threads wait there, if the launch has several. The second part counts no
    instructions of its own."""
    position = block.instructions.index(store)
    after, waiting, resume = (Block(len(blocks) + number) for number in range(3))
    blocks += [after, waiting, resume]
    after.instructions = block.instructions[position:]
    after.end, after.ending, after.successors = block.end, block.ending, block.successors
    after.guard, after.negated = block.guard, block.negated
    waiting.end, waiting.ending = End.SUSPEND, Instruction(INTERLEAVE, (), store.line, store.location)
    waiting.successors, resume.successors = [resume.index], [after.index]
    del block.instructions[position:]
    block.end, block.ending, block.successors = End.INTERLEAVE, None, [waiting.index, after.index]
    block.guard, block.negated = None, False


def find_unordered(blocks: list[Block], regions: list[Region]) -> bool:
    """Set ``Region.unordered``; returns whether any region is."""
    kinds = {kind for block in blocks for each in block.instructions for kind in ("ld", "st") if _is_shared(each, kind)}
    if len(kinds) < 2:
        return False
    counts = [[_count_shared(blocks, region, kind) for kind in ("ld", "st")] for region in regions]
    if sum(loads * stores for loads, stores in counts) > _MOST_PAIRS:
        return False
    dependence = ThreadDependence(blocks)
    for region in regions:
        region.unordered = _reads_unordered(blocks, region, dependence)
    return any(region.unordered for region in regions)


def _count_shared(blocks: list[Block], region: Region, kind: str) -> int:
    return sum(_is_shared(each, kind) for index in region.blocks for each in blocks[index].instructions)


def _is_shared(instruction: Instruction, kind: str) -> bool:
    return _accesses(instruction, kind) and not set(_SHARED).isdisjoint(instruction.opcode.split("."))


def _reads_unordered(blocks: list[Block], region: Region, dependence: ThreadDependence) -> bool:
    """Whether a region, in which no barrier orders threads, loads from shared memory what another thread may store in
    it. A load that only comes before the store of its own thread does not count: threads that run one after the other
    show that race as it is."""
    accesses = {
        kind: [
            (index, position)
            for index in region.blocks
            for position, each in enumerate(blocks[index].instructions)
            if _is_shared(each, kind)
        ]
        for kind in ("ld", "st")
    }
    later = {
        index: {
            each
            for successor in (blocks[index].successors if blocks[index].end is not End.SUSPEND else ())
            for each in reachable_from(blocks, successor, through_suspensions=False)
        }
        for index in {index for places in accesses.values() for index, _ in places}
    }

    def follows(first: tuple[int, int], second: tuple[int, int]) -> bool:
        return second[0] in later[first[0]] or first[0] == second[0] and first[1] < second[1]

    def instead_of(store: int) -> bool:
        """Whether one thread comes to a block, so that others may load meanwhile on another path."""
        return not dependence.pinned(store).exact.isdisjoint(THREAD)

    return any(
        (follows(store, load) or not follows(load, store) and instead_of(store[0]))
        and _may_meet(blocks, dependence, store, load)
        for store in accesses["st"]
        for load in accesses["ld"]
    )


def _may_meet(blocks: list[Block], dependence: ThreadDependence, store: tuple[int, int], load: tuple[int, int]) -> bool:
    """Whether a load may read what another thread of the block stores; each is given by its block and position."""
    there, here = (_address(blocks[index].instructions[position]) for index, position in (store, load))
    stored = dependence.linear(there.base)
    distance = dependence.linear(here.base).plus(stored, -1)
    if any(isinstance(term, str) and term[0] != "%" for term in distance.terms):
        return False  # two variables
    indices = [index for index in THREAD if index in dependence.read]
    private = all(
        (dependence.of(address) | dependence.pinned(block)).tells_apart(indices)
        for address, (block, _) in ((there, store), (here, load))
    )
    if dependence.depends_on_thread(distance) or not private:
        return True
    strides = [abs(c) for term, c in stored.terms.items() if term in THREAD]
    stride = min(strides, default=0)
    if abs(distance.constant + here.offset - there.offset) >= stride > 0:
        return True
    return any(abs(coefficient) >= stride for coefficient in distance.terms.values())
