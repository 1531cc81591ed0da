"""Planning of a module: runs the passes over each function, lays out memory, numbers sites and roots.

The plan is made once per module. Both the description for the machine (``Kernel``) and the code of every variant derive
from it, so they cannot disagree.
"""

from __future__ import annotations

from functools import cached_property

from msgspec.structs import replace

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.codegen.elided_records import elide_records
from cudalab.sim.compiler.codegen.plan import Plan, align
from cudalab.sim.compiler.passes import accesses as access_pass
from cudalab.sim.compiler.passes.accesses import Access, Extent
from cudalab.sim.compiler.passes.async_copies import copies_asynchronously, find_copies
from cudalab.sim.compiler.passes.compare_and_swap import loads_before_swaps
from cudalab.sim.compiler.passes.contraction import contract
from cudalab.sim.compiler.passes.control_flow import End, back_edges, build_blocks
from cudalab.sim.compiler.passes.inlining import CallGraph, inline_waiting_functions
from cudalab.sim.compiler.passes.instruction_classes import GRAPH_LAUNCH, HEAP_FUNCTIONS
from cudalab.sim.compiler.passes.liveness import find_liveness
from cudalab.sim.compiler.passes.not_a_number import find_computed
from cudalab.sim.compiler.passes.operands import registers_in
from cudalab.sim.compiler.passes.pointer_roots import Root, find_roots
from cudalab.sim.compiler.passes.polling import insert_polls, insert_waits
from cudalab.sim.compiler.passes.races import find_unordered, insert_interleaving
from cudalab.sim.compiler.passes.regions import find_points, find_regions, frame_slots
from cudalab.sim.compiler.passes.rematerialisation import find_recomputed
from cudalab.sim.compiler.passes.slow_ways import has_slow_way
from cudalab.sim.compiler.passes.stack import moves_stack, track_stack
from cudalab.sim.compiler.passes.suspension import CLUSTER_DONE, INTERLEAVE, is_poll
from cudalab.sim.compiler.passes.timing import clocks
from cudalab.sim.compiler.passes.timing.loop_work import LoopWork, find_loop_work
from cudalab.sim.compiler.program import Location, RootSource, Site
from cudalab.sim.compiler.ptx.errors import PtxError
from cudalab.sim.compiler.ptx.nodes import Function, Instruction, Module, Symbol, Variable
from cudalab.sim.compiler.semantics import semantics_of

#: Stack bytes per call of a recursive function, beside its local variables (fitted to the recursion depth of an H200
#: under several limits).
CALL_BYTES = 32


