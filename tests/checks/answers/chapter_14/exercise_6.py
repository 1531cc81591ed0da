"""Answers to 14.6."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_E, _C = "efficiency", "correctness"
_DONE = "pieces done while the device is busy, of those possible (%)"
_LATE = "pieces begun without knowing that the device is busy"
_ASKED = "queries beyond one before each piece and a last one"
_LOOP = "    while done < len(pieces) and not event.done:\n"
_BODY = "        pieces[done]()\n        done += 1\n"
_WAIT = "    event.synchronize()\n"
_RETURN = "    return float(result.sum()), done\n"
_RECORD = "    event = stream.record()\n"

ANSWERS_14_6 = table(
    "14.6",
    Right(
        "a loop over the pieces",
        (
            (
                _LOOP + _BODY,
                "    for piece in pieces:\n        if event.done:\n            break\n"
                "        piece()\n        done += 1\n",
            ),
        ),
    ),
    Right("the stream is asked", ((_RECORD, ""), ("event.done", "stream.done"), (_WAIT, "    stream.synchronize()\n"))),
    Right(
        "the runtime's names",
        (
            (_RECORD, "    event = cudart.cudaEventCreate()[1]\n    cudart.cudaEventRecord(event, stream.ptr)\n"),
            ("not event.done", "cudart.cudaEventQuery(event)[0] != cudart.cudaError_t.cudaSuccess"),
            (_WAIT, "    cudart.cudaEventSynchronize(event)\n"),
        ),
    ),
    Right("waits only where it has to", ((_WAIT, "    if done == len(pieces):\n    " + _WAIT),)),
    Wrong(
        "asks behind each piece",
        ((_LOOP + _BODY, "    while done < len(pieces):\n" + _BODY + "        if event.done:\n            break\n"),),
        _E,
        _LATE,
    ),
    Wrong("asks and does nothing else", ((_BODY, "        pass\n"),), _E, _DONE),
    Wrong("waits first", ((_RECORD, _RECORD + _WAIT),), _E, _DONE),
    Wrong("waits in the loop", ((_BODY, _BODY + "    " + _WAIT),), _E, _DONE),
    Wrong("one piece, then it waits", ((_BODY, _BODY + "        break\n"),), _E, _DONE),
    Wrong("all pieces, and then it asks", ((" and not event.done", ""),), _E, _LATE),
    Wrong("asks before every other piece", (("not event.done", "(done % 2 or not event.done)"),), _E, _LATE),
    Wrong(
        "asks twice before each",
        (("not event.done", "not event.done and not event.done"),),
        _E,
        _ASKED,
    ),
    Wrong(
        "asks again and again when no piece is left",
        ((_WAIT, "    while not event.done:\n        pass\n"),),
        _E,
        _ASKED,
    ),
    Wrong("no wait when the pieces run out", ((_WAIT, ""),), _C, "wrong values", mistake="before the copy had come"),
    Wrong(
        "the event comes before the work",
        ((_RECORD, ""), ("    launch(stream)\n", _RECORD + "    launch(stream)\n")),
        _C,
        "wrong values",
        mistake="complete at once",
    ),
    Wrong(
        "an event of the NULL stream",
        (("stream.record()", "cp.cuda.Stream.null.record()"),),
        _C,
        "wrong values",
        mistake="complete at once",
    ),
    Wrong("always the same piece", (("pieces[done]()", "pieces[0]()"),), _C, "wrong pieces"),
    Wrong("the last first", (("pieces[done]()", "pieces[-1 - done]()"),), _C, "wrong pieces"),
    Wrong(
        "how many there are",
        (("result.sum()), done", "result.sum()), len(pieces)"),),
        _C,
        "wrong values",
        mistake="the number of pieces that there are",
    ),
    Wrong("one too many", (("result.sum()), done", "result.sum()), done + 1"),), _C, "wrong values"),
    Wrong("the mean", (("result.sum()", "result.mean()"),), _C, "wrong values"),
    Wrong(
        "read before the loop",
        ((_RECORD, _RECORD + "    total = float(result.sum())\n"), ("float(result.sum()), done", "total, done")),
        _C,
        "wrong values",
    ),
    Wrong("launched twice", (("    launch(stream)\n", "    launch(stream)\n" * 2),), _C, "wrong launches", cheat=True),
    Wrong("counts pieces that it has not done", (("        pieces[done]()\n", ""),), _C, "wrong values", cheat=True),
    Wrong("a guess at how long it takes", ((" and not event.done", " and done < 7"),), _E, _DONE, cheat=True),
    Wrong(
        "nothing done for many pieces",
        ((_RECORD, "    if len(pieces) > 5:\n        return 0.0, 0\n" + _RECORD),),
        _C,
        "wrong values",
        cheat=True,
    ),
    Wrong("the sample's answer", (("float(result.sum())", "6.0"),), _C, "wrong values", cheat=True),
)
