"""Code of polling loops: yielding, and detection of progress.

At the back-edge of such a loop a thread continues while it has *patience* left, then suspends as at any suspension
point. To detect waits that can never end, the code reports progress in ``context.progress``:

``POLLED`` a thread yields at the end of an iteration ``OWN`` its own state has changed since the last yield (it counts,
or reads a clock) ``REAL`` something visible to others: a store of a different value, another suspension point, the exit
of the loop

If threads have run and only ``POLLED`` is set, all of them would repeat the same iteration forever, unless something
else changes memory. The frame holds a digest of the loop's observed registers, to compare states, and the address
polled last.
"""

from __future__ import annotations

from cudalab.sim.abi import Progress
from cudalab.sim.compiler.codegen.environment import ThreadEnvironment, WaitingEnvironment
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.passes.suspension import PointKind, is_poll
from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.runtime import layout

_PATIENCE = "%patience"
_IMPATIENT = 256
"""Iterations of a loop that makes progress on its own that count as one."""
_MULTIPLIER = 0x9E37_79B9_7F4A_7C15


def mark(e: ThreadEnvironment, bits: int | str) -> None:
    """Set bits of ``context.progress``; a string is an i32 value."""
    place = e.new(f"getelementptr i8, ptr {e.context}, i64 {layout.field('progress')}")
    old = e.new(f"load i32, ptr {place}")
    e.emit(f"store i32 {e.new(f'or i32 {old}, {bits if isinstance(bits, str) else int(bits)}')}, ptr {place}")


# -- patience ----------------------------------------------------------------------------------------------------------


def begin(e: WaitingEnvironment, number: int) -> None:
    """On resumption from a point: reset the thread's patience, unless it was suspended inside a polling loop."""
    if not any(allocated.startswith(_PATIENCE) for allocated in e.allocas):
        e.allocas.append(f"{_PATIENCE} = alloca i32")
    if e.plan.loops_of_point(number) and not is_poll(e.plan.points[number - 1].instruction.opcode):
        left = e.new(f"load i32, ptr {e.frame_word(e.plan.patience_offset)}")
        e.emit(f"store i32 {left}, ptr {_PATIENCE}")
        return
    rounds = e.context_field("patience", "i32")
    fresh = e.cached("patience", Level.LAUNCH, lambda: e.new(f"mul i32 {rounds}, {_IMPATIENT}"))
    e.emit(f"store i32 {fresh}, ptr {_PATIENCE}")


def go_on_or_wait(e: ThreadEnvironment, block: Block, again: str) -> None:
    """Write the terminator of an ``End.POLL`` block: branch to the label ``again`` while patience remains."""
    if block.waited:
        e.emit(f"br label %b{block.successors[0]}")
        return
    left = e.new(f"sub i32 {e.new(f'load i32, ptr {_PATIENCE}')}, {1 if block.patient else _IMPATIENT}")
    e.emit(f"store i32 {left}, ptr {_PATIENCE}")
    e.emit(f"br i1 {e.new(f'icmp sgt i32 {left}, 0')}, label %{again}, label %b{block.successors[0]}")


# -- progress -------------------------------------------------------------------------------------------------


def began_inside(e: WaitingEnvironment, loops: set[int]) -> str:
    """Whether this thread resumed from a point inside one of the loops: an i1, ``"true"`` or ``"false"``."""
    inside = [number for number, _ in e.region.starts if e.plan.loops_of_point(number) & loops]
    if not inside or len(inside) == len(e.region.starts):
        return "true" if inside else "false"
    found = "false"
    for number in inside:
        same = e.new(f"icmp eq i32 %state, {number}")
        found = same if found == "false" else e.new(f"or i1 {found}, {same}")
    return found


