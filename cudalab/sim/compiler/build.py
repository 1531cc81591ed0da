"""The back half of the compiler: PTX in, description and object code out.

``build_program`` describes the kernels for the machine, ``generate`` makes their native code. Both rest on the same
plan of the module (``codegen.analysis``), so sites, roots and frames agree.
"""

from __future__ import annotations

import hashlib
import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from cudalab.sim.abi import Space
from cudalab.sim.compiler.codegen.analysis import ModulePlan, plan_module
from cudalab.sim.compiler.codegen.device import DeviceFunction
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.region import write_waiting_kernel
from cudalab.sim.compiler.codegen.simple import SimpleKernel
from cudalab.sim.compiler.codegen.unit import Unit
from cudalab.sim.compiler.codegen.wide.code import WIDE_VARIANTS, looks_wide
from cudalab.sim.compiler.codegen.wide_kernels import wide_regions, wide_simple
from cudalab.sim.compiler.loader import bundle
from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.lowering.refusal import set_aside
from cudalab.sim.compiler.object_code import InvalidCode, compile_object
from cudalab.sim.compiler.passes.data_dependence import is_steady
from cudalab.sim.compiler.passes.regions import Point
from cudalab.sim.compiler.passes.suspension import PREREQUISITE_WAIT, TRIGGER, is_poll
from cudalab.sim.compiler.passes.timing.longest_path import longest_path
from cudalab.sim.compiler.passes.timing.loop_work import find_rounds
from cudalab.sim.compiler.passes.timing.timed_code import time_code
from cudalab.sim.compiler.program import (
    VARIANTS,
    GlobalVariable,
    InvalidWideCode,
    Kernel,
    Parameter,
    Program,
    Resources,
    Site,
)
from cudalab.sim.compiler.ptx.errors import PtxError
from cudalab.sim.compiler.ptx.nodes import Function, Immediate, Module, Special, Variable
from cudalab.sim.compiler.ptx.parser import parse_ptx
from cudalab.sim.compiler.runtime import (
    barriers,
    cluster,
    collectives,
    driver,
    faults,
    marks,
    mbarrier_waits,
    narrow,
    race,
    records,
    rounding,
    skipping,
    states,
    undefined_values,
)
from cudalab.sim.compiler.runtime.assembler import Library
from cudalab.sim.compiler.semantics import Scope

_MOST_THREADS = 1024
_GRID_REGISTERS = ("%envreg1", "%envreg2")  # the address of the workspace for grid synchronisation
_planned: dict[str, tuple[ModulePlan, dict[str, str]]] = {}