class ModulePlan:
    """Plans of all kernels and of the functions they call."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.graph = CallGraph(module)
        self.globals: list[Variable] = [
            variable for variable in module.variables.values() if variable.space in ("global", "const")
        ]
        self.global_index = {variable.name: index for index, variable in enumerate(self.globals)}
        self.plans: dict[str, Plan] = {}
        self.function_sites: list[Site] = []
        self.function_roots: list[RootSource] = []
        self.function_shared: dict[str, int] = {}
        self._function_shared_bytes = 0
        called = self.graph.called_functions()
        for name in called:
            self._lay_out_function_shared(module.functions[name])
        for name in called:
            self.plans[name] = self._plan(module.functions[name])
        for function in module.kernels:
            self.plans[function.name] = self._plan(function)

    @property
    def kernels(self) -> list[Plan]:
        return [plan for plan in self.plans.values() if plan.function.is_kernel]

    @property
    def functions(self) -> list[Plan]:
        return [plan for plan in self.plans.values() if not plan.function.is_kernel]

    @property
    def mark_shift(self) -> int:
        """log2 of the narrowest access to device memory, in bytes."""
        spaces = (Space.GENERIC, Space.GLOBAL, Space.CONSTANT)
        kinds = (SiteKind.LOAD, SiteKind.STORE, SiteKind.ATOMIC)
        sites = [*self.function_sites, *(site for plan in self.plans.values() for site in plan.sites)]
        if any(site.space is Space.TEXTURE for site in sites):
            return 0  # texels may have one byte
        sizes = [site.size for site in sites if site.space in spaces and site.kind in kinds]
        if any(copy.is_partial for plan in self.plans.values() for copy in plan.copies.values()):
            return 0
        return min((*sizes, 16)).bit_length() - 1

    def _narrowest_write(self, spaces: tuple[Space, ...]) -> int:
        kinds = (SiteKind.STORE, SiteKind.ATOMIC)
        sites = [*self.function_sites, *(site for plan in self.plans.values() for site in plan.sites)]
        sizes = [max(1, site.size) for site in sites if site.space in spaces and site.kind in kinds]
        return (min((*sizes, 16)) & -min((*sizes, 16))).bit_length() - 1

    @cached_property
    def cell_shift(self) -> int:
        """log2 of the narrowest write to device memory, in bytes: the granule of a shadow cell."""
        return self._narrowest_write((Space.GENERIC, Space.GLOBAL, Space.TEXTURE))

    @cached_property
    def shared_cell_shift(self) -> int:
        """As ``cell_shift``, for shared memory."""
        return self._narrowest_write((Space.GENERIC, Space.SHARED))

    @cached_property
    def orders_warps(self) -> bool:
        """Whether a kernel has operations that order the lanes of a warp."""
        return any(site.kind is SiteKind.WARP for plan in self.kernels for site in plan.sites)

    def reached(self, plan: Plan) -> list[Plan]:
        """The functions that a kernel may call, in the order of their sites, then the kernel itself."""
        names = set(self.graph.reached_from(plan.function.name))
        return [*(each for each in self.functions if each.function.name in names), plan]

    def kinds_of_access(self, plan: Plan) -> tuple[tuple[int, ...], int]:
        """How a kernel, with the functions that it may call, accesses each of its roots, and device memory otherwise:
        bit sets of ``1 << SiteKind``."""
        reached = self.reached(plan)
        roots, others = [0] * len(plan.root_sources), 0
        for access in (access for each in reached for access in each.accesses.values()):
            if access.extent is Extent.ROOT:
                roots[access.root] |= 1 << access.kind
            elif access.extent is Extent.SHADOW:
                others |= 1 << access.kind
        for instruction in (instruction for each in reached for instruction in each.other_sites):
            image = access_pass.describe_image(instruction)
            if image is not None and image[0] <= SiteKind.ATOMIC:
                others |= 1 << image[0]
        for end in (end for each in reached for copy in each.copies.values() for end in copy.ends):
            if end.space is not Space.SHARED:
                others |= 1 << end.kind
        return tuple(roots), others

    def read_only_roots(self, plan: Plan) -> frozenset[int]:
        """The roots that a kernel reads through the read-only data cache; -1 for pointers of unknown origin."""
        return frozenset(
            access.root
            for each in self.reached(plan)
            for access in each.accesses.values()
            if semantics_of(access.instruction.opcode).read_only
        )

    # -- one function

    def _plan(self, function: Function) -> Plan:
        """All passes over one function, in their order; ``passes/__init__.py`` lists them."""
        kernel = function.is_kernel
        parameters = {variable.name for variable in function.parameters} if kernel else set()

        # PTX in, PTX out
        rewritten = inline_waiting_functions(function, self.graph) if kernel else function
        rewritten = track_stack(rewritten)
        rewritten = contract(rewritten)

        # basic blocks
        blocks = build_blocks(rewritten)
        waits = insert_waits(rewritten, blocks) if kernel else []
        polls = insert_polls(blocks, waits) if kernel else []
        if kernel and not polls:
            insert_interleaving(blocks)
        follows_time = kernel and not polls and clocks.reads_clock(blocks)
        if follows_time:
            clocks.follow_time(rewritten, blocks)

        # values
        suspends = any(block.end is End.SUSPEND for block in blocks)
        recomputed = find_recomputed(blocks, parameters if kernel else None, wanted_in_threads=suspends)
        liveness = find_liveness(blocks, recomputed.bits())
        roots = find_roots(blocks, lambda name: self._variable(rewritten, name), parameters)
        plan = Plan(rewritten, blocks, recomputed, liveness, roots, back_edges(blocks))
        plan.set_polls(polls)
        plan.work = find_loop_work(blocks, plan.loop_edges) if kernel else LoopWork()
        plan.computed = find_computed(blocks)
        plan.follows_time = follows_time

        # memory
        _lay_out_locals(plan)
        if kernel:
            plan.parameter_offsets, plan.parameter_bytes = parameter_layout(function)
            self._lay_out_shared(plan)
            plan.root_sources = list(self.function_roots)
            plan.sites = list(self.function_sites)
        else:
            plan.shared_offsets = self.function_shared
            plan.root_sources = self.function_roots
        self._find_stack_and_heap(plan)
        plan.copies_asynchronously = self._copies_asynchronously(plan)

        # suspension points, accesses, sites
        plan.points = find_points(blocks, liveness) if kernel else []
        self._resolve(plan)
        _number_sites(plan, plan.sites if kernel else self.function_sites)
        regions = find_regions(blocks, plan.points, liveness) if kernel else []
        if find_unordered(blocks, regions) or plan.points:
            plan.regions = regions
            plan.slots = frame_slots(plan.points, rewritten.registers)
        return plan

    def _copies_asynchronously(self, plan: Plan) -> bool:
        """Whether it, or a function that the kernel calls, copies asynchronously."""
        if any(copies_asynchronously(i.opcode) for block in plan.blocks for i in block.instructions):
            return True
        return plan.function.is_kernel and any(each.copies_asynchronously for each in self.reached(plan)[:-1])

    def _find_stack_and_heap(self, plan: Plan) -> None:
        """Compute the local memory of a thread, as far as it is known statically, and whether the kernel uses the
        heap and ``printf``."""
        name = plan.function.name
        plan.recursive = name in self.graph.recursive
        if plan.recursive:
            plan.frame_size += CALL_BYTES
        if not plan.function.is_kernel:
            return
        reached = self.reached(plan)
        plan.prints = any("vprintf" in self.graph.symbols.get(each.function.name, ()) for each in reached)
        plan.uses_heap = any(HEAP_FUNCTIONS & self.graph.symbols.get(each.function.name, set()) for each in reached)
        plan.launches_graphs = any(GRAPH_LAUNCH in self.graph.symbols.get(each.function.name, ()) for each in reached)
        plan.dynamic_stack = any(each.recursive or moves_stack(each.function) for each in reached)
        plan.local_bytes = (plan.frame_size + self._stack_below(name, ()) + 15) // 16 * 16

    def _stack_below(self, name: str, above: tuple[str, ...]) -> int:
        deepest = 0
        for callee in self.graph.calls.get(name, ()):
            if callee not in self.plans:
                continue
            if callee in above:
                continue  # the depth is bounded by the device's stack limit
            deepest = max(deepest, self.plans[callee].frame_size + self._stack_below(callee, (*above, callee)))
        return deepest

    def _variable(self, function: Function, name: str) -> Variable | None:
        found = function.variables.get(name)
        return found if found is not None else self.module.variables.get(name)

    # -- memory

    def _lay_out_function_shared(self, function: Function) -> None:
        """Place the shared variables of functions: several kernels may call them, so the offsets are the same in all
        kernels."""
        for variable in self._shared_of(function):
            if variable.count and variable.name not in self.function_shared:
                offset = align(self._function_shared_bytes, variable.alignment)
                self.function_shared[variable.name] = offset
                self._function_shared_bytes = offset + variable.size

    def _shared_of(self, function: Function) -> list[Variable]:
        """Shared variables that a function declares or references."""
        found = {variable.name: variable for variable in function.variables.values() if variable.space == "shared"}
        for name in self.graph.symbols.get(function.name, ()):
            variable = self.module.variables.get(name)
            if variable is not None and variable.space == "shared":
                found.setdefault(name, variable)
        return list(found.values())

    def _lay_out_shared(self, plan: Plan) -> None:
        function = plan.function
        reached = self.graph.reached_from(function.name)
        borrowed = [v for name in reached for v in self._shared_of(self.module.functions[name])]
        size = 0
        if any(variable.name in self.function_shared for variable in borrowed):
            plan.shared_offsets.update(self.function_shared)
            size = self._function_shared_bytes
        dynamic_alignment = 0
        for variable in (*borrowed, *self._shared_of(function)):
            if not variable.count:
                plan.uses_dynamic_shared = True
                dynamic_alignment = max(dynamic_alignment, variable.alignment, 16)
            elif variable.name not in plan.shared_offsets:
                offset = align(size, variable.alignment)
                plan.shared_offsets[variable.name] = offset
                size = offset + variable.size
        plan.static_shared = align(size, dynamic_alignment) if plan.uses_dynamic_shared else size

    # -- accesses

    def _resolve(self, plan: Plan) -> None:
        """Determine the extent of each access."""
        roots: dict[RootSource, int] = {source: index for index, source in enumerate(plan.root_sources)}
        for access in access_pass.find_accesses(plan.blocks):
            plan.accesses[access.instruction] = access
            variable = None
            if isinstance(access.base, Symbol):
                variable = self._variable(plan.function, access.base.name)
                if variable is None:
                    raise PtxError(f"access to the unknown symbol {access.base.name}", access.instruction.location)
            root = access_pass.base_root(access, plan.roots, variable)
            self._choose_extent(plan, access, root, roots)
        plan.copies = find_copies(plan.blocks)
        for end in (end for copy in plan.copies.values() for end in copy.ends):
            variable = self._variable(plan.function, end.base.name) if isinstance(end.base, Symbol) else None
            self._choose_extent(plan, end, access_pass.base_root(end, plan.roots, variable), roots)
        plan.root_sources.extend(source for source in roots if source not in plan.root_sources)
        plan.groups = access_pass.find_groups(plan.blocks, plan.accesses)

    def _choose_extent(self, plan: Plan, access: Access, root: Root | None, roots: dict[RootSource, int]) -> None:
        zeros = access_pass.known_zeros(access, plan.roots)
        if access.space is Space.SHARED:
            access.extent = Extent.SHARED
        elif access.space is Space.CLUSTER:
            access.extent = Extent.CLUSTER
            return
        elif access.space is Space.LOCAL:
            access.extent = Extent.LOCAL
        elif access.space is Space.PARAM:
            access.extent, access.length = Extent.PARAMETERS, plan.parameter_bytes
            return
        aligned = zeros < 64 and access.size <= 1 << zeros or zeros >= 64
        if root is None:
            access.aligned = access.size == 1
            return
        generic = access.space is Space.GENERIC
        if root.kind == "shared" and (access.space is Space.SHARED or generic) and root.generic == generic:
            access.window = root.generic
            variable = self._variable(plan.function, root.key)
            assert variable is not None
            if variable.count:
                access.extent = Extent.VARIABLE
                access.low, access.length = plan.shared_offsets[root.key], variable.size
                access.aligned = aligned and access.low % access.size == 0
            else:
                access.extent = Extent.DYNAMIC_SHARED
                access.aligned = aligned and access.size <= 16
            if generic:
                access.space = Space.SHARED
        elif root.kind == "local" and (access.space is Space.LOCAL or generic) and root.generic == generic:
            access.window = root.generic
            access.extent = Extent.LOCAL_VARIABLE
            variable = self._variable(plan.function, root.key)
            assert variable is not None
            access.low, access.length = plan.local_offsets[root.key], variable.size
            access.aligned = aligned and access.low % access.size == 0
            if generic:
                access.space = Space.LOCAL
        elif access.space in (Space.GLOBAL, Space.GENERIC, Space.CONSTANT):
            source = self._root_source(plan, root)
            if source is None:
                return
            access.extent = Extent.ROOT
            access.root = roots.setdefault(source, len(roots))
            access.aligned = aligned
            if source.symbol:
                variable = self._variable(plan.function, root.key)
                assert variable is not None
                access.aligned = aligned and access.size <= variable.alignment
                access.read_only = access.kind is not SiteKind.LOAD and variable.space == "const"

    def _root_source(self, plan: Plan, root: Root) -> RootSource | None:
        if root.kind == "param":
            name, offset = root.key
            return RootSource(parameter_offset=plan.parameter_offsets[name] + offset)
        if root.kind in ("global", "const") and root.key in self.global_index:
            return RootSource(symbol=root.key)
        return None


def parameter_layout(function: Function) -> tuple[dict[str, int], int]:
    """Byte offsets of a kernel's parameters, each at its alignment, and their total size."""
    offsets, size = {}, 0
    for parameter in function.parameters:
        size = align(size, parameter.alignment)
        offsets[parameter.name] = size
        size += parameter.size
    return offsets, size