def arrive(e: WaitingEnvironment, number: int, *, tells: bool = True) -> None:
    """Arrival at a suspension point that is not a poll: report progress, unless the thread resumed inside the same
    polling loop. ``tells`` is false where the driver itself detects whether the thread advances."""
    if e.plan.loops_of_point(number):
        left = e.new(f"load i32, ptr {_PATIENCE}")
        e.emit(f"store i32 {left}, ptr {e.frame_word(e.plan.patience_offset)}")
    if tells:
        mark(e, e.new(f"select i1 {began_inside(e, e.plan.loops_of_point(number))}, i32 0, i32 {int(Progress.REAL)}"))


def leave(e: WaitingEnvironment, block: Block) -> None:
    """A thread that has yielded in a loop exits it."""
    inside = began_inside(e, set(block.leaves))
    if inside != "false":
        mark(e, e.new(f"select i1 {inside}, i32 {int(Progress.REAL)}, i32 0"))


def wait(e: WaitingEnvironment) -> None:
    """Yield: spill live registers, compare the thread's state with that of the last yield, and suspend."""
    point = e.point
    assert point is not None
    e.kinds[point.number] = PointKind.POLL
    e.keep_registers()
    number = next(n for n, loop in enumerate(e.plan.polls) if loop.suspension == point.block)
    loop = e.plan.polls[number]
    digest = str(0x1234_5678 + number)
    for register in e.plan.observed(number, point):
        value = e.value(register)
        if register.type == "pred":
            value = e.new(f"zext i1 {value} to i64")
        else:
            value = e.integer(register, register.bits)
            if register.bits < 64:
                value = e.new(f"zext i{register.bits} {value} to i64")
            elif register.bits > 64:
                high = e.new(f"trunc i128 {e.new(f'lshr i128 {value}, 64')} to i64")
                value = e.new(f"xor i64 {e.new(f'trunc i128 {value} to i64')}, {high}")
        mixed = e.new(f"mul i64 {e.new(f'xor i64 {digest}, {value}')}, {_MULTIPLIER}")
        digest = e.new(f"xor i64 {mixed}, {e.new(f'lshr i64 {mixed}, 29')}")
    place = e.frame_word(e.plan.digest_offset(number))
    changed = e.new(f"icmp ne i64 {e.new(f'load i64, ptr {place}')}, {digest}")
    e.emit(f"store i64 {digest}, ptr {place}")
    quiet, own, real = (int(Progress.POLLED | bit) for bit in (Progress(0), Progress.OWN, Progress.REAL))
    bits = str(own) if loop.timed else e.new(f"select i1 {changed}, i32 {own}, i32 {quiet}")
    mark(e, e.new(f"select i1 {began_inside(e, {number})}, i32 {bits}, i32 {real}"))
    e.waits.append((point.number, e.label_now))
    e.emit("br label %wait")


# -- accesses inside polling loops -----------------------------------------------------------------------------------


def looked_at(e: ThreadEnvironment, instruction: Instruction, pointer: str) -> None:
    """Store the address that a loop polls."""
    if instruction in e.plan.poll_sources:
        address = e.new(f"ptrtoint ptr {pointer} to i64")
        e.emit(f"store i64 {address}, ptr {e.frame_word(e.plan.polled_offset)}")


def will_store(e: ThreadEnvironment, type: str, value: str, place: str, old: str = "") -> None:
    """A store inside a polling loop: report progress if it changes memory. ``old``: the present value, if known."""
    bits = {"float": 32, "double": 64}.get(type) or int(type[1:])
    if type[0] != "i":
        value = e.new(f"bitcast {type} {value} to i{bits}")
    before = old or e.new(f"load i{bits}, ptr {place}, align {bits // 8}")
    changed = e.new(f"icmp ne i{bits} {before}, {value}")
    mark(e, e.new(f"select i1 {changed}, i32 {int(Progress.REAL)}, i32 0"))
    e.noted = True


def after(e: ThreadEnvironment, instruction: Instruction) -> None:
    """Report progress for an instruction inside a polling loop whose effect is not tracked otherwise."""
    opcode = instruction.opcode
    acts = ("st", "atom", "red", "call", "sust", "sured", "mbarrier", "cp.")
    if not e.noted and opcode.startswith(acts) and ".param" not in opcode:
        mark(e, Progress.REAL)
    e.noted = False