@contextmanager
def _understood() -> Iterator[None]:
    """PTX that no compiler writes can break any assumption; that is an error of the PTX."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PtxError(f"this PTX cannot be translated ({type(error).__name__}: {error})") from error


def plan_of(ptx: str | Module) -> ModulePlan:
    """The plan of a module, without kernels that are refused; the last few are remembered by their text."""
    return _understand(ptx)[0]


def _understand(ptx: str | Module) -> tuple[ModulePlan, dict[str, str]]:
    """The plan of a module, and why the kernels that are left out of it are refused."""
    text = ptx.text if isinstance(ptx, Module) else ptx
    key = hashlib.sha256(text.encode()).hexdigest()
    if key not in _planned:
        if len(_planned) >= 8:
            _planned.pop(next(iter(_planned)))
        with _understood():
            module, refused = set_aside(ptx if isinstance(ptx, Module) else parse_ptx(ptx))
            _planned[key] = plan_module(module), refused
    return _planned[key]


def build_program(
    ptx: str | Module,
    source: str = "",
    log: str = "",
    lowered_names: Mapping[str, str] | None = None,
    signatures: Mapping[str, tuple[Parameter, ...]] | None = None,
    resources: Mapping[str, Resources] | None = None,
) -> Program:
    """Describe a module for the machine.

    Args:
        ptx: the module, parsed or as text.
        source: the CUDA C++ it came from.
        log: what the compilers said.
        lowered_names: name expression → PTX name.
        signatures: parameters of each kernel as its C++ declaration spells them; without them the PTX is all there is.
        resources: what ptxas said of each kernel.

    Raises:
        PtxError: PTX that is not valid or not in the scope of the simulated device.
    """
    plan, refused = _understand(ptx)
    with _understood():
        generate_text(plan, "plain")  # whatever is out of scope is reported here, not at the first launch
    kernels = {}
    for each in plan.kernels:
        name = each.function.name
        kernels[name] = _kernel(plan, each, (signatures or {}).get(name), (resources or {}).get(name))
    text = plan.module.text
    return Program(
        source=source,
        ptx=text,
        log=log,
        kernels=kernels,
        globals={variable.name: _global(variable, plan.graph.addresses) for variable in plan.globals},
        lowered_names=dict(lowered_names or {}),
        key=hashlib.sha256(text.encode()).hexdigest(),
        refused=refused,
    )


def _kernel(
    module: ModulePlan, plan: Plan, signature: tuple[Parameter, ...] | None, resources: Resources | None
) -> Kernel:
    function = plan.function
    threads = _MOST_THREADS
    for directive in ("maxntid", "reqntid"):
        if directive in function.directives:
            x, y, z = (*function.directives[directive], 1, 1)[:3]
            threads = min(_MOST_THREADS, x * y * z)
    parameters = _parameters(plan, signature)
    root_kinds, other_kinds = module.kinds_of_access(plan)
    reached = module.reached(plan)
    sites = [site for each in reached for site in each.own_sites]
    publishes = any(site.semantics.publishes for site in sites)
    return Kernel(
        name=function.name,
        parameters=parameters,
        resources=resources,
        parameter_bytes=plan.parameter_bytes,
        static_shared=plan.static_shared,
        local_bytes=plan.local_bytes,
        frame_bytes=plan.frame_bytes,
        scratch_bytes=plan.scratch_bytes,
        roots=tuple(plan.root_sources),
        sites=tuple(plan.sites),
        max_threads=threads,
        uses_dynamic_shared=plan.uses_dynamic_shared,
        location=function.location,
        interleaves=plan.interleaves,
        follows_time=plan.follows_time,
        poll_points=tuple(sorted(point.number for point in plan.points if _polls_memory(point))),
        waits_for_prerequisite=any(map(_for_kernel, plan.points)),
        triggers_dependents=any(
            i.opcode == TRIGGER for each in reached for block in each.blocks for i in block.instructions
        ),
        cluster=_triple(function, "reqnctapercluster"),
        blocks_are_clusters="blocksareclusters" in function.directives,
        required_block=_triple(function, "reqntid"),
        waits_for_cluster=plan.waits_for_cluster,
        synchronises_grid=_reads(reached, _GRID_REGISTERS),
        mark_shift=module.mark_shift,
        first_point=plan.first_site,
        points=len(plan.points),
        cell_shift=module.cell_shift,
        shared_cell_shift=module.shared_cell_shift,
        root_kinds=root_kinds,
        read_only_roots=module.read_only_roots(plan),
        other_kinds=other_kinds,
        wide=looks_wide(plan),
        dynamic_stack=plan.dynamic_stack,
        uses_heap=plan.uses_heap,
        launches_graphs=plan.launches_graphs,
        undefined_words=plan.undefined_words,
        longest_path=longest_path(plan.blocks),
        rounds=find_rounds(plan.blocks, plan.loop_edges),
        steady=is_steady(plan.blocks),
        publishes=publishes,
        orders_accesses=publishes or any(_orders(site) for site in sites),
        timed=time_code([(each.blocks, each.block_sites) for each in reached]),
    )


def _for_kernel(point: Point) -> bool:
    """Whether threads wait there for the kernel before theirs."""
    return point.instruction.opcode == PREREQUISITE_WAIT


def _polls_memory(point: Point) -> bool:
    """Whether threads wait there for memory to change, or for their cluster."""
    return is_poll(point.instruction.opcode) and not _for_kernel(point)


def _orders(site: Site) -> bool:
    """A strong access, or a fence, of memory that others than the block reach."""
    semantics = site.semantics
    strong = semantics.strong or semantics.scope is Scope.SYSTEM
    return strong and site.space in (Space.GLOBAL, Space.GENERIC)


def _triple(function: Function, directive: str) -> tuple[int, int, int] | None:
    """The three numbers of a directive, or None."""
    numbers = function.directives.get(directive)
    if numbers is None:
        return None
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _reads(plans: Sequence[Plan], registers: tuple[str, ...]) -> bool:
    """Does one of these functions read one of these special registers?"""
    return any(
        type(operand) is Special and operand.name in registers
        for each in plans
        for block in each.blocks
        for instruction in block.instructions
        for operand in instruction.operands
    )


def _parameters(plan: Plan, signature: tuple[Parameter, ...] | None) -> tuple[Parameter, ...]:
    declared = plan.function.parameters
    if signature is not None and len(signature) == len(declared):
        return tuple(signature)
    found = []
    for index, variable in enumerate(declared):
        kind = "struct" if variable.count > 1 else "float" if variable.type[0] == "f" else "unknown"
        offset = plan.parameter_offsets[variable.name]
        found.append(Parameter(index, f"parameter {index + 1}", "", kind, variable.size, variable.alignment, offset))
    return tuple(found)


def _global(variable: Variable, functions: Mapping[str, int]) -> GlobalVariable:
    """A module variable with its initial bytes; addresses of variables in it are filled in by the machine, those of
    functions are known."""
    if variable.external:
        raise PtxError(f"the variable {variable.name} is declared extern and defined in no module")
    data = bytearray()
    pointers: list[tuple[int, str, int]] = []
    width = variable.element_bytes
    for value in variable.initial:
        if isinstance(value, tuple) and value[0] in functions:
            data += (functions[value[0]] + value[1]).to_bytes(width, "little")
        elif isinstance(value, tuple):
            pointers.append((len(data), value[0], value[1]))
            data += bytes(width)
        elif isinstance(value, Immediate):
            data += _float_bytes(value, width)
        else:
            data += (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    space = Space.CONSTANT if variable.space == "const" else Space.GLOBAL
    initial = bytes(data) + bytes(variable.size - len(data)) if any(data) or pointers else b""
    return GlobalVariable(variable.name, variable.size, variable.alignment, space, initial, tuple(pointers))


def _float_bytes(value: Immediate, width: int) -> bytes:
    if value.kind == "f64" and width == 4:
        (number,) = struct.unpack("<d", value.value.to_bytes(8, "little"))
        return struct.pack("<f", number)
    return value.value.to_bytes(8, "little")[:width]


def generate_text(plan: ModulePlan, variant: str, wide: bool = False) -> str:
    """The LLVM IR of one variant; ``wide``: with code for several threads at once where there is such a form."""
    if variant not in VARIANTS:
        raise ValueError(f"variant is one of {', '.join(VARIANTS)} (got {variant!r})")
    unit = Unit(plan, variant, TABLE)
    for function in plan.functions:
        unit.functions.append(DeviceFunction(unit, function).write())
    for kernel in plan.kernels:
        if kernel.regions:
            write_waiting_kernel(unit, kernel, wide_regions(unit, kernel) if wide else {})
        else:
            unit.functions.append(SimpleKernel(unit, kernel).write(wide_simple(unit, kernel) if wide else None))
    return unit.text()


def generate(ptx: str | Module, variant: str) -> bytes:
    """Native code of a module for this machine, with an entry point ``run_NAME`` for each kernel.

    Args:
        ptx: the module, parsed or as text.
        variant: one of ``VARIANTS``.

    Returns:
        Bytes for :func:`cudalab.sim.compiler.loader.load`.

    Raises:
        PtxError: PTX that is not valid or not in scope.
    """
    entries, code = module_object(ptx, variant)
    return bundle(entries, runtime_object(), code)


_LEVELS = {"traced": "little", "sanitize_trace": "little", "sanitize": "long", "sanitize_shuffled": "long"}
"""How far LLVM optimises what does not run in full: every access of checked code is a call of the runtime, so that
registers chosen with care save it nothing, and choosing them takes three quarters of the compiler's time."""


