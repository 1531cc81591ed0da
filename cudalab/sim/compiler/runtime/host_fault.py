"""SIGSEGV handler that intercepts the host's accesses to page-locked memory (``machine/memory/page_trap.py``).

It is async-signal-safe: it only loads, stores, and calls async-signal-safe functions of POSIX and two of Python: the
signal handler of ``faulthandler`` and ``PyErr_SetInterruptEx``. Faults in other memory are passed to the previous
handler.

Pseudo-code::

    if the page is there but protected:
        if a watched slot holds the address:
            make `step` pages from here accessible, double `step`
            note address, kind of access and the Python stack, unless the simulator itself is at work; return
        if the page is the simulator's own: make it accessible; return      # released a moment ago
        if a released slot holds the address, and not again and again: return
    call the newest of the handlers from before that has not been tried, or restore the default
"""

from __future__ import annotations

import ctypes
import platform
from typing import Any

from cudalab.sim import abi
from cudalab.sim.compiler.runtime.assembler import Function, Library, Variable

ENTRY = "cl_host_fault"
STATE = "cl_watch_state"
IMPORTS = ("mprotect", "raise", "getpid", "sigaction", "lseek", "__errno_location", "PyErr_SetInterruptEx")

_PAGE_FAULT_PROTECTED = 2  # SEGV_ACCERR
_READ_WRITE = 3
_SIGINFO = 4  # SA_SIGINFO
_CODE, _ADDRESS = 8, 16  # in siginfo_t
_LONGEST_STEP = 1 << 30
_LONGEST_DUMP = 1 << 20
_PATIENCE = 4
# In ucontext_t of x86-64: the page fault's error code and the instruction's address. On aarch64: the latter, and the
# records after the registers, one of which holds the syndrome (ESR_EL1), whose bit 6 marks a write.
_X86_ERROR, _X86_PLACE = 192, 168
_ARM_PLACE, _ARM_RECORDS, _ARM_SYNDROME = 440, 464, 0x4553_5201


def host_fault_text() -> str:
    """The LLVM IR of the handler for this machine."""
    library = Library()
    library.raw.append(f"@{STATE} = external global [{ctypes.sizeof(abi.WatchState)} x i8]")
    _access(library)
    _note(library)
    _chain(library)
    _ours(library)
    f = library.function(ENTRY, "void", "i32 signal, ptr info, ptr context")
    error = f.call("__errno_location", "ptr")
    saved = f.load("i32", error)
    code = f.load("i32", "%info", _CODE)
    ours = f.variable("i1", "false")
    with f.if_(f.compare("eq", "i32", code, _PAGE_FAULT_PROTECTED)):
        ours.set(f.call("cl_host_fault_ours", "i1", "ptr %info", "ptr %context"))
    with f.if_else(ours.get()) as otherwise:
        f.store("i32", saved, error)
        otherwise()
        f.call("cl_host_fault_chain", "void", "i32 %signal", "ptr %info", "ptr %context")
    f.ret()
    return library.text()


def _field(name: str) -> int:
    descriptor: Any = getattr(abi.WatchState, name)
    return int(descriptor.offset)


def _get(f: Function, name: str) -> str:
    return f.load("i64", f"@{STATE}", _field(name), volatile=True)


def _set(f: Function, name: str, value: str | int) -> None:
    f.store("i64", value, f"@{STATE}", _field(name))


def _offset(structure: Any, name: str) -> int:
    return int(getattr(structure, name).offset)


