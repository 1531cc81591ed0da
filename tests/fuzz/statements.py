"""Random statements: plain ones, and those in which threads meet."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.fuzz import program as p
from tests.fuzz.expressions import OPERATIONS, ExpressionGenerator, Scope
from tests.fuzz.scalar import BOOL, F32, F64, FLOATS, I32, I64, INTEGERS, U32, U64, WIDE, Scalar

_TOTALS = {"add": (I32, U32, U64), "min": (I32, U32, I64, U64), "max": (I32, U32, I64, U64)} | dict.fromkeys(
    ("and", "or", "xor"), (I32, U32, U64)
)
OWN: dict[str, tuple[Scalar, ...]] = {
    "exch": (I32, U32, U64, F32),
    "cas": (I32, U32, U64),
    "inc": (U32,),
    "dec": (U32,),
    "add": (I32, U32, U64, F32, F64),
    "sub": (I32, U32),
    "min": (I32, U32, I64, U64),
    "max": (I32, U32, I64, U64),
    "and": (I32, U32, U64),
    "or": (I32, U32, U64),
    "xor": (I32, U32, U64),
}
_SHUFFLED = (I32, U32, I64, U64, F32, F64)


class StatementGenerator(ExpressionGenerator):
    """Statements that fit a scope; each costs some of a budget."""

    threads = 0
    """Of a block."""

    def _array(self, kind: Scalar, role: str, space: str, length: int, operation: str = "") -> p.Array:
        prefix = {"module": f"g{self.seed}_"}.get(space, role[0])
        array = p.Array(self.name(prefix), kind, role, space, length, operation, self.dice.randrange(1 << 30))
        self.arrays.append(array)
        return array

    def _total(self, space: str) -> p.Array:
        operation = self.dice.choice(list(_TOTALS))
        return self._array(self.dice.choice(_TOTALS[operation]), "total", space, 8, operation)

    def statements(self, scope: Scope, count: int) -> list[p.Statement]:
        body: list[p.Statement] = []
        while count > 0:
            statement, cost = self.statement(scope, count)
            body.append(statement)
            count -= cost
        return body

    def statement(self, scope: Scope, budget: int) -> tuple[p.Statement, int]:
        """A statement, and what it takes of the budget."""
        dice = self.dice
        table: dict[str, float] = {"let": 4, "assign": 6, "array": 0.5, "own": 1}
        if self.structs:
            table["struct"] = 1
        if budget > 1 and scope.depth < 4:
            factor = 2.0 if self.favour == "control" else 1.0
            table |= {"if": 2 * factor, "for": 1.2 * factor, "while": 0.6 * factor, "switch": 0.6 * factor}
        if scope.loops:
            table["leave"] = 1
        if scope.kernel:
            table |= {"accumulate": 1, "own_atomic": 1}
        if scope.mask:
            factor = 2.0 if self.favour == "warp" else 1.0
            table |= dict.fromkeys(("shuffle", "vote", "match", "reduce"), factor)
            table["syncwarp"] = 0.4 * factor
            if budget > 2 and scope.depth < 3:
                table |= dict.fromkeys(("warpif", "groups", "dwindle"), 0.6 * factor)
                if scope.mask == "wm":
                    table["warp_exchange"] = factor
        if scope.uniform and scope.depth < 3:
            factor = 2.0 if self.favour == "block" else 1.0
            table |= {"barrier": 0.5 * factor, "count": 0.5 * factor}
            if budget > 2:
                table |= {"exchange": 1.5 * factor, "totals": 0.6 * factor}
                table |= {"uniform_if": 0.5 * factor, "uniform_for": 0.7 * factor}
        kind = dice.choices(list(table), list(table.values()))[0]
        inner = min(budget - 1, dice.randrange(1, 5)) if budget > 1 else 1
        statement = getattr(self, "_make_" + kind)(scope, inner)
        nested = kind in ("if", "for", "while", "switch", "warpif", "groups", "dwindle", "warp_exchange", "exchange")
        nested |= kind in ("totals", "uniform_if", "uniform_for")
        return statement, 1 + inner if nested else 1

    def _declare(self, scope: Scope, kind: Scalar, mutable: bool = True) -> str:
        variable = p.Variable(kind, self.name("v"))
        scope.variables.append(variable)
        if mutable:
            scope.mutable.append(variable)
        return variable.name

    def _depth(self) -> int:
        return self.dice.choice([1, 2, 2, 3, 3, 4])

    def _let(self, scope: Scope, kind: Scalar) -> p.Statement:
        value = self.expression(scope, kind, self._depth())
        return p.Let(self._declare(scope, kind), value)

    def _make_let(self, scope: Scope, inner: int) -> p.Statement:
        return self._let(scope, self._kind())

    def _kind(self) -> Scalar:
        if self.favour == "float" and self.dice.random() < 0.5:
            return self.dice.choice(FLOATS)
        if self.favour == "integer" and self.dice.random() < 0.5:
            return self.dice.choice(INTEGERS)
        return self.dice.choice(self.kinds)

    def _make_assign(self, scope: Scope, inner: int) -> p.Statement:
        targets: list[p.Variable | p.Member | p.Element] = list(scope.mutable)
        targets += [member for member in scope.members if member.variable.startswith("s")]
        targets += [p.Element(kind, name, self._index(scope, 1)) for name, kind in scope.locals]
        if not targets:
            return self._make_let(scope, inner)
        target = self.dice.choice(targets)
        value = self.expression(scope, target.type, self._depth())
        if target.type in WIDE and self.dice.random() < 0.4:
            name = self.dice.choice(["add", "xor", "sub"])
            pair = f"{target.type.name}.{target.type.name}"
            value = p.Apply(OPERATIONS[f"{name}.{pair}"], (target, value))
        return p.Assign(target, value)

    def _make_array(self, scope: Scope, inner: int) -> p.Statement:
        kind, name = self._kind(), self.name("l")
        values = tuple(self.expression(scope, kind, 1) for _ in range(self.dice.choice([2, 4, 8])))
        scope.locals.append((name, kind))
        return p.LetArray(name, kind, values)

    def _make_struct(self, scope: Scope, inner: int) -> p.Statement:
        struct, name = self.dice.choice(self.structs), self.name("s")
        values = tuple(self.expression(scope, kind, 2) for _, kind in struct.members)
        scope.members += [p.Member(kind, name, member) for member, kind in struct.members]
        return p.LetStruct(name, struct.name, values)

    def _make_own(self, scope: Scope, inner: int) -> p.Statement:
        own = [array for array in scope.arrays if array.role == "own"]
        if not own:
            return self._make_assign(scope, inner)
        array = self.dice.choice(own)
        target = p.Element(array.type, array.name, self._index(scope, 2))
        return p.Assign(target, self.expression(scope, array.type, self._depth()))

    def _make_accumulate(self, scope: Scope, inner: int) -> p.Statement:
        if not scope.totals:
            return self._make_let(scope, inner)
        array = self.dice.choice(scope.totals)
        value = self.expression(scope, array.type, 2)
        exchange = array.operation == "add" and array.type.kind == "u" and self.dice.random() < 0.3
        return p.Accumulate(array.name, self._index(scope, 2), value, exchange)

    def _make_own_atomic(self, scope: Scope, inner: int) -> p.Statement:
        own = [a for a in scope.arrays if a.role == "own" and any(a.type in kinds for kinds in OWN.values())]
        if not own:
            return self._make_assign(scope, inner)
        array = self.dice.choice(own)
        kind = self.dice.choice([kind for kind, kinds in OWN.items() if array.type in kinds])
        values = tuple(self.expression(scope, array.type, 2) for _ in range(2 if kind == "cas" else 1))
        index = self._index(scope, 2)
        return p.OwnAtomic(self._declare(scope, array.type), kind, array.name, index, values)

    def _make_leave(self, scope: Scope, inner: int) -> p.Statement:
        leave: p.Statement = p.Break()
        other: p.Statement = p.Continue()
        condition = self.condition(scope, 2)
        return p.If(condition, (self.dice.choice([leave, other]),))

    def _body(self, scope: Scope, count: int) -> tuple[p.Statement, ...]:
        return tuple(self.statements(scope, count))

    def _make_if(self, scope: Scope, inner: int) -> p.Statement:
        condition = self.condition(scope, 3)
        then = self._body(scope.divergent(), inner)
        otherwise = self._body(scope.divergent(), inner // 2) if self.dice.random() < 0.5 else ()
        return p.If(condition, then, otherwise)

    def _make_for(self, scope: Scope, inner: int) -> p.Statement:
        limit = self.dice.choice([2, 4, 6]) if scope.depth else self.dice.choice([3, 5, 9])
        count = p.Constant(I32, limit) if self.dice.random() < 0.4 else self.expression(scope, U32, 2)
        if isinstance(count, p.Constant):
            count = p.Constant(I32, int(count.value) % (limit + 1))
        nested = scope.divergent()
        nested.loops += 1
        name = self._declare(nested, I32, mutable=False)
        style = self.dice.choice(["for", "for", "for", "unroll", "while", "do"])
        return p.For(name, count, limit, self._body(nested, inner), style=style)

    def _make_while(self, scope: Scope, inner: int) -> p.Statement:
        name = p.Variable(I32, self.name("w"))
        nested = scope.divergent()
        nested.variables.append(name)
        nested.loops += 1
        condition = self.condition(scope, 3)
        return p.While(name.name, condition, self.dice.choice([2, 4, 7]), self._body(nested, inner))

    def _make_switch(self, scope: Scope, inner: int) -> p.Statement:
        dice = self.dice
        count = dice.randrange(2, 6)
        selector = p.Apply(OPERATIONS["modulo_7.u32"], (self.expression(scope, U32, 2),))
        labels = dice.sample(range(8), count)
        cases = []
        for label in labels:
            values = (label,) if dice.random() < 0.8 else (label, 10 + label)
            cases.append(p.Case(values, self._body(scope.divergent(), 1), dice.random() < 0.25))
        if dice.random() < 0.6:
            cases.insert(dice.randrange(len(cases) + 1), p.Case((), self._body(scope.divergent(), 1)))
        return p.Switch(selector, tuple(cases))

    def _make_uniform_if(self, scope: Scope, inner: int) -> p.Statement:
        then = self._body(scope.inner(loops=0), inner)
        otherwise = self._body(scope.inner(loops=0), 1) if self.dice.random() < 0.5 else ()
        return p.If(self._uniform_condition(), then, otherwise, uniform=True)

    def _make_uniform_for(self, scope: Scope, inner: int) -> p.Statement:
        count = self.dice.randrange(1, 5)
        nested = scope.inner(loops=0)
        name = self._declare(nested, I32, mutable=False)
        style = self.dice.choice(["for", "for", "unroll", "while", "do"])
        return p.For(name, p.Constant(I32, count), count, self._body(nested, inner), uniform=True, style=style)

    # -- threads that meet

    def _make_barrier(self, scope: Scope, inner: int) -> p.Statement:
        return p.Barrier()

    def _make_count(self, scope: Scope, inner: int) -> p.Statement:
        condition = self.condition(scope, 2)
        return p.Barrier(self.dice.choice(["count", "and", "or"]), self._declare(scope, I32), condition)

    def _factor(self, *counts: int) -> int:
        fitting = [factor for factor in range(1, 14) if all(math.gcd(factor, count) == 1 for count in counts)]
        return self.dice.choice(fitting)

    def _exchange_on(self, scope: Scope, array: p.Array, factor: int, inner: int) -> p.Statement:
        value = self.expression(scope, array.type, self._depth())
        before = self._body(scope, self.dice.choice([0, 0, 1]))
        reading = scope.inner()
        reading.arrays.append(array)
        body = list(self._body(reading, inner))
        # at least one reading, into a variable that lives on: declared before
        target = p.Variable(array.type, self.name("v"))
        body.append(p.Assign(target, p.Element(array.type, array.name, self._index(reading, 2))))
        start = p.Let(target.name, self.constant(array.type))
        exchange = p.Exchange(array.name, factor, self.dice.randrange(40), value, before, (p.Block(tuple(body)),))
        scope.variables.append(target)
        scope.mutable.append(target)
        return p.Sequence((start, exchange))

    def _make_exchange(self, scope: Scope, inner: int) -> p.Statement:
        space = self.dice.choice(["shared", "shared", "dynamic", "global"])
        array = self._array(self._kind(), "meeting", space, self.threads)
        return self._exchange_on(scope, array, self._factor(self.threads), inner)

    def _make_warp_exchange(self, scope: Scope, inner: int) -> p.Statement:
        space = self.dice.choice(["shared", "shared", "dynamic"])
        array = self._array(self._kind(), "warp", space, self.threads)
        return self._exchange_on(scope, array, self._factor(32, self.threads % 32 or 32), inner)

    def _make_totals(self, scope: Scope, inner: int) -> p.Statement:
        array = self._total(self.dice.choice(["shared", "dynamic"]))
        before = scope.inner()
        before.totals.append(array)
        body = [self._accumulate_on(before, array), *self.statements(before, inner)]
        reading = scope.inner()
        reading.arrays.append(array)
        after = self._body(reading, 1)
        target = p.Variable(array.type, self.name("v"))
        read = p.Assign(target, p.Element(array.type, array.name, self._index(reading, 2)))
        start = p.Let(target.name, self.constant(array.type))
        totals = p.Totals(array.name, (p.Block(tuple(body)),), (p.Block((*after, read)),))
        scope.variables.append(target)
        scope.mutable.append(target)
        return p.Sequence((start, totals))

    def _accumulate_on(self, scope: Scope, array: p.Array) -> p.Statement:
        return self._make_accumulate(replace(scope, totals=[array]), 0)

    def _make_shuffle(self, scope: Scope, inner: int) -> p.Statement:
        kind = self.dice.choice(_SHUFFLED)
        value, lane = self.expression(scope, kind, 2), self._index(scope, 1)
        how = self.dice.choice(["up", "down", "xor", "idx"])
        if self.dice.random() < 0.6:
            lane = p.Constant(U32, self.dice.choice([0, 1, 2, 4, 8, 16, 31]))
        width = self.dice.choice([32, 32, 16, 8, 4, 2])
        return p.Shuffle(self._declare(scope, kind), how, scope.mask, value, lane, width)

    def _make_vote(self, scope: Scope, inner: int) -> p.Statement:
        kind = self.dice.choice(["all", "any", "ballot"])
        condition = self.condition(scope, 2)
        return p.Vote(self._declare(scope, U32 if kind == "ballot" else BOOL), kind, scope.mask, condition)

    def _key(self, scope: Scope) -> p.Expression:
        """A value that several lanes have in common."""
        kind = self.dice.choice([U32, U64])
        value = self.expression(scope, kind, 2)
        return p.Apply(OPERATIONS[f"modulo_{self.dice.choice([3, 7])}.{kind.name}"], (value,))

    def _make_match(self, scope: Scope, inner: int) -> p.Statement:
        value = self._key(scope)
        return p.Match(self._declare(scope, U32), self.dice.choice(["any", "all"]), scope.mask, value)

    def _make_reduce(self, scope: Scope, inner: int) -> p.Statement:
        kind = self.dice.choice(["add", "min", "max", "and", "or", "xor"])
        scalar = self.dice.choice([I32, U32]) if kind in ("add", "min", "max") else U32
        value = self.expression(scope, scalar, 2)
        return p.Reduce(self._declare(scope, scalar), kind, scope.mask, value)

    def _make_syncwarp(self, scope: Scope, inner: int) -> p.Statement:
        return p.SyncWarp(scope.mask)

    def _make_warpif(self, scope: Scope, inner: int) -> p.Statement:
        condition = self.condition(scope, 2)
        then_mask, else_mask = self.name("m"), self.name("m")
        then = self._body(scope.inner(uniform=False, mask=then_mask, loops=0), inner)
        otherwise: tuple[p.Statement, ...] = ()
        if self.dice.random() < 0.6:
            otherwise = self._body(scope.inner(uniform=False, mask=else_mask, loops=0), inner)
        return p.WarpIf(scope.mask, condition, then_mask, then, else_mask, otherwise)

    def _make_groups(self, scope: Scope, inner: int) -> p.Statement:
        group = self.name("m")
        nested = scope.inner(uniform=False, mask=group, loops=0)
        return p.Groups(scope.mask, self._key(scope), group, self._body(nested, inner))

    def _make_dwindle(self, scope: Scope, inner: int) -> p.Statement:
        left = self.name("m")
        nested = scope.inner(uniform=False, mask=left, loops=0)
        name = self._declare(nested, I32, mutable=False)
        condition = self.condition(nested.inner(), 2)
        return p.Dwindle(scope.mask, name, condition, self.dice.choice([2, 4, 6]), left, self._body(nested, inner))

    def _stride(self, scope: Scope) -> p.Statement:
        array = self._array(self._kind(), "stride", "global", self.dice.choice([1, 37, 100, 500]))
        nested = scope.divergent()
        name = self._declare(nested, I32, mutable=False)
        body = self._body(nested, 1)
        return p.Stride(array.name, name, body, self.expression(nested, array.type, 3))
