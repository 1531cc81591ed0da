"""Run a random program with NumPy, straight from its statements: no CUDA C++, no PTX, nothing of the simulated device.

Every variable is an array with one element a thread; a mask says which threads take part. All threads of the launch
go in step. That is one of the orders that CUDA allows, and as programs have no races, every order gives the same.
Blocks are padded to whole warps; the threads that fill them up never take part in anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.fuzz import program as p
from tests.fuzz import warps
from tests.fuzz.data import initial
from tests.fuzz.scalar import BOOL, F32, I32, U32, Array, Scalar, convert, zeros

_STEPS = 200_000
_BITWISE: dict[str, Callable[..., Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "add": np.add,
}


class TooLong(Exception):
    """The program takes more steps than a test should."""


def run(program: p.Program) -> dict[str, Array]:
    """The arrays in global memory after the launch, by name."""
    with np.errstate(all="ignore"):
        return _Launch(program).run()


@dataclass
class _Frame:
    """One call: its variables, and where loops and the function were left."""

    variables: dict[str, Array] = field(default_factory=dict)
    exits: list[dict[str, Array]] = field(default_factory=list)
    returned: Array | None = None
    result: Array | None = None


class _Launch:
    def __init__(self, program: p.Program) -> None:
        self.program = program
        threads, blocks = program.threads, program.blocks
        self.padded = -(-threads // 32) * 32
        self.count = blocks * self.padded
        tid = np.tile(np.arange(self.padded, dtype=np.int32), blocks)
        bid = np.repeat(np.arange(blocks, dtype=np.int32), self.padded)
        self.exists = tid < threads
        self.tid, self.bid = np.minimum(tid, threads - 1), bid
        self.gid = bid * threads + self.tid
        self.lane = (tid & 31).astype(np.int32)
        self.lanes = np.minimum(32, threads - (tid & ~31)).astype(np.int32)
        self.arrays = {array.name: array for array in program.arrays}
        self.functions = {function.name: function for function in program.functions}
        self.memory: dict[str, Array] = {}
        for array in program.arrays:
            if array.space in ("global", "module"):
                self.memory[array.name] = initial(program, array)
            else:
                self.memory[array.name] = zeros(array.type, blocks * array.length)
        self.steps = 0
        self.frame = _Frame(self._places())

    def _places(self) -> dict[str, Array]:
        x, y, z = self.program.block
        gx, gy, _ = self.program.grid
        value = {
            "tx": self.tid % x,
            "ty": self.tid // x % y,
            "tz": self.tid // (x * y),
            "bx": self.bid % gx,
            "by": self.bid // gx % gy,
            "bz": self.bid // (gx * gy),
            "dx": self._all(x),
            "dy": self._all(y),
            "gx": self._all(gx),
            "tid": self.tid,
            "gid": self.gid,
            "lane": self.lane,
        }
        found = {name: each.astype(np.int32) for name, each in value.items()}
        full = (np.uint64(1) << self.lanes.astype(np.uint64)) - np.uint64(1)
        found["wm"] = full.astype(np.uint32)
        structs = {struct.name: struct for struct in self.program.structs}
        for parameter in self.program.parameters:
            if parameter.type is not None:
                found[parameter.name] = np.full(self.count, parameter.values[0], parameter.type.dtype)
            else:
                for (member, kind), number in zip(structs[parameter.struct].members, parameter.values, strict=True):
                    found[f"{parameter.name}.{member}"] = np.full(self.count, number, kind.dtype)
        return found

    def _all(self, number: int) -> Array:
        return np.full(self.count, number, np.int32)

    def run(self) -> dict[str, Array]:
        self.block(self.program.body, self.exists.copy())
        return {array.name: self.memory[array.name] for array in self.program.arrays if array.space == "global"}

    # -- expressions

    def eval(self, e: p.Expression, mask: Array) -> Array:
        """The value in every thread; in threads outside the mask it means nothing."""
        if isinstance(e, p.Variable):
            return self.frame.variables[e.name]
        if isinstance(e, p.Constant):
            return np.full(self.count, e.value, e.type.dtype)
        if isinstance(e, p.Apply):
            value = e.operation.compute(*[self.eval(each, mask) for each in e.operands])
            assert value.dtype == e.type.dtype, (e.operation, value.dtype)
            return value
        if isinstance(e, p.Convert):
            return convert(self.eval(e.operand, mask), e.type)
        if isinstance(e, p.Choose):
            condition = self.eval(e.condition, mask)
            return np.where(condition, self.eval(e.yes, mask & condition), self.eval(e.no, mask & ~condition))
        if isinstance(e, p.Member):
            return self.frame.variables[f"{e.variable}.{e.member}"]
        if isinstance(e, p.Element):
            memory, at = self.place(e.array, self.eval(e.index, mask))
            return memory[at]
        return self._call(e, mask)

    def _call(self, e: p.Call, mask: Array) -> Array:
        arguments = [self.eval(each, mask) for each in e.arguments]
        if not e.among:
            return self._enter(self.functions[e.function], arguments, mask)
        assert e.selector is not None
        chosen = self.eval(e.selector, mask) % np.uint32(len(e.among))
        value = zeros(e.type, self.count)
        for index, name in enumerate(e.among):
            here = chosen == index
            value = np.where(here, self._enter(self.functions[name], arguments, mask & here), value)
        return value

    def _enter(self, function: p.Function, arguments: Sequence[Array], mask: Array) -> Array:
        if not mask.any():
            return zeros(function.result, self.count)
        outer = self.frame
        names = [name for name, _ in function.parameters]
        self.frame = _Frame(dict(zip(names, arguments, strict=True)))
        self.frame.returned = np.zeros(self.count, np.bool_)
        self.frame.result = zeros(function.result, self.count)
        try:
            self.block(function.body, mask)
            return self.frame.result
        finally:
            self.frame = outer

    def place(self, name: str, index: Array) -> tuple[Array, Array]:
        """The memory that holds an array, flat, and where in it each thread's element is."""
        index = index.astype(np.int64)
        if name in self.frame.variables:  # a local array: (elements, threads)
            local = self.frame.variables[name]
            return local.reshape(-1), (index & (len(local) - 1)) * self.count + np.arange(self.count)
        array, memory = self.arrays[name], self.memory[name]
        threads = self.program.threads
        if array.role == "output":
            return memory, self.gid.astype(np.int64)
        if array.role == "stride":
            return memory, np.minimum(index, array.length - 1)
        if array.role == "own":
            return memory, self.gid * np.int64(4) + (index & 3)
        if array.role == "meeting":
            per_block = threads if array.space == "global" else array.length
            return memory, self.bid * np.int64(per_block) + index % threads
        if array.role == "warp":
            return memory, self.bid * np.int64(array.length) + (self.tid & ~31) + index % self.lanes
        if array.space in ("shared", "dynamic"):
            return memory, self.bid * np.int64(array.length) + (index & (array.length - 1))
        return memory, index & (array.length - 1)

    # -- statements

    def block(self, body: Sequence[p.Statement], mask: Array) -> Array:
        """Execute statements; the threads that come to the end of them."""
        for statement in body:
            if not mask.any():
                break
            self.steps += 1
            if self.steps > _STEPS:
                raise TooLong
            after = getattr(self, "_" + type(statement).__name__.lower())(statement, mask)
            if after is not None:
                mask = after
        return mask

    def set(self, name: str, value: Array, mask: Array) -> None:
        old = self.frame.variables.get(name)
        if old is None or old.dtype != value.dtype or old.shape != value.shape:
            old = np.zeros_like(value)
        self.frame.variables[name] = np.where(mask, value, old)

    def _let(self, s: p.Let, mask: Array) -> None:
        self.set(s.name, self.eval(s.value, mask), mask)

    def _letarray(self, s: p.LetArray, mask: Array) -> None:
        values = np.stack([self.eval(value, mask) for value in s.values])
        self.set(s.name, values, mask)

    def _letstruct(self, s: p.LetStruct, mask: Array) -> None:
        struct = next(each for each in self.program.structs if each.name == s.struct)
        for (member, _), value in zip(struct.members, s.values, strict=True):
            self.set(f"{s.name}.{member}", self.eval(value, mask), mask)

    def _assign(self, s: p.Assign, mask: Array) -> None:
        value = self.eval(s.value, mask)
        target = s.target
        if isinstance(target, p.Variable):
            self.set(target.name, value, mask)
        elif isinstance(target, p.Member):
            self.set(f"{target.variable}.{target.member}", value, mask)
        else:
            memory, at = self.place(target.array, self.eval(target.index, mask))
            memory[at[mask]] = value[mask]

    def _if(self, s: p.If, mask: Array) -> Array:
        condition = self.eval(s.condition, mask)
        return self.block(s.then, mask & condition) | self.block(s.otherwise, mask & ~condition)

    def _loop(self, active: Array, stays: Callable[[int, Array], Array], body: Sequence[p.Statement]) -> Array:
        """Rounds until no thread is left; ``stays`` gives those that begin round number n."""
        exits = {"break": np.zeros(self.count, np.bool_), "continue": np.zeros(self.count, np.bool_)}
        self.frame.exits.append(exits)
        left = np.zeros(self.count, np.bool_)
        number = 0
        while active.any():
            inside = stays(number, active)
            left |= active & ~inside
            active = self.block(body, inside) | exits["continue"] if inside.any() else inside
            exits["continue"] = np.zeros(self.count, np.bool_)
            number += 1
        self.frame.exits.pop()
        return left | exits["break"]

    def _for(self, s: p.For, mask: Array) -> Array:
        if isinstance(s.count, p.Constant):
            count = self._all(int(s.count.value))
        else:
            count = (self.eval(s.count, mask) % np.uint32(s.limit)).astype(np.int32)
        if s.style == "do":
            count = np.maximum(count, 1)

        def stays(number: int, active: Array) -> Array:
            inside = active & (count > number)
            self.set(s.name, self._all(number), inside)
            return inside

        return self._loop(mask, stays, s.body)

    def _while(self, s: p.While, mask: Array) -> Array:
        def stays(number: int, active: Array) -> Array:
            if number >= s.limit:
                return np.zeros_like(active)
            self.set(s.name, self._all(s.limit - number), active)
            inside = active & self.eval(s.condition, active)
            self.set(s.name, self._all(s.limit - number - 1), inside)
            return inside

        return self._loop(mask, stays, s.body)

    def _switch(self, s: p.Switch, mask: Array) -> Array:
        selector = self.eval(s.selector, mask)
        matched = np.zeros(self.count, np.bool_)
        starts = []
        for case in s.cases:
            here = np.isin(selector, case.values) if case.values else np.zeros(self.count, np.bool_)
            starts.append(here)
            matched |= here
        after = mask.copy() if all(case.values for case in s.cases) else np.zeros(self.count, np.bool_)
        after &= ~matched
        exits = {"break": np.zeros(self.count, np.bool_)}
        self.frame.exits.append(exits)
        running = np.zeros(self.count, np.bool_)
        for case, start in zip(s.cases, starts, strict=True):
            entered = (mask & start) if case.values else (mask & ~matched)
            running = self.block(case.body, running | entered)
            if not case.falls_through:
                after |= running
                running = np.zeros(self.count, np.bool_)
        self.frame.exits.pop()
        return after | running | exits["break"]

    def _leave(self, how: str, mask: Array) -> Array:
        target = next(exits for exits in reversed(self.frame.exits) if how in exits)
        target[how] = target[how] | mask
        return np.zeros_like(mask)

    def _break(self, s: p.Break, mask: Array) -> Array:
        return self._leave("break", mask)

    def _continue(self, s: p.Continue, mask: Array) -> Array:
        return self._leave("continue", mask)

    def _return(self, s: p.Return, mask: Array) -> Array:
        if s.value is not None:
            assert self.frame.result is not None
            value = self.eval(s.value, mask)
            self.frame.result = np.where(mask, value, self.frame.result)
        return np.zeros_like(mask)

    def _block(self, s: p.Block, mask: Array) -> Array:
        return self.block(s.body, mask)

    def _sequence(self, s: p.Sequence, mask: Array) -> Array:
        return self.block(s.body, mask)

    # -- threads that meet

    def _barrier(self, s: p.Barrier, mask: Array) -> None:
        if s.condition is None:
            return
        held = (self.eval(s.condition, mask) & mask).reshape(self.program.blocks, -1)
        present = mask.reshape(self.program.blocks, -1)
        if s.kind == "count":
            value = held.sum(1)
        elif s.kind == "and":
            value = (held | ~present).all(1)
        else:
            value = held.any(1)
        self.set(s.name, np.repeat(value.astype(np.int32), self.padded), mask)

    def _exchange(self, s: p.Exchange, mask: Array) -> Array:
        array = self.arrays[s.array]
        if array.role == "warp":
            index = (self.lane * s.factor + s.offset) % self.lanes
        else:
            index = (self.tid * s.factor + s.offset) % self.program.threads
        value = self.eval(s.value, mask)
        memory, at = self.place(s.array, index)
        memory[at[mask]] = value[mask]
        return self.block(s.body, self.block(s.before, mask))

    def _totals(self, s: p.Totals, mask: Array) -> Array:
        array, info = self.arrays[s.array], np.iinfo(self.arrays[s.array].type.dtype)
        memory = self.memory[s.array].reshape(self.program.blocks, array.length)
        reached = mask.reshape(self.program.blocks, -1).any(1)
        first = {"and": array.type.dtype.type(0) - array.type.dtype.type(1), "min": info.max, "max": info.min}
        memory[reached] = first.get(array.operation, 0)
        return self.block(s.body, self.block(s.before, mask))

    def _accumulate(self, s: p.Accumulate, mask: Array) -> None:
        value = self.eval(s.value, mask)
        memory, at = self.place(s.array, self.eval(s.index, mask))
        _BITWISE[self.arrays[s.array].operation].at(memory, at[mask], value[mask])  # type: ignore[attr-defined]

    def _ownatomic(self, s: p.OwnAtomic, mask: Array) -> None:
        values = [self.eval(value, mask) for value in s.values]
        memory, at = self.place(s.array, self.eval(s.index, mask))
        old = memory[at]
        memory[at[mask]] = _updated(s.kind, self.arrays[s.array].type, old, values)[mask]
        self.set(s.name, old, mask)

    def _mask(self, name: str) -> Array:
        return self.frame.variables[name].reshape(-1, 32)

    def _meet(self, function: Callable[..., Array], mask_name: str, active: Array, *values: Array) -> Array:
        """A warp operation on (warps, lanes) arrays."""
        shaped = [value.reshape(-1, 32) for value in values]
        warps.check_complete(self._mask(mask_name), active.reshape(-1, 32))
        return function(self._mask(mask_name), *shaped).reshape(-1)

    def _shuffle(self, s: p.Shuffle, mask: Array) -> None:
        value = self.eval(s.value, mask)
        lane = (self.eval(s.lane, mask) & np.uint32(31)).astype(np.int32)
        source = warps.source_lane(s.kind, self.lane, lane, s.width).reshape(-1, 32)
        shuffled = self._meet(lambda m, v: warps.shuffle(m, v, source), s.mask, mask, value)
        self.set(s.name, shuffled, mask)

    def _vote(self, s: p.Vote, mask: Array) -> None:
        condition = self.eval(s.condition, mask)
        self.set(s.name, self._meet(warps.VOTES[s.kind], s.mask, mask, condition), mask)

    def _match(self, s: p.Match, mask: Array) -> None:
        value = self.eval(s.value, mask)
        function = warps.match_any if s.kind == "any" else warps.match_all
        self.set(s.name, self._meet(function, s.mask, mask, value), mask)

    def _reduce(self, s: p.Reduce, mask: Array) -> None:
        value = self.eval(s.value, mask)
        self.set(s.name, self._meet(lambda m, v: warps.reduce(s.kind, m, v), s.mask, mask, value), mask)

    def _syncwarp(self, s: p.SyncWarp, mask: Array) -> None:
        warps.check_complete(self._mask(s.mask), mask.reshape(-1, 32))

    def _warpif(self, s: p.WarpIf, mask: Array) -> Array:
        condition = self.eval(s.condition, mask)
        then = self._meet(warps.ballot, s.mask, mask, condition)
        self.set(s.mask_then, then, mask)
        self.set(s.mask_else, self.frame.variables[s.mask] & ~then, mask)
        return self.block(s.then, mask & condition) | self.block(s.otherwise, mask & ~condition)

    def _groups(self, s: p.Groups, mask: Array) -> Array:
        self.set(s.group, self._meet(warps.match_any, s.mask, mask, self.eval(s.key, mask)), mask)
        return self.block(s.body, mask)

    def _dwindle(self, s: p.Dwindle, mask: Array) -> Array:
        self.set(s.left, self.frame.variables[s.mask], mask)

        def stays(number: int, active: Array) -> Array:
            if number >= s.limit:
                return np.zeros_like(active)
            self.set(s.name, self._all(number), active)
            condition = self.eval(s.condition, active)
            self.set(s.left, self._meet(warps.ballot, s.left, active, condition), active)
            return active & condition

        return self._loop(mask, stays, s.body)

    def _stride(self, s: p.Stride, mask: Array) -> Array:
        length, total = self.arrays[s.array].length, self.program.threads * self.program.blocks

        def stays(number: int, active: Array) -> Array:
            index = self.gid + np.int32(number * total)
            inside = active & (index < length)
            self.set(s.name, index, inside)
            return inside

        return self._loop(mask, stays, (*s.body, s.store()))


def _updated(kind: str, scalar: Scalar, old: Array, values: list[Array]) -> Array:
    """What an atomic operation leaves in memory."""
    value = values[0]
    if kind == "exch":
        return value
    if kind == "cas":
        return np.where(old == value, values[1], old)
    if kind == "inc":
        return np.where(old >= value, 0, old + 1).astype(old.dtype)
    if kind == "dec":
        return np.where((old == 0) | (old > value), value, old - 1).astype(old.dtype)
    if kind == "sub":
        return old - value
    if kind == "add" and scalar is F32:
        from tests.fuzz.float_operations import add32

        return add32("rn", old, value)
    return _BITWISE[kind](old, value)


assert BOOL.dtype == np.bool_ and I32.bits == U32.bits
