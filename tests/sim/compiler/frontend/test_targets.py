"""Code for other architectures: which PTX a device takes, and that it computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.compiler.frontend.targets import SUPPORTED, architecture, capability_of, misfit, runs_on
from cudalab.sim.device import CudaError, Device
from tests.conformance.program import REGISTRY, load_programs
from tests.conformance.results import differences, load, plain
from tests.conformance.run import HERE, judge
from tests.sim.compiler.kernel_runner import Compiled

NAMES = [f"compute_{number}" for number in SUPPORTED]
SUFFIXED = ["compute_90a", "compute_100a", "compute_100f", "compute_103a", "compute_120f", "sm_75", "sm_120"]

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void mixed(const unsigned *in, unsigned *out, float *reals) {
    int t = threadIdx.x;
    unsigned a = in[t], b = in[(t + 7) % 32];
    out[t] = __vabsdiffu4(a, b) ^ __byte_perm(a, b, 0x5614) ^ __funnelshift_l(a, b, t) ^ __dp4a(a, b, 5u);
    unsigned sum = a & 255, most = b;
#if __CUDA_ARCH__ >= 800
    sum = __reduce_add_sync(0xffffffff, sum); most = __reduce_max_sync(0xffffffff, most);
#else
    for (int d = 16; d; d /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, d); most = max(most, __shfl_xor_sync(0xffffffff, most, d)); }
#endif
    out[32 + t] = sum + most + __match_any_sync(0xffffffff, a & 3);
    out[64 + t] = min(min((int)a, (int)b), 7) + max(max((int)a, -3), (int)b);
    out[64 + t] += __viaddmin_s32(a, b, 77) + __vimax3_u32(a, b, 9);
    float x = (int)a * 1e-6f, y = (int)b * 3e-7f;
    reals[t] = fmaf(x, y, fminf(fminf(x, y), 0.5f)) + rsqrtf(fabsf(x) + 1.0f) * 0.0f;
    __half2 h = __floats2half2_rn(x * 0.01f, y * 0.01f);
    h = __hmax2(__hfma2(h, h, __float2half2_rn(0.25f)), __float2half2_rn(0.125f));
    reals[32 + t] = __low2float(h) + __high2float(h);
#if __CUDA_ARCH__ >= 800
    __nv_bfloat162 c = __hfma2(__floats2bfloat162_rn(x, y), __floats2bfloat162_rn(y, x), __float2bfloat162_rn(0.5f));
    reals[66 + t] = __low2float(c) - __high2float(c) + __low2float(__habs2(c));
#endif
    atomicAdd((float *)reals + 64, 1.0f); atomicAdd((__half2 *)reals + 65, __float2half2_rn(0.5f));
    if (t == 0) out[96] = __CUDA_ARCH__;
}
"""


def _run(name: str) -> tuple[np.ndarray, np.ndarray]:
    program = compile(SOURCE, architecture=name)
    module = Compiled(program.ptx, SOURCE)
    source = (np.arange(32, dtype=np.uint32) * 2654435761).astype(np.uint32)
    out, reals = np.zeros(97, np.uint32), np.zeros(98, np.float32)
    module("mixed", 1, 32, source, out, reals)
    return out, reals


@pytest.mark.parametrize("name", ["compute_75", "compute_80", "compute_120", "compute_100a"])
def test_code_for_another_target_computes_the_same(name: str) -> None:
    _check(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [*NAMES, *SUFFIXED])
def test_code_for_every_target_computes_the_same(name: str) -> None:
    _check(name)


def _check(name: str) -> None:
    want, want_reals = _run("sm_90")
    out, reals = _run(name)
    assert out[96] == 10 * capability_of(name)[0]
    np.testing.assert_array_equal(out[:96], want[:96])
    np.testing.assert_array_equal(reals[:64].view(np.uint32), want_reals[:64].view(np.uint32))
    last = 98 if out[96] >= 800 else 66  # bfloat16 came with 8.0
    np.testing.assert_array_equal(reals[64:last], want_reals[64:last])


def test_an_unknown_architecture_is_what_nvrtc_says() -> None:
    with pytest.raises(CompileError, match="invalid value for --gpu-architecture"):
        compile('extern "C" __global__ void k() {}', options=("-arch=sm_70",))


