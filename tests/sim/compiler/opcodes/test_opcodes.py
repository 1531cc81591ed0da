"""Every instruction on the simulated device against the model of the PTX ISA, whole arrays."""

from __future__ import annotations

import pytest

from cudalab.sim.compiler.passes.flushing import flushes_in_hardware, has_mode
from cudalab.sim.compiler.ptx.parser import parse_ptx
from tests.sim.compiler.opcodes import control, convert, floating, simulated, suite
from tests.sim.compiler.opcodes.batch import batches
from tests.sim.compiler.opcodes.kernel import Kernel, differences, module_text

whole_or_slice = pytest.mark.parametrize(
    "whole", [pytest.param(False, id="slice"), pytest.param(True, marks=pytest.mark.long, id="whole")]
)


def _report(problems: list[str]) -> str:
    return f"{len(problems)} elements differ:\n" + "\n".join(problems[:40])


def _check(family: str, variant: str, whole: bool) -> None:
    outputs = simulated.outputs(family, variant, whole)
    kernels = simulated.kernels(family, whole)
    problems = [line for kernel in kernels for line in differences(kernel, outputs[kernel.name])]
    assert not problems, _report(problems)


@pytest.mark.parametrize("family", suite.FAMILIES)
@whole_or_slice
def test_instructions_follow_the_isa(family: str, whole: bool) -> None:
    _check(family, "plain", whole)


@pytest.mark.parametrize("variant", [pytest.param("atomic", marks=pytest.mark.long), "traced"])
@pytest.mark.parametrize("family", suite.ALL_VARIANTS)
@whole_or_slice
def test_instructions_follow_the_isa_in_other_variants(family: str, variant: str, whole: bool) -> None:
    _check(family, variant, whole)


def test_a_module_that_flushes_everywhere_uses_the_processor_where_it_can() -> None:
    assert flushes_in_hardware(parse_ptx(module_text(suite.kernels("flushing")))) == has_mode()


@pytest.mark.parametrize("opcode", ["add.f32", "cvt.rpi.f32.f32", "cvt.rmi.s32.f32", "cvt.sat.f32.f32", "cvt.f64.f32"])
def test_one_instruction_that_needs_subnormals_keeps_the_processor_from_flushing(opcode: str) -> None:
    """Beside one that flushes, it still sees the subnormal."""
    flushing = [case for case in floating.cases() if case.opcode == "add.ftz.f32"]
    needs = [case for case in (*floating.cases(), *convert.cases()) if case.opcode == opcode and not case.body]
    kernels = batches("mixed", [*flushing, *needs])
    device = simulated.Device(kernels)
    problems = [line for kernel in kernels for line in differences(kernel, device.run(kernel))]
    assert not problems, _report(problems)


@pytest.mark.parametrize("kernel", control.stopping(), ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("variant", ["plain", "traced"])
def test_a_trap_ends_the_launch(kernel: Kernel, variant: str) -> None:
    outcome, _ = simulated.Device([kernel]).launch(kernel, variant)
    assert outcome.fault is not None
    assert outcome.fault.block == (0, 0, 0) and outcome.fault.thread == (70, 0, 0)
