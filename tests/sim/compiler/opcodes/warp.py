"""Warp operations and barriers (PTX ISA, "Parallel Synchronization and Communication Instructions").

Two warps of a block, one operand word or two for each thread. Models see all lanes of a warp at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.sim.compiler.opcodes.integer import signed
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, known

WARP = 32
THREADS = 64
_FULL = 0xFFFFFFFF
_MOST = 40

Lanes = Sequence[int]
Model = Callable[[Lanes, Lanes], list[Expected]]


@dataclass(frozen=True, eq=False)
class Collective:
    """One instruction and its model, from the lanes' two operand words to each lane's result.

    The PTX has ``{d}`` for the destination of type ``type``, ``{a}`` and ``{b}`` for the operand words, ``{wide}`` for
    both as 64 bits, ``{p}`` for the predicate ``a & 1``, and ``{q}`` for a destination predicate. ``predicate`` says
    that the result is ``{q}``.
    """

    opcode: str
    body: str
    model: Model
    predicate: bool = False


def _words(seed: str) -> np.ndarray:
    """Two words for each thread: random, with some values shared by many lanes."""
    source = random.Random(seed)
    few = [source.getrandbits(32) for _ in range(3)]
    rows = []
    for _ in range(THREADS):
        first = few[source.randrange(3)] if source.random() < 0.5 else source.getrandbits(32)
        second = source.choice([0, 1, 2, 5, 16, 31, 32, 33, 63, source.getrandbits(32)])
        rows.append((first, second))
    return np.array(rows, np.uint32)


def shuffle_source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that a shuffle reads, and whether it lies in the segment (the ISA's pseudo-code)."""
    distance, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last = (lane & segment) | (clamp & ~segment)
    first = lane & segment
    source = {"up": lane - distance, "down": lane + distance, "bfly": lane ^ distance}.get(
        mode, first | (distance & ~segment)
    )
    inside = source >= last if mode == "up" else source <= last
    return (source if inside else lane), inside


def _shuffled(mode: str, c: int, distance: int | None) -> Model:
    def model(a: Lanes, b: Lanes) -> list[Expected]:
        found: list[Expected] = []
        for lane in range(WARP):
            source, _ = shuffle_source(mode, lane, b[lane] if distance is None else distance, c)
            found.append(a[source])
        return found

    return model


def _inside(mode: str, c: int, distance: int | None) -> Model:
    def model(a: Lanes, b: Lanes) -> list[Expected]:
        lanes = range(WARP)
        return [int(shuffle_source(mode, n, b[n] if distance is None else distance, c)[1]) for n in lanes]

    return model


def shuffles() -> Iterator[Collective]:
    for mode in ("up", "down", "bfly", "idx"):
        opcode = f"shfl.sync.{mode}.b32"
        clamp = 0 if mode == "up" else 31
        for width in (32, 16, 8, 4, 2, 1):
            c = WARP - width << 8 | clamp
            for distance in (None, 1, 3):
                text = "{b}" if distance is None else str(distance)
                body = f"{opcode} {{d}}|{{q}}, {{a}}, {text}, {c}, -1;"
                yield Collective(opcode, body, _shuffled(mode, c, distance))
                yield Collective(opcode, body, _inside(mode, c, distance), predicate=True)
        for c in (7, 0x0C0B, 0x1F1F):  # clamps and segments that compilers do not write
            yield Collective(opcode, f"{opcode} {{d}}, {{a}}, {{b}}, {c}, -1;", _shuffled(mode, c, None))


def _all_lanes(result: Callable[[Lanes], int]) -> Model:
    """The same result in every lane."""
    return lambda a, b: [result(a)] * WARP


def _ballot(a: Lanes) -> int:
    return sum((word & 1) << lane for lane, word in enumerate(a))


def votes() -> Iterator[Collective]:
    outcomes: dict[str, Callable[[Lanes], int]] = {
        "all": lambda a: int(_ballot(a) == _FULL),
        "any": lambda a: int(_ballot(a) != 0),
        "uni": lambda a: int(_ballot(a) in (0, _FULL)),
    }
    for mode, outcome in outcomes.items():
        opcode = f"vote.sync.{mode}.pred"
        yield Collective(opcode, f"{opcode} {{q}}, {{p}}, -1;", _all_lanes(outcome), predicate=True)
        negated = lambda a, outcome=outcome: outcome([~word for word in a])  # noqa: E731
        yield Collective(opcode, f"{opcode} {{q}}, !{{p}}, -1;", _all_lanes(negated), predicate=True)
        for constant, word in (("1", 1), ("0", 0)):
            body = f"{{ .reg .pred %c; setp.eq.u32 %c, {constant}, 1; {opcode} {{q}}, %c, -1; }}"
            same = lambda a, outcome=outcome, word=word: outcome([word] * WARP)  # noqa: E731
            yield Collective(opcode, body, _all_lanes(same), predicate=True)
    opcode = "vote.sync.ballot.b32"
    yield Collective(opcode, f"{opcode} {{d}}, {{p}}, -1;", _all_lanes(_ballot))
    yield Collective(opcode, f"{opcode} {{d}}, !{{p}}, -1;", _all_lanes(lambda a: _ballot(a) ^ _FULL))


