"""printf: every conversion against the C library's."""

from __future__ import annotations

import ctypes
import itertools
import struct
import sys

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.launch.printf import decode, format_text
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

STRINGS = {1: b"hello", 2: b"", 3: "naïve 中文".encode()}


def device_string(address: int) -> bytes:
    return STRINGS[address]


def c_printf(template: bytes, *arguments: object) -> bytes:
    buffer = ctypes.create_string_buffer(4096)
    ctypes.CDLL(None).snprintf(buffer, 4096, template, *arguments)
    return buffer.value


def ours(template: bytes, packed: bytes) -> bytes:
    return format_text(template, packed, device_string).encode()


libc = pytest.mark.skipif(sys.platform != "linux", reason="compares with glibc's snprintf")
FLAGS = ["".join(c) for n in range(3) for c in itertools.combinations("-+ #0", n)]


@libc
@pytest.mark.parametrize("kind", "diouxX")
def test_integers(kind: str) -> None:
    for flags, width, precision in itertools.product(FLAGS, ("", "1", "12"), ("", ".0", ".", ".5")):
        for value in (0, 1, -1, 42, -42, 2**31 - 1, -(2**31)):
            template = f"<%{flags}{width}{precision}{kind}>".encode()
            assert ours(template, struct.pack("<i", value)) == c_printf(template, ctypes.c_int(value)), (
                template,
                value,
            )


@libc
@pytest.mark.parametrize("kind", "diuxXo")
@pytest.mark.parametrize("size", ["ll", "l", "h", "hh"])
def test_integer_sizes(kind: str, size: str) -> None:
    template = f"%{size}{kind}".encode()
    for value in (0, -1, 300, -300, 70000, 2**40 + 5 if size in ("l", "ll") else 5):
        wide = size in ("l", "ll")
        packed = struct.pack("<q" if wide else "<i", value)
        c_value = ctypes.c_longlong(value) if wide else ctypes.c_int(value)
        assert ours(template, packed) == c_printf(template, c_value), (template, value)


@libc
@pytest.mark.parametrize("kind", "eEfgGaA")
def test_floats(kind: str) -> None:
    values = [0.0, -0.0, 1.0, -1.5, 3.14159265, 1e-7, 123456789.0, 1e300, 5e-324, 2.5, float("inf"), float("-inf")]
    for flags, width, precision in itertools.product(FLAGS, ("", "14"), ("", ".0", ".3", ".15")):
        for value in [*values, float("nan")]:
            template = f"<%{flags}{width}{precision}{kind}>".encode()
            expected = c_printf(template, ctypes.c_double(value))
            assert ours(template, struct.pack("<d", value)) == expected, (template, value)


@libc
def test_pointers_and_characters() -> None:
    for address in (0, 0x7F00DEADBEEF):
        for template in (b"%p", b"%20p|", b"%-20p|"):
            assert ours(template, struct.pack("<Q", address)) == c_printf(template, ctypes.c_void_p(address))
    for template in (b"%c", b"%5c|", b"%-5c|"):
        assert ours(template, struct.pack("<i", 65)) == c_printf(template, ctypes.c_int(65))


def test_strings_come_from_device_memory() -> None:
    assert ours(b"[%s] [%8s] [%-8s] [%.2s]", struct.pack("<4Q", 1, 1, 1, 1)) == b"[hello] [   hello] [hello   ] [he]"
    assert format_text(b"%s%s", struct.pack("<2Q", 2, 3), device_string) == "naïve 中文"


def test_arguments_are_aligned_to_their_size() -> None:
    packed = struct.pack("<i4xdi4xqi", 1, 2.5, 3, 4, 5)
    assert ours(b"%d %g %d %lld %d", packed) == b"1 2.5 3 4 5"


def test_width_and_precision_from_arguments() -> None:
    assert ours(b"<%*d|%-*d|%.*f>", struct.pack("<iiiii4xd", 5, 42, 4, 7, 2, 3.14159)) == b"<   42|7   |3.14>"
    assert ours(b"<%*d>", struct.pack("<ii", -5, 42)) == b"<42   >"


def test_percent_and_unknown_conversions_stay() -> None:
    assert ours(b"100%% %y %", b"") == b"100% %y %"


def test_missing_arguments_are_zero() -> None:
    assert ours(b"%d %f %lld", b"") == b"0 0.000000 0"


def test_absurd_width_is_bounded() -> None:
    assert len(ours(b"%999999999d", struct.pack("<i", 1))) == 1 << 16


def test_entries_of_a_buffer() -> None:
    STRINGS[10] = b"x=%d\n"
    entry = struct.pack("<QIIQII", 3, 7, 4, 10, 2, 1) + struct.pack("<i4x", 99)
    assert decode(entry * 2, device_string) == [(3, 7, "x=99\n")] * 2


def printed(body: str, grid: int = 1, block: int = 4) -> list[str]:
    """The lines that a kernel prints; ``t`` is the thread."""
    memory, surroundings = Memory(1 << 28), Standalone()
    code = f'extern "C" __global__ void k() {{ int t = threadIdx.x; {body} }}'
    outcome = execute(Module(compile(code), memory, LIMITS).kernel("k").launch(grid, block, b""), surroundings)
    assert outcome.fault is None
    return surroundings.text.split()


def test_lanes_print_in_lockstep() -> None:
    assert printed(r'printf("a%d ", t); printf("b%d ", t);', block=3) == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_lanes_print_one_iteration_after_the_other() -> None:
    lines = printed(r'for (int i = 0; i < 2 + t; i++) printf("%d.%d ", i, t); printf("end%d ", t);', block=2)
    assert lines == ["0.0", "0.1", "1.0", "1.1", "2.1", "end0", "end1"]


def test_lanes_that_part_print_one_branch_after_the_other() -> None:
    lines = printed(r'if (t % 2) printf("odd%d ", t); else printf("even%d ", t); printf("all%d ", t);')
    assert sorted(lines[:4]) == ["even0", "even2", "odd1", "odd3"]
    assert lines[0][:3] == lines[1][:3]
    assert lines[4:] == ["all0", "all1", "all2", "all3"]


def test_warps_and_blocks_print_one_after_the_other() -> None:
    lines = printed(r'printf("%d.%d.0 ", blockIdx.x, t); printf("%d.%d.1 ", blockIdx.x, t);', grid=2, block=64)
    warps = [range(0, 32), range(32, 64)]
    assert lines == [f"{b}.{t}.{i}" for b in range(2) for warp in warps for i in range(2) for t in warp]


def test_nothing_is_printed_before_what_a_barrier_puts_before_it() -> None:
    loop = r'{ if (t == i) printf("t%d ", i); __syncthreads(); if (t > 1) printf("%d.%d ", i, t); }'
    assert printed(f"for (int i = 0; i < 2; i++) {loop}") == ["t0", "0.2", "0.3", "t1", "1.2", "1.3"]
