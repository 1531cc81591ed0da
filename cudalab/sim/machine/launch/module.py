"""A loaded module: its global variables in memory, its kernels as native code.

Loading allocates every ``__device__`` and ``__constant__`` variable, copies its initial value, and fills in addresses
where one variable points to another. Each module has its own variables, so loading the same source twice gives two
sets, as ``cuModuleLoad`` does. Native code is linked when a kernel is first launched in a variant.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.program import GlobalVariable, Kernel, Program, Site
from cudalab.sim.compiler.semantics import Operation
from cudalab.sim.machine.launch.configuration import Dim3, LaunchConfig, dim3
from cudalab.sim.machine.launch.limits import DeviceLimits
from cudalab.sim.machine.launch.validation import INVALID_VALUE, LaunchError, check
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.parameter_pointers import Pointers

_REMEMBERED = 1024
ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
"""``int32 run(Context *, uint64 first_block, uint64 end_block)``; ctypes releases the GIL around it."""


class MissingSymbol(KeyError):
    """A module has no kernel or variable of that name; the message lists those it has."""

    def __str__(self) -> str:
        return str(self.args[0])


class RefusedKernel(Exception):
    """A kernel that the simulated device does not execute, of a module whose other kernels it does."""


class NativeCode(Protocol):
    """Object code in memory. It stays usable while this object lives."""

    def address(self, symbol: str) -> int: ...


Linker = Callable[[Program, str], NativeCode]


def link_with_compiler(program: Program, variant: str) -> NativeCode:
    """Compile (or take from the cache) the native code of `variant` and load it into this process."""
    from cudalab.sim.compiler import native
    from cudalab.sim.compiler.loader import load

    code: NativeCode = load(native(program, variant))
    return code


class Module:
    """One program loaded into the memory of one device.

    Args:
        program: what the compiler made.
        memory: where global variables live.
        limits: what an SM and a launch of the device may hold.
        device: which device that is.
        linker: makes native code of a variant; by default the compiler's.
    """

    def __init__(
        self,
        program: Program,
        memory: Memory,
        limits: DeviceLimits,
        *,
        device: int = 0,
        linker: Linker = link_with_compiler,
    ) -> None:
        self.program = program
        self.device = device
        self.memory = memory
        self.limits = limits
        self._linker = linker
        self._native: dict[str, NativeCode] = {}
        self._kernels: dict[str, LoadedKernel] = {}
        self._addresses: dict[str, int] = {}
        for variable in program.globals.values():
            label = variable.name if variable.space != Space.CONSTANT else f"__constant__ {variable.name}"
            self._addresses[variable.name] = memory.allocate(max(1, variable.size), "global", label, device=device)
        for variable in program.globals.values():
            self._initialise(variable)
        self.global_table = (ctypes.c_uint64 * max(1, len(program.globals)))(*self._addresses.values())
        """Addresses of the variables in the order of ``Program.globals``, as compiled code reads them."""

    def _initialise(self, variable: GlobalVariable) -> None:
        address = self._addresses[variable.name]
        # A variable without an initial value starts at zero (C++ static storage), so it counts as written.
        view = self.memory.view(address, max(1, variable.size))
        view[: len(variable.initial)] = variable.initial
        for offset, symbol, addend in variable.pointers:
            target = self._addresses.get(symbol)
            if target is None:
                raise ValueError(
                    f"global variable {variable.name} holds the address of {symbol!r}, which is no global variable of "
                    "this module; addresses of functions in variables are not simulated"
                )
            struct.pack_into("<Q", view, offset, target + addend)

    def kernel(self, name: str) -> LoadedKernel:
        """A kernel by its name in the PTX, or by a name expression that the program was compiled with.

        Raises:
            MissingSymbol: no such kernel; the message lists those there are.
            RefusedKernel: it uses what is out of scope; the message is the compiler's.
        """
        lowered = self.program.lowered_names.get(name, name)
        if lowered in self.program.refused:
            raise RefusedKernel(self.program.refused[lowered])
        loaded = self._kernels.get(lowered)
        if loaded is None:
            if lowered not in self.program.kernels:
                known = ", ".join(sorted(self.program.kernels)) or "none"
                raise MissingSymbol(
                    f"the module has no kernel {name!r} (it has: {known}). C++ names are mangled: declare the kernel "
                    'extern "C", or ask for it by a name expression.'
                )
            loaded = self._kernels[lowered] = LoadedKernel(self, self.program.kernels[lowered])
        return loaded

    def global_variable(self, name: str) -> tuple[int, int]:
        """``(address, bytes)`` of a variable, by its PTX name or a name expression.

        Raises:
            MissingSymbol: no such variable; the message lists those there are.
        """
        lowered = self.program.lowered_names.get(name, name)
        lowered = self.program.lowered_names.get("&" + name, lowered) if lowered not in self._addresses else lowered
        if lowered not in self._addresses:
            known = ", ".join(sorted(n for n in self._addresses if not n.startswith("$"))) or "none"
            raise MissingSymbol(f"the module has no global variable {name!r} (it has: {known})")
        return self._addresses[lowered], self.program.globals[lowered].size

    def native(self, variant: str) -> NativeCode:
        """The linked native code of one variant: ``plain``, ``atomic`` or ``traced``."""
        code = self._native.get(variant)
        if code is None:
            code = self._native[variant] = self._linker(self.program, variant)
        return code

    def unload(self) -> None:
        """Free the module's variables. Kernels of it must not be launched any more."""
        for address in self._addresses.values():
            self.memory.free(address, where="module unloaded")
        self._addresses.clear()
        self._kernels.clear()


