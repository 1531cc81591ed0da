"""The time that passes between two looks at a clock, in kernels that read one.

A warp issues its instructions in order; each waits for its operands. In a kernel that reads ``%clock``, ``%clock64`` or
``%globaltimer``, each register gets a second one, with the time at which its value is ready, and each instruction
a pseudo-instruction before it that advances these times::

    begin = max(now, ready(operands) …);  now = begin + 1;  ready(result) = begin + latency of its class

The latencies are those of the time model (``context.latencies``); a load from global memory that misses the L1, and
lanes that conflict for a bank of shared memory, take longer (``runtime.latency``). So a chain of dependent instructions
takes the sum of their latencies and independent ones overlap, also across iterations of a loop.

Simplified: every block starts when the launch does; lanes have times of their own and do not wait for each other at a
barrier; throughput and other warps cost nothing; ptxas's schedule is not modelled. A learner would notice in a kernel
that measures with many warps at once, and in one that measures how long a barrier waits for others. Kernels that poll
memory keep one clock for all threads, which each look advances (``runtime.records``).
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.control_flow import Block, End, reachable_from
from cudalab.sim.compiler.passes.instruction_classes import classify
from cudalab.sim.compiler.passes.operands import definitions, uses
from cudalab.sim.compiler.ptx.nodes import BITS, Address, Function, Immediate, Instruction, Register, Special, Vector

ISSUE = "cudalab.issue"
READ = "cudalab.clock"
SLEEP = "cudalab.sleep"
MISS = "cudalab.miss"
CONFLICTS = "cudalab.conflicts"
TURNS = "cudalab.turns"
_CLOCKS = ("%clock", "%globaltimer")
_BLOCKING = frozenset(["barrier", "named_barrier", "object_wait", "cluster_barrier", "grid_arrive", "heap"])
_PAST_L1 = frozenset(["volatile", "relaxed", "acquire", "cg", "cv"])
_SHARED = frozenset(["shared_load", "shared_store", "shared_atomic"])
FINE = 64
"""Times are counted in this part of a cycle."""
KINDS = tuple(
    """free float multiply multiply_long add logic long double special convert convert_double divide_float root_float
    divide_unsigned divide_integer divide_double register clock shuffle load shared_load constant_load shared_atomic
    atomic store shared_store barrier named_barrier object_arrive object_wait cluster_barrier cluster_load
    cluster_atomic cluster_store grid_arrive grid_look async_copy async_commit async_arrive async_wait bulk_copy
    bulk_store heap sleep fence branch repeat miss miss_l2 wavefront""".split()
)
"""The order of ``context.latencies``: the classes of instructions; a branch back to its own block, of which ptxas
unrolls several; what a load that misses the L1, or the L2 as well, takes beyond one that hits; a further wavefront of
shared memory."""


def reads_clock(blocks: list[Block]) -> bool:
    """Whether any instruction reads a clock."""
    return any(_clock_of(each) for block in blocks for each in block.instructions)


def _clock_of(instruction: Instruction) -> str:
    """The clock that an instruction reads, or ``""``."""
    names = (each.name for each in instruction.operands[1:] if type(each) is Special)
    return next((name for name in names if name.startswith(_CLOCKS)), "")


def follow_time(function: Function, blocks: list[Block]) -> None:
    """Insert the pseudo-instructions. Changes ``blocks``."""
    times = _Times(function)
    measured = _between_reads(blocks)
    for block in [each for each in blocks if each not in measured]:
        block.instructions = [each for one in block.instructions for each in (*times.fills_l1(one), one)]
    for block in measured:
        made: list[Instruction] = []
        counting = _counts_rounds(block)
        for instruction in block.instructions:
            made += times.before(instruction, "free" if instruction in counting else classify(instruction))
        if block.ending is not None and block.end in (End.JUMP, End.BRANCH, End.SUSPEND, End.SWITCH):
            made += times.at_end(block)
        block.instructions = made
        for instruction in reversed([each for each in made if each.opcode.startswith(CONFLICTS)]):
            _suspend_at(blocks, block, instruction)
    start = [Instruction("mov.u64", (register, Immediate(0)), 0, function.location) for register in times.started]
    blocks[0].instructions[:0] = start


def _between_reads(blocks: list[Block]) -> list[Block]:
    """The blocks on a path from one read of a clock to another."""
    reading = [block.index for block in blocks if any(_clock_of(each) for each in block.instructions)]
    behind = {each for index in reading for each in reachable_from(blocks, index, through_suspensions=True)}
    return [
        block
        for block in blocks
        if block.index in behind
        and not set(reading).isdisjoint(reachable_from(blocks, block.index, through_suspensions=True))
    ]


def _counts_rounds(block: Block) -> list[Instruction]:
    """The instructions of a loop of one block that only count its rounds. They issue while others wait."""
    if block.end is not End.BRANCH or block.index not in block.successors:
        return []
    made = {register: each for each in block.instructions for register in definitions(each)}
    compare = made.get(block.guard) if block.guard is not None else None
    if compare is None or not compare.opcode.startswith("setp.") or compare.opcode.endswith(("f32", "f64")):
        return []
    steps = [made[register] for register in uses(compare) if register in made]
    counts = all(each.opcode.startswith("add.") and type(each.operands[2]) is Immediate for each in steps)
    return [compare, *steps] if counts else []


def _suspend_at(blocks: list[Block], block: Block, instruction: Instruction) -> None:
    """End a block with an instruction, a suspension point. What follows counts no instructions of its own."""
    position = block.instructions.index(instruction)
    after = Block(len(blocks), block.instructions[position + 1 :], block.end, block.ending, block.guard, block.negated)
    after.successors = block.successors
    blocks.append(after)
    del block.instructions[position:]
    block.end, block.ending, block.successors = End.SUSPEND, instruction, [after.index]
    block.guard, block.negated = None, False


class _Times:
    """The registers that hold times."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.now, self.tick = function.new_register("u64"), function.new_register("u64")
        self._ready: dict[Register, Register] = {}

    @property
    def started(self) -> list[Register]:
        """All of them; they start at 0."""
        return [self.now, self.tick, *self._ready.values()]

    def _of(self, registers: list[Register]) -> list[Register]:
        for register in registers:
            if register not in self._ready:
                self._ready[register] = self._function.new_register("u64")
        return [self._ready[register] for register in registers]

    def _made(self, opcode: str, operands: tuple[object, ...], like: Instruction) -> Instruction:
        return Instruction(opcode, operands, like.line, like.location)

    def _issue(
        self, kind: str, instruction: Instruction, results: list[Register], reads: list[Register]
    ) -> Instruction:
        opcode = f"{ISSUE}.{'blocking' if kind in _BLOCKING else 'free' if kind == 'free' else 'pipelined'}"
        operands = Vector((self.now, *results)), Vector((self.now, *reads)), Immediate(KINDS.index(kind))
        return self._made(opcode, operands, instruction)

    def before(self, instruction: Instruction, kind: str) -> list[Instruction]:
        """The instruction, of class ``kind``, behind those that advance the time for it."""
        reads, results = self._of(uses(instruction)), self._of(definitions(instruction))
        clock = _clock_of(instruction)
        if clock:
            both = Vector((instruction.operands[0], self.now, self.tick)), Vector((self.now, self.tick))
            return [self._made(f"{READ}.{clock[1:]}", both, instruction)]
        if kind == "sleep":
            return [self._made(SLEEP, (self.now, self.now, instruction.operands[0]), instruction), instruction]
        found = [self._issue(kind, instruction, results, reads)]
        address = next((each for each in instruction.operands if type(each) is Address), None)
        if address is None:
            return [*found, instruction]
        both = (Vector(tuple(results or [self.now])),) * 2
        parts = instruction.opcode.split(".")
        if kind == "load":
            found += self.fills_l1(instruction, results)
        elif kind in _SHARED:
            turns = self._function.new_register("u32")
            bits = BITS[parts[-1]] * next((int(part[1:]) for part in parts if part in ("v2", "v4")), 1)
            found.insert(0, self._made(f"{CONFLICTS}.b{max(32, bits)}", (turns, address), instruction))
            found.append(self._made(TURNS, (*both, turns), instruction))
        return [*found, instruction]

    def fills_l1(self, instruction: Instruction, results: list[Register] | None = None) -> list[Instruction]:
        """A load from global memory fills the L1, and is later ready if it had to."""
        address = next((each for each in instruction.operands if type(each) is Address), None)
        if classify(instruction) != "load" or address is None:
            return []
        level = "past_l1" if _PAST_L1.intersection(instruction.opcode.split(".")) else "l1"
        both = (Vector(tuple(results or ())),) * 2
        return [self._made(f"{MISS}.{level}", (*both, address), instruction)]

    def at_end(self, block: Block) -> list[Instruction]:
        """What the terminator of a block takes."""
        ending = block.ending
        assert ending is not None
        if ending.opcode.startswith("cudalab."):
            return []
        reads = self._of([*uses(ending), *([block.guard] if block.guard is not None else [])])
        kind = classify(ending)
        if kind == "branch" and block.index in block.successors:
            kind = "repeat"
        return [self._issue(kind, ending, self._of(definitions(ending)), reads)]
