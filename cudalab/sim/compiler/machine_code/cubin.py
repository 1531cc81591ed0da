"""Reader for the machine code in a cubin.

NVRTC contains ptxas, and a compile for ``sm_90`` gives both PTX and cubin. The cubin is an ELF file: one section of
instructions a function, and with ``-lineinfo`` a table of lines (DWARF, version 2) from instructions to the PTX that
they were made of (``.nv_debug_line_sass``). What the instructions say, ``instruction`` reads. The encodings are those
of compute capability 9.0 and 12.0; for another architecture nothing is read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from cudalab.sim.compiler.machine_code.instruction import SIZE, MachineInstruction, decode
from cudalab.sim.compiler.machine_code.instruction_set import OPERATIONS, OPERATIONS_OF_12, Operation

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_WORDS = struct.Struct("<QQ")
_CUDA = 190  # EM_CUDA
_NO_BITS = 8
_FUNCTION = 2  # STT_FUNC
_ENCODINGS = {90: OPERATIONS, 120: OPERATIONS_OF_12}
"""The operations of each architecture that is read."""
_TABLE = ".nv_debug_line_sass"


class CubinError(ValueError):
    """These bytes are no cubin that can be read; the message says what is missing."""


class MachineCode(Struct, frozen=True):
    """One function of a cubin."""

    instructions: tuple[MachineInstruction, ...]
    ptx: str
    """The PTX that ``ptx_line`` counts in; without comments and ``.loc`` directives, whose lines are empty."""
    routines: Mapping[str, int] = field(default_factory=dict)
    """Offsets of the assembler's own routines, as for division, by name: they stand behind the function."""


def read_cubin(data: bytes, function: str) -> MachineCode:
    """The instructions of ``function`` (its name in the PTX) in a cubin.

    Raises:
        CubinError: not a cubin, no such function, or another instruction encoding.
    """
    try:
        return _read(data, function)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        if isinstance(error, CubinError):
            raise
        raise CubinError(f"the cubin cannot be read: {error}") from None