class LoadedKernel:
    """A kernel of a loaded module, ready to launch.

    Attributes:
        kernel: what the compiler says of it.
        max_dynamic_shared: bytes of dynamic shared memory it was opted in to, or None.
        required_cluster: what the attributes for the size of its clusters were set to; it changes no launch.
        non_portable_clusters: clusters of more than 8 blocks are allowed.
    """

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module = module
        self.kernel = kernel
        self.limits = module.limits
        self.max_dynamic_shared: int | None = None
        self.non_portable_clusters = False
        self.threads_launched = 0
        self.required_cluster = [0, 0, 0]
        self._entries: dict[str, Callable[[int, int, int], int]] = {}
        self._configurations: dict[tuple[object, ...], LaunchConfig] = {}
        self._pointers: dict[bytes, Pointers] = {}
        self.context_images: dict[tuple[object, ...], bytes] = {}
        """Copies of a workspace's context, by configuration (workspace.py)."""
        # For each root: the offset of its 8 bytes in the parameters, or ~index of its variable.
        names = list(module.program.globals)
        self.root_plan = tuple(
            root.parameter_offset if not root.symbol else ~names.index(root.symbol) for root in kernel.roots
        )
        self.pointer_offsets = tuple(
            offset
            for parameter in kernel.parameters
            if parameter.kind in ("pointer", "struct", "unknown", "integer")
            for offset in range(parameter.offset, parameter.offset + parameter.size - 7, 8)
            if offset % 8 == 0
        )
        """Where the parameters may hold addresses."""
        kinds = {site.kind for site in kernel.sites if _may_write(site.kind, site.space)}
        self.stores_global, self.updates_global = SiteKind.STORE in kinds, SiteKind.ATOMIC in kinds
        """Does it store to device memory, and change it by atomics?"""
        self.writes_global = bool(kinds)
        self.fences = any(
            site.kind is SiteKind.FENCE or (_may_write(site.kind, site.space) and site.semantics.releases)
            for site in kernel.sites
        )
        """May others learn by its atomics that its stores have been made?"""
        self.follows_pointers = any(
            site.space in (Space.GLOBAL, Space.GENERIC, Space.CONSTANT) and site.size == 8 and _loads_word(site)
            for site in kernel.sites
        )
        """It loads 8-byte integers, which may be addresses of more memory."""

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def max_cluster_blocks(self) -> int:
        """Blocks that a cluster of it may have."""
        return 16 if self.non_portable_clusters else 8

    def launch(
        self,
        grid: Sequence[int] | int,
        block: Sequence[int] | int,
        args: bytes,
        shared: int = 0,
        *,
        cluster: Sequence[int] | int | None = None,
        cooperative: bool = False,
    ) -> Launch:
        """A launch of the kernel: as for :meth:`configure`, and ``args``, the parameter buffer."""
        config = self.configure(grid, block, shared, cluster=cluster, cooperative=cooperative)
        if len(args) != self.kernel.parameter_bytes:
            raise LaunchError(
                INVALID_VALUE,
                f"kernel {self.name} takes {self.kernel.parameter_bytes} bytes of parameters (got {len(args)})",
            )
        return Launch(self, config, args)

    def configure(
        self,
        grid: Sequence[int] | int,
        block: Sequence[int] | int,
        shared: int = 0,
        *,
        cluster: Sequence[int] | int | None = None,
        cooperative: bool = False,
    ) -> LaunchConfig:
        """The configuration of a launch, remembered when it is allowed.

        Args:
            grid: blocks, one to three numbers; clusters when the kernel has ``__block_size__``.
            block: threads a block, one to three numbers; of a kernel with ``__block_size__`` 1 stands for its own.
            shared: dynamic shared memory a block, bytes.
            cluster: blocks of a cluster, one to three numbers; None: as the kernel says.
            cooperative: all blocks are resident at once.

        Raises:
            LaunchError: the device does not allow it.
            ValueError: a size has more than three numbers, or none.
        """
        grid, block = dim3(grid, "grid"), dim3(block, "block")
        cluster = dim3(cluster, "cluster") if cluster is not None else None
        key = (grid, block, shared, cluster, cooperative, self.max_dynamic_shared, self.non_portable_clusters)
        known = self._configurations.get(key)
        if known is None:
            known = self.resolve(grid, block, shared, cluster, cooperative)
            check(self.kernel, known, self.limits, self.max_dynamic_shared, self.max_cluster_blocks)
            if len(self._configurations) >= _REMEMBERED:
                self._configurations.clear()
            self._configurations[key] = known
        return known

    def resolve(self, grid: Dim3, block: Dim3, shared: int, cluster: Dim3 | None, cooperative: bool) -> LaunchConfig:
        """The configuration of a launch with what the kernel itself says of it; it need not be allowed."""
        kernel = self.kernel
        if kernel.blocks_are_clusters and kernel.cluster is not None:
            (x, y, z), (width, height, depth) = grid, kernel.cluster
            grid = (x * width, y * height, z * depth)
            if kernel.required_block is not None and block == (1, 1, 1):
                block = kernel.required_block
        return LaunchConfig(grid, block, shared, cluster or kernel.cluster, cooperative)

    def pointers(self, args: bytes) -> Pointers:
        """What the pointers in these parameters point to now."""
        known = self._pointers.get(args)
        if known is None or known.version != self.module.memory.version:
            if len(self._pointers) >= _REMEMBERED:
                self._pointers.clear()
            known = self._pointers[args] = Pointers(self, args)
        return known

    def entry(self, variant: str) -> Callable[[int, int, int], int]:
        """The native entry point of one variant."""
        function = self._entries.get(variant)
        if function is None:
            function = self._entries[variant] = ENTRY(self.module.native(variant).address(self.kernel.symbol))
        return function


class Launch(Struct, frozen=True):
    """A kernel with what it is launched with. :meth:`LoadedKernel.launch` makes it."""

    kernel: LoadedKernel
    config: LaunchConfig
    args: bytes
    """The parameter buffer, laid out by ``Kernel.parameters``."""


def _may_write(kind: int, space: Space) -> bool:
    return kind in (SiteKind.STORE, SiteKind.ATOMIC) and space in (Space.GLOBAL, Space.GENERIC, Space.TEXTURE)


def _loads_word(site: Site) -> bool:
    return site.semantics.operation in (Operation.LOAD, Operation.ATOMIC) and site.semantics.integer_word
