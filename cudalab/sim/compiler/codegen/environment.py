"""Execution environment of a thread's code: context fields, special registers, memory, and exits."""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim import abi
from cudalab.sim.compiler.codegen.emitter import Emitter
from cudalab.sim.compiler.codegen.plan import Plan
from cudalab.sim.compiler.codegen.unit import Unit
from cudalab.sim.compiler.passes.accesses import Access, Group
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.regions import Point, Region
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.ptx import scope
from cudalab.sim.compiler.ptx.nodes import Address, Register, Symbol
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.layout import RECORDS_AT_ONCE

#: Number of SMs, for ``%smid`` and ``%nsmid``. Blocks are assigned to them in order; a GPU guarantees no order.
_SM_COUNT = 132
#: Reserved shared memory, as on an H200: its beginning, the part in use, its end, and the beginning of the part for
#: cooperative groups.
RESERVED_OFFSETS = {
    "%reserved_smem_offset_begin": 0,
    "%reserved_smem_offset_end": 288,
    "%reserved_smem_offset_cap": abi.RESERVED_SHARED_BYTES,
    "%reserved_smem_offset_0": 0,
    "%reserved_smem_offset_1": 0,
}
_LANE_MASKS = {
    "%lanemask_eq": "{bit}",
    "%lanemask_lt": "sub i32 {bit}, 1",
    "%lanemask_le": "or i32 {bit}, {below}",
    "%lanemask_ge": "xor i32 {below}, -1",
    "%lanemask_gt": "xor i32 {upto}, -1",
}
#: Functions of the runtime object that append no record.
_SILENT = frozenset(["cl_mark", "cl_fault", *(f"cl_undo_{size}" for size in (1, 2, 4, 8, 16))])


RECORD = 16
"""Bytes of a record of the trace (``abi.Record``)."""


@dataclass
class Room:
    """Space reserved in the trace buffer for the records of one basic block, or of part of it. The lines that depend on
    the number of records are rewritten for each one."""

    lines: list[str]
    line: int
    """Index in ``lines`` of the instruction that computes the new end of the used part."""
    end: str
    failures: list[str]
    failure: int
    """Index in ``failures`` of the code for a full buffer."""
    labels: tuple[str, str]
    """Labels of that code and of the continuation."""
    spare: str
    used: str
    """The old end of the used part."""
    place: str = ""
    counter: str = ""
    """Address of the word that holds the end of the used part."""
    count: int = 0

    def expect(self) -> None:
        """Reserve space for one more record."""
        self.count += 1
        size = RECORD * self.count
        self.lines[self.line] = f"{self.end} = add i64 {self.used}, {size}"
        full, label = self.labels
        self.failures[self.failure] = (
            f"{full}:\n{self.spare} = call ptr @cl_trace_full(ptr %ctx, i64 {self.count})\n"
            f"{self.spare}.counter = getelementptr i8, ptr {self.spare}, i64 {RECORD * RECORDS_AT_ONCE}\n"
            f"br label %{label}"
        )