def matches() -> Iterator[Collective]:
    def equal(values: Lanes) -> list[Expected]:
        return [sum((other == value) << lane for lane, other in enumerate(values)) for value in values]

    def wide(a: Lanes, b: Lanes) -> list[int]:
        return [y << 32 | x for x, y in zip(a, b, strict=True)]

    def same(values: Lanes) -> int:
        return int(len(set(values)) == 1)

    yield Collective("match.any.sync.b32", "match.any.sync.b32 {d}, {a}, -1;", lambda a, b: equal(a))
    yield Collective("match.any.sync.b64", "match.any.sync.b64 {d}, {wide}, -1;", lambda a, b: equal(wide(a, b)))
    unlike = "match.all.sync.b32 {d}|{q}, {a}, -1;"
    alike = "{ .reg .b32 %u; and.b32 %u, {a}, 0; match.all.sync.b32 {d}|{q}, %u, -1; }"
    for body, mask in ((unlike, _FULL), (alike, 0)):
        for predicate, scale in ((False, _FULL), (True, 1)):
            model = lambda a, b, m=mask, s=scale: [s * same([word & m for word in a])] * WARP  # noqa: E731
            yield Collective("match.all.sync.b32", body, model, predicate=predicate)
    body = "match.all.sync.b64 {d}|{q}, {wide}, -1;"
    yield Collective("match.all.sync.b64", body, lambda a, b: [_FULL * same(wide(a, b))] * WARP)
    body = "{ .reg .b64 %w; and.b64 %w, {wide}, 0; match.all.sync.b64 {d}|{q}, %w, -1; }"
    yield Collective("match.all.sync.b64", body, lambda a, b: [1] * WARP, predicate=True)


def reductions() -> Iterator[Collective]:
    def words(a: Lanes) -> list[int]:
        return [signed(32, word) for word in a]

    def folded(operation: Callable[[int, int], int]) -> Callable[[Lanes], int]:
        def model(a: Lanes) -> int:
            total = a[0]
            for word in a[1:]:
                total = operation(total, word)
            return total & _FULL

        return model

    models: dict[str, Callable[[Lanes], int]] = {
        "add.u32": lambda a: sum(a) & _FULL,
        "add.s32": lambda a: sum(words(a)) & _FULL,
        "min.u32": min,
        "max.u32": max,
        "min.s32": lambda a: min(words(a)) & _FULL,
        "max.s32": lambda a: max(words(a)) & _FULL,
        "and.b32": folded(lambda x, y: x & y),
        "or.b32": folded(lambda x, y: x | y),
        "xor.b32": folded(lambda x, y: x ^ y),
    }
    for name, model in models.items():
        yield Collective(f"redux.sync.{name}", f"redux.sync.{name} {{d}}, {{a}}, -1;", _all_lanes(model))
        body = f"{{ .reg .b32 %w; or.b32 %w, {{a}}, 0x01010101; redux.sync.{name} {{d}}, %w, -1; }}"
        yield Collective(
            f"redux.sync.{name}", body, _all_lanes(lambda a, model=model: model([word | 0x01010101 for word in a]))
        )


def elections() -> Iterator[Collective]:
    """Which lane is elected is left to the device; here and on an H200 it is the first."""
    yield Collective("elect.sync", "elect.sync {d}|{q}, -1;", lambda a, b: [0] * WARP)
    yield Collective("elect.sync", "elect.sync _|{q}, -1;", lambda a, b: [1] + [0] * 31, predicate=True)
    yield Collective("activemask.b32", "activemask.b32 {d};", lambda a, b: [_FULL] * WARP)
    body = "bar.warp.sync -1; mov.u32 {d}, {a};"
    yield Collective("bar.warp.sync", body, lambda a, b: list(a))


_HEAD = [
    ".reg .b64 %in, %out, %at, %wide;",
    ".reg .b32 %t, %a, %b, %m, %l;",
    ".reg .pred %p, %q;",
    "ld.param.u64 %in, [in];",
    "ld.param.u64 %out, [out];",
    "mov.u32 %t, %tid.x;",
    "mul.wide.u32 %at, %t, 8;",
    "add.s64 %in, %in, %at;",
    "ld.global.v2.b32 {%a, %b}, [%in];",
    "mov.b64 %wide, {%a, %b};",
    "and.b32 %m, %a, 1;",
    "setp.eq.u32 %p, %m, 1;",
]


