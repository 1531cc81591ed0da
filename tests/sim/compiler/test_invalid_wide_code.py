"""Wide code that LLVM does not accept is a mistake that shows, though the kernel runs: as a warning, an error here."""

from __future__ import annotations

from typing import Any

import pytest

from cudalab.sim.compiler import build, cache, compile_ptx, translation
from cudalab.sim.compiler.object_code import lanes_of_host
from cudalab.sim.compiler.processes import helper
from cudalab.sim.compiler.processes.messages import Limits, Native, ObjectCode, Order
from cudalab.sim.compiler.processes.worker import Worker
from cudalab.sim.compiler.program import InvalidWideCode

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a)
{
ret;
}
"""
BROKEN = "define void @unfinished( {"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    right = build.generate_text
    monkeypatch.setattr(
        build, "generate_text", lambda plan, variant, wide=False: BROKEN if wide else right(plan, variant)
    )


def test_it_is_a_warning_and_the_other_form_takes_its_place(broken: None) -> None:
    with pytest.warns(InvalidWideCode, match="invalid wide code for k, which runs one thread at a time instead"):
        code = build.generate(PTX, "wide")
    assert code


def test_nothing_is_swallowed(broken: None) -> None:
    with pytest.raises(InvalidWideCode):
        build.generate(PTX, "wide")


def test_a_value_without_definition_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "define i32 @f(i1 %c) {\nbr i1 %c, label %a, label %b\na:\n%x = add i32 1, 2\nbr label %b\nb:\nret i32 %x\n}"
    monkeypatch.setattr(build, "generate_text", lambda plan, variant, wide=False: text)
    with pytest.raises(InvalidWideCode, match="dominate"):
        build.generate(PTX, "wide")


def test_the_helper_process_passes_it_on(broken: None) -> None:
    # in this process, whose address space no limit may bound: it would hold for every test that comes after
    reply = Worker("", []).answer(Order(Native(PTX, "wide"), Limits(memory=0)))
    assert isinstance(reply, ObjectCode)
    assert "invalid wide code for k" in reply.invalid[0]
    assert reply.code and reply.entries == ["run_k"]


def test_the_learner_is_told_in_each_session(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_ptx(PTX)
    program.objects.pop("wide", None)
    kept: list[object] = []

    def call(*arguments: Any, **options: Any) -> ObjectCode:
        return ObjectCode(b"code", ["run_k"], ["invalid wide code for k"])

    monkeypatch.setattr(helper, "call", call)
    monkeypatch.setattr(cache, "load", lambda *rest: None)
    monkeypatch.setattr(cache, "store", lambda *rest: kept.append(rest))
    with pytest.warns(InvalidWideCode, match="invalid wide code for k"):
        translation._object_code(cache.key("entry"), Native(PTX, "wide"), None, program)
    assert kept == []


@pytest.mark.skipif(lanes_of_host() == 0, reason="this processor's vectors are too short")
def test_valid_wide_code_warns_of_nothing() -> None:
    assert "wide.start:" in build.generate_text(build.plan_of(PTX), "wide", wide=True)
    assert build.generate(PTX, "wide")