def _read(data: bytes, function: str) -> MachineCode:
    sections, operations = _sections(data)
    text = sections.get(f".text.{function}")
    if text is None:
        raise CubinError(f"the cubin has no function {function}")
    ptx_text = sections.get(".nv_debug_ptx_txt", b"")
    lines = _lines(sections.get(_TABLE, b""), _row_start(sections, function), len(text))
    found = [
        decode(low | high << 64, offset, lines[offset // SIZE], operations)
        for offset, (low, high) in zip(range(0, len(text), SIZE), _WORDS.iter_unpack(text), strict=True)
    ]
    while found and found[-1].name == "NOP":  # fill the last line of the instruction cache
        found.pop()
    if found and found[-1].name == "BRA":  # jumps to itself, so that nothing is fetched from behind the end
        found.pop()
    return MachineCode(tuple(found), ptx_text.replace(b"\0", b"\n").decode(), _routines(sections, function))


def _routines(sections: dict[str, bytes], function: str) -> dict[str, int]:
    """Offsets of the symbols in the section of ``function``, but its own."""
    names = sections.get(".strtab", b"")
    found = [
        (_text(names, name), value, index)
        for name, kind, _, index, value, _ in _SYMBOL.iter_unpack(sections.get(".symtab", b""))
        if kind & 15 == _FUNCTION
    ]
    section = next((index for name, _, index in found if name == function), -1)
    return {name: value for name, value, index in found if index == section and name != function}


def _text(names: bytes, offset: int) -> str:
    return names[offset : names.index(b"\0", offset)].decode()


def _sections(data: bytes) -> tuple[dict[str, bytes], Mapping[int, Operation]]:
    """Contents of the sections by name, and the operations of their architecture."""
    header = _HEADER.unpack_from(data)
    if header[0][:5] != b"\x7fELF\x02" or header[2] != _CUDA:
        raise CubinError("these bytes are no cubin")
    flags = header[7]
    architecture = next((each for each in (flags & 0xFF, flags >> 8 & 0xFF) if each in _ENCODINGS), 0)
    if not architecture:
        readable = " and ".join(f"sm_{each}" for each in _ENCODINGS)
        raise CubinError(f"the machine code is for another architecture than {readable}, whose encodings are read")
    table, size, count, names = header[6], header[11], header[12], header[13]
    entries = [_SECTION.unpack_from(data, table + size * index) for index in range(count)]
    text = entries[names]

    def name(offset: int) -> str:
        return _text(data, text[4] + offset)

    contents = {name(e[0]): data[e[4] : e[4] + e[5]] if e[1] != _NO_BITS else b"" for e in entries}
    return contents, _ENCODINGS[architecture]


def _row_start(sections: dict[str, bytes], function: str) -> int:
    """Where in the line table the address of ``function`` stands: it is relocated against the functions."""
    symbols, names = sections.get(".symtab", b""), sections.get(".strtab", b"")
    for kind, size in ((".rela", 24), (".rel", 16)):
        entries = sections.get(kind + _TABLE, b"")
        for position in range(0, len(entries) - size + 1, size):
            place, info = struct.unpack_from("<QQ", entries, position)
            symbol = _SYMBOL.unpack_from(symbols, (info >> 32) * _SYMBOL.size)
            if _text(names, symbol[0]) in (function, f".text.{function}"):
                return int(place)
    return -1


def _lines(table: bytes, wanted: int, size: int) -> list[int]:
    """The line of each instruction of the function whose address stands at ``wanted`` in a DWARF line table."""
    out = [0] * (size // 16)
    rows = list(_rows(table, wanted)) if wanted >= 0 else []
    for (offset, line), (end, _) in zip(rows, [*rows[1:], (size, 0)], strict=True):
        for index in range(offset // 16, min(end, size) // 16):
            out[index] = line
    return out


def _rows(table: bytes, wanted: int) -> Iterator[tuple[int, int]]:
    """Address and line of each row of one sequence (DWARF 2, section 6.2)."""
    position = 0
    while position + 15 <= len(table):
        (length,) = struct.unpack_from("<I", table, position)
        end = position + 4 + length
        header_length, unit, _, base, span, first = struct.unpack_from("<IBBbBB", table, position + 6)
        at = position + 10 + header_length
        lengths = table[position + 15 : position + 15 + first - 1]
        address, line, here = 0, 1, False
        while at < end:
            code = table[at]
            at += 1
            if code >= first:
                address += (code - first) // span * unit
                line += base + (code - first) % span
                if here:
                    yield address, line
            elif code == 0:
                count, at = _unsigned(table, at)
                kind = table[at]
                if kind == 1:  # end of a sequence
                    if here:
                        return
                    address, line = 0, 1
                elif kind == 2:  # set the address: relocated, so it says which function
                    here = at + 1 == wanted
                    address = 0
                at += count
            elif code == 1:
                if here:
                    yield address, line
            elif code == 2:
                step, at = _unsigned(table, at)
                address += step * unit
            elif code == 3:
                step, at = _signed(table, at)
                line += step
            elif code == 8:
                address += (255 - first) // span * unit
            elif code == 9:
                address += struct.unpack_from("<H", table, at)[0]
                at += 2
            else:
                for _ in range(lengths[code - 1]):
                    _, at = _unsigned(table, at)
        position = end


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    start = at
    value, at = _unsigned(data, at)
    bits = 7 * (at - start)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), at


_HEAD = re.compile(r"^\s*(?:\.\w+\s+)*\.(?:entry|func)\b(?:\s*\([^)]*\))?\s*([\w$.]+)")


def line_shifts(inner: str, outer: str) -> list[tuple[int, str, int]]:
    """How lines of one PTX text become lines of another with the same functions: for each function the line of its
    head in ``inner``, its name, and what to add to lines from there on. Sorted.

    The PTX in the cubin holds kernels that the program's own PTX does not show.
    """
    heads = [_heads(inner), _heads(outer)]
    return sorted((number, name, heads[1][name] - number) for name, number in heads[0].items() if name in heads[1])


def _heads(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if ".entry" in line or ".func" in line:
            match = _HEAD.match(line)
            if match:
                found[match[1]] = number  # a definition comes after its declaration
    return found