def _ours(library: Library) -> None:
    """Handle a fault in watched memory; false if the address is not watched."""
    f = library.function("cl_host_fault_ours", "i1", "ptr info, ptr context", "noinline")
    address = f.load("i64", "%info", _ADDRESS)
    watched, released = f.variable("ptr", "null"), f.variable("i1", "false")
    index = f.variable("i64", 0)
    slots, count = f.op(f"inttoptr i64 {_get(f, 'slots')} to ptr"), _get(f, "slot_count")
    with f.count_up("i64", count) as number:
        slot = f.at(slots, f.op(f"mul i64 {number}, {ctypes.sizeof(abi.WatchSlot)}"))
        after = f.compare("uge", "i64", address, f.load("i64", slot, _offset(abi.WatchSlot, "start"), volatile=True))
        before = f.compare("ult", "i64", address, f.load("i64", slot, _offset(abi.WatchSlot, "end"), volatile=True))
        with f.if_(f.op(f"and i1 {after}, {before}")):
            state = f.load("i64", slot, _offset(abi.WatchSlot, "state"), volatile=True)
            with f.if_else(f.compare("eq", "i64", state, abi.WatchSlot.WATCHED)) as otherwise:
                watched.set(slot)
                index.set(number)
                f.break_()
                otherwise()
                released.set("true")
    page = f.op(f"and i64 {address}, -4096")
    with f.if_(f.compare("ne", "ptr", watched.get(), "null")):
        slot = watched.get()
        step = f.load("i64", slot, _offset(abi.WatchSlot, "step"))
        first, last = f.variable("i64", page), f.variable("i64", f.load("i64", slot, _offset(abi.WatchSlot, "end")))
        here = f.compare("eq", "i64", f.wide(f.call("getpid", "i32")), _get(f, "process"))
        partly = f.op(f"and i1 {here}, {f.compare('ne', 'i64', step, 0)}")
        with f.if_else(partly) as otherwise:
            end = f.op(f"add i64 {page}, {f.op(f'mul i64 {step}, 4096')}")
            last.set(f.call("llvm.umin.i64", "i64", f"i64 {last.get()}", f"i64 {end}"))
            longer = f.call("llvm.umin.i64", "i64", f"i64 {f.op(f'mul i64 {step}, 2')}", f"i64 {_LONGEST_STEP}")
            f.store("i64", longer, slot, _offset(abi.WatchSlot, "step"))
            otherwise()  # all of it; also in a child after fork, where nothing is watched
            first.set(f.load("i64", slot, _offset(abi.WatchSlot, "start")))
            f.store("i64", 2, slot, _offset(abi.WatchSlot, "step"))
        with f.if_(_open(f, first.get(), last.get())):
            with f.if_(here):
                f.call("cl_host_fault_note", "void", f"i64 {address}", f"i64 {index.get()}", "ptr %context")
            f.ret("true")
    arena: Any = abi.WatchState.arena
    for place in range(0, arena.size, ctypes.sizeof(abi.Range)):
        base = _field("arena") + place
        distance = f.op(f"sub i64 {address}, {f.load('i64', f'@{STATE}', base)}")
        with f.if_(f.compare("ult", "i64", distance, f.load("i64", f"@{STATE}", base + 8))):
            with f.if_(_open(f, page, f.op(f"add i64 {page}, 4096"))):
                f.ret("true")
    with f.if_(released.get()):
        same = f.compare("eq", "i64", address, _get(f, "last_address"))
        more = f.op(f"add i64 {_get(f, 'repeats')}, 1")
        repeats = f.op(f"select i1 {same}, i64 {more}, i64 0")
        _set(f, "last_address", address)
        _set(f, "repeats", repeats)
        with f.if_(f.compare("ult", "i64", repeats, _PATIENCE)):
            f.ret("true")
        _set(f, "repeats", 0)
    f.ret("false")


def _open(f: Function, first: str, last: str) -> str:
    """Make pages accessible; returns whether that succeeded."""
    size = f.op(f"sub i64 {last}, {first}")
    pointer = f.op(f"inttoptr i64 {first} to ptr")
    return f.compare("eq", "i32", f.call("mprotect", "i32", f"ptr {pointer}", f"i64 {size}", f"i32 {_READ_WRITE}"), 0)


def _access(library: Library) -> None:
    """The kind of access from the processor's fault information: read, write or unknown."""
    f = library.function("cl_host_fault_access", "i64", "ptr context")
    if platform.machine() == "x86_64":
        error = f.load("i64", "%context", _X86_ERROR)
        f.ret(f.op(f"and i64 {f.op(f'lshr i64 {error}, 1')}, 1"))
        return
    at = f.variable("i64", _ARM_RECORDS)
    with f.count_up("i32", 16):
        record = f.at("%context", at.get())
        size = f.load("i32", record, 4)
        with f.if_(f.compare("eq", "i32", f.load("i32", record), _ARM_SYNDROME)):
            syndrome = f.load("i64", record, 8)
            f.ret(f.op(f"and i64 {f.op(f'lshr i64 {syndrome}, 6')}, 1"))
        with f.if_(f.compare("ult", "i32", size, 8)):
            f.break_()
        at.update("add", f.wide(size))
    f.ret(abi.WatchNote.UNKNOWN)


