"""What a kernel's ``printf`` prints.

On a GPU ``printf`` stores the format and its arguments in a buffer, which the host formats, at the latest at the next
synchronisation. So does the simulator: native code appends an entry, and this module formats it as C does. Arguments
are packed as C's variable arguments, each promoted and aligned to its size (CUDA C++ Programming Guide, "Formatted
Output").

Blocks print one after the other, and their warps likewise between two barriers; on a GPU that order depends on how
warps are scheduled. The lanes of a warp print as if in lockstep: all that execute a call print before any goes on to
the next. Here each lane runs to its next suspension point before the others start, so the entries that a warp makes
until then are put in order: of the calls that lanes have come to, the first in the program is the next one. Where a
loop ends in another iteration for each lane, that is where the lanes of a GPU wait for each other. The
host empties the buffer whenever it is full, as the driver does on an H200; after 64 MB of one launch further output is
dropped and counted.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from cudalab.sim.abi import WARP

if TYPE_CHECKING:
    from cudalab.sim.machine.memory.allocations import Memory

ENTRY_HEADER = struct.Struct("<QIIQII")
"""block, thread, bytes of arguments, address of the format, site of the call, round of the block."""
FIFO_BYTES = 1 << 20
"""The buffer, taken by the host whenever it is full."""
MOST_PRINTED = 64 << 20
"""Bytes of entries taken of one launch."""
MOST_TEXT = 1 << 16

_SPECIFICATION = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+)?(?P<dot>))?"
    rb"(?P<size>hh|h|ll|l|L|j|z|t)?(?P<type>.)",
    re.DOTALL,
)
_LONG = 4 if sys.platform == "win32" else 8


class _Arguments:
    """Reads packed arguments one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._offset = data, 0

    def take(self, code: str) -> int | float:
        size = struct.calcsize(code)
        self._offset = -(-self._offset // size) * size
        if self._offset + size > len(self._data):
            return 0  # fewer arguments than the format asks for: undefined in C; zero here
        value: int | float = struct.unpack_from("<" + code, self._data, self._offset)[0]
        self._offset += size
        return value


def decode(buffer: bytes, read_string: Callable[[int], bytes], *, stride: int = 8) -> list[tuple[int, int, str]]:
    """Format all entries of a print buffer.

    Args:
        buffer: entries one after the other, each a header and its arguments, padded to `stride` bytes.
        read_string: the NUL-terminated bytes at a device address, without the NUL.

    Returns:
        ``(block, thread, text)``, the lanes of each warp in lockstep.
    """
    entries: list[tuple[int, int, str]] = []
    together: list[_Entry] = []  # what a block prints in one round
    now, offset = (-1, -1), 0
    while offset + ENTRY_HEADER.size <= len(buffer):
        block, thread, size, address, site, round_ = ENTRY_HEADER.unpack_from(buffer, offset)
        offset += ENTRY_HEADER.size
        text = format_text(read_string(address), buffer[offset : offset + size], read_string)
        if (block, round_) != now:
            entries += _in_lockstep(together)
            together, now = [], (block, round_)
        together.append(_Entry(block, thread, text, site))
        offset += -(-size // stride) * stride
    return entries + _in_lockstep(together)


class _Entry(Struct):
    block: int
    thread: int
    text: str
    site: int


def _in_lockstep(entries: list[_Entry]) -> list[tuple[int, int, str]]:
    """Put what the threads of a block print in one round, each in its own order, in the order of its warps."""
    lanes: dict[int, deque[_Entry]] = {}
    for entry in entries:
        lanes.setdefault(entry.thread, deque()).append(entry)
    found = []
    for _, warp in itertools.groupby(sorted(lanes), key=lambda thread: thread // WARP):
        waiting = [lanes[thread] for thread in warp]
        while waiting:
            site = min(lane[0].site for lane in waiting)
            for lane in waiting:
                if lane[0].site == site:
                    entry = lane.popleft()
                    found.append((entry.block, entry.thread, entry.text))
            waiting = [lane for lane in waiting if lane]
    return found


def format_text(template: bytes, arguments: bytes, read_string: Callable[[int], bytes]) -> str:
    """Format one ``printf``: C's rules for flags, width, precision and ``%d i u o x X c s p e f g a``."""
    packed = _Arguments(arguments)
    out: list[bytes] = []
    position = 0
    while True:
        found = template.find(b"%", position)
        if found < 0:
            out.append(template[position:])
            break
        out.append(template[position:found])
        match = _SPECIFICATION.match(template, found)
        if match is None:  # a lone % at the end
            out.append(template[found:])
            break
        out.append(_format_one(match, packed, read_string))
        position = match.end()
    return b"".join(out).decode("utf-8", "replace")


def _format_one(match: re.Match[bytes], packed: _Arguments, read_string: Callable[[int], bytes]) -> bytes:
    kind = match["type"].decode("latin-1")
    if kind == "%":
        return b"%"
    if kind not in "cdiouxXpeEfFgGaAs":
        return match[0]
    flags = match["flags"].decode()
    width = _number(match["width"], packed)
    if width is not None and width < 0:
        flags, width = flags + "-", -width
    width = min(width, MOST_TEXT) if width else width  # a negative or absurd * must not exhaust the host
    precision = None
    if match["dot"] is not None:
        precision = _number(match["precision"], packed) if match["precision"] else 0
        precision = None if precision is not None and precision < 0 else precision
        precision = min(precision, MOST_TEXT) if precision else precision
    if kind == "s":
        text = read_string(int(packed.take("Q")))
        return _pad(text[:precision] if precision is not None else text, width, flags.replace("0", ""))
    if kind == "c":
        return _pad(bytes([int(packed.take("i")) & 0xFF]), width, flags.replace("0", ""))
    if kind == "p":
        address = int(packed.take("Q"))
        return _pad(f"{address:#x}".encode() if address else b"(nil)", width, flags.replace("0", ""))
    if kind in "eEfFgGaA":
        return _format_float(float(packed.take("d")), kind, flags, width, precision)
    return _format_integer(_take_integer(packed, kind, (match["size"] or b"").decode()), kind, flags, width, precision)


def _number(text: bytes | None, packed: _Arguments) -> int | None:
    if text is None:
        return None
    return int(packed.take("i")) if text == b"*" else int(text)


def _take_integer(packed: _Arguments, kind: str, size: str) -> int:
    signed = kind in "di"
    wide = size in ("ll", "j", "z", "t") or (size == "l" and _LONG == 8)
    value = int(packed.take("q" if wide else "i"))
    bits = 64 if wide else {"hh": 8, "h": 16}.get(size, 32)
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _format_integer(value: int, kind: str, flags: str, width: int | None, precision: int | None) -> bytes:
    digits = {"o": f"{abs(value):o}", "x": f"{value:x}", "X": f"{value:X}"}.get(kind, str(abs(value)))
    if precision is not None:
        digits = "" if precision == 0 and value == 0 else digits.rjust(precision, "0")
        flags = flags.replace("0", "")
    prefix = ""
    if kind in "di":
        prefix = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    elif "#" in flags and kind == "o":
        digits = digits if digits.startswith("0") else "0" + digits
    elif "#" in flags and kind in "xX" and value:
        prefix = "0" + kind
    return _pad(digits.encode(), width, flags, prefix.encode())


def _format_float(value: float, kind: str, flags: str, width: int | None, precision: int | None) -> bytes:
    sign = "-" if math.copysign(1.0, value) < 0 else "+" if "+" in flags else " " if " " in flags else ""
    magnitude = abs(value)
    if math.isinf(value) or math.isnan(value):
        text = "nan" if math.isnan(value) else "inf"
        return _pad((text.upper() if kind.isupper() else text).encode(), width, flags.replace("0", ""), sign.encode())
    if kind in "aA":
        text = _hexadecimal(magnitude, precision, "#" in flags)
        prefix, text = sign + "0x", text[2:]
        if kind == "A":
            prefix, text = prefix.upper(), text.upper()
        return _pad(text.encode(), width, flags, prefix.encode())
    alternate = "#" if "#" in flags else ""
    text = f"%{alternate}.{6 if precision is None else precision}{kind}" % magnitude
    return _pad(text.encode(), width, flags, sign.encode())


def _hexadecimal(value: float, precision: int | None, keep_point: bool) -> str:
    """C's ``%a`` of a value that is not negative."""
    if value == 0:
        digits, exponent, lead = 0, 0, 0
    else:
        fraction, exponent = math.frexp(value)
        exponent -= 1
        lead = 1
        if exponent < -1022:  # subnormal: C libraries print them with the least exponent
            lead, fraction, exponent = 0, math.ldexp(value, 1022), -1022
            digits = int(math.ldexp(fraction, 52))
        else:
            digits = int(math.ldexp(fraction * 2 - 1, 52))
    if precision is not None and precision < 13:
        shift = 4 * (13 - precision)
        whole = (lead << 52) | digits
        low, half = whole & ((1 << shift) - 1), 1 << (shift - 1)
        whole >>= shift
        if low > half or (low == half and whole & 1):
            whole += 1
        lead, text = whole >> (4 * precision), ""
        if precision:
            text = f"{whole & ((1 << 4 * precision) - 1):0{precision}x}"
    else:
        text = f"{digits:013x}"
        text = text.rstrip("0") if precision is None else text.ljust(precision, "0")
    point = "." if text or keep_point else ""
    return f"0x{lead}{point}{text}p{exponent:+d}"


def _pad(text: bytes, width: int | None, flags: str, prefix: bytes = b"") -> bytes:
    missing = (width or 0) - len(prefix) - len(text)
    if missing <= 0:
        return prefix + text
    if "-" in flags:
        return prefix + text + b" " * missing
    if "0" in flags:
        return prefix + b"0" * missing + text
    return b" " * missing + prefix + text


def read_string(memory: Memory, address: int, most: int = 1 << 16) -> bytes:
    """The NUL-terminated bytes at a device address; ``(null)`` as C libraries print it, or what the address is."""
    if address == 0:
        return b"(null)"
    allocation = memory.find(address)
    if allocation is None:
        return f"<{address:#x} is no device memory>".encode()
    size = min(allocation.end - address, most)
    text = bytes(memory.view(address, size, write=False))
    end = text.find(b"\0")
    return text if end < 0 else text[:end]
