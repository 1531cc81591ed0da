"""How long a timeline takes: to record, to make spans of, and to draw.

    python -m bench.timeline [--json FILE]

Work in four streams on the simulated device: 60 spans, and 3,000. *Recording* is what a call costs more inside a trace.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("CUDALAB_DEVICE", "sim")

import cudalab
from cudalab import cp, cudart
from cudalab.plots.timeline import timeline
from cudalab.timeline import Timeline

REPEATS = 9


def median_ms(action: Callable[[], object]) -> float:
    """Milliseconds of the middle of several runs."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        action()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


class Work:
    """Copies in both directions and memsets, in four streams."""

    def __init__(self) -> None:
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
        self.host = cp.cuda.alloc_pinned_memory(1 << 16)
        self.device = [cp.zeros(1 << 12, cp.float32) for _ in self.streams]
        cp.cuda.Device().synchronize()

    def issue(self, spans: int) -> None:
        kinds = cudart.cudaMemcpyKind
        for at in range(spans // 3):
            which = at % 4
            stream, array = self.streams[which].ptr, self.device[which].data.ptr
            host = self.host.ptr + which * (1 << 14)
            cudart.cudaMemcpyAsync(array, host, 1 << 14, kinds.cudaMemcpyHostToDevice, stream)
            cudart.cudaMemsetAsync(array, 0, 1 << 14, stream)
            cudart.cudaMemcpyAsync(host, array, 1 << 14, kinds.cudaMemcpyDeviceToHost, stream)
        cp.cuda.Device().synchronize()

    def trace(self, spans: int) -> Timeline:
        with cudalab.trace() as t:
            self.issue(spans)
        return t


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    work, rows = Work(), {}
    work.trace(60).picture().svg()  # imports, and the font
    for spans in (60, 3000):
        plain = median_ms(lambda spans=spans: work.issue(spans))  # type: ignore[misc]
        traced = median_ms(lambda spans=spans: work.trace(spans))  # type: ignore[misc]
        looked = median_ms(lambda spans=spans: work.trace(spans).spans)  # type: ignore[misc]
        t = work.trace(spans)
        rows[f"{spans} spans"] = {
            "issue_ms": plain,
            "recording_us_a_span": (traced - plain) / spans * 1e3,
            "spans_ms": looked - traced,
            "summary_ms": median_ms(lambda t=t: t.summary),  # type: ignore[misc]
            "draw_ms": median_ms(lambda t=t: timeline(t).svg()),  # type: ignore[misc]
            "svg_kB": len(timeline(t).svg()) / 1e3,
            "chrome_trace_ms": median_ms(t.chrome_trace),
        }
    for name, row in rows.items():
        print(name)
        for what, value in row.items():
            print(f"  {what:22} {value:9.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
