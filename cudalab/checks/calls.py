"""Which runtime calls an answer in Python may make where it is graded.

Calls are declared in families (``sim/device/calls``). Those that any program needs are open to every exercise: memory,
copies, streams and events, kernels, the device and its errors. What a chapter teaches beyond them is open to that
chapter's exercises, and an exercise can name more. All else is refused, by name. A notebook refuses nothing: there a
learner may try what there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.device.declaration import CALLS

if TYPE_CHECKING:
    from cudalab.checks.exercise import Exercise

COMMON = frozenset({"copies", "device", "kernels", "memory", "pools", "streams"})
_GRAPHS = frozenset(
    {"graphs", "graph_execution", "graph_parameters", "graph_memory", "node_attributes", "stream_capture"}
)
TAUGHT = {
    "05": frozenset({"stream_attributes"}),
    "08": frozenset({"managed_memory"}),
    "12": frozenset({"stream_attributes"}),
    "15": _GRAPHS,
}
"""By chapter, the families that its exercises are about, beside the common ones."""


def families(exercise: Exercise) -> frozenset[str]:
    """The families of calls that are open to an exercise."""
    return COMMON | TAUGHT.get(exercise.id[:2], frozenset()) | exercise.calls


def allowed(exercise: Exercise) -> frozenset[str]:
    """The calls that an answer to an exercise may make, by their names in ``CALLS``."""
    open_here = families(exercise)
    return frozenset(name for name, call in CALLS.items() if call.family in open_here)
