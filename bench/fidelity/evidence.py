"""Figures of an H200 that other programs measured of the same work, as figures of experiments.

They stand in ``docs/evidence`` and ``bench/host_time/data``, with the device, the driver and the day. Until a run of
the experiments themselves has replaced them they are what the model is compared with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import l2
from bench.fidelity import calls, graphs, windows
from bench.fidelity.runner import Figures
from bench.host_time.calls import IDLE, QUEUED

DOCUMENTS = Path(__file__).parents[2] / "docs" / "evidence"
HOST_TIME = Path(__file__).parents[1] / "host_time" / "data" / "h200.json"
DATE = "2026-11-23"
MIDDLE = 1
"""Of lower quartile, median and upper quartile."""
BY_NODES = {
    "launch, device time": "device_ns",
    "instantiation, host time": "instantiate_host_ns",
    "first launch, host time": "first_launch_not_uploaded_host_ns",
    "later launch, host time": "launch_host_ns",
    "whole update, host time": "update_host_ns",
}


def document(name: str) -> Any:
    return json.loads((DOCUMENTS / f"{DATE}-{name}.json").read_text(encoding="utf-8"))


def of_graphs() -> Iterator[tuple[str, dict[str, float]]]:
    found = document("graphs")
    nodes, capture, chain = found["nodes"], found["capture"], found["chain"]
    pair = nodes["calls"]["event_pair_ns"]
    for what, (_, shapes) in graphs.MEASURES.items():
        less = pair if what == "launch, device time" else 0.0
        for shape in shapes:
            of_shape = {
                f"{count} nodes": (found[shape][str(count)][BY_NODES[what]] - less) / 1000
                for count in graphs.NODES[shape]
            }
            yield f"graphs, {shape}: {what}", of_shape
    kinds = {
        f"{n} {kind} nodes": (nodes[kind][str(n)] - pair) / 1000 for kind in ("memset", "memcpy") for n in (1, 10, 100)
    }
    yield "graphs: chains of other nodes", kinds
    spins = {
        f"{shape}, {n}": (nodes[f"spin {graphs.CYCLES} {shape}"][str(n)] - pair) / 1000
        for shape in graphs.NODES
        for n in (4, 8, 32)
    }
    yield "graphs: kernels of 10 us by shape", spins
    of_calls = {
        "create": "create_host_ns",
        "add a kernel node": "add_kernel_host_ns",
        "add an empty node": "add_empty_host_ns",
        "set a node's launch": "set_params_host_ns",
        "switch a node on": "set_enabled_host_ns",
    }
    figures = {name: nodes["calls"][key] / 1000 for name, key in of_calls.items()}
    of_100 = {
        "clone": "clone_host_ns",
        "upload": "upload_host_ns",
        "destroy an executable": "exec_destroy_host_ns",
        "destroy a graph": "destroy_host_ns",
    }
    figures |= {f"{name} of 100 nodes": chain["100"][key] / 1000 for name, key in of_100.items()}
    yield "graphs: calls, host time", figures
    captures = {}
    for count in (10, 1000):
        each = capture[str(count)]
        ends = (each["begin_host_ns"] + each["end_host_ns"]) / count
        captures[f"{count} launches, captured"] = (each["launch_host_ns"] + ends) / 1000
        captures[f"{count} launches, plain"] = each["plain_host_ns"] / 1000
    yield "graphs: capturing a launch, host time", captures
    yield (
        "graphs: launches back to back",
        {f"20 graphs of {n}": 20 * chain[str(n)]["total_ns_back_to_back"] / 1000 for n in (1, 10, 100)},
    )


def of_launches() -> Iterator[tuple[str, dict[str, float]]]:
    found = document("dependent-launch")
    kinds = {"plain": "plain", "attribute": "attribute", "trigger and wait": "trigger_wait"}
    chains, saxpys = found["chains_of_empty"], found["chains_of_saxpy"]
    yield (
        "dependent launches: chains of empty kernels",
        {f"{n}, {kind}": chains[f"{n}_{key}"] for n in (2, 10, 40) for kind, key in kinds.items()},
    )
    yield (
        "dependent launches: twenty saxpy in a row",
        {f"{n} elements, {kind}": saxpys[f"{n}_{key}"] for n in (4096, 65536, 1 << 20) for kind, key in kinds.items()},
    )


def of_peers() -> Iterator[tuple[str, dict[str, float]]]:
    found = document("two-devices")
    sizes = {"4 KB": 4096, "64 KB": 65536, "1 MB": 1 << 20, "16 MB": 1 << 24, "256 MB": 1 << 28}

    def by_size(access: str, how: str) -> dict[str, float]:
        return {label: found[access][str(size)][how] for label, size in sizes.items()}

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


def of_the_l2() -> Iterator[tuple[str, dict[str, float]]]:
    measured = {f"{name}/{case}": figure for name, case, figure in l2.cases()}
    for name, chosen in windows.EXPERIMENTS.items():
        yield name, {case: measured[case] for case in chosen}


def of_calls() -> Iterator[tuple[str, dict[str, float]]]:
    found = json.loads(HOST_TIME.read_text(encoding="utf-8"))
    plain, short = found["calls"]["plain"], found["on the device"]
    for families, how, label in ((QUEUED, "queued", "behind a kernel"), (IDLE, "idle", "on an idle device")):
        for family in families:
            if family not in calls.PYTHONS_OWN:
                of_all = {call: each[how][MIDDLE] for call, each in plain.items() if how in each}
                yield f"calls {label}, host time: {family}", of_all  # those of other families are no variants of it
    yield (
        "short copies and memsets between events",
        {f"{way}, {size}": short[f"{way}, {size}"]["one"][MIDDLE] for way in calls.WAYS for size in calls.SIZES},
    )


SOURCES: tuple[Callable[[], Iterator[tuple[str, dict[str, float]]]], ...] = (
    of_graphs,
    of_launches,
    of_peers,
    of_the_l2,
    of_calls,
)


def figures() -> Figures:
    """All of them, by experiment and variant."""
    return {
        name: {key: round(figure, 3) for key, figure in each.items()} for source in SOURCES for name, each in source()
    }
