"""Write random programs as CUDA C++. Nothing here knows what the statements compute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tests.fuzz import program as p
from tests.fuzz.data import initial
from tests.fuzz.prelude import HEADERS, PRELUDE
from tests.fuzz.scalar import BOOL, F32, F64, Scalar

_GROUP_REDUCTIONS = {"add": "plus", "min": "less", "max": "greater", "and": "bit_and", "or": "bit_or", "xor": "bit_xor"}


def module(programs: Sequence[p.Program]) -> str:
    """One translation unit with a kernel for each program."""
    headers = sorted({header for program in programs for header in program.headers})
    text = "".join(HEADERS[header] for header in headers)
    text += PRELUDE
    return text + "\n".join(Emitter(program).text() for program in programs)


def constant(kind: Scalar, value: int | float) -> str:
    """A literal of exactly this type."""
    if kind is BOOL:
        return "true" if value else "false"
    if kind.kind == "f":
        number = float(value)
        assert math.isfinite(number), "there is no literal for it"
        text = number.hex() + ("f" if kind is F32 else "")
        return f"({text})" if text.startswith("-") else text
    number = int(value)
    suffix = ("u" if kind.kind == "u" else "") + ("ll" if kind.bits == 64 else "")
    if kind.kind == "i" and kind.bits >= 32 and number == -(1 << kind.bits - 1):
        text = f"(-{-number - 1}{suffix} - 1)"
    else:
        text = f"{hex(number) if number > 999 and number % 2 else number}{suffix}"
        text = f"({text})" if number < 0 else text
    return f"({kind.ctype}){text}" if kind.bits < 32 else text


class Emitter:
    """Writes one program."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.arrays = {array.name: array for array in program.arrays}
        self.local: dict[str, int] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.groups = "cg" in program.headers
        """Threads meet by cooperative groups, where there is a group for it."""

    def _tile(self, mask: str, size: int = 32) -> str:
        """The tile of cooperative groups that a mask names, or nothing."""
        if not self.groups or mask != "wm" or self.program.threads % 32:
            return ""
        return f"cg::tiled_partition<{size}>(cg::this_thread_block())"

    def _meet(self) -> str:
        return "cg::this_thread_block().sync();" if self.groups else "__syncthreads();"

    def text(self) -> str:
        program = self.program
        parts = [self._struct(struct) for struct in program.structs]
        parts += [self._module_array(array) for array in program.arrays if array.space == "module"]
        parts += [self._prototype(function) + ";" for function in program.functions]
        for function in program.functions:
            self.lines, self.local = [], {}
            self.statements(function.body)
            parts.append("\n".join([self._prototype(function) + " {", *self.lines, "}"]))
        parts += self._tables()
        self.lines, self.local = [], {}
        self._places()
        self.statements(program.body)
        bounds = f"__launch_bounds__({program.threads}) " if program.launch_bounds else ""
        head = f'extern "C" __global__ void {bounds}{program.name}({self._signature()}) {{'
        return "\n".join([*parts, head, *self.lines, "}", ""])

    # -- declarations

    def _struct(self, struct: p.Struct) -> str:
        members = " ".join(f"{kind.ctype} {name};" for name, kind in struct.members)
        return f"struct {struct.name} {{ {members} }};"

    def _module_array(self, array: p.Array) -> str:
        space = "__constant__" if array.role == "constant" else "__device__"
        values = ", ".join(constant(array.type, value) for value in initial(self.program, array).tolist())
        return f"{space} {array.type.ctype} {array.name}[{array.length}] = {{{values}}};"

    def _prototype(self, function: p.Function) -> str:
        parameters = ", ".join(f"{kind.ctype} {name}" for name, kind in function.parameters)
        qualifier = f"{function.qualifier} " if function.qualifier else ""
        return f"__device__ {qualifier}{function.result.ctype} {function.name}({parameters})"

    def _tables(self) -> list[str]:
        functions = {function.name: function for function in self.program.functions}
        found: dict[str, str] = {}
        for node in p.nodes(self.program):
            if isinstance(node, p.Call) and node.among:
                first = functions[node.among[0]]
                kinds = ", ".join(kind.ctype for _, kind in first.parameters)
                name = self._table(node)
                found[name] = f"__device__ {first.result.ctype} (*{name}[])({kinds}) = {{{', '.join(node.among)}}};"
        return list(found.values())

    def _table(self, call: p.Call) -> str:
        return "table_" + "_".join(call.among)

    def _signature(self) -> str:
        parts = []
        for each in ordered_parameters(self.program):
            if isinstance(each, p.Array):
                const = "const " if each.role == "input" else ""
                restrict = " __restrict__" if each.role in ("input", "output") else ""
                parts.append(f"{const}{each.type.ctype}*{restrict} {each.name}")
            else:
                assert each.struct or each.type is not None
                parts.append(f"{each.struct or each.type.ctype} {each.name}")  # type: ignore[union-attr]
        return ", ".join(parts)

    def _places(self) -> None:
        """Where a thread is, and the shared arrays."""
        threads = self.program.threads
        self.line("const int tid = ((int)threadIdx.z * (int)blockDim.y + (int)threadIdx.y) * (int)blockDim.x + tx_;")
        self.lines[-1] = self.lines[-1].replace("tx_", "(int)threadIdx.x")
        self.line("const int bid = (int)((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);")
        self.line(f"const int gid = bid * {threads} + tid;")
        self.line("const int lane = tid & 31;")
        self.line(f"const int lanes = min(32, {threads} - (tid & ~31));")
        self.line("const u32 wm = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1u;")
        offset = 0
        for array in self.program.arrays:
            if array.space == "shared":
                self.line(f"__shared__ {array.type.ctype} {array.name}[{array.length}];")
            elif array.space == "dynamic":
                self.line(f"{array.type.ctype}* {array.name} = ({array.type.ctype}*)(dynamic_memory + {offset});")
                offset += -(-array.length * array.type.bits // 8 // 16) * 16

    # -- expressions

    def expression(self, e: p.Expression) -> str:
        if isinstance(e, p.Constant):
            return constant(e.type, e.value)
        if isinstance(e, p.Variable):
            return p.SPECIALS.get(e.name, e.name)
        if isinstance(e, p.Member):
            return f"{e.variable}.{e.member}"
        if isinstance(e, p.Apply):
            return e.operation.text.format(*[self.expression(each) for each in e.operands])
        if isinstance(e, p.Convert):
            return f"(({e.type.ctype}){self._tight(e.operand)})"
        if isinstance(e, p.Choose):
            return f"({self.expression(e.condition)} ? {self.expression(e.yes)} : {self.expression(e.no)})"
        if isinstance(e, p.Element):
            return self.place(e.array, e.index)
        arguments = ", ".join(self.expression(each) for each in e.arguments)
        if e.among:
            assert e.selector is not None
            return f"{self._table(e)}[{self.expression(e.selector)} % {len(e.among)}u]({arguments})"
        return f"{e.function}({arguments})"

    def _tight(self, e: p.Expression) -> str:
        text = self.expression(e)
        return text if isinstance(e, (p.Variable, p.Choose)) else f"({text})"

    def place(self, name: str, index: p.Expression) -> str:
        """An element of an array."""
        at = self.expression(index)
        if name in self.local:
            return f"{name}[{at} & {self.local[name] - 1}u]"
        array = self.arrays[name]
        threads = self.program.threads
        if array.role == "output":
            return f"{name}[gid]"
        if array.role == "stride":
            return f"{name}[{at}]"
        if array.role == "own":
            return f"{name}[gid * 4 + (int)({at} & 3u)]"
        if array.role == "meeting":
            start = f"bid * {threads} + (int)" if array.space == "global" else ""
            return f"{name}[{start}({at} % {threads}u)]"
        if array.role == "warp":
            return f"{name}[(tid & ~31) + (int)({at} % (u32)lanes)]"
        return f"{name}[{at} & {array.length - 1}u]"

    # -- statements

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def statements(self, body: Iterable[p.Statement]) -> None:
        for statement in body:
            getattr(self, "_" + type(statement).__name__.lower())(statement)

    def nested(self, head: str, body: Iterable[p.Statement], tail: str = "}") -> None:
        self.line(head)
        self.depth += 1
        self.statements(body)
        self.depth -= 1
        self.line(tail)

    def _let(self, s: p.Let) -> None:
        self.line(f"{s.value.type.ctype} {s.name} = {self.expression(s.value)};")

    def _letarray(self, s: p.LetArray) -> None:
        self.local[s.name] = len(s.values)
        values = ", ".join(self.expression(value) for value in s.values)
        self.line(f"{s.type.ctype} {s.name}[{len(s.values)}] = {{{values}}};")

    def _letstruct(self, s: p.LetStruct) -> None:
        self.line(f"{s.struct} {s.name} = {{{', '.join(self.expression(value) for value in s.values)}}};")

    def _assign(self, s: p.Assign) -> None:
        self.line(f"{self.expression(s.target)} = {self.expression(s.value)};")

    def _if(self, s: p.If) -> None:
        self.nested(f"if ({self.expression(s.condition)}) {{", s.then, "} else {" if s.otherwise else "}")
        if s.otherwise:
            self.depth += 1
            self.statements(s.otherwise)
            self.depth -= 1
            self.line("}")

    def _for(self, s: p.For) -> None:
        fixed = isinstance(s.count, p.Constant)
        count = str(int(s.count.value)) if fixed else f"(int)({self.expression(s.count)} % {s.limit}u)"  # type: ignore
        if s.style in ("for", "unroll"):
            if s.style == "unroll":
                self.line("#pragma unroll")
            if fixed:
                self.nested(f"for (int {s.name} = 0; {s.name} < {count}; ++{s.name}) {{", s.body)
            else:
                head = f"for (int {s.name} = 0, {s.name}_end = {count}; {s.name} < {s.name}_end; {s.name}++) {{"
                self.nested(head, s.body)
            return
        self.line(f"int {s.name}_at = 0; const int {s.name}_end = {count};")
        self.line(f"while ({s.name}_at < {s.name}_end) {{" if s.style == "while" else "do {")
        self.depth += 1
        self.line(f"const int {s.name} = {s.name}_at++;")
        self.statements(s.body)
        self.depth -= 1
        self.line("}" if s.style == "while" else f"}} while ({s.name}_at < {s.name}_end);")

    def _while(self, s: p.While) -> None:
        self.line(f"int {s.name} = {s.limit};")
        self.line(f"while ({s.name} > 0 && {self.expression(s.condition)}) {{")
        self.depth += 1
        self.line(f"--{s.name};")
        self.statements(s.body)
        self.depth -= 1
        self.line("}")

    def _switch(self, s: p.Switch) -> None:
        self.line(f"switch ({self.expression(s.selector)}) {{")
        self.depth += 1
        for case in s.cases:
            for value in case.values:
                self.line(f"case {value}:")
            if not case.values:
                self.line("default:")
            self.nested("{", case.body)
            if not case.falls_through:
                self.line("break;")
        self.depth -= 1
        self.line("}")

    def _break(self, s: p.Break) -> None:
        self.line("break;")

    def _continue(self, s: p.Continue) -> None:
        self.line("continue;")

    def _return(self, s: p.Return) -> None:
        self.line("return;" if s.value is None else f"return {self.expression(s.value)};")

    def _block(self, s: p.Block) -> None:
        self.nested("{", s.body)

    def _sequence(self, s: p.Sequence) -> None:
        self.statements(s.body)

    def _barrier(self, s: p.Barrier) -> None:
        if s.condition is None:
            self.line(self._meet())
        else:
            self.line(f"int {s.name} = __syncthreads_{s.kind}({self.expression(s.condition)});")
            if s.kind != "count":  # only whether it is zero is promised
                self.line(f"{s.name} = {s.name} != 0;")

    def _exchange(self, s: p.Exchange) -> None:
        array = self.arrays[s.array]
        warp = array.role == "warp"
        who, count = ("lane", "lanes") if warp else ("tid", str(self.program.threads))
        base = "(tid & ~31) + " if warp else f"bid * {count} + " if array.space == "global" else ""
        meet = self._meet()
        if warp:
            tile = self._tile("wm")
            meet = f"{tile}.sync();" if tile else "__syncwarp(wm);"
        self.line(f"{s.array}[{base}({who} * {s.factor} + {s.offset}) % {count}] = {self.expression(s.value)};")
        self.statements(s.before)
        self.line(meet)
        self.statements(s.body)
        self.line(meet)

    def _totals(self, s: p.Totals) -> None:
        array = self.arrays[s.array]
        first = {"and": -1, "min": int(np.iinfo(array.type.dtype).max)}.get(array.operation, 0)
        if array.operation == "max":
            first = int(np.iinfo(array.type.dtype).min)
        text = f"({array.type.ctype})~0ull" if first == -1 else constant(array.type, first)
        self.line(f"for (int i_ = tid; i_ < 8; i_ += {self.program.threads}) {s.array}[i_] = {text};")
        self.line(self._meet())
        self.statements(s.before)
        self.line(self._meet())
        self.statements(s.body)
        self.line(self._meet())

    def _accumulate(self, s: p.Accumulate) -> None:
        place, value = "&" + self.place(s.array, s.index), self.expression(s.value)
        if s.by_exchange:
            self.line(f"update_<{self.arrays[s.array].type.ctype}>({place}, {value});")
        else:
            self.line(f"atomic{self.arrays[s.array].operation.capitalize()}({place}, {value});")

    def _ownatomic(self, s: p.OwnAtomic) -> None:
        values = "".join(f", {self.expression(value)}" for value in s.values)
        kind = "CAS" if s.kind == "cas" else s.kind.capitalize()
        array = self.arrays[s.array]
        self.line(f"{array.type.ctype} {s.name} = atomic{kind}(&{self.place(s.array, s.index)}{values});")

    def _shuffle(self, s: p.Shuffle) -> None:
        how = "call" if self.program.noinline_warp else "inline"
        value, lane = self.expression(s.value), self.expression(s.lane)
        lane = f"(int)({lane} & 31u)"
        kind = s.value.type.ctype
        tile = self._tile(s.mask, s.width)
        if tile:
            name = "shfl" if s.kind == "idx" else f"shfl_{s.kind}"
            self.line(f"{kind} {s.name} = {tile}.{name}({value}, {lane});")
            return
        self.line(f"{kind} {s.name} = {s.kind}_{how}<{kind}>({s.mask}, {value}, {lane}, {s.width}, lane);")

    def _vote(self, s: p.Vote) -> None:
        kind = "u32" if s.kind == "ballot" else "bool"
        extra = "" if s.kind == "ballot" else " != 0"
        tile = self._tile(s.mask)
        if tile:
            self.line(f"{kind} {s.name} = {tile}.{s.kind}({self.expression(s.condition)}){extra};")
            return
        self.line(f"{kind} {s.name} = __{s.kind}_sync({s.mask}, {self.expression(s.condition)}){extra};")

    def _match(self, s: p.Match) -> None:
        if s.kind == "any":
            self.line(f"u32 {s.name} = __match_any_sync({s.mask}, {self.expression(s.value)});")
        else:
            self.line(
                f"int {s.name}_all; "
                f"u32 {s.name} = __match_all_sync({s.mask}, {self.expression(s.value)}, &{s.name}_all);"
            )
            self.line(f"{s.name} ^= (u32)({s.name}_all != 0);")

    def _reduce(self, s: p.Reduce) -> None:
        tile = self._tile(s.mask)
        if tile:
            how = f"cg::{_GROUP_REDUCTIONS[s.kind]}<{s.value.type.ctype}>()"
            value = self.expression(s.value)
            self.line(f"{s.value.type.ctype} {s.name} = cg::reduce({tile}, {value}, {how});")
            return
        self.line(f"{s.value.type.ctype} {s.name} = __reduce_{s.kind}_sync({s.mask}, {self.expression(s.value)});")

    def _syncwarp(self, s: p.SyncWarp) -> None:
        self.line(f"__syncwarp({s.mask});")

    def _warpif(self, s: p.WarpIf) -> None:
        self.line(f"const bool {s.mask_then}_c = {self.expression(s.condition)};")
        self.line(f"const u32 {s.mask_then} = __ballot_sync({s.mask}, {s.mask_then}_c);")
        self.line(f"const u32 {s.mask_else} = {s.mask} & ~{s.mask_then};")
        self._if(p.If(p.Variable(BOOL, f"{s.mask_then}_c"), s.then, s.otherwise))

    def _groups(self, s: p.Groups) -> None:
        self.line(f"const u32 {s.group} = __match_any_sync({s.mask}, {self.expression(s.key)});")
        self.nested("{", s.body)

    def _dwindle(self, s: p.Dwindle) -> None:
        self.line(f"u32 {s.left} = {s.mask};")
        self.line(f"for (int {s.name} = 0; {s.name} < {s.limit}; ++{s.name}) {{")
        self.depth += 1
        self.line(f"const bool {s.name}_stay = {self.expression(s.condition)};")
        self.line(f"{s.left} = __ballot_sync({s.left}, {s.name}_stay);")
        self.line(f"if (!{s.name}_stay) break;")
        self.statements(s.body)
        self.depth -= 1
        self.line("}")

    def _stride(self, s: p.Stride) -> None:
        array, total = self.arrays[s.array], self.program.threads * self.program.blocks
        self.line(f"for (int {s.name} = gid; {s.name} < {array.length}; {s.name} += {total}) {{")
        self.depth += 1
        self.statements((*s.body, s.store()))
        self.depth -= 1
        self.line("}")


def ordered_parameters(program: p.Program) -> list[p.Array | p.Parameter]:
    """Pointers and scalars in turn, so that alignments differ."""
    pointers: list[p.Array | p.Parameter] = [array for array in program.arrays if array.space == "global"]
    scalars: list[p.Array | p.Parameter] = list(program.parameters)
    found: list[p.Array | p.Parameter] = []
    while pointers or scalars:
        for source in (scalars, pointers):
            if source:
                found.append(source.pop(0))
    return found


def dynamic_bytes(program: p.Program) -> int:
    """Dynamic shared memory of the launch."""
    sizes = [-(-array.length * array.type.bits // 8 // 16) * 16 for array in program.arrays if array.space == "dynamic"]
    return sum(sizes)


assert F64.bits == 64
