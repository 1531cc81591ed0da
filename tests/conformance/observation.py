"""What the hazard report and the sanitizer say of a conformance program while it runs on the simulated device.

The programs agree with a real GPU, so nothing should be found but what is listed here with its reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

#: Wrong on purpose: what the sanitizer must find there.
WRONG = {
    "barriers/exit_before_barrier": {"barrier after exit"},  # legal in a plain launch, and what synccheck is for
    "callbacks/after_a_fault": {"null pointer"},
    "clusters/block_size": {"race"},  # every thread writes the same number
    "clusters/distributed_histogram": {"race"},  # two threads of a block set each bin to zero
    "clusters/ended_block": {"shared memory of a block that has ended"},
    "clusters/missing_rank": {"no such rank", "race"},  # both blocks write the same elements, here and below
    "clusters/misaligned_remote": {"misaligned address", "race"},
    "clusters/past_the_end": {"out of bounds", "race"},
    "device_heap/double_free": {"invalid free"},
    "device_heap/exhaustion": {"memory leak"},  # they count how often malloc gives something
    "device_heap/limit": {"memory leak"},
    "device_heap/stack_limit": {"stack overflow"},
    "device_graph_codes/fault_in_a_child": {"out of bounds"},
    "device_graph_codes/fault_in_a_tail": {"out of bounds"},
    "graphs/fault_in_graph": {"never allocated"},
    "l2_windows/behind_a_fault": {"out of bounds"},
    "launch_attributes/cluster_sizes": {"race"},  # all threads of a block write the same number, here and below
    "launch_attributes/twice": {"race"},
    "launch_attributes/together": {"race"},
    "grid_sync/not_cooperative": {"grid synchronisation"},
    "named_barriers/uneven_count": {"barrier count"},
    "named_barriers/reduction_mixed_with_sync": {"mixed barrier"},
    "textures/surface_overrun": {"surface access out of bounds"},
    "textures/surface_misaligned": {"misaligned address"},
    "vector_atomics/sixteen_bytes": {"race"},  # one thread reads the cell that others still exchange
}
#: Their kernels wait for something that the sanitizer keeps away: another kernel, a copy, the host.
WAITING = ("spinning/", "programmatic_launch/", "dependent_launch/", "sync_domains/")
#: They count launches in memory that nobody sets to zero first: a correct finding of initcheck.
UNSET = (
    "launch_errors/",
    "two_devices/access_goes_one_way",
    "two_devices/kernel_after_disabling",
    "two_devices/kernel_without_access",
)
#: Whole families of mistakes.
FAULTY = ("faults/",)
#: A pool lends memory again before a launch that reads it has run; `cudalab.sanitize` waits for such launches first.
LENT_AGAIN = {"memory_spaces/grid_stride_loop"}
UNORDERED = {
    "copy_order/plain_copy_beside_non_blocking": "shows that a copy does not wait for a non-blocking stream",
    "copy_order/from_page_locked": "overwrites a source that a copy has still to read, to show when it is read",
    "copy_order/from_registered": "the same",
    "copy_order/from_other_page_locked": "the same",
    "copy_order/mapped_memory_is_read_late": "the same, with a kernel that reads mapped memory",
    "copy_order/of_cupy": "the same, with CuPy",
    "copy_order/to_page_locked": "looks at the destination before the copy has run, to show that it is empty",
    "copy_order/in_order": "the same",
    "copy_shapes/peer_copies": "a small copy from pageable memory returns when it is staged; the next is non-blocking",
    "copy_shapes/copies_2d_of_the_driver": "the same",
    "copy_shapes/copies_3d_of_the_driver": "the same",
    "copy_shapes/copies_of_the_driver": "the same, and a copy within the device, which never waits",
    "concurrent_atomics/lock_of_two_kernels": "kernels of two streams order their accesses by a lock of their own",
    "sync_domains/messages_between_domains": "the same, by flags",
    "contexts/peer_copies_on_one_device": "a copy in a non-blocking stream behind one in the default stream",
    "graph_edges/captured": "a kernel that waits for nothing overwrites what the one before it may still read",
    "launch_attributes/domain_and_map": "zeros of the default stream in a non-blocking one, long after",
    "launch_attributes/event_behind_work": "the same",
    "two_devices/with_cupy": "an array of one device used on the other without a wait, as CuPy lets it",
    "two_devices/mixed_arrays": "the same",
    "two_devices/crossed_cupy": "the same",
    "spinning/host_sets_a_mapped_flag": "zeros of the default stream in a non-blocking one, long after",
    "spinning/host_sets_a_managed_flag": "the same",
}
"""Programs whose results do not depend on an order that they leave out, and why."""
TIME_LIMIT = 20.0  # seconds a block may take under the sanitizer
TIME_LIMIT_OF_WAITING = 2.0


@dataclass
class Observation:
    """What was said of one program."""

    hazards: list[str] = field(default_factory=list)
    findings: list[tuple[str, str]] = field(default_factory=list)
    """The rule, and the finding in words, of every launch."""


@contextmanager
def observed(key: str, sanitize: bool) -> Iterator[Observation]:
    """Within it the program ``key`` runs, its launches under all tools of the sanitizer if so asked."""
    from cudalab.sim.device.current import current_device
    from tests.sim.machine.sanitizer.checked_launches import checked_launches

    seen = Observation()
    device = current_device()
    before = device.hazard_report.sightings if device.hazard_report else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hazards are warnings; they are taken from the report below
        if sanitize:
            limit = TIME_LIMIT_OF_WAITING if key.startswith(WAITING) else TIME_LIMIT
            with checked_launches(time_limit=limit) as launches:
                yield seen
            seen.findings = [(found.rule, str(found)) for _, result in launches for found in result.findings]
        else:
            yield seen
        device = current_device()
        with suppress(Exception):  # what is broken is seen in the program's result
            device.synchronize()
        if device.hazard_report:
            seen.hazards = [hazard.text for hazard in device.hazard_report.since(before)]


def complaints(key: str, seen: Observation, *, sanitized: bool, isolated: bool) -> list[str]:
    """What should not have been said of a program, and what should have been and was not."""
    wrong = []
    if key not in UNORDERED and not isolated:
        wrong += [f"hazard: {text}" for text in seen.hazards]
    if not sanitized:
        return wrong
    rules, expected = {rule for rule, _ in seen.findings}, WRONG.get(key, set())
    allowed = set(expected)
    if key.startswith(UNSET) or key in LENT_AGAIN:
        allowed.add("uninitialised read")
    if key.startswith(WAITING):
        allowed |= {"endless wait", "endless loop"}
    wrong += [f"sanitizer: {text}" for rule, text in seen.findings if rule not in allowed]
    return wrong + [f"sanitizer: {rule!r} was not found" for rule in sorted(expected - rules)]
