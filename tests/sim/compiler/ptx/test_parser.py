"""Reading PTX: what compilers and inline assembly write, and what is wrong with the rest."""

from __future__ import annotations

import random

import pytest

from cudalab.sim.compiler import build
from cudalab.sim.compiler.ptx import Instruction, Label, PtxError, PtxSyntaxError, Register, parse_ptx
from cudalab.sim.compiler.ptx.nodes import Address, Immediate, Negated, Pair, Vector
from tests.sim.compiler.kernel_runner import HEADER, compile_cuda

_KERNEL = """.visible .entry k(.param .align 8 .b8 k_a[24], .param .u32 k_b)
.maxntid 128, 2, 1
{
.reg .pred %p<3>;
.reg .b32 %r<9>, %x;
.reg .b64 %rd<4>;
.reg .f32 %f1;
.local .align 16 .b8 depot[40];
BODY
ret;
}
"""


def _body(text: str) -> list[Label | Instruction]:
    return parse_ptx(HEADER + _KERNEL.replace("BODY", text)).functions["k"].body[:-1]


def _operands(text: str) -> tuple:  # type: ignore[type-arg]
    (instruction,) = _body(text)
    return instruction.operands


def test_an_alias_is_the_function_that_it_names() -> None:
    functions = parse_ptx(HEADER + ".func other;\n.func f\n{\nret;\n}\n.alias other, f;\n").functions
    assert functions["other"] is functions["f"]
    assert "other" not in parse_ptx(HEADER + ".alias other, missing;\n").functions


def test_kernel_declaration() -> None:
    kernel = parse_ptx(HEADER + _KERNEL.replace("BODY", "")).functions["k"]
    assert kernel.is_kernel
    assert [(p.name, p.size, p.alignment) for p in kernel.parameters] == [("k_a", 24, 8), ("k_b", 4, 4)]
    assert kernel.directives["maxntid"] == (128, 2, 1)
    assert kernel.variables["depot"].size == 40


def test_variables_and_initial_values() -> None:
    text = """
    .const .align 4 .b8 bytes[4] = {1, 0xff, 0b11, 010};
    .global .u64 pointers[3] = {generic(bytes)+2, other, 0};
    .global .f32 real = 0f3FC00000;
    .global .align 16 .v4 .f32 vector;
    .global .b32 table[2][3];
    .extern .shared .align 16 .b8 dynamic[];
    """
    variables = parse_ptx(HEADER + text).variables
    assert variables["bytes"].initial == [1, 255, 3, 8]
    assert variables["pointers"].initial == [("bytes", 2), ("other", 0), 0]
    assert variables["real"].initial[0].value == 0x3FC00000
    assert (variables["vector"].size, variables["table"].size, variables["dynamic"].count) == (16, 24, 0)


def test_guards_and_labels() -> None:
    label, first, second = _body("again: @%p1 bra again;\n@!%p2 exit;")
    assert label.name == "again"
    assert (first.guard.name, first.negated, first.opcode) == ("%p1", False, "bra")
    assert (second.guard.name, second.negated) == ("%p2", True)


@pytest.mark.parametrize(
    "literal, value, kind",
    [
        ("42", 42, "int"),
        ("-7", -7, "int"),
        ("0x1F", 31, "int"),
        ("0x8000U", 32768, "int"),
        ("017", 15, "int"),
        ("0b101", 5, "int"),
        ("0f3F800000", 0x3F800000, "f32"),
        ("0d3FF8000000000000", 0x3FF8000000000000, "f64"),
        ("1.5", 0x3FF8000000000000, "f64"),
        ("-2.5e-1", 0xBFD0000000000000, "f64"),
    ],
)
def test_literals(literal: str, value: int, kind: str) -> None:
    found = _operands(f"mov.b32 %x, {literal};")[1]
    assert isinstance(found, Immediate)
    assert (found.value, found.kind) == (value, kind)


@pytest.mark.parametrize(
    "text, base, offset",
    [
        ("[%rd1]", "%rd1", 0),
        ("[%rd1+8]", "%rd1", 8),
        ("[%rd1+-4]", "%rd1", -4),
        ("[%rd1-4]", "%rd1", -4),
        ("[depot+12]", "depot", 12),
        ("[k_b]", "k_b", 0),
        ("[64]", None, 64),
    ],
)
def test_addresses(text: str, base: str | None, offset: int) -> None:
    address = _operands(f"ld.u32 %x, {text};")[1]
    assert isinstance(address, Address)
    assert (getattr(address.base, "name", None), address.offset) == (base, offset)


def test_vectors_pairs_negations_and_discards() -> None:
    vector = _operands("ld.v2.u32 {%r1, _}, [%rd1];")[0]
    assert isinstance(vector, Vector)
    assert [str(element) for element in vector.elements] == ["%r1", "_"]
    pair, *_, last = _operands("setp.eq.and.s32 %p1|%p2, %r1, 3, !%p2;")
    assert isinstance(pair, Pair) and isinstance(last, Negated)


