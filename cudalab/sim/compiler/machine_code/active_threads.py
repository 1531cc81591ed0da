"""How many threads were active when warps executed the machine code: ``smsp__thread_inst_executed``.

A block of machine code has the active lanes of the block of the PTX that it comes from. A lane that an instruction's
own predicate switches off counts as active, as in Nsight Compute: so a short branch that the assembler predicated loses
no lanes. Lanes that converge arrive in groups, and the block behind them has them all again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from cudalab.sim.abi import WARP
from cudalab.sim.compiler.machine_code.execution import Execution


class Entered(Struct, frozen=True):
    """What one block of the PTX was entered by, summed over the launch."""

    warps: float
    threads: float


def active_threads(execution: Execution, times: Sequence[float], entered: Mapping[int, Entered]) -> list[float]:
    """How many threads executed each block of the machine code.

    Args:
        execution: the machine code, set against the PTX.
        times: how often warps executed each block.
        entered: the blocks of the PTX, by their index in ``Kernel.sites``.
    """
    return _Threads(execution, times, entered).all()


class _Threads:
    def __init__(self, execution: Execution, times: Sequence[float], entered: Mapping[int, Entered]) -> None:
        self._of, self._times, self._entered = execution, times, entered
        self._known: dict[int, float] = {}

    def all(self) -> list[float]:
        return [self._block(index) for index in range(len(self._times))]

    def _block(self, index: int) -> float:
        if index not in self._known:
            most = WARP * self._times[index]
            self._known[index] = most  # what a loop is told that asks for its own beginning
            self._known[index] = min(max(0.0, self._found(index)), most) if most else 0.0
        return self._known[index]

    def _found(self, index: int) -> float:
        of = self._of
        group, successors = of.group(index), of.code.blocks[index].successors
        if of.converges(index) and len(successors) == 1:
            besides = [each for each in of.before(successors[0]) if each != index]
            return self._block(successors[0]) - sum(
                self._block(each) for each in besides if len(of.code.blocks[each].successors) == 1
            )
        if group and not of.converges(index):
            return self._times[index] * self._lanes([self._entered[each] for each in group if each in self._entered])
        before = [Entered(self._times[each], self._block(each)) for each in of.before(index)]
        return self._times[index] * self._lanes(before)

    @staticmethod
    def _lanes(found: Sequence[Entered]) -> float:
        """Active lanes of a warp, on average; all where nothing is known."""
        warps = sum(each.warps for each in found)
        return sum(each.threads for each in found) / warps if warps else float(WARP)
