"""What a launch finds in the L2, by access property: part of ``cudalab.profile``, and modelled.

Nsight Compute counts the sectors that the L2 looks up (``lts__t_sectors``), those that were there (``…_lookup_hit``),
and both by eviction priority: ``evict_first`` for streaming accesses, ``evict_last`` for persisting ones. Which sectors
hit depends on what earlier work left in the L2. Here it is that of a launch which is repeated, in CuPy's current stream
with its access policy window, as Nsight Compute with ``--cache-control none`` would show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cudalab.sim.device.profile import load
from cudalab.sim.device.timing.l2_ranges import NORMAL, PERSISTING, STREAMING, Lookups
from cudalab.sim.device.timing.launch_time import Timer
from cudalab.sim.machine.launch.module import Launch

_PRIORITIES = {NORMAL: "evict_normal", STREAMING: "evict_first", PERSISTING: "evict_last"}
_NAMES = {NORMAL: "normal", STREAMING: "streaming", PERSISTING: "persisting"}


@dataclass(frozen=True)
class L2Lookups:
    """Sectors that a launch looks up in the L2, and those of them that hit; modelled."""

    by_property: Sequence[Lookups]
    """``asked`` and ``hit``, by ``cudaAccessProperty``."""

    @property
    def hit_rate(self) -> float:
        """The share of all lookups that hit, 0 to 1."""
        asked = sum(each.asked for each in self.by_property)
        return sum(each.hit for each in self.by_property) / asked if asked else 0.0

    @property
    def metrics(self) -> dict[str, float]:
        """Under Nsight Compute's names."""
        found = {
            "lts__t_sectors_srcunit_tex.sum": sum(each.asked for each in self.by_property),
            "lts__t_sectors_srcunit_tex_lookup_hit.sum": sum(each.hit for each in self.by_property),
        }
        for which, priority in _PRIORITIES.items():
            each, name = self.by_property[which], f"lts__t_sectors_srcunit_tex_{priority}"
            found |= {
                f"{name}.sum": each.asked,
                f"{name}_lookup_hit.sum": each.hit,
                f"{name}_lookup_miss.sum": each.asked - each.hit,
            }
        return found

    def __repr__(self) -> str:
        parts = [
            f"{_NAMES[which]} {each.hit / each.asked:.0%} of {each.asked:,.0f} sectors"
            for which, each in enumerate(self.by_property)
            if each.asked
        ]
        return f"L2 hits of a repeated launch (modelled): {'; '.join(parts) or 'no lookups'}"


def l2_lookups(launch: Launch) -> L2Lookups:
    """The lookups of a launch on the current simulated device; one that was brought there from a GPU finds an L2 of its
    own, without windows."""
    from cudalab import backend

    if backend.choice().kind == "sim":
        stream = int(backend.cp.cuda.get_current_stream().ptr)
        return L2Lookups(backend.simulated_device().l2_lookups(launch, stream))
    return L2Lookups(Timer(load()).lookups(launch, None, None))
