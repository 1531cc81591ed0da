"""On which thread and block indices a value depends, and whether it tells threads apart.

An access is private to a thread if its address has another value in every other thread. That is not decidable in
general (``row * width + column`` is private only while ``column < width``), so this is an assumption from how addresses
are written: an index that enters by additions and multiplications keeps threads apart, one behind a remainder, a
division, a mask or a shift does not, unless a second one of those adds what the first has lost (``t / 32`` and
``t % 32``). A value that came from memory says nothing; the result of an atomic is taken to differ in each thread.

The analysis chooses between schedules that a GPU may all have, so a wrong assumption costs time or hides a race, but
never changes the result of a program without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cudalab.sim.compiler.passes.control_flow import Block, End
from cudalab.sim.compiler.passes.operands import definitions, operation_name
from cudalab.sim.compiler.ptx.nodes import Address, Immediate, Instruction, Register, Special

THREAD = ("%tid.x", "%tid.y", "%tid.z")
BLOCK = ("%ctaid.x", "%ctaid.y", "%ctaid.z")
_LINEAR = frozenset("mov cvt cvta add sub mul mad mul24 mad24 fma shl or xor neg not shfl".split())
_LOADS = frozenset("ld ldu tex suld tld4".split())
_DEEPEST = 60
_WARP = 32


@dataclass(frozen=True)
class Dependence:
    """What a value depends on. ``exact``: indices that enter it linearly. ``folded``: indices behind an operation that
    maps several values to one, with the register that holds its result. ``unique``: an atomic returned it."""

    exact: frozenset[str] = frozenset()
    folded: frozenset[tuple[str, Register]] = frozenset()
    unique: bool = False

    def __or__(self, other: Dependence) -> Dependence:
        return Dependence(self.exact | other.exact, self.folded | other.folded, self.unique or other.unique)

    def __and__(self, other: Dependence) -> Dependence:
        if self.unique or other.unique:
            return other if self.unique else self
        return Dependence(self.exact & other.exact, self.folded & other.folded)

    @property
    def indices(self) -> frozenset[str]:
        """All indices that it depends on."""
        return self.exact | {index for index, _ in self.folded}

    def tells_apart(self, indices: Iterable[str]) -> bool:
        """Whether it differs between any two threads that differ in one of ``indices``."""
        return self.unique or all(
            index in self.exact or sum(index == each for each, _ in self.folded) > 1 for index in indices
        )


_NOTHING = Dependence()
_ANYTHING = Dependence(frozenset(THREAD + BLOCK), frozenset(), unique=True)


@dataclass
class Linear:
    """``constant + Σ coefficient · term``; a term is a special register or the register with a value that is not
    linear."""

    terms: dict[Register | str, int] = field(default_factory=dict)
    constant: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        terms = dict(self.terms)
        for term, coefficient in other.terms.items():
            terms[term] = terms.get(term, 0) + factor * coefficient
        return Linear({term: c for term, c in terms.items() if c}, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        return Linear({term: c * factor for term, c in self.terms.items() if factor}, self.constant * factor)


class ThreadDependence:
    """The dependences of the values of one function."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._made: dict[Register, list[Instruction]] = {}
        self.read: set[str] = set()
        """The special registers that the function reads."""
        for block in blocks:
            waits = [block.ending] if block.end is End.SUSPEND and block.ending is not None else []
            for instruction in (*block.instructions, *waits):
                self.read.update(each.name for each in instruction.operands if type(each) is Special)
                for register in definitions(instruction):
                    self._made.setdefault(register, []).append(instruction)
        self._known: dict[Register, Dependence] = {}
        self._pinned: dict[int, Dependence] = {}
        self._linear: dict[Register, Linear] = {}

    def of(self, operand: object, depth: int = 0) -> Dependence:
        """The dependence of an operand."""
        if type(operand) is Address:
            operand = operand.base
        if type(operand) is Special:
            if operand.name == "%laneid":
                return Dependence(folded=frozenset({("%tid.x", operand)}))  # type: ignore[arg-type]
            return Dependence(frozenset({operand.name})) if operand.name in THREAD + BLOCK else _NOTHING
        if type(operand) is not Register:
            return _NOTHING
        if operand not in self._known:
            self._known[operand] = _ANYTHING  # of a recurrence, the other definitions decide
            found = _ANYTHING if depth < _DEEPEST else _NOTHING
            for instruction in self._made.get(operand, ()) if depth < _DEEPEST else ():
                found = found & self._result(operand, instruction, depth)
            self._known[operand] = found
        return self._known[operand]

    def _result(self, register: Register, instruction: Instruction, depth: int) -> Dependence:
        name = operation_name(instruction.opcode)
        if name in ("atom", "call"):
            return _ANYTHING
        if name in _LOADS:
            return _NOTHING
        found = _NOTHING
        for operand in instruction.operands[1:]:
            found = found | self.of(operand, depth + 1)
        if name in _LINEAR or not found.indices:
            return found
        return Dependence(folded=frozenset((index, register) for index in found.indices), unique=found.unique)

    # -- conditions

    def pinned(self, block: int) -> Dependence:
        """What all threads that reach ``block`` have in common, because a comparison for equality leads there, or one
        that only the first warp passes."""
        if block not in self._pinned:
            found = _NOTHING
            for other in self._blocks:
                if other.end is End.BRANCH and other.guard is not None and other.index != block:
                    for position in (0, 1):
                        holds = (position == 0) != other.negated
                        common = list(self._common(other.guard, holds))
                        if common and not self._reachable_without(block, other.index, position):
                            for each in common:
                                found = found | each
            self._pinned[block] = found
        return self._pinned[block]

    def _common(self, predicate: Register, holds: bool) -> Iterator[Dependence]:
        """What threads have in common for which a predicate is true (``holds``) or false."""
        made = self._made.get(predicate, [])
        if len(made) != 1:
            return
        parts, operands = made[0].opcode.split("."), made[0].operands
        if parts[0] == "setp":
            value, bound = self.of(operands[1]), operands[2]
            least = bound.value if type(bound) is Immediate else -1
            if ("eq" if holds else "ne") in parts or ("gt" in parts and not holds and least == 0):
                yield value | self.of(bound)
            elif not {"lt", "le"}.isdisjoint(parts) if holds else not {"gt", "ge"}.isdisjoint(parts):
                if 0 < least <= _WARP and value.exact == {"%tid.x"}:
                    yield Dependence(folded=frozenset({("%tid.x", predicate)}))
        elif parts[0] == ("and" if holds else "or"):
            for operand in operands[1:]:
                if type(operand) is Register:
                    yield from self._common(operand, holds)
        elif parts[0] == "not" and type(operands[1]) is Register:
            yield from self._common(operands[1], not holds)

    def _reachable_without(self, block: int, source: int, position: int) -> bool:
        """Whether a block can be reached without one edge."""
        seen, stack = {0}, [0]
        while stack:
            index = stack.pop()
            if index == block:
                return True
            for number, successor in enumerate(self._blocks[index].successors):
                if (index, number) != (source, position) and successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
        return False

    # -- linear forms

    def linear(self, operand: object, depth: int = 0) -> Linear:
        """An operand as a linear form, as far as it is one."""
        if type(operand) is Immediate and operand.kind == "int":
            return Linear(constant=operand.value)
        if type(operand) is Special:
            return Linear({operand.name: 1})
        if type(operand) is not Register:
            return Linear({str(operand): 1})
        if operand not in self._linear:
            made = self._made.get(operand, [])
            found = self._linear_result(made[0], depth + 1) if len(made) == 1 and depth < _DEEPEST else None
            self._linear[operand] = found if found is not None else Linear({operand: 1})
        return self._linear[operand]

    def _linear_result(self, instruction: Instruction, depth: int) -> Linear | None:
        name, operands = operation_name(instruction.opcode), instruction.operands[1:]
        if name in ("mov", "cvt", "cvta"):
            return self.linear(operands[0], depth)
        if name not in ("add", "sub", "mul", "mad", "shl") or ".hi" in instruction.opcode:
            return None
        first, second, *more = (self.linear(each, depth) for each in operands)
        if name in ("add", "sub"):
            return first.plus(second, 1 if name == "add" else -1)
        if name == "shl":
            return first.times(1 << second.constant) if not second.terms and 0 <= second.constant < 64 else None
        if first.terms and second.terms:
            return None
        product = first.times(second.constant) if not second.terms else second.times(first.constant)
        return product.plus(more[0]) if more else product

    def depends_on_thread(self, linear: Linear) -> bool:
        """Whether any term of a linear form differs between threads of a block."""
        dependences = (self.of(Special(term) if isinstance(term, str) else term) for term in linear.terms)
        return any(each.unique or not each.indices.isdisjoint(THREAD) for each in dependences)
