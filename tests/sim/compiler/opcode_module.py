"""A PTX module that tries instructions: for each, load operands, execute, store what comes out.

Inputs are arrays of 8-byte cells, one for each type and operand position; outputs likewise, one for each instruction.
The same module runs on a real GPU.
"""

from __future__ import annotations

from cudalab.sim.compiler.ptx.nodes import BITS
from tests.sim.compiler.kernel_runner import HEADER
from tests.sim.compiler.opcode_models import COUNT, Case, patterns

POOLS = [(kind, operand) for kind in ("b32", "b64", "f32", "f64") for operand in range(4)]
_LETTERS = "abce"  # %d is the destination
_PER_KERNEL = 24


def pool_of(kind: str, operand: int) -> int:
    """The input array that serves an operand."""
    if kind in ("f32", "f64"):
        return POOLS.index((kind, operand))
    return POOLS.index(("b64" if kind != "pred" and BITS[kind] == 64 else "b32", operand))


def input_cells() -> list[list[int]]:
    """Bit patterns of all input arrays."""
    return [patterns(kind, operand) for kind, operand in POOLS]


def write_module(cases: list[tuple[str, Case]]) -> tuple[str, list[tuple[str, int]]]:
    """The PTX for (opcode, case) pairs, and for each its kernel and the index of its output array there."""
    kernels, places = [], []
    for start in range(0, len(cases), _PER_KERNEL):
        name = f"try_{start // _PER_KERNEL}"
        chunk = cases[start : start + _PER_KERNEL]
        body = "".join(_try(opcode, case, index) for index, (opcode, case) in enumerate(chunk))
        kernels.append(_kernel(name, body))
        places += [(name, index) for index in range(len(chunk))]
    return HEADER + "".join(kernels), places


def outputs_of(places: list[tuple[str, int]]) -> dict[str, int]:
    """Output arrays of each kernel."""
    count: dict[str, int] = {}
    for name, index in places:
        count[name] = max(count.get(name, 0), index + 1)
    return count


def _kernel(name: str, body: str) -> str:
    return f"""
.visible .entry {name}(.param .u64 {name}_in, .param .u64 {name}_out)
{{
.reg .b64 %in, %out, %cell;
.reg .b32 %thread;
ld.param.u64 %in, [{name}_in];
ld.param.u64 %out, [{name}_out];
cvta.to.global.u64 %in, %in;
cvta.to.global.u64 %out, %out;
mov.u32 %thread, %tid.x;
mul.wide.u32 %cell, %thread, 8;
add.s64 %in, %in, %cell;
add.s64 %out, %out, %cell;
{body}ret;
}}
"""


def _try(opcode: str, case: Case, index: int) -> str:
    lines = ["{"]
    for operand, kind in enumerate(case.inputs):
        lines += _load(_LETTERS[operand], kind, 8 * COUNT * pool_of(kind, operand))
    lines.append(f".reg .{_register(case.output)} %d;")
    operands = ", ".join(f"%{_LETTERS[operand]}" for operand in range(len(case.inputs)))
    lines.append(case.text or f"{opcode} %d, {operands}{case.tail};")
    lines += _store(case.output, 8 * COUNT * index)
    return "\n".join([*lines, "}", ""])


def _register(kind: str) -> str:
    if kind in ("pred", "f32", "f64"):
        return kind
    return f"b{max(16, BITS[kind])}"


def _load(name: str, kind: str, offset: int) -> list[str]:
    lines = [f".reg .{_register(kind)} %{name};"]
    if kind == "pred":
        return [*lines, f".reg .b32 %w{name};", f"ld.global.u32 %w{name}, [%in+{offset}];",
                f"and.b32 %w{name}, %w{name}, 1;", f"setp.ne.u32 %{name}, %w{name}, 0;"]  # fmt: skip
    type = kind if kind[0] == "f" else f"b{max(16, BITS[kind])}"
    return [*lines, f"ld.global.{type} %{name}, [%in+{offset}];"]


def _store(kind: str, offset: int) -> list[str]:
    if kind == "pred":
        return [".reg .b32 %wd;", "selp.b32 %wd, 1, 0, %d;", f"st.global.b32 [%out+{offset}], %wd;"]
    return [f"st.global.{kind if kind[0] == 'f' else f'b{BITS[kind]}'} [%out+{offset}], %d;"]