def test_inner_scopes_have_names_of_their_own() -> None:
    outer, inner, again = _body("mov.u32 %x, 1;\n{ .reg .b64 %x; mov.u64 %x, 2; }\nmov.u32 %x, 3;")
    assert outer.operands[0] is again.operands[0]
    assert inner.operands[0] is not outer.operands[0]
    assert inner.operands[0].type == "b64"


def test_labels_of_inner_scopes_do_not_clash() -> None:
    body = _body("{ bra over; over: mov.u32 %x, 1; }\n{ bra over; over: mov.u32 %x, 2; }\nover: mov.u32 %x, 3;")
    labels = [statement.name for statement in body if isinstance(statement, Label)]
    assert len(set(labels)) == 3
    jumps = [s.operands[0].name for s in body if isinstance(s, Instruction) and s.opcode == "bra"]
    assert jumps == labels[:2]


def test_call_with_results_and_arguments() -> None:
    text = "{ .param .b32 a; .param .b32 r; call.uni (r), helper, (a); }"
    returns, callee, arguments = _operands(text)
    assert [v.name for v in returns.elements] == ["r"]
    assert callee.name == "helper"
    assert [v.name for v in arguments.elements] == ["a"]


def test_locations_follow_loc_through_inlining() -> None:
    text = """.loc 1 5 3
    mov.u32 %x, 1;
    .loc 2 9 1, function_name $L__info_string0, inlined_at 1 6 2
    mov.u32 %x, 2;"""
    module = parse_ptx(HEADER + _KERNEL.replace("BODY", text) + '.file 1 "kernel.cu"\n.file 2 "include/part.h", 1, 2\n')
    first, second, _ = module.functions["k"].body
    assert (first.location.file, first.location.line) == ("kernel.cu", 5)
    assert (second.location.file, second.location.line) == ("include/part.h", 9)
    assert (second.location.inlined_at.file, second.location.inlined_at.line) == ("kernel.cu", 6)
    assert module.functions["k"].location.line == 5


def test_comments_and_debugging_sections_are_skipped() -> None:
    text = "/* several\nlines */ mov.u32 %x, 1; // and more\n"
    (instruction,) = _body(text)
    assert instruction.line == HEADER.count("\n") + _KERNEL[: _KERNEL.index("BODY")].count("\n") + 2
    section = '.section .debug_str\n{\n$L__info_string0:\n.b8 95,90,0\n}\n.file 1 "a.cu"\n'
    assert "k" in parse_ptx(HEADER + _KERNEL.replace("BODY", text) + section).functions


@pytest.mark.parametrize(
    "text, message",
    [
        ("mov.u32 %y, 1;", "register %y is not declared"),
        ("mov.u32 %r9, 1;", "register %r9 is not declared"),
        ("mov.u32 %x, 1", "expected ','"),
        ("mov.u32 %x, ;", "unexpected ';'"),
        (".reg .b31 %z;", "unknown register type"),
        ("@%r1 mov.u32 %x, 1;", "not a predicate"),
        ("mov.u32 %x, 0xZZ;", "expected ','|not a literal"),
        ("ld.u32 %x, [%rd1+%r1];", "expected an integer"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(text: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message) as caught:
        _body(text)
    assert caught.value.line - HEADER.count("\n") in (9, 10)  # that of the statement, or of what follows it


@pytest.mark.parametrize(
    "text, message",
    [
        ("bra nowhere;", "unknown label nowhere"),
        ("ld.global.u32 %x, [absent];", "unknown symbol absent"),
        ("mov.u64 %rd1, absent;", "symbol absent is not defined"),
        ("add.s32 %x, %x;", "add.s32 does not take the operands"),
        ("add.f32 %f1, %f1, %p1;", "not a .f32 operand"),
        ("setp.eq.and.s32 %p1, %x, 1, %x;", "not a predicate"),
        ("lop3.b32 %x, %x, %x, %x, %x;", "must be a literal"),
    ],
)
def test_what_cannot_be_translated_is_an_error(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        build.build_program(HEADER + _KERNEL.replace("BODY", text))


def test_damaged_text_never_raises_anything_else() -> None:
    source = """
    __device__ __noinline__ float f(float x, int *y) { return x + *y; }
    extern "C" __global__ void k(float *x, int n) {
        __shared__ float s[32];
        int z = n;
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        for (int i = 0; i < n; i++) x[i] = f(s[i % 32] + __shfl_xor_sync(~0u, x[i], 3), &z);
        atomicAdd(x, 1.0f);
    }"""
    ptx = compile_cuda(source)
    chance = random.Random(11)
    errors = 0
    for _ in range(300):
        text = list(ptx)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text))
            kind = chance.randrange(3)
            if kind == 0:
                del text[at : at + chance.randrange(1, 30)]
            elif kind == 1:
                text[at] = chance.choice("{}[](),;:%.@!-0x \n")
            else:
                other = chance.randrange(len(text))
                text[at:at] = text[other : other + chance.randrange(1, 30)]
        try:
            build.build_program("".join(text))
        except PtxError:
            errors += 1
    assert errors > 50


def test_registers_are_one_object_each() -> None:
    first, second = _body("mov.u32 %r1, 1;\nmov.u32 %r2, %r1;")
    assert isinstance(first.operands[0], Register)
    assert first.operands[0] is second.operands[1]
