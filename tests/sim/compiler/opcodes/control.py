"""Branches, calls, and what matters only to time (PTX ISA, "Control Flow Instructions", "Miscellaneous"); special
registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.sim.compiler.opcodes.kernel import Expected, Kernel, known

THREADS = 96
BLOCKS = 2
_HEAD = [
    ".reg .b64 %in, %out, %at;",
    ".reg .b32 %t, %b, %n, %g, %a, %d, %i;",
    ".reg .pred %p, %q;",
    "ld.param.u64 %in, [in];",
    "ld.param.u64 %out, [out];",
    "mov.u32 %t, %tid.x;",
    "mov.u32 %b, %ctaid.x;",
    "mov.u32 %n, %ntid.x;",
    "mad.lo.u32 %g, %b, %n, %t;",
    "mul.wide.u32 %at, %g, 4;",
    "add.s64 %in, %in, %at;",
    "add.s64 %out, %out, %at;",
    "ld.global.b32 %a, [%in];",
]
STORE = "st.global.b32 [%out], %d;"
_UNTOUCHED = 0x5A5A5A5A


def one_word(
    name: str, lines: list[str], opcodes: list[str], model: Callable[[int], Expected], declarations: str = ""
) -> Kernel:
    """One word in and one out for each thread; the word is the thread's global index modulo 7."""
    words = [thread % 7 for thread in range(THREADS * BLOCKS)]
    return Kernel(
        name=f"control_{name}",
        body="\n".join([*_HEAD, *lines]),
        opcodes=frozenset(opcodes),
        input=np.array(words, np.uint32).view(np.uint8),
        output=np.full(len(words), _UNTOUCHED, np.uint32).view(np.uint8),
        results=[known(", ".join(opcodes) or name, "b32", 0, 4, [model(word) for word in words])],
        grid=BLOCKS,
        block=THREADS,
        declarations=declarations,
    )


def branches() -> list[Kernel]:
    loop = [
        "mov.u32 %d, 0;",
        "mov.u32 %i, 0;",
        "LOOP:",
        "setp.ge.u32 %p, %i, %a;",
        "@%p bra DONE;",
        "add.u32 %d, %d, %i;",
        "add.u32 %i, %i, 1;",
        "bra.uni LOOP;",
        "DONE:",
        STORE,
        "ret;",
    ]
    guarded = [
        "setp.lt.u32 %p, %a, 3;",
        "mov.u32 %d, 1;",
        "@%p mov.u32 %d, 2;",
        "@!%p add.u32 %d, %d, 10;",
        STORE,
        "ret;",
    ]
    found = [
        one_word("loop", loop, ["bra", "bra.uni"], lambda a: sum(range(a))),
        one_word("guard", guarded, [], lambda a: 2 if a < 3 else 11),
    ]
    for suffix in ("", ".uni"):
        table = [
            "min.u32 %i, %a, 3;" if not suffix else "mov.u32 %i, 2;",
            "TARGETS: .branchtargets ZERO, ONE, TWO, MANY;",
            f"brx.idx{suffix} %i, TARGETS;",
            "ZERO: mov.u32 %d, 100;",
            "bra END;",
            "ONE: mov.u32 %d, 101;",
            "bra END;",
            "TWO: mov.u32 %d, 102;",
            "bra END;",
            "MANY: mov.u32 %d, 103;",
            "END:",
            STORE,
            "ret;",
        ]
        name = f"brx.idx{suffix}"
        model = (lambda a: 102) if suffix else (lambda a: 100 + min(a, 3))
        found.append(one_word(f"table{len(found)}", table, [name], model))
    for opcode in ("ret", "ret.uni", "exit"):
        # `.uni` promises that all threads leave
        lines = ["mov.u32 %d, 9;", "setp.lt.u32 %p, %a, 3;", f"@%p {opcode};", STORE, f"{opcode};"]
        if opcode == "ret.uni":
            lines = ["mov.u32 %d, 9;", STORE, "ret.uni;"]
        model = (lambda a: 9) if opcode == "ret.uni" else (lambda a: _UNTOUCHED if a < 3 else 9)
        found.append(one_word(opcode.replace(".", "_"), lines, [opcode], model))
    waiting = [
        "mov.u32 %d, %a;",
        "nanosleep.u32 20;",
        "nanosleep.u32 %a;",
        "pmevent 3;",
        "pmevent.mask 5;",
        STORE,
        "ret;",
    ]
    found.append(one_word("waiting", waiting, ["nanosleep.u32", "pmevent", "pmevent.mask"], lambda a: a))
    return found