def _write(collective: Collective, destination: str) -> str:
    text = collective.body
    for name, register in (("d", destination), ("q", "%q"), ("a", "%a"), ("b", "%b"), ("wide", "%wide"), ("p", "%p")):
        text = text.replace(f"{{{name}}}", register)
    return text


def _kernel(name: str, members: list[Collective]) -> Kernel:
    words = _words("warp")
    lines = [*_HEAD, f"mul.wide.u32 %at, %t, {4 * len(members)};", "add.s64 %out, %out, %at;"]
    results = []
    for position, collective in enumerate(members):
        lines += [f".reg .b32 %d{position};", _write(collective, f"%d{position}")]
        if collective.predicate:
            lines.append(f"selp.b32 %d{position}, 1, 0, %q;")
        lines.append(f"st.global.b32 [%out+{4 * position}], %d{position};")
        expected: list[Expected] = []
        for first in range(0, THREADS, WARP):
            a, b = words[first : first + WARP].T.tolist()
            expected += collective.model(a, b)
        results.append(known(collective.body, "b32", 4 * position, 4, expected, gap=4 * len(members)))
    lines.append("ret;")
    return Kernel(
        name=name,
        body="\n".join(lines),
        opcodes=frozenset(collective.opcode for collective in members),
        input=words.reshape(-1).view(np.uint8),
        output=np.zeros(4 * THREADS * len(members), np.uint8),
        results=results,
        block=THREADS,
    )


def divergent() -> Kernel:
    """Lanes with an odd number take part, the others do something else."""
    words = _words("warp")
    mask = 0xAAAAAAAA
    odd = range(1, WARP, 2)
    masks: list[tuple[str, Callable[[Lanes, int], int]]] = [
        (f"shfl.sync.down.b32 %d, %a, 2, 31, {mask:#x};", lambda a, n: a[n + 2] if n + 2 < WARP else a[n]),
        (f"shfl.sync.idx.b32 %d, %a, 7, 31, {mask:#x};", lambda a, n: a[7]),
        (f"vote.sync.ballot.b32 %d, %p, {mask:#x};", lambda a, n: _ballot(a) & mask),
        (f"redux.sync.add.u32 %d, %a, {mask:#x};", lambda a, n: sum(a[lane] for lane in odd) & _FULL),
        (f"redux.sync.max.s32 %d, %a, {mask:#x};", lambda a, n: max(signed(32, a[lane]) for lane in odd) & _FULL),
        (f"match.any.sync.b32 %d, %a, {mask:#x};", lambda a, n: sum(1 << m for m in odd if a[m] == a[n])),
        (f"elect.sync %d|%q, {mask:#x};", lambda a, n: 1),
        (f"bar.warp.sync {mask:#x}; mov.b32 %d, %a;", lambda a, n: a[n]),
        ("activemask.b32 %d;", lambda a, n: mask),
    ]
    size = 4 * len(masks)
    lines = [*_HEAD, ".reg .b32 %d;", f"mul.wide.u32 %at, %t, {size};", "add.s64 %out, %out, %at;"]
    lines += ["and.b32 %l, %t, 1;", "setp.eq.u32 %q, %l, 0;", "@%q bra EVEN;"]
    results = []
    for position, (text, model) in enumerate(masks):
        lines += [text, f"st.global.b32 [%out+{4 * position}], %d;"]
        expected: list[Expected] = []
        for first in range(0, THREADS, WARP):
            a = words[first : first + WARP, 0].tolist()
            expected += [model(a, lane) if lane % 2 else 7 for lane in range(WARP)]
        results.append(known(text, "b32", 4 * position, 4, expected, gap=size))
    lines += ["bra.uni END;", "EVEN:", "mov.u32 %d, 7;"]
    lines += [f"st.global.b32 [%out+{4 * position}], %d;" for position in range(len(masks))]
    lines += ["END:", "ret;"]
    return Kernel(
        name="warp_divergent",
        body="\n".join(lines),
        opcodes=frozenset(["bra", "bra.uni"]),
        input=words.reshape(-1).view(np.uint8),
        output=np.zeros(size * THREADS, np.uint8),
        results=results,
        block=THREADS,
    )


def _barriers() -> list[str]:
    aligned = ("", ".aligned")
    found = [f"bar{scope}.sync" for scope in ("", ".cta")]
    return found + [f"barrier{scope}.sync{way}" for scope in ("", ".cta") for way in aligned]


