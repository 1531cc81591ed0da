"""Figures of two H200 that another program measured of the same work, as figures of experiments.

They stand in ``docs/evidence``, with the device, the driver and the day. Until a run of the experiments themselves on
two devices has replaced them they are what the model is compared with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from bench.fidelity.runner import Figures

DATE = "2026-11-23"
TWO_DEVICES = Path(__file__).parents[2] / "docs" / "evidence" / f"{DATE}-two-devices.json"
SIZES = {"4 KB": 4096, "64 KB": 65536, "1 MB": 1 << 20, "16 MB": 1 << 24, "256 MB": 1 << 28}


def of_peers() -> Iterator[tuple[str, dict[str, float]]]:
    found = json.loads(TWO_DEVICES.read_text(encoding="utf-8"))

    def by_size(access: str, how: str) -> dict[str, float]:
        return {label: found[access][str(size)][how] for label, size in SIZES.items()}

    yield "peers: copies without access, by size", by_size("no_access", "push_us")
    yield "peers: copies with access, in a stream of the source", by_size("access", "push_us")
    yield "peers: copies with access, in a stream of the destination", by_size("access", "pull_us")
    reads = {
        f"{label}, {size >> 20} MB": found["kernels"][place][str(size)]["read_wide_us"]
        for label, place in (("own memory", "local"), ("a peer's", "peer"))
        for size in (1 << 24, 1 << 28)
    }
    yield "peers: kernels that read, by whose memory", reads
    yield (
        "peers: calls, host time",
        {
            "select a device": found["set_device_ns"] / 1000,
            "copy of 1 MB, without access": found["no_access"][str(1 << 20)]["call_us"],
            "copy of 1 MB, with access": found["access"][str(1 << 20)]["call_us"],
        },
    )


def figures() -> Figures:
    """All of them, by experiment and variant."""
    return {name: {key: round(figure, 3) for key, figure in each.items()} for name, each in of_peers()}
