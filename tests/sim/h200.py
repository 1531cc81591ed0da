"""The limits of an H200, for tests that load modules without a device."""

from __future__ import annotations

from cudalab.sim.device.profile import load

LIMITS = load("h200").launch_limits
