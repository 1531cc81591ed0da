"""The code of one thread: the basic blocks of a function, one after the other."""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.compiler.codegen import polling, tracing, work
from cudalab.sim.compiler.codegen.elided_records import disturbs
from cudalab.sim.compiler.codegen.environment import ThreadEnvironment
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.undefined_values import ValueFollower
from cudalab.sim.compiler.codegen.unit import Unit
from cudalab.sim.compiler.passes.control_flow import Block, End
from cudalab.sim.compiler.ptx.nodes import Instruction


class ThreadCode(ThreadEnvironment):
    """Writes the blocks of a function for one thread."""

    _cold = 0

    def __init__(self, unit: Unit, plan: Plan) -> None:
        super().__init__(unit, plan)
        values = unit.undefined_values(plan)
        self.follower = ValueFollower(self, values) if values is not None else None

    def write_blocks(self, indices: list[int]) -> None:
        for index in indices:
            self._write_block(self.plan.blocks[index])

    def _write_block(self, block: Block) -> None:
        self.values, self.dirty, self.group_bases, self.room = {}, {}, {}, None
        self.label(f"b{block.index}")
        if self.follower is not None:
            self.follower.enter(block)
        work.enter_block(self, block.index)
        if self.unit.traced and block.size:
            self._note_block(self.plan.block_sites[block.index])
        self.watched = block.index in self.plan.polling_blocks
        if block.leaves:
            self.leave_loops(block)
        for instruction in block.instructions:
            self.lower(instruction)
            if self.watched:
                polling.after(self, instruction)
        tracing.mark_accesses(self)
        self.instruction = block.ending
        live = self.plan.liveness.live_out[block.index]
        if block.end is End.SUSPEND:
            self.suspend(block)
        elif block.end is End.POLL:
            self.flush(live)
            polling.go_on_or_wait(self, block, self._edge(block, 1))
        elif block.end is End.INTERLEAVE:
            self.flush(live)
            waits = self.new(f"icmp ne i32 {self.context_field('interleave', 'i32')}, 0")
            self.emit(f"br i1 {waits}, label %b{block.successors[0]}, label %b{block.successors[1]}")
        elif block.end is End.JUMP:
            self.flush(live)
            self.emit(f"br label %{self._edge(block, 0)}")
        elif block.end is End.BRANCH:
            assert block.guard is not None
            if self.follower is not None:
                self.follower.decide(block, block.guard)
            condition = self.value(block.guard)
            self.flush(live)
            first, second = self._edge(block, 0), self._edge(block, 1)
            if block.negated:
                first, second = second, first
            self.emit(f"br i1 {condition}, label %{first}, label %{second}")
        elif block.end is End.SWITCH:
            assert block.ending is not None
            if self.follower is not None:
                self.follower.decide(block, block.ending.operands[0])
            index = self.integer(block.ending.operands[0], 32)
            self.flush(live)
            targets = [self._edge(block, number) for number in range(len(block.successors))]
            cases = " ".join(f"i32 {number}, label %{target}" for number, target in enumerate(targets))
            self.emit(f"switch i32 {index}, label %{targets[0]} [ {cases} ]")
        elif block.end is End.TRAP:
            assert block.ending is not None
            self.fault(abi.FaultKind.TRAP, self.plan.other_sites[block.ending])
            self.emit("br label %fault")
        elif block.end is End.EXIT:
            self.exit()
        else:
            self.leave()

    def _note_block(self, site: int) -> None:
        """Append the entry of a basic block to the trace."""
        if self.unit.skips:
            self.record(site)
        elif self.plan.behind(site) < 0:
            tracing.note(self, site)

    def lower(self, instruction: Instruction) -> None:
        if self.to_mark and disturbs(self.plan, instruction):
            tracing.mark_accesses(self)
        if self.follower is not None and self.level is None:
            self.follower.before(instruction)
        super().lower(instruction)
        if self.room is not None and disturbs(self.plan, instruction):
            self.room = None

    def _edge(self, block: Block, number: int) -> str:
        """The label to branch to for a successor; a back-edge goes through the fuel check."""
        target = block.successors[number]
        if (block.index, target) not in self.plan.back_edges:
            return f"b{target}"
        self._cold += 1
        saved, self.lines = self.lines, [f"back.{self._cold}:"]
        work.take_back_edge(self, target, self.thread(), f"b{target}")
        self.failures += self.lines
        self.lines = saved
        return f"back.{self._cold}"