def test_what_is_asked_for_in_vain_is_noted() -> None:
    program = compile('extern "C" __global__ void k() {}', options=("-arch=compute_100",))
    assert "compiled for the device, sm_90" in program.log and ".target sm_90\n" in program.ptx


@pytest.mark.parametrize(
    ("target", "capability", "fits"),
    [
        ("sm_52", (9, 0), True), ("sm_90", (9, 0), True), ("sm_90a", (9, 0), True), ("sm_100", (9, 0), False),
        ("sm_90a", (10, 0), False), ("sm_100f", (10, 3), True), ("sm_100f", (12, 0), False), ("sm_120", (12, 0), True),
        ("sm_999", (9, 0), False), ("compute_75", (12, 0), True), ("texmode", (9, 0), False),
    ],
)  # fmt: skip
def test_targets(target: str, capability: tuple[int, int], fits: bool) -> None:
    assert runs_on(target, *capability) is fits


def test_a_version_that_the_driver_does_not_know() -> None:
    wrong = misfit(".version 9.9\n.target sm_75\n", 9, 0)
    assert wrong is not None and wrong.rule == "version" and "9.9" in wrong.message
    assert misfit(".version 9.0\n.target sm_75\n", 9, 0) is None
    assert architecture(12, 1) == "sm_121"


def test_a_device_of_a_later_compute_capability_runs_later_code() -> None:
    source = 'extern "C" __global__ void k(int *out) { out[0] = __CUDA_ARCH__; }'
    device = Device("cc120")
    own = architecture(device.properties["major"], device.properties["minor"])
    handle = device.load_module(compile(source, architecture=own))
    pointer = device.malloc(4)
    device.launch(device.get_function(handle, "k"), (1, 1, 1), (1, 1, 1), pointer.to_bytes(8, "little"))
    device.synchronize()
    assert int.from_bytes(device.view(pointer, 4), "little") == 1200


def test_the_stack_limit_has_a_bound() -> None:
    with pytest.raises(CudaError):
        Device("h200").set_limit(0, 1 << 20)


# -- the conformance programs, compiled for other targets --------------------------------------------------------------

FAMILIES = ("arrays", "atomics", "barriers", "floats", "functions", "integers", "memory_spaces", "printing", "warps")
"""Those whose kernels are about the language and its instructions."""


def _disagreements(key: str, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A conformance program whose kernels CuPy compiles for another target, against its oracle and an H200."""
    import cudalab
    from cudalab.sim.cupy._core import raw

    monkeypatch.setattr(raw, "architecture", lambda major, minor: name)
    cudalab.reset()
    program = REGISTRY[key]
    try:
        values = plain(program.run())
    except cudalab.cp.cuda.compiler.CompileException as refused:
        if capability_of(name)[0] < 80 and "is undefined" in str(refused):
            return []  # a function that came with 8.0
        raise
    wrong = judge(key, values)
    stored = RESULTS.get(key)
    return wrong + (differences(values, stored["values"], program.tolerance) if stored else [])


def _programs() -> list[str]:
    load_programs()
    keys = [key for key, program in REGISTRY.items() if key.split("/")[0] in FAMILIES and not program.isolated]
    return [key for key in keys if key not in ABOUT_THE_TARGET]


ABOUT_THE_TARGET = ("functions/options_and_macros", "memory_spaces/static_shared_limit")
"""They return the target's number, or what the assembler of the device's own architecture says."""
RESULTS = load(HERE / "h200")[1]
SLICE = [("compute_75", 11), ("compute_120", 7)]
"""In the fast suite: every so many-th program."""


@pytest.mark.parametrize(("name", "step"), SLICE)
def test_some_conformance_programs_agree_on_another_target(
    name: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {key: found for key in _programs()[::step] if (found := _disagreements(key, name, monkeypatch))}
    assert not wrong


@pytest.mark.long
@pytest.mark.parametrize("name", [*NAMES, *SUFFIXED])
def test_conformance_programs_agree_on_every_target(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {key: found for key in _programs() if (found := _disagreements(key, name, monkeypatch))}
    assert not wrong
