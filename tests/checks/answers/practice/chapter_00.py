"""Wrong answers to the *Now you* cell of chapter 00."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

WRONG = table(
    "00.cube",
    Wrong("three times", (("in[i] * in[i] * in[i]", "3 * in[i]"),), "correctness", "wrong values", mistake="tripled"),
    Wrong("without the guard", (("if (i < n) ", ""),), "soundness", "out of bounds"),
)
