"""Make random programs from seeds. The same seed gives the same program."""

from __future__ import annotations

from tests.fuzz import program as p
from tests.fuzz.expressions import OPERATIONS, Scope
from tests.fuzz.scalar import ALL, BOOL, F32, F64, FLOATS, I32, I64, U32, U64, Scalar
from tests.fuzz.statements import OWN, StatementGenerator

BATCH = 16
"""Programs of one translation unit; headers are chosen by batch, because they cost the compiler time."""
_HEADERS = {3: ("fp16",), 5: ("cg",), 7: ("fp16",)}
_BLOCKS = [
    (32, 1, 1), (64, 1, 1), (33, 1, 1), (50, 1, 1), (96, 1, 1), (7, 5, 1), (8, 8, 1), (4, 3, 2), (16, 2, 2), (1, 1, 1),
    (5, 1, 1), (31, 1, 1), (100, 1, 1), (65, 1, 1), (128, 1, 1), (40, 3, 1), (3, 3, 7), (2, 16, 1), (32, 4, 1),
]  # fmt: skip
_GRIDS = [(1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 3, 1), (2, 1, 2), (5, 1, 1)]
_MOST_THREADS = 384


def generate(seed: int) -> p.Program:
    """The program of a seed."""
    return _Generator(seed, _HEADERS.get(seed // BATCH % 8, ())).program()


class _Generator(StatementGenerator):
    """Programs: memory, functions, parameters and the kernel."""

    def program(self) -> p.Program:
        dice = self.dice
        block = dice.choice(_BLOCKS)
        threads = block[0] * block[1] * block[2]
        grids = [grid for grid in _GRIDS if threads * grid[0] * grid[1] * grid[2] <= _MOST_THREADS]
        self.threads, self.grid = threads, dice.choice(grids or [(1, 1, 1)])
        self.structs = [self._struct() for _ in range(dice.choice([0, 0, 1, 2]))]
        for _ in range(dice.randrange(1, 4)):
            self._array(dice.choice(ALL), "input", "global", 64)
        for _ in range(dice.choice([0, 0, 1])):
            self._array(dice.choice(ALL), dice.choice(["constant", "table"]), "module", dice.choice([4, 16]))
        for _ in range(dice.choice([0, 1, 2])):
            kind = dice.choice(list(OWN))
            self._array(dice.choice([*OWN[kind], dice.choice(ALL)]), "own", "global", 4)
        totals = [self._total("global") for _ in range(dice.choice([0, 0, 1, 2]))]
        parameters = [self._parameter() for _ in range(dice.randrange(4))]
        scope = Scope(uniform=True, mask="wm", totals=totals)
        scope.arrays = [array for array in self.arrays if array.role in ("input", "constant", "table", "own")]
        self._functions(scope)
        names = [*p.SPECIALS, "tid", "gid", "lane"]
        scope.variables = [p.Variable(I32, name) for name in names]
        for parameter in parameters:
            if parameter.type is not None:
                scope.variables.append(p.Variable(parameter.type, parameter.name))
            else:
                struct = next(each for each in self.structs if each.name == parameter.struct)
                scope.members += [p.Member(kind, parameter.name, name) for name, kind in struct.members]
        self.uniform_variables = [p.Variable(I32, name) for name in ("bx", "by", "bz", "dx", "gx")]
        self.uniform_variables += list(scope.variables[len(names) :])
        body: list[p.Statement] = []
        body += [self._let(scope, scalar) for scalar in dice.sample(self.kinds, 3)]
        body += self.statements(scope, self.budget)
        if dice.random() < 0.25:
            body.append(p.If(self.condition(scope, 2), (p.Return(),)))
            scope.uniform, scope.mask = False, ""
            body += self.statements(scope, 3)
        if dice.random() < 0.3:
            body.append(self._stride(scope))
        body += self._results(scope)
        program = p.Program(
            self.seed,
            self.grid,
            block,
            tuple(parameters),
            tuple(self.arrays),
            tuple(self.structs),
            tuple(self.functions),
            tuple(body),
            launch_bounds=dice.random() < 0.2,
            noinline_warp=dice.random() < 0.1,
            headers=self.headers,
        )
        return p.without_unused(program)

    def _struct(self) -> p.Struct:
        members = tuple((f"m{index}", self.dice.choice(ALL)) for index in range(self.dice.randrange(1, 5)))
        return p.Struct(self.name(f"S{self.seed}_"), members)

    def _parameter(self) -> p.Parameter:
        if self.structs and self.dice.random() < 0.3:
            struct = self.dice.choice(self.structs)
            values = tuple(self.constant(kind).value for _, kind in struct.members)
            return p.Parameter(self.name("p"), None, values, struct.name)
        kind = self.dice.choice(ALL)
        return p.Parameter(self.name("p"), kind, (self.constant(kind).value,))

    def _results(self, scope: Scope) -> list[p.Statement]:
        """Store what the variables hold: some as they are, all of them mixed into one number."""
        body: list[p.Statement] = []
        mixed = p.Variable(U64, self.name("h"))
        body.append(p.Let(mixed.name, p.Constant(U64, 1)))
        factor = p.Constant(U64, 0x9E3779B97F4A7C15)
        known = [v for v in scope.mutable if v.name not in p.SPECIALS]
        for variable in known:
            value: p.Expression = variable
            if variable.type in FLOATS:
                value = p.Apply(OPERATIONS[f"bits.{variable.type.name}"], (variable,))
            wide = p.Convert(U64, value)
            product = p.Apply(OPERATIONS["mul.u64.u64"], (mixed, factor))
            body.append(p.Assign(mixed, p.Apply(OPERATIONS["xor.u64.u64"], (product, wide))))
        shown = [mixed, *self.dice.sample(known, min(len(known), 2))]
        for variable in shown:
            array = self._array(variable.type, "output", "global", 0)
            body.append(p.Assign(p.Element(variable.type, array.name, p.Constant(U32, 0)), variable))
        return body

    # -- functions

    def _functions(self, outer: Scope) -> None:
        dice = self.dice
        tables = [array for array in self.arrays if array.space == "module"]
        for _ in range(dice.choice([0, 0, 1, 2, 3])):
            scope = Scope(kernel=False, functions=list(self.functions), arrays=tables)
            parameters = tuple((self.name("a"), dice.choice(ALL)) for _ in range(dice.randrange(1, 4)))
            result = dice.choice([kind for kind in ALL if kind is not BOOL])
            self._function(scope, parameters, result)
            if dice.random() < 0.3:  # a second one of the same type, so that there is a choice
                again = tuple((self.name("a"), kind) for _, kind in parameters)
                scope = Scope(kernel=False, functions=[], arrays=tables)
                self._function(scope, again, result)
        if dice.random() < 0.2:
            self._recursive()
        outer.functions = list(self.functions)

    def _function(self, scope: Scope, parameters: tuple[tuple[str, Scalar], ...], result: Scalar) -> None:
        dice = self.dice
        scope.variables = [p.Variable(kind, name) for name, kind in parameters]
        body = self.statements(scope, dice.randrange(1, 5))
        if dice.random() < 0.4:
            body.insert(
                0, p.If(self.condition(scope.inner(), 1, bare=True), (p.Return(self._bare(scope, parameters, result)),))
            )
        body.append(p.Return(self.expression(scope, result, 3)))
        qualifier = dice.choice(["", "__forceinline__", "__noinline__", "__noinline__"])
        self.functions.append(p.Function(self.name(f"f{self.seed}_"), parameters, result, tuple(body), qualifier))

    def _bare(self, scope: Scope, parameters: tuple[tuple[str, Scalar], ...], result: Scalar) -> p.Expression:
        """An expression of nothing but the parameters, for the beginning of a function."""
        first = Scope(kernel=False, variables=[p.Variable(kind, name) for name, kind in parameters])
        return self.expression(first, result, 2)

    def _recursive(self) -> None:
        """A function that calls itself at most three times deep."""
        dice = self.dice
        kind = dice.choice([I32, U32, I64, U64, F32, F64])
        name = self.name(f"f{self.seed}_")
        depth, value = p.Variable(I32, self.name("a")), p.Variable(kind, self.name("a"))
        scope = Scope(kernel=False, variables=[depth, value])
        end = p.If(
            p.Apply(OPERATIONS["le.i32.i32"], (depth, p.Constant(I32, 0))),
            (p.Return(self.expression(scope, kind, 2)),),
        )
        less = p.Apply(OPERATIONS["sub.i32.i32"], (depth, p.Constant(I32, 1)))
        call = p.Call(kind, name, (less, self.expression(scope, kind, 2)))
        inner = p.Variable(kind, self.name("v"))
        scope.variables.append(inner)
        body = (end, p.Let(inner.name, call), p.Return(self.expression(scope, kind, 2)))
        parameters = ((depth.name, I32), (value.name, kind))
        self.functions.append(p.Function(name, parameters, kind, body, "__noinline__"))