def module_object(ptx: str | Module, variant: str) -> tuple[list[str], bytes]:
    """The entry points and the object code of a module, as in :func:`generate`, without the runtime object."""
    plan = plan_of(ptx)
    level = _LEVELS.get(variant, "kernel")
    entries = [f"run_{kernel.function.name}" for kernel in plan.kernels]
    return entries, _object(plan, variant, level)


def _object(plan: ModulePlan, variant: str, level: str) -> bytes:
    if variant in WIDE_VARIANTS:
        try:
            return compile_object(generate_text(plan, variant, wide=True), optimise=level, verify=True)
        except InvalidCode as error:
            names = ", ".join(kernel.function.name for kernel in plan.kernels)
            text = f"cudalab wrote invalid wide code for {names}, which runs one thread at a time instead: {error}"
            warnings.warn(text.strip(), InvalidWideCode, stacklevel=3)
    return compile_object(generate_text(plan, variant), optimise=level)


def runtime_text() -> str:
    """The LLVM IR of the runtime object."""
    library = Library()
    parts = (
        faults,
        marks,
        records,
        collectives,
        states,
        barriers,
        cluster,
        mbarrier_waits,
        driver,
        rounding,
        narrow,
        race,
        skipping,
        undefined_values,
    )
    for part in parts:
        part.write(library)
    return library.text()


@cache
def runtime_object() -> bytes:
    """The block driver and what else compiled kernels call; made once in a process."""
    return compile_object(runtime_text(), optimise="runtime")
