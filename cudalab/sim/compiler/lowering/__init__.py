"""Lowering of PTX instructions to LLVM IR: one module per instruction family, one row of ``TABLE`` per instruction.

Only its row defines how an instruction is lowered. ``tests/sim/compiler`` runs every row, and fails if one has no test.
Lowering writes code for one thread; instructions with side effects call ``runtime``, or raise ``NotWide`` if
``e.wide``. ``ptx.scope`` refuses unsupported opcodes by name, and ``refusal`` sets aside kernels on tensor cores.
"""

from __future__ import annotations

from cudalab.sim.compiler.lowering import (
    async_copy,
    atomic,
    atomic_vector,
    bitwise,
    clock,
    cluster,
    compare,
    control,
    convert,
    convert_narrow,
    convert_short,
    floating,
    half,
    integer,
    mbarrier,
    memory,
    move,
    texture,
    video,
    warp,
)
from cudalab.sim.compiler.ptx.table import Form, Row, Table

TABLE = Table()
for _family in (
    integer,
    bitwise,
    floating,
    compare,
    half,
    convert,
    convert_short,
    convert_narrow,
    move,
    memory,
    texture,
    atomic,
    atomic_vector,
    video,
    warp,
    cluster,
    mbarrier,
    async_copy,
    control,
    clock,
):
    TABLE.include(_family.TABLE)

__all__ = ["TABLE", "Form", "Row", "Table"]