def _lay_out_locals(plan: Plan) -> None:
    size = 0
    for variable in plan.function.variables.values():
        if variable.space == "local":
            size = align(size, variable.alignment)
            plan.local_offsets[variable.name] = size
            size += variable.size
    plan.frame_size = align(size, 16)


def _stores_local(plan: Plan, access: Access) -> bool:
    """Whether a store puts the address of a local variable where other threads may find it."""
    if access.space in (Space.LOCAL, Space.PARAM):
        return False
    roots = [
        plan.roots.root(register) for source in access.instruction.operands[1:] for register in registers_in(source)
    ]
    return any(root is not None and root.kind == "local" and root.generic for root in roots)


_SYNCHRONISING = ("mbarrier.", "cp.async.", "st.async.", "red.async.", "barrier.cluster.", CLUSTER_DONE)


def _number_sites(plan: Plan, sites: list[Site]) -> None:
    """Append the function's sites: suspension points, accesses, calls and traps, basic blocks, exit."""
    lines = _Lines()
    before_swaps = loads_before_swaps(plan.blocks)
    plan.first_site = len(sites)
    for point in plan.points:
        opcode = point.instruction.opcode
        barrier = opcode.startswith("bar") and ".warp" not in opcode
        kind = SiteKind.POLL if is_poll(opcode) else SiteKind.BARRIER if barrier else SiteKind.WARP
        if opcode.startswith((INTERLEAVE, clocks.CONFLICTS)):
            kind = SiteKind.OTHER
        if opcode.startswith("mbarrier."):
            kind = SiteKind.SYNC
        sites.append(_site(kind, point.instruction, Space.SHARED if barrier else Space.GENERIC, 0))
    for block in plan.blocks:
        for instruction in block.instructions:
            lines.see(instruction)
            access = plan.accesses.get(instruction)
            if access is not None:
                access.site = len(sites)
                site = replace(
                    _site(access.kind, instruction, access.space, access.size),
                    used_bytes=instruction.used_bytes,
                    polled=instruction in plan.poll_sources,
                    stores_local=access.kind is SiteKind.STORE and _stores_local(plan, access),
                    checked_by_swap=instruction in before_swaps,
                )
                sites.append(lines.mend(site))
            elif (copy := plan.copies.get(instruction)) is not None:
                for end in copy.ends:
                    end.site = len(sites)
                    sites.append(lines.mend(_site(end.kind, instruction, end.space, end.width)))
            elif instruction.opcode.startswith(_SYNCHRONISING):
                plan.other_sites[instruction] = len(sites)
                sites.append(lines.mend(_site(SiteKind.SYNC, instruction, Space.SHARED, 0)))
            elif instruction.opcode.startswith(("call", "alloca", "nanosleep")):
                plan.other_sites[instruction] = len(sites)
                sites.append(lines.mend(_site(SiteKind.OTHER, instruction, Space.GENERIC, 0)))
            elif has_slow_way(instruction.opcode):
                plan.other_sites[instruction] = len(sites)
                sites.append(lines.mend(_site(SiteKind.SLOW_WAY, instruction, Space.GENERIC, 0)))
            elif instruction.opcode.startswith(("membar", "fence")):
                plan.other_sites[instruction] = len(sites)
                sites.append(lines.mend(_site(SiteKind.FENCE, instruction, Space.GENERIC, 0)))
            elif (image := access_pass.describe_image(instruction)) is not None:
                plan.other_sites[instruction] = len(sites)
                sites.append(lines.mend(_site(image[0], instruction, Space.TEXTURE, image[1])))
        if block.end is End.TRAP:
            assert block.ending is not None
            plan.other_sites[block.ending] = len(sites)
            sites.append(lines.mend(_site(SiteKind.OTHER, block.ending, Space.GENERIC, 0)))
    for block in plan.blocks:
        plan.block_sites.append(len(sites))
        first = block.instructions[0] if block.instructions else block.ending
        location = first.location if first is not None else plan.function.location
        line = first.line if first is not None else 0
        sites.append(Site(SiteKind.BLOCK, "", Space.GENERIC, 0, location, block.size, line))
    plan.exit_site = len(sites)
    sites.append(Site(SiteKind.EXIT, "exit", Space.GENERIC, 0, plan.function.location))
    plan.numbered = sites
    elide_records(plan, sites)


def _site(kind: SiteKind, instruction: Instruction, space: Space, size: int) -> Site:
    return Site(kind, instruction.opcode, space, size, instruction.location, 1, instruction.line)


class _Lines:
    """Source lines of sites: replaces line 0, which the compiler gives to instructions that it moved, by the last line
    seen."""

    def __init__(self) -> None:
        self.last: Location | None = None

    def see(self, instruction: Instruction) -> None:
        if instruction.location.line:
            self.last = instruction.location

    def mend(self, site: Site) -> Site:
        if site.location.line or self.last is None:
            return site
        return replace(site, location=self.last)


def plan_module(module: Module) -> ModulePlan:
    """The plan of ``module``."""
    return ModulePlan(module)