_FUNCTIONS = """
.func (.param .b32 result) control_twice(.param .b32 value)
{
.reg .b32 %x;
ld.param.b32 %x, [value];
add.u32 %x, %x, %x;
st.param.b32 [result+0], %x;
ret;
}
.func control_store(.param .b64 place, .param .align 8 .b8 pair[16])
{
.reg .b64 %p; .reg .b32 %x, %y; .reg .f64 %z; .reg .s16 %h;
ld.param.u64 %p, [place];
ld.param.v2.b32 {%x, %y}, [pair];
ld.param.f64 %z, [pair+8];
add.u32 %x, %x, %y;
cvt.rzi.u32.f64 %y, %z;
add.u32 %x, %x, %y;
st.b32 [%p], %x;
ret.uni;
}
"""


def calls() -> list[Kernel]:
    twice = [
        "{",
        ".param .b32 argument; .param .b32 answer;",
        "st.param.b32 [argument+0], %a;",
        "call.uni (answer), control_twice, (argument);",
        "ld.param.b32 %d, [answer+0];",
        "}",
        "setp.lt.u32 %p, %a, 3;",
        "@%p bra SKIP;",
        "{",
        ".param .b32 argument; .param .b32 answer;",
        "st.param.b32 [argument+0], %d;",
        "call (answer), control_twice, (argument);",
        "ld.param.b32 %d, [answer+0];",
        "}",
        "SKIP:",
        STORE,
        "ret;",
    ]
    store = [
        ".reg .f64 %f;",
        "mov.f64 %f, 0d4059000000000000;",
        "{",
        ".param .b64 place; .param .align 8 .b8 pair[16];",
        "st.param.b64 [place], %out;",
        "st.param.v2.b32 [pair], {%a, %t};",
        "st.param.f64 [pair+8], %f;",
        "call.uni control_store, (place, pair);",
        "}",
        "ld.global.b32 %d, [%out];",
        "sub.u32 %d, %d, %t;",
        STORE,
        "ret;",
    ]
    return [
        one_word("call", twice, ["call", "call.uni"], lambda a: 2 * a if a < 3 else 4 * a, _FUNCTIONS),
        one_word("arguments", store, ["st.param.b64", "st.param.v2.b32", "st.param.f64"], lambda a: a + 100),
    ]


def stopping() -> list[Kernel]:
    """Kernels that a trap ends."""
    found = []
    for opcode in ("trap", "brkpt"):
        lines = ["setp.eq.u32 %p, %g, 70;", f"@%p {opcode};", "mov.u32 %d, 1;", STORE, "ret;"]
        found.append(one_word(opcode, lines, [opcode], lambda a: None))
    return found


_LANES = {
    "%laneid": lambda t: t % 32,
    "%lanemask_eq": lambda t: 1 << t % 32,
    "%lanemask_lt": lambda t: (1 << t % 32) - 1,
    "%lanemask_le": lambda t: (2 << t % 32) - 1,
    "%lanemask_gt": lambda t: 0xFFFFFFFF & ~((2 << t % 32) - 1),
    "%lanemask_ge": lambda t: 0xFFFFFFFF & ~((1 << t % 32) - 1),
}


