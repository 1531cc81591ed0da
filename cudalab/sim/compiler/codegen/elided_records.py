"""Elision of trace records that can be derived from another record.

Accesses of a basic block through the same pointer value are at constant distances from each other, and a thread that
performs an access has entered its block: ``Site.behind`` names the site whose record stands for them, and
``machine/trace/elided_records.py`` restores them. Sanitized code writes every record, because the sanitizer depends on
their exact order.
"""

from __future__ import annotations

from msgspec.structs import replace

from cudalab.sim.abi import Space
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.program import Site
from cudalab.sim.compiler.ptx.nodes import Instruction


def elide_records(plan: Plan, sites: list[Site]) -> None:
    """Mark in ``sites`` the accesses and basic blocks whose records are elided."""
    for block in plan.blocks:
        if block.index in plan.polling_blocks or block.leaves:
            continue
        for group in dict.fromkeys(plan.groups[i] for i in block.instructions if i in plan.groups):
            first, *others = group.members
            for access in others if first.space is not Space.PARAM else ():
                distance = access.offset - first.offset
                sites[access.site] = replace(sites[access.site], behind=first.site, distance=distance)
        first_record = _first_record(plan, block)
        if first_record >= 0 and block.size:
            index = plan.block_sites[block.index]
            sites[index] = replace(sites[index], behind=first_record)


def _first_record(plan: Plan, block: Block) -> int:
    """The site of the access that writes the first record of a basic block; -1 if that is not certain."""
    for instruction in block.instructions:
        access = plan.accesses.get(instruction)
        if access is not None and access.space is not Space.PARAM:
            return access.site if not access.read_only else -1
        if disturbs(plan, instruction):
            return -1
    return -1


def disturbs(plan: Plan, instruction: Instruction) -> bool:
    """Whether an instruction may append records out of line, or not complete."""
    opcode = instruction.opcode
    return (
        instruction in plan.other_sites
        or instruction in plan.copies
        or "async" in opcode
        or opcode.startswith(("call", "bar", "mbarrier"))
    )
