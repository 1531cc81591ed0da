"""Chapter 14's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout

from IPython.core.interactiveshell import InteractiveShell

import cudalab
from cudalab.sim.device.hazards import HazardWarning
from tests.notebooks.chapter import Chapter, ComparedCells, Mutation

LEAST_COMPARED = 6
CHAPTER = Chapter(
    "14_events.ipynb",
    {
        "life": ["ok", "kernel-put"],
        "null-stream": ["kernel-put"],
        "codes": ["ok", "kernel-put"],
        "fork-values": ["kernel-put", "kernel-add", "one-stream", "two-streams"],
        "last-record": ["kernel-put"],
        "too-early": ["kernel-put", "elapsed"],
        "record-first": ["kernel-put", "copy-kernel"],
    },
)

MUTATIONS = [
    Mutation("life", "life", "ok(cudart.cudaEventSynchronize(event))", ""),
    Mutation("life", "life", "ok(cudart.cudaEventRecord(event, a.ptr))", ""),
    Mutation("life", "life", "cudart.cudaEventDestroy(event)", "cudart.cudaEventDestroy(0)"),
    Mutation("null-stream", "null-stream", "cp.cuda.Stream.null.record()", "stream.record()"),
    Mutation("null-stream", "null-stream", "cp.cuda.Stream(),", "cp.cuda.Stream(non_blocking=True),"),
    Mutation("null-stream", "null-stream", "host_work(1000)", "host_work(10_000)"),
    Mutation("null-stream", "kernel-put", "steps=2_000_000", "steps=200"),
    Mutation("codes", "codes", "(cudart.cudaEventDisableTiming)", "(cudart.cudaEventBlockingSync)"),
    Mutation("codes", "codes", "never.record(a)", "pass"),
    Mutation("codes", "codes", 'a.synchronize()\nprint("after', 'print("after'),
    Mutation("codes", "codes", "timed.record(a)", "never.record(a)"),
    Mutation("fork-values", "kernel-add", "*a + *b, v", "*a - *b, v"),
    Mutation("fork-values", "one-stream", '"right", 1, 1, 3)', '"right", 1, 0, 3)'),
    Mutation("fork-values", "two-streams", "    b.wait_event(ready)", "    b.done"),
    Mutation("fork-values", "two-streams", '"right", 1, 1, 3)', '"right", 1, 0, 3)'),
    Mutation("last-record", "last-record", "b.wait_event(mark)", ""),
    Mutation("last-record", "last-record", "mark.record(a)  # the same event, again", ""),
    Mutation("last-record", "last-record", "put_slowly(2, 3, a)", "put_slowly(2, 4, a)"),
    Mutation("too-early", "too-early", "end.synchronize()", "start.synchronize()"),
    Mutation("too-early", "kernel-put", "steps=2_000_000", "steps=200"),
    Mutation(
        "record-first", "record-first", "mark.record(a)\nb.wait_event(mark)", "b.wait_event(mark)\nmark.record(a)"
    ),
    Mutation("record-first", "record-first", "mark.record(a)", "mark.record(b)"),
    Mutation("record-first", "copy-kernel", "*y = *x;", "*y = *x + 1;"),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least = CHAPTER, MUTATIONS, LEAST_COMPARED

    def test_only_the_planted_mistake_is_a_hazard(self, shell: InteractiveShell) -> None:
        """Run as a learner runs it, the chapter has one hazard in this process: the wait before the record."""
        lines = []
        for name, cell in CHAPTER.cells.items():
            if name in ("tuner", "neighbours", "hazard", "quiz", "clocks", "fresh", "both"):
                continue  # slow, or in a process of its own; they are compared with what they are made of elsewhere
            with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()):
                warnings.simplefilter("always")
                ended = shell.run_cell(cell.source, store_history=False)
            assert ended.success, f"{name}: {ended.error_in_exec!r}"
            lines += [name for warning in caught if issubclass(warning.category, HazardWarning)]
        cudalab.backend.simulated_device().synchronize()
        assert set(lines) == {"wait-first"}
