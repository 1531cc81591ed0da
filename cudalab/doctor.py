"""``python -m cudalab doctor``: what is installed, which device is used and why, and how to mend what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Literal

from cudalab import backend
from cudalab.installation.gpu_probe import Gpu, NoGpu, probe
from cudalab.installation.kernelspecs import KERNELSPECS

State = Literal["ok", "note", "problem"]
_MARKS = {"ok": "ok  ", "note": "note", "problem": "BAD "}

# What the course cannot do without, and what needs it.
PACKAGES = {
    "numpy": "arrays",
    "llvmlite": "the simulated device",
    "cuda-bindings": "both devices",
    "nvidia-cuda-nvrtc": "the simulated device",
    "nvidia-cuda-runtime": "half and bfloat16 headers",
    "nvidia-cuda-cccl": "cooperative groups and cuda:: headers",
    "nvidia-cuda-crt": "programmatic dependent launch",
    "nvidia-curand": "curand_kernel.h, random numbers in kernels",
    "jupyterlab": "the course",
    "ipykernel": "the course",
    "ipywidgets": "live controls",
    "matplotlib": "figures",
    "nbclient": "recording",
}
# conda's packages carry no metadata that pip would know; there the header or library itself is looked for.
CONDA_FILES = {
    "nvidia-cuda-nvrtc": ("lib/libnvrtc.so", "Library/bin/nvrtc64_130_0.dll"),
    "nvidia-cuda-runtime": ("targets/*/include/cuda_fp16.h", "Library/include/cuda_fp16.h"),
    "nvidia-cuda-cccl": ("targets/*/include/cccl/cuda/atomic", "Library/include/cccl/cuda/atomic"),
    "nvidia-cuda-crt": ("targets/*/include/crt/host_defines.h", "Library/include/crt/host_defines.h"),
    "nvidia-curand": ("targets/*/include/curand_kernel.h", "Library/include/curand_kernel.h"),
}
PROGRAMS = {
    "chromium": ("the browser tests", "apt-get install chromium"),
    "bwrap": ("grading of host-code exercises in a jail", "apt-get install bubblewrap"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    state: State
    text: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{_MARKS[self.state]} {self.text}" + (f"\n       {self.mend}" if self.mend else "")


@dataclass(frozen=True)
class Report:
    """All findings."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Nothing is missing that the course needs."""
        return all(finding.state != "problem" for finding in self.findings)

    def __str__(self) -> str:
        end = "All that the course needs is here." if self.healthy else "Mend what is marked BAD, then run this again."
        return "\n".join([*map(str, self.findings), end])


def examine() -> Report:
    """Look at everything; nothing is changed."""
    findings = [
        Finding("ok", f"Python {sys.version.split()[0]} in {sys.prefix}"),
        *_packages(),
        *_gpu(probe()),
        *_device(),
        *_profiles(),
        *_kernels(),
        *_programs(),
    ]
    return Report(tuple(findings))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
    for pattern in CONDA_FILES.get(package, ()):
        if any(Path(sys.prefix).glob(pattern)):
            return "(conda)"
    return None


def _packages() -> Iterator[Finding]:
    for package, needed_for in PACKAGES.items():
        version = _version(package)
        if version is None:
            yield Finding(
                "problem",
                f"{package} is not installed (needed for {needed_for})",
                "run `python -m cudalab setup` in the course's folder (conda: `conda env update -f environment.yml`)",
            )
        else:
            yield Finding("ok", f"{package} {version}")


