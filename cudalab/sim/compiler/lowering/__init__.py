"""From PTX instructions to LLVM IR: one module for each family, one row of ``TABLE`` for each instruction.

A row is the only place that knows how an instruction is lowered. ``tests/sim/compiler`` runs every row, and fails when
one has no test. Lowering writes code for one thread; what has an effect calls ``runtime``, or raises ``NotWide`` when
``e.wide``. ``ptx.scope`` refuses by name what is out of scope, and ``refusal`` sets aside kernels on tensor cores.
"""

from __future__ import annotations

from cudalab.sim.compiler.lowering import (
    async_copy,
    atomic,
    atomic_vector,
    bitwise,
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
):
    TABLE.include(_family.TABLE)

__all__ = ["TABLE", "Form", "Row", "Table"]
