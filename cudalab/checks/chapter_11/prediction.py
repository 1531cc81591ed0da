"""11.7: when each piece of work begins, predicted from the rules alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import no_calls
from cudalab.checks.streams import StreamBench

CALLS = no_calls("the function only works the times out: it reads the program, and calls nothing of CUDA")
Piece = tuple[str, int, int]
"""``in``, ``kernel`` or ``out``; the stream, of which 0 is the NULL stream; how long it takes."""
_KINDS = ("in", "kernel", "out")


@dataclass(frozen=True)
class Rules:
    """By which rules pieces begin: the right ones, and those that somebody may take for right."""

    engines: int = 2
    """Copy engines; 0: as if copies needed none."""
    in_streams: bool = True
    """Does the work of one stream take its turns?"""
    null_waits: bool = True
    """Does a piece in the NULL stream wait for all before it?"""
    null_holds: bool = True
    """Does everything behind it wait for it?"""
    kernels_in_turn: bool = False

    def starts(self, program: Sequence[Piece]) -> list[int]:
        """When each piece begins."""
        begins: list[int] = []
        free: dict[Any, int] = {}  # when a stream or an engine has done what it was given so far
        all_done = held = 0
        for kind, stream, units in program:
            places = [("stream", stream)] * self.in_streams + self._engine(kind)
            begin = max([held, *(free.get(place, 0) for place in places)])
            if stream == 0 and self.null_waits:
                begin = max(begin, all_done)
            end = begin + units
            free |= dict.fromkeys(places, end)
            all_done = max(all_done, end)
            if stream == 0 and self.null_holds:
                held = end
            begins.append(begin)
        return begins

    def _engine(self, kind: str) -> list[tuple[str, str]]:
        if kind == "kernel":
            return [("kernels", "")] * self.kernels_in_turn
        return [("engine", kind if self.engines == 2 else "")] * (self.engines > 0)


def _as_ready(program: Sequence[Piece], engines: int) -> list[int]:
    """What comes out where an engine takes the copy that is ready first, whoever came before it."""
    begins: list[int | None] = [None] * len(program)
    engine_free: dict[str, int] = {}
    while None in begins:
        best: tuple[int, int] | None = None
        for k, (kind, stream, _) in enumerate(program):
            earlier = [j for j in range(k) if program[j][1] in (stream, 0) or stream == 0]
            if begins[k] is not None or any(begins[j] is None for j in earlier):
                continue
            ready = max((begins[j] + program[j][2] for j in earlier), default=0)  # type: ignore[operator]
            if kind != "kernel":
                ready = max(ready, engine_free.get(kind if engines == 2 else "", 0))
            if best is None or (ready, k) < best:
                best = ready, k
        assert best is not None
        begin, k = best
        begins[k] = begin
        if program[k][0] != "kernel":
            engine_free[program[k][0] if engines == 2 else ""] = begin + program[k][2]
    return [begin for begin in begins if begin is not None]


def _mistaken(program: Sequence[Piece], engines: int) -> dict[str, list[int]]:
    """What known mistakes give."""
    right = Rules(engines)
    starts = right.starts(program)
    return {
        "each stream is taken for itself: copies of one engine take their turns": replace(right, engines=0).starts(
            program
        ),
        "in and out have an engine each, and here there is one for both": replace(right, engines=2).starts(program),
        "all copies take their turns on one engine, and here each direction has its own": replace(
            right, engines=1
        ).starts(program),
        "kernels take their turns: small ones of different streams run side by side": replace(
            right, kernels_in_turn=True
        ).starts(program),
        "stream 0 is taken for one like the others: it is the NULL stream": replace(
            right, null_waits=False, null_holds=False
        ).starts(program),
        "work in the NULL stream does not wait for what was put into the other streams before": replace(
            right, null_waits=False
        ).starts(program),
        "work in the other streams does not wait for what was put into the NULL stream before": replace(
            right, null_holds=False
        ).starts(program),
        "an engine takes the copy that is ready first: it takes them in the order in which they were put in": _as_ready(
            program, engines
        ),
        "work of one stream overlaps with itself: a stream is in order": replace(right, in_streams=False).starts(
            program
        ),
        "these are the ends: wanted is when each piece begins": [
            begin + units for begin, (_, _, units) in zip(starts, program, strict=True)
        ],
        "nothing overlaps here: pieces of different streams may": [
            sum(units for _, _, units in program[:k]) for k in range(len(program))
        ],
    }


def _programs(bench: StreamBench) -> list[tuple[str, list[Piece], int]]:
    """What is asked: text, program, and copy engines. The numbers are others with each seed."""

    def pieces(*places: tuple[str, int]) -> list[Piece]:
        return [(kind, stream, bench.between(2, 9)) for kind, stream in places]

    def any_pieces(count: int) -> list[Piece]:
        return pieces(*((_KINDS[bench.between(0, 2)], bench.between(0, 9) % 4) for _ in range(count)))

    depth = [(kind, stream) for stream in (1, 2, 3) for kind in _KINDS]
    breadth = [(kind, stream) for kind in _KINDS for stream in (1, 2, 3)]
    split = [("kernel", 1), ("in", 2), ("kernel", 0), ("kernel", 3), ("in", 1), ("out", 2), ("kernel", 2)]
    late: list[Piece] = [("kernel", 1, 20), ("out", 1, 3), ("out", 2, bench.between(2, 9)), ("in", 3, 5)]
    found = [
        (f"three pieces, {order}, {engines} copy engine{'s' * (engines > 1)}", pieces(*given), engines)
        for order, given in (("depth-first", depth), ("breadth-first", breadth))
        for engines in (1, 2)
    ]
    found += [("a kernel in the NULL stream", pieces(*split), 2), ("a copy that waits for its kernel", late, 2)]
    found += [
        ("the same with one copy engine", late, 1),
        ("no work at all", [], 1),
        ("one copy", pieces(("out", 4)), 2),
    ]
    for engines in (1, 2, 1, 2, 1, 2):
        count = bench.between(9, 16)
        found.append(
            (f"{count} pieces in any order, {engines} copy engine{'s' * (engines > 1)}", any_pieces(count), engines)
        )
    return found


def _predict(bench: StreamBench) -> None:
    for text, program, engines in _programs(bench):
        with bench.case(text) as trial:
            trial.call([tuple(piece) for piece in program], engines)
            _compare(bench, program, engines, _numbers(trial.value))
            bench.measure(CALLS, len(trial.calls))


def _numbers(value: Any) -> list[float] | None:
    """The numbers in a list, as they are now; None where it is no list of numbers."""
    if not isinstance(value, list | tuple | np.ndarray):
        return None
    try:
        return [float(each) for each in value]
    except (TypeError, ValueError):
        return None


def _compare(bench: StreamBench, program: Sequence[Piece], engines: int, said: list[float] | None) -> None:
    right = Rules(engines).starts(program)
    if said is None or len(said) != len(right):
        returned = "no list of numbers" if said is None else f"{len(said)} numbers"
        text = f"the function returned {returned}; wanted is a list of {len(right)}, one for each piece"
        bench.find("correctness", "wrong shape", text, look="what the function returns: a list of the times")
        return
    wrong = next((k for k, begin in enumerate(right) if said[k] != begin), None)
    if wrong is None:
        return
    kind, stream, units = program[wrong]
    like = [mistake for mistake, starts in _mistaken(program, engines).items() if starts == said]
    bench.find(
        "correctness",
        "wrong values",
        f"program[{wrong}], {kind!r} in stream {stream} for {units}, begins at {right[wrong]}; the function says "
        f"{said[wrong]:g}. There {'are two copy engines' if engines == 2 else 'is one copy engine'}, and this is the "
        f"program: {[*program]}",
        look="what the piece waits for: its stream, its engine, and the NULL stream",
        mistake=like[0] if len(like) == 1 else "",  # of several another case tells
    )


PREDICTION = Exercise(
    id="11.7",
    title="Predict a timeline",
    kernel="starts",
    examine=_predict,
    correctness=3,
    gates=(CALLS,),
    answer="function",
)
