"""Lexer, syntax tree and parser for PTX.

The grammar is that of the PTX ISA, as far as compilers and inline ``asm`` use it: one module of variables and functions
whose bodies are lists of labels and instructions. Debugging sections are skipped, but ``.file`` and ``.loc`` are kept,
because every fault and every counter names the learner's source line.
"""

from __future__ import annotations

from cudalab.sim.compiler.ptx.errors import PtxError, PtxSyntaxError, UnsupportedInstruction
from cudalab.sim.compiler.ptx.nodes import Function, Instruction, Label, Module, Register, Variable
from cudalab.sim.compiler.ptx.parser import parse_ptx

__all__ = [
    "Function",
    "Instruction",
    "Label",
    "Module",
    "PtxError",
    "PtxSyntaxError",
    "Register",
    "UnsupportedInstruction",
    "Variable",
    "parse_ptx",
]
