"""From PTX instructions to LLVM IR: one module for each family, one row of ``TABLE`` for each instruction.

A row is the only place that knows an instruction. ``tests/sim/compiler`` runs every row, and fails when one has no
test.
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
