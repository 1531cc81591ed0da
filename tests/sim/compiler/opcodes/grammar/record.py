"""Ask the assembler about every form: ``python -m tests.sim.compiler.opcodes.grammar.record``.

Needs the wheel ``nvidia-nvjitlink`` and no GPU.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from tests.sim.compiler.opcodes.grammar import answers
from tests.sim.compiler.opcodes.grammar.assembler import Assembler, accepted
from tests.sim.compiler.opcodes.grammar.forms import Form, digest, forms, head


def choices(assembler: Assembler, asked: tuple[Form, ...], architecture: str) -> np.ndarray:
    """For each form the number of the first operands that the assembler takes, from 1; 0 when it takes none."""
    found = np.zeros(len(asked), np.uint8)
    for number in range(max(len(form.operands) for form in asked)):
        pending = [i for i, form in enumerate(asked) if not found[i] and number < len(form.operands)]
        for start in range(0, len(pending), 4000):
            part = pending[start : start + 4000]
            texts = [asked[index].texts()[number] for index in part]
            for index, good in zip(part, accepted(assembler, head(architecture), texts, architecture), strict=True):
                if good:
                    found[index] = number + 1
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--architecture", nargs="*", default=list(answers.ARCHITECTURES))
    assembler = Assembler()
    asked = forms()
    recorded = {}
    for architecture in arguments.parse_args().architecture:
        recorded[architecture] = choices(assembler, asked, architecture)
        taken = Counter(form.chapter for form, choice in zip(asked, recorded[architecture], strict=True) if choice)
        print(f"{architecture}: {sum(taken.values())} of {len(asked)} forms: {dict(taken)}", flush=True)
    answers.save(recorded, digest(), assembler.version())


if __name__ == "__main__":
    main()
