"""Pieces of PTX become one module: what they share, what each has for itself, and what cannot be."""

from __future__ import annotations

import pytest

from cudalab.sim.compiler import compile_ptx
from cudalab.sim.compiler.ptx import parse_ptx
from cudalab.sim.compiler.ptx.linking import DefinedTwice, link

HEAD = ".version 7.8\n.target sm_80\n.address_size 64\n"
CALLER = """.extern .func f();
.global .align 4 .u32 own = 1;
.visible .entry k() { .loc 1 5 0
 call.uni f, (); ret; }
.file 1 "caller.cu"
"""
CALLED = """.global .align 4 .u32 own = 2;
.visible .func f() { .loc 1 7 0
 ret; }
.file 1 "called.cu"
"""


@pytest.mark.parametrize("pieces", [(CALLER, CALLED), (CALLED, CALLER)])
def test_what_one_declares_the_other_defines(pieces: tuple[str, ...]) -> None:
    module = parse_ptx(link([HEAD + piece for piece in pieces]))
    assert module.functions["f"].body is not None
    assert [kernel.name for kernel in module.kernels] == ["k"]
    assert sorted(module.variables) == ["own$piece0", "own$piece1"]
    assert sorted(module.files.values()) == ["called.cu", "caller.cu"]
    assert compile_ptx(link([HEAD + piece for piece in pieces])).kernels["k"]


def test_the_newest_version_and_target_count() -> None:
    newer = HEAD.replace("7.8", "8.4").replace("sm_80", "sm_90")
    text = link([HEAD + CALLED, newer + CALLER])
    assert text.startswith(".version 8.4\n.target sm_90\n") and text.count(".version") == 1


def test_a_name_that_two_define() -> None:
    with pytest.raises(DefinedTwice, match="f is defined by two"):
        link([HEAD + CALLED, HEAD + CALLED])
    weak = CALLED.replace(".visible .func", ".weak .func")
    assert parse_ptx(link([HEAD + weak, HEAD + weak, HEAD + CALLED])).functions["f"].body is not None


def test_functions_of_the_device_runtime_are_everybody_s() -> None:
    piece = """.extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);
.visible .entry NAME() { { .param .b64 a; .param .b32 b; st.param.b64 [a], 0; st.param.b32 [b], 1;
 call.uni cudaGraphSetConditional, (a, b); } ret; }
"""
    text = link([HEAD + piece.replace("NAME", name) for name in ("one", "two")])
    assert "piece" not in text and len(parse_ptx(text).kernels) == 2
