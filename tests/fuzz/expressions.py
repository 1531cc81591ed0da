"""Random expressions of a type, over what can be named at a place of a program."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np

from tests.fuzz import float_operations, integer_operations
from tests.fuzz import program as p
from tests.fuzz.operation import Operation
from tests.fuzz.scalar import ALL, BOOL, F32, F64, FLOATS, I32, I64, U32, U64, Scalar

OPERATIONS: dict[str, Operation] = {
    **integer_operations.CATALOGUE.by_name,
    **float_operations.CATALOGUE.by_name,
}
_COMMON = ("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "lt", "ge", "eq", "quotient", "remainder", "div")


def _families() -> dict[tuple[str, str], dict[str, list[Operation]]]:
    """Result type and header → family → its operations."""
    found: dict[tuple[str, str], dict[str, list[Operation]]] = {}
    for operation in OPERATIONS.values():
        place = found.setdefault((operation.result.name, operation.header), {})
        place.setdefault(operation.name.split(".")[0], []).append(operation)
    return found


_FAMILIES = _families()


@dataclass
class Scope:
    """What can be named at a place, and who comes by there."""

    variables: list[p.Variable] = field(default_factory=list)
    mutable: list[p.Variable] = field(default_factory=list)
    members: list[p.Member] = field(default_factory=list)
    locals: list[tuple[str, Scalar]] = field(default_factory=list)
    arrays: list[p.Array] = field(default_factory=list)
    """Readable by any index."""
    functions: list[p.Function] = field(default_factory=list)
    totals: list[p.Array] = field(default_factory=list)
    uniform: bool = False
    mask: str = ""
    loops: int = 0
    """Loops around that may be left by break and continue."""
    depth: int = 0
    kernel: bool = True

    def inner(self, **changes: object) -> Scope:
        """A nested scope; what is declared in it is not seen outside."""
        copies = {
            name: list(getattr(self, name))
            for name in ("variables", "mutable", "members", "locals", "arrays", "functions", "totals")
        }
        return replace(self, **copies, depth=self.depth + 1, **changes)  # type: ignore[arg-type]

    def divergent(self) -> Scope:
        """A nested scope that only some threads reach."""
        return self.inner(uniform=False, mask="")


class ExpressionGenerator:
    """The dice of one program, what it has declared so far, and expressions."""

    def __init__(self, seed: int, headers: tuple[str, ...]) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.names = 0
        self.arrays: list[p.Array] = []
        self.structs: list[p.Struct] = []
        self.functions: list[p.Function] = []
        self.headers = headers
        self.budget = self.dice.choice([6, 10, 16, 26])
        self.favour = self.dice.choice(["integer", "float", "warp", "block", "control", "mixed"])
        self.kinds = self.dice.sample(ALL, self.dice.randrange(3, 7))
        self.uniform_variables: list[p.Variable] = []
        """Of one value in all threads of a block."""

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def constant(self, kind: Scalar) -> p.Constant:
        dice = self.dice
        if kind is BOOL:
            return p.Constant(kind, dice.random() < 0.5)
        if kind.kind == "f":
            number = dice.choice([0.0, 1.0, -1.0, 0.5, 3.0, -2.5, 100.0, dice.uniform(-8, 8), dice.uniform(-1e6, 1e6)])
            return p.Constant(kind, float(np.float32(number)) if kind is F32 else number)
        info = np.iinfo(kind.dtype)
        edges = [0, 1, 2, 3, 5, 8, 31, 100, int(info.max), int(info.min), int(info.max) - 1]
        number = dice.choice([*edges, dice.randint(int(info.min), int(info.max)), dice.randint(0, 40)])
        return p.Constant(kind, max(int(info.min), min(int(info.max), number)))

    def leaf(self, scope: Scope, kind: Scalar) -> p.Expression:
        dice = self.dice
        if dice.random() < 0.2:
            return self.constant(kind)
        same: list[p.Expression] = [v for v in scope.variables if v.type is kind and v.name not in p.SPECIALS]
        same += [m for m in scope.members if m.type is kind]
        if same and dice.random() < 0.8:
            return dice.choice(same)
        others: list[p.Expression] = [v for v in scope.variables if v.type is not kind]
        others += [m for m in scope.members if m.type is not kind]
        if others and dice.random() < 0.9:
            return self.converted(dice.choice(others), kind)
        return self.constant(kind)

    def converted(self, value: p.Expression, kind: Scalar) -> p.Expression:
        """A value as another type; floats become integers by an operation."""
        if value.type is kind:
            return value
        if value.type in FLOATS and kind.is_integer:
            if kind is BOOL:
                return p.Apply(OPERATIONS[f"is_true.{value.type.name}"], (value,))
            return p.Apply(OPERATIONS[f"cast.{value.type.name}.{kind.name}"], (value,))
        return p.Convert(kind, value)

    def expression(self, scope: Scope, kind: Scalar, depth: int) -> p.Expression:
        dice = self.dice
        if depth <= 0 or dice.random() < 0.12:
            return self.leaf(scope, kind)
        roll = dice.random()
        if roll < 0.10:
            return self._element(scope, kind, depth)
        if roll < 0.17:
            yes, no = (self.expression(scope, kind, depth - 1) for _ in range(2))
            return p.Choose(self.condition(scope, depth - 1), yes, no)
        if roll < 0.25 and scope.functions:
            return self._call(scope, kind, depth)
        if roll < 0.31:
            return self.converted(self.expression(scope, dice.choice(self.kinds), depth - 1), kind)
        operation = self._operation(kind)
        if operation is None:
            source = dice.choice([I32, U32, I64, U64] if kind.is_integer else [F32, F64])
            return self.converted(self.expression(scope, source, depth), kind)
        return p.Apply(operation, tuple(self.expression(scope, each, depth - 1) for each in operation.operands))

    def _operation(self, kind: Scalar) -> Operation | None:
        header = "fp16" if "fp16" in self.headers and self.dice.random() < 0.3 else ""
        families = _FAMILIES.get((kind.name, header)) or _FAMILIES.get((kind.name, ""))
        if not families:
            return None
        names = list(families)
        usual = [name for name in names if name in _COMMON]
        family = self.dice.choice(usual if usual and self.dice.random() < 0.6 else names)
        return self.dice.choice(families[family])

    def condition(self, scope: Scope, depth: int, bare: bool = False) -> p.Expression:
        if bare:
            scope = replace(scope, variables=[v for v in scope.variables if v.name.startswith("a")], members=[])
            scope.locals, scope.arrays, scope.functions = [], [], []
        return self.expression(scope, BOOL, max(depth, 1))

    def _index(self, scope: Scope, depth: int) -> p.Expression:
        return self.expression(scope, U32, min(depth, 2))

    def _element(self, scope: Scope, kind: Scalar, depth: int) -> p.Expression:
        places = [(array.name, array.type) for array in scope.arrays] + scope.locals
        if not places:
            return self.leaf(scope, kind)
        exact = [place for place in places if place[1] is kind]
        name, found = self.dice.choice(exact or places)
        return self.converted(p.Element(found, name, self._index(scope, depth - 1)), kind)

    def _call(self, scope: Scope, kind: Scalar, depth: int) -> p.Expression:
        dice = self.dice
        function = dice.choice(scope.functions)
        arguments = [self.expression(scope, each, depth - 2) for _, each in function.parameters]
        own = {node.function for node in p.nodes(function) if isinstance(node, p.Call)}
        if function.name in own:  # recursive
            three = p.Constant(I32, 3)
            arguments[0] = p.Apply(OPERATIONS["and.i32.i32"], (arguments[0], three))
            return self.converted(p.Call(function.result, function.name, tuple(arguments)), kind)
        types = [each for _, each in function.parameters]
        alike = [
            each.name
            for each in scope.functions
            if each.result is function.result and [k for _, k in each.parameters] == types
            and each.name not in {node.function for node in p.nodes(each) if isinstance(node, p.Call)}
        ]  # fmt: skip
        if len(alike) > 1 and scope.kernel and dice.random() < 0.7:
            among, selector = tuple(alike), self._index(scope, 1)
            return self.converted(p.Call(function.result, alike[0], tuple(arguments), among, selector), kind)
        return self.converted(p.Call(function.result, function.name, tuple(arguments)), kind)

    def _uniform_condition(self) -> p.Expression:
        variable = self.dice.choice(self.uniform_variables)
        name = self.dice.choice(["lt", "ge", "eq", "ne"])
        if variable.type is BOOL:
            return variable
        if variable.type in FLOATS:
            return p.Apply(OPERATIONS[f"lt.{variable.type.name}.f32"], (variable, self.constant(F32)))
        operation = OPERATIONS[f"{name}.{variable.type.name}.i32"]
        return p.Apply(operation, (variable, p.Constant(I32, self.dice.randrange(3))))