class ThreadEnvironment(Emitter):
    """Environment of one thread's code. Subclasses supply the frame: labels ``fault`` and ``stopped``, the exit
    (``leave``), and suspension (``suspend``)."""

    def __init__(self, unit: Unit, plan: Plan) -> None:
        super().__init__(unit, plan)
        self.failures: list[str] = []  # cold blocks, placed after the others
        self.group_bases: dict[Group, str] = {}
        self.watched = False  # in a loop that polls memory (polling.py)
        self.room: Room | None = None  # for records of this basic block
        self.to_mark: list[tuple[Access, str, int]] = []  # accesses of traced code, each with a pointer and an offset
        self.noted = False

    # -- environment

    def context_field(self, name: str, type: str) -> str:
        """A field of the context that is constant during a launch."""
        return self.cached(("context", name), Level.LAUNCH, lambda: self._load_field(name, type))

    def _load_field(self, name: str, type: str, base: str = "") -> str:
        place = self.new(f"getelementptr i8, ptr {base or self.context}, i64 {layout.field(name)}")
        return self.new(f"load {type}, ptr {place}, !invariant.load !0")

    def block_field(self, offset: int, type: str, level: Level = Level.BLOCK) -> str:
        """A field of the driver's block record."""

        def make() -> str:
            place = self.new(f"getelementptr i8, ptr {self.block}, i64 {offset}")
            return self.new(f"load {type}, ptr {place}")

        return self.cached(("block field", offset), self.level_here(level), make)

    def root_start(self, index: int) -> str:
        return self.cached(("root", index), Level.LAUNCH, lambda: self._root_word(index, 0, "ptr"))

    def root_length(self, index: int) -> str:
        return self.cached(("root length", index), Level.LAUNCH, lambda: self._root_word(index, 8, "i64"))

    def _root_word(self, index: int, offset: int, type: str) -> str:
        roots = self.context_field("roots", "ptr")
        place = self.new(f"getelementptr i8, ptr {roots}, i64 {16 * index + offset}")
        return self.new(f"load {type}, ptr {place}, !invariant.load !0")

    def parameter_word(self, offset: int) -> str:
        """Eight bytes of the parameters."""
        return self.parameter(offset, "i64")

    def parameter(self, offset: int, type: str) -> str:
        """A field of the kernel's parameters."""

        def make() -> str:
            params = self.context_field("params", "ptr")
            place = self.new(f"getelementptr i8, ptr {params}, i64 {offset}")
            return self.new(f"load {type}, ptr {place}, align 1, !invariant.load !0")

        return self.cached(("parameter", offset, type), Level.LAUNCH, make)

    def shared_base(self) -> str:
        return self.context_field("shared", "ptr")

    def dynamic_offset(self) -> str:
        """The offset of dynamic shared memory, as i64."""
        offset = self.context_field("dynamic_offset", "i32")
        return self.cached("dynamic offset", Level.LAUNCH, lambda: self.new(f"zext i32 {offset} to i64"))

    def local_base(self) -> str:
        """This thread's local memory."""

        def make() -> str:
            wide = self.new(f"zext i32 {self.thread()} to i64")
            offset = self.new(f"mul i64 {wide}, {size}")
            return self.new(f"getelementptr i8, ptr {base}, i64 {offset}")

        base = self.context_field("local", "ptr")
        size = self.context_field("local_size", "i64")
        return self.cached("local", self.level_here(Level.THREAD), make)

    def thread(self) -> str:
        """The thread's linear index in its block, i32."""
        return "%thread"

    def entry_state(self) -> str:
        """The suspension point from which this code starts, i32; 0: the thread starts."""
        return "0"

    def stack(self) -> str:
        """The offset of this activation's frame in the thread's local memory, i64."""
        return "0"

    def symbol_address(self, operand: Symbol | Address) -> str:
        name = operand.base.name if isinstance(operand, Address) else operand.name  # type: ignore[union-attr]
        offset = operand.offset if isinstance(operand, Address) else 0
        address = self._variable_address(name)
        if not offset:
            return address
        if address[0] != "%":
            return str(int(address) + offset)
        return self.new(f"add i64 {address}, {offset}")

    def _variable_address(self, name: str) -> str:
        plan = self.plan
        if name in plan.local_offsets:
            offset = plan.local_offsets[name]
            if self.stack() == "0":
                return str(offset)
            return self.new(f"add i64 {self.stack()}, {offset}") if offset else self.stack()
        if name in plan.parameter_offsets:
            return str(plan.parameter_offsets[name])
        if name in plan.shared_offsets:
            return str(plan.shared_offsets[name])
        index = self.unit.plan.global_index.get(name)
        if index is not None:

            def make() -> str:
                table = self.context_field("globals", "ptr")
                place = self.new(f"getelementptr i64, ptr {table}, i64 {index}")
                return self.new(f"load i64, ptr {place}, !invariant.load !0")

            return self.cached(("global", name), Level.LAUNCH, make)
        variable = self.unit.plan.module.variables.get(name)
        if variable is not None and variable.space == "shared":
            return self.dynamic_offset()
        if name in self.unit.plan.graph.addresses:
            return str(self.unit.plan.graph.addresses[name])
        function = self.unit.plan.module.functions.get(name)
        if function is not None and function.is_kernel:
            raise self.unsupported(scope.LAUNCHES, "<<<…>>>")
        raise self.error(f"the symbol {name} is not defined in this module; link everything into one source")

    def parameter_variable(self, name: str) -> str:
        """Memory of a parameter of a call: an array on the native stack."""
        variable = self.plan.function.variables.get(name)
        if variable is None or variable.space != "param":
            raise self.error(f"{name} is no parameter")
        kind = f"[{max(variable.size, 8)} x i8]"
        return self.cached(("parameter of a call", name), Level.LAUNCH, lambda: self.alloca(kind, 16))

    def observed(self, register: Register, value: str) -> str:
        """A float whose bits become observable: computed NaNs are canonicalised. The device's NaN is loaded from a
        variable, because LLVM may replace a constant NaN by any other and drop the select."""
        if register not in self.plan.computed:
            return value

        def make() -> str:
            self.unit.declare("cl_nan", "@cl_nan = external constant float")
            return self.new("load float, ptr @cl_nan")

        device = self.cached("nan", Level.LAUNCH, make)
        missing = self.new(f"fcmp uno float {value}, {value}")
        return self.new(f"select i1 {missing}, float {device}, float {value}")

    # -- special registers

    def special(self, name: str) -> tuple[str, int]:
        if name in ("%clock64", "%globaltimer"):
            return self.runtime(f"cl_{name[1:]}", "i64", f"ptr {self.context}"), 64
        if name in ("%clock", "%globaltimer_lo"):
            wide = self.runtime("cl_clock64" if name == "%clock" else "cl_globaltimer", "i64", f"ptr {self.context}")
            return self.new(f"trunc i64 {wide} to i32"), 32
        if name in ("%clock_hi", "%globaltimer_hi"):
            wide = self.runtime("cl_clock64" if "clock" in name else "cl_globaltimer", "i64", f"ptr {self.context}")
            return self.new(f"trunc i64 {self.new(f'lshr i64 {wide}, 32')} to i32"), 32
        if name == "%gridid":
            return "1", 64
        if name == "%current_graph_exec":
            return self.context_field("current_graph", "i64"), 64
        return self._special_word(name), 32

    def _special_word(self, name: str) -> str:
        if "." in name:
            stem, axis = name[1:].split(".")
            number = "xyz".index(axis)
            if stem == "tid":
                return self.tid(number)
            if stem == "ctaid":
                return self.block_field(layout.CTAID + 4 * number, "i32")
            if stem in ("ntid", "nctaid"):
                array = "block" if stem == "ntid" else "grid"
                return self.cached((array, number), Level.LAUNCH, lambda: self._array_word(array, number))
            return self._cluster_word(stem, number)
        if name == "%laneid":
            return self.cached("lane", self.level_here(Level.THREAD), lambda: self.new(f"and i32 {self.thread()}, 31"))
        if name == "%warpid":
            return self.cached("warp", self.level_here(Level.THREAD), lambda: self.new(f"lshr i32 {self.thread()}, 5"))
        if name in _LANE_MASKS:
            return self.cached(name, self.level_here(Level.THREAD), lambda: self._lane_mask(name))
        if name == "%nwarpid":
            return str(64)
        if name == "%smid":
            linear = self.block_field(layout.LINEAR, "i64")
            return self.new(f"trunc i64 {self.new(f'urem i64 {linear}, {_SM_COUNT}')} to i32")
        if name == "%nsmid":
            return str(_SM_COUNT)
        if name == "WARP_SZ":
            return str(abi.WARP)
        if name == "%total_smem_size":
            return self.context_field("shared_size", "i32")
        if name == "%dynamic_smem_size":
            total, offset = self.context_field("shared_size", "i32"), self.context_field("dynamic_offset", "i32")
            return self.cached(name, Level.LAUNCH, lambda: self.new(f"sub i32 {total}, {offset}"))
        if name == "%aggr_smem_size":
            return self.cached(name, Level.LAUNCH, self._all_shared)
        if name == "%is_explicit_cluster":
            return self.context_field("cluster_explicit", "i32")
        if name == "%cluster_ctarank":
            arguments = f"ptr {self.context}", f"ptr {self.block}"
            level = self.level_here(Level.BLOCK)
            return self.cached(name, level, lambda: self.runtime("cl_cluster_rank", "i32", *arguments))
        if name == "%cluster_nctarank":
            x, y, z = (self._cluster_word("cluster_nctaid", axis) for axis in range(3))
            return self.cached(name, Level.LAUNCH, lambda: self.new(f"mul i32 {self.new(f'mul i32 {x}, {y}')}, {z}"))
        if name in ("%envreg1", "%envreg2"):
            return self.cached(name, Level.LAUNCH, lambda: self._grid_workspace(upper=name == "%envreg1"))
        if name in RESERVED_OFFSETS:
            return str(abi.RESERVED_SHARED + RESERVED_OFFSETS[name])
        raise self.unsupported("this special register is not simulated", name)

    def _cluster_word(self, stem: str, number: int) -> str:
        """x, y or z of a special register of the cluster."""

        def size() -> str:
            return self.cached(("cluster_dims", number), Level.LAUNCH, lambda: self._array_word("cluster_dims", number))

        if stem == "cluster_nctaid":
            return size()
        if stem == "nclusterid":
            blocks = self._special_word(f"%nctaid.{'xyz'[number]}")
            return self.cached((stem, number), Level.LAUNCH, lambda: self.new(f"udiv i32 {blocks}, {size()}"))
        operation = {"clusterid": "udiv", "cluster_ctaid": "urem"}[stem]
        block, each = self._special_word(f"%ctaid.{'xyz'[number]}"), size()
        return self.cached(
            (stem, number), self.level_here(Level.BLOCK), lambda: self.new(f"{operation} i32 {block}, {each}")
        )

    def _grid_workspace(self, *, upper: bool) -> str:
        """Half of the address of the grid synchronisation workspace; 0 unless the launch is cooperative."""
        there = self.new(f"icmp ne i64 {self._load_field('grid_workspace', 'i64')}, 0")
        half = abi.GRID_WINDOW >> 32 if upper else abi.GRID_WINDOW & 0xFFFF_FFFF
        return self.new(f"select i1 {there}, i32 {half}, i32 0")

    def _all_shared(self) -> str:
        """The block's shared memory, with the reserved part, in whole units of 128 bytes."""
        more = self.new(f"add i32 {self._load_field('shared_size', 'i32')}, {abi.RESERVED_SHARED_BYTES + 127}")
        return self.new(f"and i32 {more}, -128")

    def _array_word(self, array: str, number: int) -> str:
        place = self.new(f"getelementptr i8, ptr {self.context}, i64 {layout.field(array) + 4 * number}")
        return self.new(f"load i32, ptr {place}, !invariant.load !0")

    def _lane_mask(self, name: str) -> str:
        lane = self._special_word("%laneid")
        bit = self.new(f"shl i32 1, {lane}")
        below = self.new(f"sub i32 {bit}, 1")
        upto = self.new(f"or i32 {bit}, {below}")
        text = _LANE_MASKS[name].format(bit=bit, below=below, upto=upto)
        return text if text[0] == "%" else self.new(text)

    def tid(self, axis: int) -> str:
        """x, y or z of the thread."""
        raise NotImplementedError

    # -- leaving

    def fault(self, kind: abi.FaultKind, site: int, address: str = "0", size: int = 0) -> None:
        """Record a fault and end the launch; the code that follows is unreachable."""
        self.runtime(
            "cl_fault",
            "void",
            f"ptr {self.context}",
            f"ptr {self.block}",
            f"i32 {self.thread()}",
            f"i32 {int(kind)}",
            f"i32 {site}",
            f"i64 {address}",
            f"i32 {size}",
        )
        self.emit("br label %fault")
        self.label(self.fresh_label("dead"))

    def record(self, site: int, address: str = "0") -> None:
        """Append a record to the trace."""
        thread = f"i32 {self.thread()}"
        self.runtime("cl_record", "void", f"ptr {self.context}", f"i64 {address}", f"i32 {site}", thread)

    def event(self, event: abi.SyncEvent, site: int, address: str = "0", number: str | int = 0) -> None:
        """Append a sync event to the trace (``abi.SyncEvent``); ``number`` is an i32, its phase or group."""
        if isinstance(number, int):
            flags = str(int(event) | (number & 0xFFF) << 4)
        else:
            flags = self.new(f"or i32 {self.new(f'shl i32 {number}, 4')}, {int(event)}")
        thread = f"i32 {self.thread()}"
        self.runtime("cl_event", "void", f"ptr {self.context}", f"i64 {address}", f"i32 {site}", thread, f"i32 {flags}")

    def leave(self) -> None:
        """Write the code of ``ret`` or ``exit`` of a kernel."""
        raise NotImplementedError

    @property
    def leaving(self) -> list[str]:
        """The epilogue of a thread: the copies that it has started complete."""
        if not self.plan.copies_asynchronously:
            return []
        return [f"call void @cl_async_exit(ptr {self.context}, i32 {self.thread()})"]

    def exit(self) -> None:
        """Write the code of ``exit``."""
        self.leave()

    def unwind(self, status: str) -> None:
        """Propagate the ``status`` of a called function that did not return normally."""
        self.emit(
            f"switch i32 {status}, label %fault [ i32 {layout.FUNCTION_STOPPED}, label %stopped "
            f"i32 {layout.FUNCTION_EXIT}, label %leave ]"
        )

    def suspend(self, block: Block) -> None:
        """Write the end of a block that ends in a suspension point."""
        raise NotImplementedError

    def leave_loops(self, block: Block) -> None:
        """Write the code for the exit from polling loops."""
        raise NotImplementedError

    def frame_word(self, offset: int) -> str:
        """The place of an 8-byte word in this thread's frame."""
        raise NotImplementedError

    def wide_pointer(self, access: Access) -> str:
        """The checked pointers of all active lanes (wide code only)."""
        raise NotImplementedError

    def runtime(self, name: str, result: str, *arguments: str) -> str:
        if name not in _SILENT:
            self.room = None
        return super().runtime(name, result, *arguments)


class WaitingEnvironment(ThreadEnvironment):
    """Environment of a region in a kernel with suspension points."""

    region: Region
    point: Point | None
    kinds: dict[int, PointKind]
    waits: list[tuple[int, str]]

    def keep_registers(self) -> None:
        """Store the live registers in the thread's frame."""
        raise NotImplementedError

    def result(self, row: int) -> str:
        """A result word (i32) that the driver stored for this lane."""
        raise NotImplementedError