def _reducing() -> list[tuple[str, str]]:
    found = []
    for operation, type in (("popc", "u32"), ("and", "pred"), ("or", "pred")):
        for scope in ("", ".cta"):
            found.append((f"bar{scope}.red.{operation}.{type}", operation))
            found += [(f"barrier{scope}.red.{operation}{way}.{type}", operation) for way in ("", ".aligned")]
    return found


def barriers() -> Kernel:
    """Each thread leaves a word in shared memory, waits, and reads another thread's."""
    words = _words("warp")
    plain, reducing = _barriers(), _reducing()
    forms = [(f"{opcode} {operands};", opcode) for opcode in plain for operands in ("0", "1", f"2, {THREADS}")]
    lines = [*_HEAD, f".shared .align 4 .b8 board[{4 * THREADS}];", ".reg .b64 %mine, %other;", ".reg .b32 %d, %n;"]
    lines += ["mul.wide.u32 %mine, %t, 4;", "mov.u64 %at, board;", "add.s64 %mine, %mine, %at;"]
    lines += ["xor.b32 %l, %t, 37;", "mul.wide.u32 %other, %l, 4;", "add.s64 %other, %other, %at;"]
    size = 4 * (len(forms) + 6 * len(reducing))
    lines += [f"mul.wide.u32 %at, %t, {size};", "add.s64 %out, %out, %at;"]
    results, offset = [], 0
    opened = set(plain)

    def put(text: str, expected: list[Expected]) -> None:
        nonlocal offset
        lines.append(f"st.global.b32 [%out+{offset}], %d;")
        results.append(known(text, "b32", offset, 4, expected, gap=size))
        offset += 4

    for number, (text, _) in enumerate(forms):
        lines += [f"add.u32 %n, %a, {number};", "st.shared.b32 [%mine], %n;", text, "ld.shared.b32 %d, [%other];"]
        put(text, [int(words[t ^ 37, 0]) + number & _FULL for t in range(THREADS)])
        lines.append("bar.sync 0;")
    bits = [int(word) & 1 for word in words[:, 0]]
    for opcode, operation in reducing:
        opened.add(opcode)
        for barrier in ("0", "3", f"4, {THREADS}"):
            for predicate, flags in (("%p", bits), ("!%p", [1 - bit for bit in bits])):
                outcome = {"popc": sum(flags), "and": int(all(flags)), "or": int(any(flags))}[operation]
                if operation == "popc":
                    text = f"{opcode} %d, {barrier}, {predicate};"
                    lines.append(text)
                else:
                    text = f"{opcode} %q, {barrier}, {predicate};"
                    lines += [text, "selp.b32 %d, 1, 0, %q;"]
                put(text, [outcome] * THREADS)
    lines.append("ret;")
    return Kernel(
        name="warp_barriers",
        body="\n".join(lines),
        opcodes=frozenset(opened),
        input=words.reshape(-1).view(np.uint8),
        output=np.zeros(size * THREADS, np.uint8),
        results=results,
        block=THREADS,
    )


def agreeing() -> Kernel:
    """Barriers that reduce predicates on which all threads agree."""
    lines = [*_HEAD, ".reg .b32 %d;", ".reg .pred %yes, %no;", "setp.ge.u32 %yes, %t, 0;", "not.pred %no, %yes;"]
    forms = [(f"bar.red.{operation}.pred", name) for operation in ("and", "or") for name in ("yes", "no")]
    size = 4 * len(forms)
    lines += [f"mul.wide.u32 %at, %t, {size};", "add.s64 %out, %out, %at;"]
    results = []
    for position, (opcode, name) in enumerate(forms):
        lines += [f"{opcode} %q, 0, %{name};", "selp.b32 %d, 1, 0, %q;", f"st.global.b32 [%out+{4 * position}], %d;"]
        expected: list[Expected] = [int(name == "yes")] * THREADS
        results.append(known(f"{opcode} of {name}", "b32", 4 * position, 4, expected, gap=size))
    words = _words("warp")
    return Kernel(
        name="warp_agreeing",
        body="\n".join([*lines, "ret;"]),
        opcodes=frozenset(),
        input=words.reshape(-1).view(np.uint8),
        output=np.zeros(size * THREADS, np.uint8),
        results=results,
        block=THREADS,
    )


def kernels() -> list[Kernel]:
    members = [*shuffles(), *votes(), *matches(), *reductions(), *elections()]
    found = [
        _kernel(f"warp_{start // _MOST}", members[start : start + _MOST]) for start in range(0, len(members), _MOST)
    ]
    return [*found, divergent(), barriers(), agreeing()]
