"""Detection of spin-wait loops and insertion of the yield points they need.

On a GPU all resident warps make forward progress, and since compute capability 7.0 so do the lanes of a warp (CUDA C++
Programming Guide, "Independent Thread Scheduling"): a thread may spin on a flag until another thread sets it. Here
threads run one after the other, so a spinning thread must yield. A loop *polls* if one of its exits depends on a value
that it rereads in every iteration: a volatile, relaxed or acquire load, a compare-and-swap against a loop-invariant
value, an exchange, or any load if the loop contains one of these, a fence or ``nanosleep``. The back-edge of such a
loop gets a suspension point, which the thread first reaches after a few iterations.

Loops that do not wait are unchanged: a compare-and-swap loop that retries with the value just read is lock-free, and an
atomic whose result no exit depends on is ordinary work. Loops whose exit depends on an atomic that modifies memory in
every iteration (a work queue), or on a volatile load from an address that changes in every iteration, make progress on
their own and yield only after many iterations.

A learner would notice this in a loop that waits on plain loads without a fence: the compiler may hoist the load and
spin on the register, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cudalab.sim.compiler.passes.control_flow import Block, End, back_edges, registers_read
from cudalab.sim.compiler.passes.operands import definitions, uses
from cudalab.sim.compiler.passes.rematerialisation import single_definitions
from cudalab.sim.compiler.passes.suspension import (
    CLUSTER_DONE,
    CLUSTER_WAIT,
    POLL,
    PREREQUISITE_DONE,
    PREREQUISITE_WAIT,
    suspends,
)
from cudalab.sim.compiler.ptx.nodes import Address, Function, Immediate, Instruction, Register, Special

_FRESH = ("volatile", "relaxed", "acquire", "mmio", "cv")
_FENCES = ("membar", "fence", "nanosleep")
_PRIVATE = ("param", "param::entry", "param::func", "const", "local")
_CLOCKS = ("%clock", "%globaltimer")
_CLUSTERED = ("mapa", "barrier.cluster")
"""Opcodes that give blocks access to each other's shared memory, and so to each other's mbarriers."""
_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1}
_MOST_BLOCKS = 2000
_VARYING = ("ld", "atom", "call", "shfl", "vote", "match", "redux", "activemask", "elect", "bar")


@dataclass(eq=False)
class PollLoop:
    """One back-edge of a polling loop.

    ``body``: indices of the loop's blocks. ``sources``: the instructions that read the polled locations. ``patient``:
    it makes progress on its own. ``timed``: an exit depends on a clock. ``observed``: registers that determine the
    loop's exits and its visible effects. ``suspension``: the block that yields. ``for_prerequisite``: it waits for the
    kernel before, and goes round only in a launch that has started before that has completed.
    """

    edge: tuple[int, int]
    body: set[int]
    sources: list[Instruction]
    patient: bool = False
    timed: bool = False
    observed: set[Register] = field(default_factory=set)
    suspension: int = -1
    for_prerequisite: bool = False


def may_poll(instructions: Iterable[object]) -> bool:
    """Cheap pre-check: whether any instruction could be part of a spin-wait."""
    for instruction in instructions:
        opcode = getattr(instruction, "opcode", "")
        if opcode.startswith(("atom", *_CLUSTERED, *_FENCES)) or (opcode.startswith("ld") and _is_fresh(opcode)):
            return True
    return False


def _is_fresh(opcode: str) -> bool:
    return any(part in _FRESH for part in opcode.split("."))


def find_poll_loops(blocks: list[Block]) -> list[PollLoop]:
    """The polling loops of a function, inner and outer ones, in the order of their back-edges."""
    if len(blocks) > _MOST_BLOCKS or not may_poll(i for block in blocks for i in block.instructions):
        return []
    predecessors: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for successor in block.successors:
            predecessors[successor].append(block.index)
    single = single_definitions(blocks)
    found = []
    for edge in sorted(back_edges(blocks)):
        loop = _Loop(blocks, edge, predecessors, single)
        poll = loop.examine()
        if poll is not None:
            found.append(poll)
    # where an inner loop yields, an outer one that makes progress on its own need not
    return [p for p in found if not p.patient or not any(q is not p and q.body < p.body for q in found)]


class _Loop:
    """The natural loop of one back-edge."""

    def __init__(
        self,
        blocks: list[Block],
        edge: tuple[int, int],
        predecessors: list[list[int]],
        single: dict[Register, Instruction],
    ) -> None:
        self.blocks, self.edge, self.single = blocks, edge, single
        latch, head = edge
        self.body = {head}
        stack = [latch]
        while stack:
            index = stack.pop()
            if index not in self.body:
                self.body.add(index)
                stack.extend(predecessors[index])
        self.defined: dict[Register, list[tuple[Instruction, int]]] = {}
        self.fenced = False
        for index in sorted(self.body):
            for instruction in self._all(index):
                self.fenced = self.fenced or instruction.opcode.startswith(_FENCES)
                for register in definitions(instruction):
                    self.defined.setdefault(register, []).append((instruction, index))
        self.clustered = any(i.opcode.startswith(_CLUSTERED) for block in blocks for i in block.instructions)
        self._controls: dict[int, set[int]] | None = None
        self._varying: dict[Register, bool] = {}
        # a value that one thread has reread may reach others through shared memory
        everything = [instruction for index in sorted(self.body) for instruction in self._all(index)]
        self.fenced = self.fenced or any(self._is_source(i) and self._stays(i) for i in everything)

    def _all(self, index: int) -> list[Instruction]:
        block = self.blocks[index]
        waits = block.end is End.SUSPEND and block.ending is not None
        return [*block.instructions, block.ending] if waits else block.instructions  # type: ignore[list-item]

    def examine(self) -> PollLoop | None:
        """The polling loop, or None if it does not wait."""
        exits = [i for i in sorted(self.body) if any(s not in self.body for s in self.blocks[i].successors)]
        seen_blocks: set[int] = set()
        sliced = self._slice([r for i in exits for r in registers_read(self.blocks[i])], exits, seen_blocks)
        sources = [i for i in sliced if self._is_source(i)]
        if not sources:
            return None
        poll = PollLoop(self.edge, set(self.body), sources)
        poll.patient = not any(self._stays(i) for i in sources)
        poll.timed = any(
            type(operand) is Special and operand.name.startswith(_CLOCKS) for i in sliced for operand in i.operands
        )
        poll.observed = self._observed(sliced, exits, seen_blocks)
        return poll

    # -- backward slice of an exit

    def _slice(self, registers: list[Register], places: list[int], seen: set[int]) -> list[Instruction]:
        """Backward slice within the loop: the instructions on which the registers depend by data, and the blocks
        ``places`` by control; ``seen`` collects the blocks."""
        work = list(registers)
        done: set[Register] = set()
        found: dict[Instruction, None] = {}

        def reach(index: int) -> None:
            if index in seen:
                return
            seen.add(index)
            for control in self._control(index):
                work.extend(registers_read(self.blocks[control]))
                reach(control)

        for place in places:
            reach(place)
        while work:
            register = work.pop()
            if register in done:
                continue
            done.add(register)
            for instruction, index in self.defined.get(register, ()):
                if self._is_lock_free_test(instruction):
                    continue
                found[instruction] = None
                work.extend(uses(instruction))
                reach(index)
        return list(found)

    def _is_lock_free_test(self, instruction: Instruction) -> bool:
        """``old == expected`` after a compare-and-swap whose ``expected`` changes from iteration to iteration."""
        if not instruction.opcode.startswith("setp.") or not {"eq", "ne"} & set(instruction.opcode.split(".")):
            return False
        for one, other in ((1, 2), (2, 1)):
            for swap, _ in self.defined.get(instruction.operands[one], ()):
                if _is_swap(swap) and swap.operands[2] is instruction.operands[other]:
                    return self._varies(swap.operands[2])
        return False

    def _control(self, index: int) -> set[int]:
        """Branches of the loop on which a block of it is control dependent."""
        if self._controls is None:
            self._controls = self._find_controls()
        return self._controls.get(index, set())

    def _find_controls(self) -> dict[int, set[int]]:
        """Control dependence from the post-dominators of one iteration: from the header to the back-edge or an exit."""
        order = sorted(self.body)
        head = self.edge[1]
        everything = (1 << len(order)) - 1
        bit = {index: 1 << number for number, index in enumerate(order)}
        after = dict.fromkeys(order, everything)
        nexts = {i: [s for s in self.blocks[i].successors if s in self.body and s != head] for i in order}
        leaves = {i: len(nexts[i]) < len(self.blocks[i].successors) or not nexts[i] for i in order}
        changed = True
        while changed:
            changed = False
            for index in reversed(order):
                common = 0 if leaves[index] else everything
                for successor in nexts[index]:
                    common &= after[successor]
                common |= bit[index]
                if common != after[index]:
                    after[index], changed = common, True
        controls: dict[int, set[int]] = {}
        for index in order:
            if len(self.blocks[index].successors) < 2:
                continue
            for successor in nexts[index]:
                bits = after[successor] & ~(after[index] & ~bit[index])
                while bits:
                    low = bits & -bits
                    controls.setdefault(order[low.bit_length() - 1], set()).add(index)
                    bits ^= low
        return controls

    # -- polled locations

    def _is_source(self, instruction: Instruction) -> bool:
        opcode = instruction.opcode
        parts = opcode.split(".")
        if parts[0] in ("ld", "ldu"):
            if any(part in _PRIVATE for part in parts) or "nc" in parts:
                return False
            if _is_fresh(opcode) or self.fenced:
                return True
            return "cg" in parts and self._stays(instruction)
        if parts[0] == "mbarrier":  # the block driver handles waits for threads of the block
            return self.clustered and suspends(opcode)
        if parts[0] != "atom":
            return False
        return not (_is_swap(instruction) and self._varies(instruction.operands[2]))

    def _stays(self, instruction: Instruction) -> bool:
        """Whether it rereads the same location in every iteration without modifying it."""
        address = next((operand for operand in instruction.operands if type(operand) is Address), None)
        if address is None or (type(address.base) is Register and self._varies(address.base)):
            return False
        if not instruction.opcode.startswith("atom") or _is_swap(instruction):
            return True
        parts = instruction.opcode.split(".")
        if "exch" in parts:
            return not self._varies(instruction.operands[2])
        neutral = next((_NEUTRAL[part] for part in parts if part in _NEUTRAL), None)
        return neutral is not None and self._literal(instruction.operands[2]) == neutral

    def _literal(self, operand: object) -> int | None:
        if type(operand) is Register:
            made = self.single.get(operand)
            if made is not None and made.opcode.startswith("mov."):
                operand = made.operands[1]
        return int(operand.value) if type(operand) is Immediate else None

    def _varies(self, operand: object) -> bool:
        """Whether a value may change between iterations. A value computed from loop invariants does not."""
        if type(operand) is not Register or operand not in self.defined:
            return False
        known = self._varying.get(operand)
        if known is None:
            self._varying[operand] = True  # a recurrence varies
            made = self.defined[operand]
            known = len(made) > 1 or any(
                (i.opcode.startswith(_VARYING) and not i.opcode.startswith("ld.param"))
                or any(type(o) is Special and o.name.startswith(_CLOCKS) for o in i.operands)
                or any(self._varies(register) for register in uses(i))
                for i, _ in made
            )
            self._varying[operand] = known
        return known

    def _observed(self, sliced: list[Instruction], exits: list[int], seen: set[int]) -> set[Register]:
        """Registers that determine when the loop exits and what it writes."""
        wanted = {register for instruction in sliced for register in uses(instruction)}
        wanted.update(register for index in seen for register in registers_read(self.blocks[index]))
        acting = [
            (instruction, index)
            for index in sorted(self.body)
            for instruction in self._all(index)
            if instruction.opcode.startswith(("st", "atom", "red", "call", "mbarrier", "cp."))
            or (instruction is self.blocks[index].ending and self.blocks[index].end is End.SUSPEND)
        ]
        registers = [register for instruction, _ in acting for register in uses(instruction)]
        blocks: set[int] = set()
        for instruction in self._slice(registers, [index for _, index in acting], blocks):
            wanted.update(uses(instruction))
        wanted.update(registers)
        wanted.update(register for index in blocks for register in registers_read(self.blocks[index]))
        wanted.update(register for index in exits for register in registers_read(self.blocks[index]))
        return wanted


def _is_swap(instruction: Instruction) -> bool:
    return instruction.opcode.startswith("atom") and "cas" in instruction.opcode.split(".")


def insert_waits(function: Function, blocks: list[Block]) -> list[PollLoop]:
    """Expand each wait at the cluster's barrier, and each for the kernel before, into a loop that yields until it is
    over. Changes ``blocks``; returns the loops, for ``insert_polls``."""
    found = []
    for block in [block for block in blocks if block.end is End.SUSPEND and block.ending is not None]:
        wait = block.ending
        assert wait is not None
        if wait.opcode.startswith(CLUSTER_WAIT):
            found.append(_cluster_wait(function, blocks, block, wait))
        elif wait.opcode == PREREQUISITE_WAIT:
            found.append(_prerequisite_wait(function, blocks, block, wait))
    return found


def _cluster_wait(function: Function, blocks: list[Block], block: Block, wait: Instruction) -> PollLoop:
    """Yields once, then until the phase is complete."""
    waiting = _new(blocks, End.SUSPEND, [])
    asking = _asking(function, blocks, CLUSTER_DONE, wait, [block.successors[0], waiting.index])
    waiting.ending, waiting.successors = wait, [asking.index]
    block.end, block.ending, block.successors = End.JUMP, None, [waiting.index]
    loop = PollLoop((asking.index, waiting.index), {waiting.index, asking.index}, [asking.instructions[0]])
    loop.suspension = waiting.index
    return loop


def _prerequisite_wait(function: Function, blocks: list[Block], block: Block, wait: Instruction) -> PollLoop:
    """Yields only while the kernel before is under way: a plain launch never does."""
    waiting = _new(blocks, End.SUSPEND, [])
    asking = _asking(function, blocks, PREREQUISITE_DONE, wait, [block.successors[0], waiting.index])
    resume = _new(blocks, End.JUMP, [asking.index])
    waiting.ending, waiting.successors = wait, [resume.index]
    block.end, block.ending, block.successors = End.JUMP, None, [asking.index]
    body = {waiting.index, asking.index, resume.index}
    loop = PollLoop((resume.index, asking.index), body, [asking.instructions[0]], for_prerequisite=True)
    loop.suspension = waiting.index
    return loop


def _asking(function: Function, blocks: list[Block], question: str, wait: Instruction, after: list[int]) -> Block:
    """A block that asks whether a wait is over, and goes to the first of two blocks if so."""
    asking = _new(blocks, End.BRANCH, after)
    asking.guard = function.new_register("pred")
    asking.instructions.append(Instruction(question, (asking.guard,), wait.line, wait.location))
    return asking


def insert_polls(blocks: list[Block], waits: Sequence[PollLoop] = ()) -> list[PollLoop]:
    """Insert a suspension point into each polling loop. Changes ``blocks``; returns the loops, followed by ``waits``,
    which have theirs already.

    The back-edge gets three new blocks: one that branches to the header while patience remains (``End.POLL``), one that
    yields (``End.SUSPEND``) and the resume block. Exit edges get a block that records the exit (``Block.leaves``).
    """
    found = find_poll_loops(blocks)
    loops = [*found, *waits]
    for loop in found:
        _insert_waiting(blocks, loop, loops)
    for number, loop in enumerate(loops):
        for index in sorted(loop.body):
            block = blocks[index]
            for position, target in enumerate(block.successors):
                if target in loop.body:
                    continue
                if blocks[target].leaves and not blocks[target].instructions:
                    blocks[target].leaves += (number,)
                    continue
                between = _between(blocks, block, position, target, loops)
                between.leaves = (number,)
    return loops


def _new(blocks: list[Block], end: End, successors: list[int]) -> Block:
    block = Block(len(blocks), end=end, successors=successors)
    blocks.append(block)
    return block


def _between(blocks: list[Block], block: Block, position: int, target: int, loops: list[PollLoop]) -> Block:
    """Split an edge. The new block belongs to the loops that contain both ends."""
    made = _new(blocks, End.JUMP, [target])
    block.successors[position] = made.index
    for loop in loops:
        if block.index in loop.body and target in loop.body:
            loop.body.add(made.index)
    return made


def _insert_waiting(blocks: list[Block], loop: PollLoop, loops: list[PollLoop]) -> None:
    latch, head = loop.edge
    resume = _new(blocks, End.JUMP, [head])
    waiting = _new(blocks, End.SUSPEND, [resume.index])
    source = loop.sources[0]
    waiting.ending = Instruction(POLL, (), source.line, source.location)
    patience = _new(blocks, End.POLL, [waiting.index, head])
    patience.patient = loop.patient
    patience.waited = any(suspends(source.opcode) for source in loop.sources)
    block = blocks[latch]
    block.successors = [patience.index if s == head else s for s in block.successors]
    loop.suspension = waiting.index
    for other in loops:
        if latch in other.body and head in other.body:
            other.body.update((resume.index, waiting.index, patience.index))
