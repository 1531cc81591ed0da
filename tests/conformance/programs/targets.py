"""For which architecture code is compiled, and which PTX a device takes."""

import numpy as np

from cudalab import cp, driver

from ..program import program, raised

_EMPTY = ".address_size 64\n.visible .entry k() { ret; }\n"


@program("CuPy compiles for the device's own architecture, whatever is asked for", expect=lambda v: {"arch": [900] * 4})
def asked_for():
    found = []
    for name in ("compute_75", "sm_80", "compute_100", "sm_90a"):
        source = f'extern "C" __global__ void k(int *o) {{ o[0] = __CUDA_ARCH__; }} // {name}'
        kernel, out = cp.RawKernel(source, "k", options=(f"-arch={name}",)), cp.zeros(1, cp.int32)
        kernel((1,), (1,), (out,))
        found.append(int(out.get()[0]))
    unknown = raised(lambda: cp.RawKernel('extern "C" __global__ void k() {}', "k", options=("-arch=sm_70",)).compile())
    return {"arch": found, "unknown": unknown}


def _load(text):
    cp.zeros(1)  # a context
    status, module = driver.cuModuleLoadData(text.encode() + b"\0")
    if int(status) == 0:
        driver.cuModuleUnload(module)
    return int(status)


@program("PTX for older GPUs is taken, for newer ones and of unknown versions it is not")
def ptx_targets():
    targets = ("sm_52", "sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120", "sm_999")
    return {
        "targets": [_load(f".version 9.0\n.target {target}\n{_EMPTY}") for target in targets],
        "versions": [_load(f".version {version}\n.target sm_75\n{_EMPTY}") for version in ("6.3", "7.0", "9.0", "9.9")],
        "machine code": _load("\x7fELF"),
    }


# fmt: off
@program("the kernel knows what it was compiled for", expect=lambda v: {"out": np.array([900, 900], np.int32)})
def attributes():
    kernel, out = cp.RawKernel('extern "C" __global__ void k(int *o) { o[0] = __CUDA_ARCH__; }', "k"), cp.zeros(
        2, cp.int32)
    kernel((1,), (1,), (out,))
    out[1] = 10 * kernel.binary_version
    return {"out": out, "ptx": kernel.ptx_version}
# fmt: on
