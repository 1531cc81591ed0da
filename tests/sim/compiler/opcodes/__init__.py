"""One-instruction tests: every row of the lowering table, against the PTX ISA and against an H200.

A *case* (``case.py``) is one opcode with its operands and a model of what the PTX ISA says of it, written in Python
integers. Families of cases are modules (``integer``, ``floating`` …). Cases of a family are written into a few
kernels of one PTX module (``batch.py``); instructions that need more than registers come as whole kernels
(``kernel.py``). The same modules run on the simulated device and, by ``python -m tests.sim.compiler.opcodes.record``,
on a GPU, whose answers are kept in ``h200.npz``.
"""