def _driver_by_smi() -> str:
    """The driver's own version from nvidia-smi, where there is one."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return ""
    command = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.split("\n")[0].strip() if answer.returncode == 0 else ""


def _gpu(found: Gpu | NoGpu) -> Iterator[Finding]:
    cupy = backend.installed_cupy()
    listed = ", ".join(f"{name} {version}" for name, version in cupy.items())
    if isinstance(found, NoGpu):
        smi = _driver_by_smi()
        state: State = "note" if not smi else "problem"
        seen = f", though nvidia-smi reports driver {smi}" if smi else ""
        mend = "in a container, pass the GPU on (docker: --gpus all)" if smi else ""
        yield Finding(state, f"no GPU: {found.reason}{seen}", mend)
        if cupy:
            yield Finding("ok", f"{listed} (for the names that tests compare; the course needs none without a GPU)")
        return
    version = f"{found.cuda[0]}.{found.cuda[1]}"
    smi = _driver_by_smi()
    driver = f"driver {smi}, " if smi else ""
    yield Finding("ok", f"GPU: {', '.join(found.names)} ({driver}CUDA up to {version})")
    wanted = f"cupy-{found.extra}x"
    mend = f"python -m cudalab setup --extra {found.extra}   (or: pip install 'cudalab[{found.extra}]')"
    if len(cupy) > 1:
        others = " ".join(name for name in cupy if name != wanted)
        yield Finding("problem", f"several CuPy packages disturb each other: {listed}", f"pip uninstall {others}")
    problem = backend.gpu_problem(found)
    if problem is None:
        yield Finding("ok", f"{listed or 'CuPy'} works with it")
    else:
        yield Finding("problem", f"{problem} (this machine needs {wanted})", mend)


def _device() -> Iterator[Finding]:
    try:
        chosen = backend.choice()
    except backend.DeviceChoiceError as error:
        yield Finding("problem", str(error))
        return
    name = "this machine's GPU" if chosen.kind == "gpu" else f"simulated device {chosen.profile!r}"
    yield Finding("ok", f"device: {name}; times are {chosen.label}. {chosen.reason}")
    yield _try_kernel("this machine's GPU" if chosen.kind == "gpu" else "the simulated device")


def _profiles() -> Iterator[Finding]:
    """The simulated devices that can be chosen."""
    from cudalab.sim.device import profile

    yield Finding("ok", f"simulated devices: {', '.join(profile.names())} ({backend.VARIABLE}=sim:NAME takes one)")
    for name in profile.own_names():
        try:
            yield Finding("ok", f"your own profile {name!r}: {profile.load(name).title}")
        except profile.ProfileError as error:
            yield Finding("problem", str(error), f"mend or remove it in {profile.own_folder()}")


def _try_kernel(where: str) -> Finding:
    """Compile and run one kernel."""
    code = 'extern "C" __global__ void twice(float *a) { a[threadIdx.x] *= 2; }'
    try:
        cp = backend.cp
        numbers = cp.arange(32, dtype=cp.float32)
        cp.RawKernel(code, "twice")((1,), (32,), (numbers,))
        right = numbers.get().tolist() == [2.0 * i for i in range(32)]
    except Exception as error:  # whatever is broken, the reader gets the reason
        return Finding(
            "problem", f"a kernel could not be run on {where}: {type(error).__name__}: {error}", "see the lines above"
        )
    if not right:
        return Finding(
            "problem", f"a kernel gave a wrong result on {where}", "please report this with the output of `pip list`"
        )
    return Finding("ok", f"a kernel was compiled and run on {where}")


def _kernels() -> Iterator[Finding]:
    try:
        specs = import_module("jupyter_client.kernelspec").KernelSpecManager().find_kernel_specs()
    except ImportError:
        return
    for name in KERNELSPECS:
        if name in specs:
            yield Finding("ok", f"kernel {name!r} is in JupyterLab's kernel picker")
        else:
            yield Finding("note", f"kernel {name!r} is not in JupyterLab's kernel picker", "python -m cudalab kernels")


def _programs() -> Iterator[Finding]:
    for name, (purpose, mend) in PROGRAMS.items():
        path = shutil.which(name)
        if path:
            yield Finding("ok", f"{name} at {path}")
        else:
            required: State = "problem" if os.environ.get("CI") == "true" else "note"
            yield Finding(required, f"{name} is missing (needed for {purpose})", mend)
