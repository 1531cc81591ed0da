"""The simulated device against what an H200 answered to the same kernels (``record`` asks it again)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.compiler.opcodes import hardware, simulated, suite, video
from tests.sim.compiler.opcodes.kernel import ANY_NAN, Kernel, Output, agrees, describe

ANSWERS, ABOUT = hardware.load()
ADVICE = "run `python -m tests.sim.compiler.opcodes.record` on a GPU"


def _recorded(family: str, whole: bool = True) -> list[Kernel]:
    return [kernel for kernel in simulated.kernels(family, whole) if kernel.recorded]


def test_the_answers_are_of_these_kernels() -> None:
    now = {kernel.name: kernel.digest for family in suite.FAMILIES for kernel in _recorded(family)}
    stale = [name for name in now if now[name] != ABOUT["digests"].get(name)]
    assert not stale, f"the H200 was asked something else: {', '.join(stale[:9])}; {ADVICE}"
    assert set(ABOUT["digests"]) == set(now) == set(ANSWERS)


def test_they_come_from_an_h200() -> None:
    assert "H200" in ABOUT["device"] and ABOUT["driver"] >= 12000 and ABOUT["date"]


def _same(output: Output, index: int, here: int, there: int) -> bool:
    """Bit for bit; approximations, and NaN payloads in double precision, within what the ISA leaves open."""
    want = output.expected[index]
    if output.tolerance is not None and want is None:
        return True
    if isinstance(want, float) or want is ANY_NAN:
        return agrees(output, here, want) and agrees(output, there, want)
    return here == there


@pytest.mark.parametrize("family", suite.FAMILIES)
@pytest.mark.parametrize(
    "whole", [pytest.param(False, id="slice"), pytest.param(True, marks=pytest.mark.long, id="whole")]
)
def test_the_simulated_device_answers_as_the_h200(family: str, whole: bool) -> None:
    outputs = simulated.outputs(family, "plain", whole)
    problems = []
    for kernel in _recorded(family, whole):
        for output, there in hardware.unpack(kernel, ANSWERS[kernel.name]):
            if output.unlike:
                continue
            here = output.take(outputs[kernel.name])[: len(there)]
            for index in np.nonzero(here != there)[0].tolist():
                if not _same(output, index, int(here[index]), int(there[index])):
                    problems.append(describe(kernel, output, index, int(here[index]), int(there[index])))
    assert not problems, f"{len(problems)} elements differ from the H200's:\n" + "\n".join(problems[:40])


def test_where_the_h200_departs_from_the_isa_is_still_so() -> None:
    """Forms of which the assembler makes something else than the ISA says; were it the same, nobody need be told."""
    departs = [
        (output.opcode, bool(np.any(np.array(output.expected[: len(there)], np.uint64) != there)))
        for family in suite.FAMILIES
        for kernel in _recorded(family)
        for output, there in hardware.unpack(kernel, ANSWERS[kernel.name])
        if output.unlike
    ]
    assert len(departs) == len(video.UNLIKE) and all(differs for _, differs in departs)