def special_registers() -> Kernel:
    """Those whose values the ISA fixes, in a grid of 1 x 1 x 1 blocks of 6 x 4 x 5 threads."""
    x, y, z = 6, 4, 5
    names: dict[str, Callable[[int], int]] = {
        "%tid.x": lambda t: t % x,
        "%tid.y": lambda t: t // x % y,
        "%tid.z": lambda t: t // (x * y),
        "%ntid.x": lambda t: x,
        "%ntid.y": lambda t: y,
        "%ntid.z": lambda t: z,
        **{f"%ctaid.{axis}": lambda t: 0 for axis in "xyz"},
        **{f"%nctaid.{axis}": lambda t: 1 for axis in "xyz"},
        **_LANES,
        "WARP_SZ": lambda t: 32,
        "%dynamic_smem_size": lambda t: 0,
        "%cluster_ctarank": lambda t: 0,
        "%cluster_nctarank": lambda t: 1,
        "%cluster_ctaid.x": lambda t: 0,
        "%cluster_nctaid.x": lambda t: 1,
        "%clusterid.x": lambda t: 0,
        "%nclusterid.x": lambda t: 1,
    }
    size = 4 * len(names)
    lines = [
        ".reg .b64 %out, %at;",
        ".reg .b32 %x, %y, %z, %t, %d;",
        "ld.param.u64 %out, [out];",
        "mov.u32 %x, %tid.x;",
        "mov.u32 %y, %tid.y;",
        "mov.u32 %z, %tid.z;",
        f"mad.lo.u32 %t, %z, {y}, %y;",
        f"mad.lo.u32 %t, %t, {x}, %x;",
        f"mul.wide.u32 %at, %t, {size};",
        "add.s64 %out, %out, %at;",
    ]
    results = []
    for position, (name, model) in enumerate(names.items()):
        lines += [f"mov.u32 %d, {name};", f"st.global.b32 [%out+{4 * position}], %d;"]
        expected: list[Expected] = [model(t) for t in range(x * y * z)]
        results.append(known(name, "b32", 4 * position, 4, expected, gap=size))
    return Kernel(
        name="control_registers",
        body="\n".join([*lines, "ret;"]),
        opcodes=frozenset(),
        input=np.zeros(8, np.uint8),
        output=np.zeros(size * x * y * z, np.uint8),
        results=results,
        block=(x, y, z),
    )


def clocks() -> Kernel:
    """Every look at a clock is later than the one before."""
    lines = [
        ".shared .align 16 .b8 mine[2048];",
        ".reg .b64 %first, %then, %far, %x;",
        ".reg .b32 %low, %high;",
        ".reg .b128 %wide;",
        "mov.u64 %first, %clock64;",
        "mov.u32 %low, %clock;",
        "mov.u32 %high, %clock_hi;",
        "mov.u32 %low, %globaltimer_lo;",
        "mov.u32 %high, %globaltimer_hi;",
        "ld.global.b32 %a, [%in];",
        "ld.volatile.global.b32 %a, [%in];",
        "shl.b32 %i, %t, 4;",
        "mov.u32 %d, mine;",
        "add.u32 %i, %i, %d;",
        "cvt.u64.u32 %far, %a;",
        "st.shared.b32 [%i], %a;",
        "st.shared.b64 [%i], %far;",
        "ld.shared.b128 %wide, [%i];",
        "bar.sync 0;",
        "nanosleep.u32 100;",
        "mov.u64 %then, %clock64;",
        "setp.gt.u64 %p, %then, %first;",
        "mov.u64 %first, %globaltimer;",
        "nanosleep.u32 1000;",
        "mov.u64 %then, %globaltimer;",
        "sub.u64 %x, %then, %first;",
        "setp.ge.and.u64 %p, %x, 1000, %p;",
        "selp.u32 %d, 1, 0, %p;",
        STORE,
        "ret;",
    ]
    forms = {
        "issue": ("pipelined", "blocking", "free"),
        "clock": ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"),
        "miss": ("l1", "past_l1"),
        "conflicts": ("b32", "b64", "b128"),
    }
    opcodes = [f"cudalab.{name}.{form}" for name, each in forms.items() for form in each]
    kernel = one_word("clocks", lines, [*opcodes, "cudalab.sleep", "cudalab.turns"], lambda _: 1)
    return replace(kernel, recorded=False)


def kernels() -> list[Kernel]:
    return [*branches(), *calls(), special_registers(), clocks()]
