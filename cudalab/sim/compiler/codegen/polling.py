"""Code of loops that poll memory: when a thread yields, and whether the block makes progress.

A thread that comes back to the head of such a loop goes on while it has *patience*, then waits there as at any
suspension point. So that a wait which can never end is noticed, the code says what it did in ``context.progress``:

``POLLED``  a thread waits at the end of a round
``OWN``     it has not come back in the very state in which it went (it counts, or it looks at a clock)
``REAL``    something that others can see: a store of another value, another suspension point, the end of the loop

If threads have run and only ``POLLED`` is set, all of them would repeat the same round forever, unless something else
changes memory. To compare states, a digest of the registers that decide what the loop does is kept in the frame; the
address polled last is kept beside it.
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
"""Rounds of a loop that makes progress by itself count as one round in so many."""
_MULTIPLIER = 0x9E37_79B9_7F4A_7C15


def mark(e: ThreadEnvironment, bits: int | str) -> None:
    """Set bits of ``context.progress``; a string is an i32 value."""
    place = e.new(f"getelementptr i8, ptr {e.context}, i64 {layout.field('progress')}")
    old = e.new(f"load i32, ptr {place}")
    e.emit(f"store i32 {e.new(f'or i32 {old}, {bits if isinstance(bits, str) else int(bits)}')}, ptr {place}")


# -- patience ----------------------------------------------------------------------------------------------------------


def begin(e: WaitingEnvironment, number: int) -> None:
    """A thread goes on from a point: its patience is fresh, unless it waited for others inside a loop that polls."""
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
    """The end of a block with ``End.POLL``: go to the label ``again`` while there is patience."""
    if block.waited:
        e.emit(f"br label %b{block.successors[0]}")
        return
    left = e.new(f"sub i32 {e.new(f'load i32, ptr {_PATIENCE}')}, {1 if block.patient else _IMPATIENT}")
    e.emit(f"store i32 {left}, ptr {_PATIENCE}")
    e.emit(f"br i1 {e.new(f'icmp sgt i32 {left}, 0')}, label %{again}, label %b{block.successors[0]}")


# -- what has happened -------------------------------------------------------------------------------------------------


def began_inside(e: WaitingEnvironment, loops: set[int]) -> str:
    """Did this thread go on from a point inside one of the loops? An i1, ``"true"`` or ``"false"``."""
    inside = [number for number, _ in e.region.starts if e.plan.loops_of_point(number) & loops]
    if not inside or len(inside) == len(e.region.starts):
        return "true" if inside else "false"
    found = "false"
    for number in inside:
        same = e.new(f"icmp eq i32 %state, {number}")
        found = same if found == "false" else e.new(f"or i1 {found}, {same}")
    return found


def arrive(e: WaitingEnvironment, number: int, *, tells: bool = True) -> None:
    """A thread arrives at a suspension point that is no poll: something has happened, unless the way there leads
    through a loop that polls, or the driver sees by itself whether the thread gets on (``tells``)."""
    if e.plan.loops_of_point(number):
        left = e.new(f"load i32, ptr {_PATIENCE}")
        e.emit(f"store i32 {left}, ptr {e.frame_word(e.plan.patience_offset)}")
    if tells:
        mark(e, e.new(f"select i1 {began_inside(e, e.plan.loops_of_point(number))}, i32 0, i32 {int(Progress.REAL)}"))


def leave(e: WaitingEnvironment, block: Block) -> None:
    """A thread that waited in a loop leaves it."""
    inside = began_inside(e, set(block.leaves))
    if inside != "false":
        mark(e, e.new(f"select i1 {inside}, i32 {int(Progress.REAL)}, i32 0"))


def wait(e: WaitingEnvironment) -> None:
    """A thread has no patience left: keep what it needs, compare its state with that of the last time, and wait."""
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


# -- accesses inside loops that poll -----------------------------------------------------------------------------------


def looked_at(e: ThreadEnvironment, instruction: Instruction, pointer: str) -> None:
    """Keep the address that a loop polls."""
    if instruction in e.plan.poll_sources:
        address = e.new(f"ptrtoint ptr {pointer} to i64")
        e.emit(f"store i64 {address}, ptr {e.frame_word(e.plan.polled_offset)}")


def will_store(e: ThreadEnvironment, type: str, value: str, place: str, old: str = "") -> None:
    """A store inside a loop that polls: does it change anything? ``old`` is what is there, where that is known."""
    bits = {"float": 32, "double": 64}.get(type) or int(type[1:])
    if type[0] != "i":
        value = e.new(f"bitcast {type} {value} to i{bits}")
    before = old or e.new(f"load i{bits}, ptr {place}, align {bits // 8}")
    changed = e.new(f"icmp ne i{bits} {before}, {value}")
    mark(e, e.new(f"select i1 {changed}, i32 {int(Progress.REAL)}, i32 0"))
    e.noted = True


def after(e: ThreadEnvironment, instruction: Instruction) -> None:
    """What an instruction inside a loop that polls may have done and has not said."""
    opcode = instruction.opcode
    acts = ("st", "atom", "red", "call", "sust", "sured", "mbarrier", "cp.")
    if not e.noted and opcode.startswith(acts) and ".param" not in opcode:
        mark(e, Progress.REAL)
    e.noted = False
