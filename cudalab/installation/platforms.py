"""Where cudalab runs: Linux on x86-64 and 64-bit Arm, and Windows on x86-64, with Python 3.11 or newer.

The simulated device compiles with NVRTC, for which NVIDIA publishes no macOS build, and with LLVM through llvmlite,
which has no build for Windows on Arm. Both are refused at import, which is also the first thing that
``python -m cudalab setup`` and so ``make lab`` do, with the way that does work: a Linux container. This module uses the
standard library only, because it runs before anything is installed.
"""

from __future__ import annotations

import platform
import sys

MINIMUM_PYTHON = (3, 11)

_CONTAINER = (
    "Use the container instead. In the folder of the course, with Docker or Podman:\n"
    "    docker build --platform linux/{cpu} --tag cudalab .\n"
    "    docker run --rm --publish 127.0.0.1:8888:8888 cudalab\n"
    "and open the address that it prints. The section 'In a container' of README.md says more."
)


def unsupported(system: str, machine: str, python: tuple[int, int]) -> str | None:
    """Why cudalab cannot run on such a machine and what to do, or None where it can.

    ``system`` as in ``sys.platform``, ``machine`` as in ``platform.machine()``.
    """
    arm = machine.lower() in ("arm64", "aarch64")
    if python < MINIMUM_PYTHON:
        return (
            f"cudalab needs Python {MINIMUM_PYTHON[0]}.{MINIMUM_PYTHON[1]} or newer, and this is Python "
            f"{python[0]}.{python[1]}. Install a newer one (python.org, your package manager or conda) and run the "
            "command with it."
        )
    if system == "darwin":
        return (
            "cudalab does not run on macOS: the simulated device needs NVIDIA's run-time compiler (NVRTC), which "
            "NVIDIA does not publish for macOS.\n" + _CONTAINER.format(cpu="arm64" if arm else "amd64")
        )
    if system == "win32" and arm:
        return (
            "cudalab does not run on Windows for Arm: the simulated device needs llvmlite, which is not published "
            "for it.\n" + _CONTAINER.format(cpu="arm64")
        )
    return None


def require_supported() -> None:
    """Raise ``ImportError`` with the way out where cudalab cannot run; as a program, print it and stop."""
    reason = unsupported(sys.platform, platform.machine(), sys.version_info[:2])
    if reason is None:
        return
    if sys.argv[:1] == ["-m"]:  # `python -m cudalab …` imports the package before it runs a line of its own
        sys.exit(reason)
    raise ImportError(reason)