def _note(library: Library) -> None:
    """Append an access to the ring: ``cl_host_fault_note(address, slot, context)``."""
    f = library.function("cl_host_fault_note", "void", "i64 address, i64 slot, ptr context", "noinline")
    number = f.op(f"atomicrmw add ptr {f.at(f'@{STATE}', _field('noted'))}, i64 1 seq_cst")
    mask = f.op(f"sub i64 {_get(f, 'note_count')}, 1")
    notes = f.op(f"inttoptr i64 {_get(f, 'notes')} to ptr")
    place = f.op(f"mul i64 {f.op(f'and i64 {number}, {mask}')}, {ctypes.sizeof(abi.WatchNote)}")
    note = f.at(notes, place)
    access, begin, end = f.variable("i64", abi.WatchNote.SILENT), f.variable("i64", -1), f.variable("i64", -1)
    heard = f.compare("eq", "i64", _get(f, "paused"), 0)
    with f.if_(heard):
        access.set(f.call("cl_host_fault_access", "i64", "ptr %context"))
        signal = f.op(f"trunc i64 {_get(f, 'dump_signal')} to i32")
        with f.if_(f.compare("ne", "i32", signal, 0)):
            _dump(f, signal, begin, end)
    for name, value in (("address", "%address"), ("access", access.get()), ("slot", "%slot"), ("text", begin.get())):
        f.store("i64", value, note, _offset(abi.WatchNote, name))
    f.store("i64", end.get(), note, _offset(abi.WatchNote, "text_end"))
    f.line("fence seq_cst")
    f.store("i64", f.op(f"add i64 {number}, 1"), note, _offset(abi.WatchNote, "number"))
    with f.if_(heard):
        signal = f.op(f"trunc i64 {_get(f, 'notify_signal')} to i32")
        with f.if_(f.compare("ne", "i32", signal, 0)):
            f.call("PyErr_SetInterruptEx", "i32", f"i32 {signal}")
    f.ret()


def _dump(f: Function, signal: str, begin: Variable, end: Variable) -> None:
    """Dump the Python stack through ``faulthandler``, unless another thread is doing so."""
    lock = f.at(f"@{STATE}", _field("dump_lock"))
    taken = f.op(f"extractvalue {{i64, i1}} {f.op(f'cmpxchg ptr {lock}, i64 0, i64 1 seq_cst seq_cst')}, 1")
    with f.if_(taken):
        file = f.op(f"trunc i64 {_get(f, 'dump_file')} to i32")
        position = ("i64 0", "i32 1")  # SEEK_CUR
        begin.set(f.call("lseek", "i64", f"i32 {file}", *position))
        with f.if_(f.compare("ult", "i64", begin.get(), _LONGEST_DUMP)):
            f.call("raise", "i32", f"i32 {signal}")
        end.set(f.call("lseek", "i64", f"i32 {file}", *position))
        f.line(f"store atomic i64 0, ptr {lock} seq_cst, align 8")


def _chain(library: Library) -> None:
    """Chain to the previous handlers. A handler that raises the signal again (as ``faulthandler`` does after writing
    its message), or returns without resolving the fault, is followed by the one before it, and finally by the default
    action."""
    f = library.function("cl_host_fault_chain", "void", "i32 signal, ptr info, ptr context", "noinline")
    code = f.load("i32", "%info", _CODE)
    address = f.load("i64", "%info", _ADDRESS)
    place = f.load("i64", "%context", _X86_PLACE if platform.machine() == "x86_64" else _ARM_PLACE)
    with f.if_(f.compare("sgt", "i32", code, 0)):  # raised by the processor, not by raise()
        same = f.compare("eq", "i64", address, _get(f, "last_address"))
        again = f.op(f"and i1 {same}, {f.compare('eq', 'i64', place, _get(f, 'last_place'))}")
        more = f.op(f"add i64 {_get(f, 'repeats')}, 1")
        _set(f, "repeats", f.op(f"select i1 {again}, i64 {more}, i64 0"))
        _set(f, "last_address", address)
        _set(f, "last_place", place)
        _set(f, "chained", 0)
    repeats = _get(f, "repeats")
    tried = f.op(f"add i64 {_get(f, 'chained')}, {f.op(f'udiv i64 {repeats}, {_PATIENCE}')}")
    function = f.variable("i64", 0)
    count = _get(f, "previous_count")
    with f.if_(f.compare("ult", "i64", tried, count)):
        index = f.op(f"sub i64 {f.op(f'sub i64 {count}, {tried}')}, 1")
        entry = f.at(f.at(f"@{STATE}", _field("previous")), f.op(f"mul i64 {index}, 16"))
        function.set(f.load("i64", entry))
        with f.if_(f.compare("ugt", "i64", function.get(), 1)):  # neither SIG_DFL nor SIG_IGN
            _set(f, "chained", f.op(f"add i64 {_get(f, 'chained')}, 1"))
            handler = f.op(f"inttoptr i64 {function.get()} to ptr")
            flag = f.op(f"and i64 {f.load('i64', entry, 8)}, {_SIGINFO}")
            with f.if_else(f.compare("ne", "i64", flag, 0)) as otherwise:
                f.line(f"call void {handler}(i32 %signal, ptr %info, ptr %context)")
                otherwise()
                f.line(f"call void {handler}(i32 %signal)")
            _set(f, "chained", f.op(f"sub i64 {_get(f, 'chained')}, 1"))
            f.ret()
    action = f.at(f"@{STATE}", _field("default_action"))
    f.call("sigaction", "i32", "i32 %signal", f"ptr {action}", "ptr null")
    with f.if_(f.compare("sle", "i32", code, 0)):  # returning would not fault again
        f.call("raise", "i32", "i32 %signal")
    f.ret()
