"""Every form of the PTX ISA that NVIDIA's assembler takes is executed, or refused by name.

``grammar`` has the forms and the assembler's answers, for the simulated device's architecture and for later ones, whose
code a simulated device of a later compute capability runs.
"""

from __future__ import annotations

import random

import pytest

from cudalab.sim.compiler.build import build_program
from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.ptx import scope
from cudalab.sim.compiler.ptx.errors import PtxError, UnsupportedInstruction
from tests.sim.compiler.opcodes import simulated, video
from tests.sim.compiler.opcodes.batch import batches
from tests.sim.compiler.opcodes.grammar import answers
from tests.sim.compiler.opcodes.grammar.forms import digest, forms, head
from tests.sim.compiler.opcodes.kernel import differences

ANSWERS, ABOUT = answers.load()
ADVICE = "run `python -m tests.sim.compiler.opcodes.grammar.record`, which needs the wheel nvidia-nvjitlink"
_AT_ONCE = 60


def taken(architecture: str) -> list[tuple[str, str, str]]:
    """Chapter, opcode and text of each form that the assembler takes."""
    pairs = zip(forms(), ANSWERS[architecture].tolist(), strict=True)
    return [(form.chapter, form.opcode, form.texts()[choice - 1]) for form, choice in pairs if choice]


def test_the_answers_are_to_these_forms() -> None:
    assert ABOUT["digest"] == digest(), ADVICE
    assert set(ANSWERS) == set(answers.ARCHITECTURES)


def test_the_assembler_has_told_right_from_wrong() -> None:
    """Some that it must take, and some that it must not."""
    own = {opcode for _, opcode, _ in taken("sm_90")}
    assert {"add.s32", "ld.b128", "atom.acquire.cta.add.v4.f32", "vadd4.u32.s32.u32.sat"} <= own
    assert not {"add.f32x2", "redux.sync.min.f32", "cvt.rn.satfinite.e2m1x2.f32", "add.sat.u32"} & own
    assert "add.f32x2" in {opcode for _, opcode, _ in taken("sm_100a")}
    assert len(own) > 9000


@pytest.mark.parametrize("architecture", answers.ARCHITECTURES)
def test_every_form_has_a_row_or_is_refused_by_name(architecture: str) -> None:
    missing = {
        opcode: text
        for _, opcode, text in taken(architecture)
        if TABLE.find(opcode) is None and not scope.refusal(opcode)
    }
    assert not missing, f"{len(missing)} forms are neither run nor refused by name: {list(missing.values())[:30]}"


def _lowered(texts: list[str], target: str) -> list[str]:
    """What cannot be translated of these instructions."""
    try:
        build_program(head(target) + "\n".join(texts) + "\nret;\n}\n")
    except PtxError as error:
        if len(texts) == 1:
            return [f"{texts[0]} ({error})"]
        half = len(texts) // 2
        return _lowered(texts[:half], target) + _lowered(texts[half:], target)
    return []


def _executed(architecture: str) -> list[str]:
    return list(dict.fromkeys(text for _, opcode, text in taken(architecture) if TABLE.find(opcode) is not None))


def test_forms_are_translated() -> None:
    """Some hundred, chosen by a seed; a long test takes all."""
    texts = random.Random(4).sample(_executed("sm_90"), 400)
    wrong = [line for n in range(0, len(texts), _AT_ONCE) for line in _lowered(texts[n : n + _AT_ONCE], "sm_90")]
    assert not wrong, f"{len(wrong)} forms: {wrong[:20]}"


@pytest.mark.long
@pytest.mark.parametrize("architecture", answers.ARCHITECTURES)
def test_all_forms_are_translated(architecture: str) -> None:
    texts = _executed(architecture)
    wrong = [line for n in range(0, len(texts), _AT_ONCE) for line in _lowered(texts[n : n + _AT_ONCE], architecture)]
    assert not wrong, f"{len(wrong)} forms: {wrong[:20]}"


REFUSED = {
    "tensor cores": [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f1, %f1, %f1}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, "
        "{%f1, %f1, %f1, %f1};",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}, [%d1], %r1;",
        "wgmma.fence.sync.aligned;",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r1, %r1, %r1}, [shared_memory];",
        "tcgen05.fence::before_thread_sync;",
    ],
    "tensor maps": [
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [shared_memory], [%d1, {%r1}], "
        "[shared_memory];",
        "prefetch.tensormap [%d1];",
    ],
    "several GPUs": ["multimem.red.relaxed.sys.global.add.u32 [%d1], %r1;"],
}


@pytest.mark.parametrize(("why", "text"), [(why, text) for why, texts in REFUSED.items() for text in texts])
def test_what_is_out_of_scope_says_so_with_its_line(why: str, text: str) -> None:
    source = head("sm_90") + f".loc 1 7 1\n{text}\nret;\n}}\n" + '.file 1 "product.cu"\n'
    with pytest.raises(UnsupportedInstruction, match=rf"product\.cu:7: .*{why}") as caught:
        build_program(source)
    assert "out of scope" in str(caught.value) and text.split()[0].rstrip(";") == caught.value.opcode


@pytest.mark.long
def test_all_video_instructions_follow_the_isa() -> None:
    kernels = batches("video_all", video.every())
    device = simulated.Device(kernels)
    problems = [line for kernel in kernels for line in differences(kernel, device.run(kernel))]
    assert not problems, "\n".join(problems[:40])
