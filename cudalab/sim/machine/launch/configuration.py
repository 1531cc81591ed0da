"""What a kernel is launched with: the launch configuration.

A configuration is what ``<<<grid, block, shared>>>`` and the attributes of ``cuLaunchKernelEx`` say. It is made by
:meth:`LoadedKernel.configure`, which refuses what the device does not allow and fills in what the kernel itself says
(``__cluster_dims__``, ``__block_size__``), and is passed whole from there on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from cudalab.sim.abi import WARP

Dim3 = tuple[int, int, int]
"""Numbers in x, y and z."""


def dim3(value: Sequence[int] | int, what: str) -> Dim3:
    """The size of a grid, block or cluster as three numbers; missing ones are 1.

    Args:
        value: one to three numbers.
        what: whose size it is, for the message.

    Raises:
        ValueError: more than three numbers, or none.
    """
    if type(value) is tuple and len(value) == 3 and type(value[0]) is type(value[1]) is type(value[2]) is int:
        return value
    numbers = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{what} must have one to three dimensions (got {len(numbers)}: {numbers})")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


class LaunchConfig(Struct, frozen=True, cache_hash=True):  # every launch looks its configuration up several times
    """A launch configuration (CUDA C++ Programming Guide, "Execution Configuration")."""

    grid: Dim3
    """Blocks in x, y, z."""
    block: Dim3
    """Threads of a block in x, y, z."""
    shared: int = 0
    """Dynamic shared memory a block, bytes."""
    cluster: Dim3 | None = None
    """Blocks of a cluster in x, y, z; None without clusters."""
    cooperative: bool = False
    """All blocks are resident at once, so the grid may synchronise."""

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.grid
        return x * y * z

    @property
    def threads_per_block(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def threads(self) -> int:
        """Threads of the grid."""
        return self.blocks * self.threads_per_block

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads_per_block // WARP)

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster; 1 without clusters."""
        return math.prod(self.cluster) if self.cluster is not None else 1
