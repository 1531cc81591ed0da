"""The skeleton of a kernel without suspension points: a loop over blocks around a loop over threads, the body inlined.

Threads run one after the other, x fastest. Counters for x, y and z avoid a division per thread. Traced code runs
threads in the order of ``context.thread_order`` if it is set.
"""

from __future__ import annotations

from cudalab.sim.compiler.codegen import work
from cudalab.sim.compiler.codegen.threads import ThreadCode
from cudalab.sim.compiler.codegen.wide.part import WidePart
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.runtime import layout


class SimpleKernel(ThreadCode):
    """Writes ``run_NAME`` for a kernel without suspension points."""

    def level_here(self, level: Level) -> Level:
        return Level.THREAD if level is Level.ROW and self.unit.shuffles else level

    def tid(self, axis: int) -> str:
        return ("%x", "%y", "%z")[axis]

    def block_field(self, offset: int, type: str, level: Level = Level.BLOCK) -> str:
        axis = (offset - layout.CTAID) // 4
        return "%linear" if offset == layout.LINEAR else ("%cx", "%cy", "%cz")[axis]

    def leave(self) -> None:
        if self.unit.traced:
            self.record(self.plan.exit_site)
        self.emit("br label %leave")

    def write(self, wide: WidePart | None = None) -> str:
        """The function's text; ``wide``: the code for groups of neighbouring threads."""
        self.write_blocks([block.index for block in self.plan.blocks])
        slots = work.begin_launch(self)
        loops = self._shuffled_loop() if self.unit.shuffles else self._nested_loops(wide)
        head = self._block_loop()  # both may add to the prologues
        allocas = [*self.allocas, *(wide.allocas if wide else ())]
        allocas.append(f"%blk = alloca [{layout.BLOCK_BYTES} x i8], align 8")
        prologue = self.prologues[Level.LAUNCH]
        done, stop, order = layout.field("blocks_done"), layout.field("stop"), layout.field("block_order")
        name = self.plan.function.name
        lines = [
            f"{self.unit.entry(name)}(ptr noalias %ctx, i64 %first, i64 %end) {self.unit.attributes} {{",
            "entry:",
            *allocas,
            *prologue,
            *slots,
            *(wide.launch if wide else ()),
            f"%done.at = getelementptr i8, ptr %ctx, i64 {done}",
            f"%stop.at = getelementptr i8, ptr %ctx, i64 {stop}",
            f"%order.at = getelementptr i8, ptr %ctx, i64 {order}",
            "%order = load ptr, ptr %order.at",
            "%shuffled = icmp ne ptr %order, null",
            "br label %blocks",
            *head,
            *self._begin_block(),
            *self.prologues[Level.BLOCK],
            *(wide.block if wide else ()),
            *loops,
            *self.body,
            *self.failures,
            *(_side_by_side(wide, self._special_word("%ntid.x")) if wide else ()),
            "fault:",
            "ret i32 1",
            "stopped:",
            "ret i32 2",
            "}",
        ]
        return "\n".join(lines)

    def _begin_block(self) -> list[str]:
        """Notify the shadow cells that a block begins."""
        if not self.unit.shadowed:
            return []
        self.unit.declare("cl_race_block", "declare void @cl_race_block(ptr, ptr) nounwind")
        return ["call void @cl_race_block(ptr %ctx, ptr %blk)"]

    def _block_loop(self) -> list[str]:
        gx, gy = self._special_word("%nctaid.x"), self._special_word("%nctaid.y")
        return [
            "blocks:",
            "%b = phi i64 [ %first, %entry ], [ %b.next, %block.done ]",
            "%more = icmp ult i64 %b, %end",
            "br i1 %more, label %block.start, label %finished",
            "finished:",
            "ret i32 0",
            "block.start:",
            "%stop = load volatile i32, ptr %stop.at",
            "%halt = icmp ne i32 %stop, 0",
            "br i1 %halt, label %stopped, label %block.number, !prof !2",
            "block.number:",
            "br i1 %shuffled, label %block.lookup, label %block",
            "block.lookup:",
            "%b.at = getelementptr i64, ptr %order, i64 %b",
            "%b.looked = load i64, ptr %b.at",
            "br label %block",
            "block:",
            "%linear = phi i64 [ %b, %block.number ], [ %b.looked, %block.lookup ]",
            f"%gx.wide = zext i32 {gx} to i64",
            f"%gy.wide = zext i32 {gy} to i64",
            "%above.x = udiv i64 %linear, %gx.wide",
            "%left.x = mul i64 %above.x, %gx.wide",
            "%cx.wide = sub i64 %linear, %left.x",
            "%cx = trunc i64 %cx.wide to i32",
            "%cz.wide = udiv i64 %above.x, %gy.wide",
            "%left.y = mul i64 %cz.wide, %gy.wide",
            "%cy.wide = sub i64 %above.x, %left.y",
            "%cy = trunc i64 %cy.wide to i32",
            "%cz = trunc i64 %cz.wide to i32",
            "store i64 %linear, ptr %blk",
            f"%parameters.at = getelementptr i8, ptr %blk, i64 {layout.PARAMETER_BYTES}",
            f"store i64 {self.plan.parameter_bytes}, ptr %parameters.at",
            *[
                line
                for number, axis in enumerate("xyz")
                for line in (
                    f"%c{axis}.at = getelementptr i8, ptr %blk, i64 {layout.CTAID + 4 * number}",
                    f"store i32 %c{axis}, ptr %c{axis}.at",
                )
            ],
        ]

    def _count(self, position: str, following: str) -> list[str]:
        """Keep the work of a thread."""
        if not work.counts_work(self):
            return []
        threads = self.context_field("threads", "i32")
        lines = work.end_thread(self, "%thread", following, threads, "%linear")
        return [f"{following} = add i32 {position}, 1", *lines]

    def _block_done(self) -> list[str]:
        return [
            "block.done:",
            "%done = load i64, ptr %done.at",
            "%done.next = add i64 %done, 1",
            "store volatile i64 %done.next, ptr %done.at",
            "%b.next = add i64 %b, 1",
            "br label %blocks",
        ]

    def _nested_loops(self, wide: WidePart | None) -> list[str]:
        """Loops over z, y and x. Threads of a row before ``%until`` run one by one."""
        nx, ny, nz = (self._special_word(f"%ntid.{axis}") for axis in "xyz")
        if wide is None:
            head = ["%x = phi i32 [ 0, %row ], [ %x.next, %leave ]"]
        else:
            head = [
                "%x = phi i32 [ 0, %row ], [ %x.next, %leave ], [ %wide.next, %wide.latch ], [ %x, %wide.again ]",
                "%until = phi i32 [ 0, %row ], [ %until, %leave ], [ 0, %wide.latch ], [ %wide.until, %wide.again ]",
                "%free = icmp uge i32 %x, %until",
                f"%side = and i1 %free, {wide.fits}",
                "br i1 %side, label %wide.start, label %thread.one",
                "thread.one:",
            ]
        return [
            "br label %row",
            "row:",
            "%y = phi i32 [ 0, %block ], [ %y.following, %row.next ]",
            "%z = phi i32 [ 0, %block ], [ %z.following, %row.next ]",
            "%row.first = phi i32 [ 0, %block ], [ %thread.next, %row.next ]",
            *self.prologues[Level.ROW],
            *(wide.row if wide else ()),
            "br label %thread.start",
            "thread.start:",
            *head,
            "%thread = add nuw nsw i32 %row.first, %x",
            *self.prologues[Level.THREAD],
            *work.begin_thread(self),
            "br label %b0",
            "leave:",
            *self.leaving,
            *self._count("%thread", "%thread.after"),
            "%x.next = add nuw nsw i32 %x, 1",
            f"%x.more = icmp ult i32 %x.next, {nx}",
            "br i1 %x.more, label %thread.start, label %row.next",
            "row.next:",
            f"%thread.next = add nuw nsw i32 %row.first, {nx}",
            "%y.next = add nuw nsw i32 %y, 1",
            f"%y.wrap = icmp uge i32 %y.next, {ny}",
            "%z.next = add nuw nsw i32 %z, 1",
            "%y.following = select i1 %y.wrap, i32 0, i32 %y.next",
            "%z.following = select i1 %y.wrap, i32 %z.next, i32 %z",
            f"%z.more = icmp ult i32 %z.following, {nz}",
            "br i1 %z.more, label %row, label %block.done",
            *self._block_done(),
        ]

    def _shuffled_loop(self) -> list[str]:
        nx, ny = (self._special_word(f"%ntid.{axis}") for axis in "xy")
        threads = self.context_field("threads", "i32")
        order = self.context_field("thread_order", "ptr")
        return [
            "br label %thread.pick",
            "thread.pick:",
            "%t = phi i32 [ 0, %block ], [ %t.next, %leave ]",
            f"%t.shuffled = icmp ne ptr {order}, null",
            "br i1 %t.shuffled, label %thread.lookup, label %thread.start",
            "thread.lookup:",
            f"%t.at = getelementptr i32, ptr {order}, i32 %t",
            "%t.looked = load i32, ptr %t.at",
            "br label %thread.start",
            "thread.start:",
            "%thread = phi i32 [ %t, %thread.pick ], [ %t.looked, %thread.lookup ]",
            f"%t.rows = udiv i32 %thread, {nx}",
            f"%x = urem i32 %thread, {nx}",
            f"%y = urem i32 %t.rows, {ny}",
            f"%z = udiv i32 %t.rows, {ny}",
            *self.prologues[Level.ROW],
            *self.prologues[Level.THREAD],
            *work.begin_thread(self),
            "br label %b0",
            "leave:",
            *self.leaving,
            *self._count("%t", "%t.after"),
            "%t.next = add nuw nsw i32 %t, 1",
            f"%t.more = icmp ult i32 %t.next, {threads}",
            "br i1 %t.more, label %thread.pick, label %block.done",
            *self._block_done(),
        ]


def _side_by_side(wide: WidePart, width: str) -> list[str]:
    """The code for a group of neighbouring threads of a row of ``width``."""
    return [
        "wide.start:",
        "%wthread = add i32 %row.first, %x",
        *wide.group,
        *wide.body,
        *wide.latch,
        f"%wide.next = add i32 %x, {wide.width}",
        f"%wide.more = icmp ult i32 %wide.next, {width}",
        "br i1 %wide.more, label %thread.start, label %row.next",
        "wide.again:",
        f"%wide.until = add i32 %x, {wide.width}",
        "br label %thread.start",
    ]
