"""The banner, the host's clock, and reset."""

import math

import pytest

import cudalab
from cudalab import backend
from cudalab.sim.device import Device


def test_banner_names_device_kind_and_reason():
    banner = cudalab.device()
    assert repr(banner).startswith("Device: simulated NVIDIA H200 (compute capability 9.0); times are modelled.\n")
    assert banner.reason in repr(banner) and banner.reason in banner._repr_html_()
    assert (banner.kind, banner.label) == ("sim", "modelled")


def test_properties_are_those_of_the_runtime():
    _, properties = cudalab.cudart.cudaGetDeviceProperties(0)
    found = cudalab.device().properties
    assert found["name"] == properties.name.decode()
    assert found["multiProcessorCount"] == properties.multiProcessorCount == 132
    assert found["maxGridSize"] == tuple(properties.maxGridSize)


def test_limits_are_text_with_units():
    limits = cudalab.device().limits
    assert limits["shared memory a block"] == "48 KiB, 227 KiB on request"
    assert limits["L2 cache"] == "60 MiB"


def test_bandwidth_is_close_to_the_data_sheet():
    assert 4600 < cudalab.device().memory_bandwidth < 5000  # GB/s; the data sheet of an H200 says 4.8 TB/s


def test_html_is_escaped():
    banner = cudalab.device()
    broken = type(banner)(**{**vars(banner), "reason": "<script>"})
    assert "<script>" not in broken._repr_html_()


def test_host_work_advances_the_clock_by_what_it_says():
    before = cudalab.clock()
    cudalab.host_work(250)
    assert cudalab.clock() - before == pytest.approx(250)


def test_python_alone_takes_no_modelled_time():
    before = cudalab.clock()
    sum(range(100_000))
    assert cudalab.clock() == before


@pytest.mark.parametrize("microseconds", [-1, float("nan"), float("inf")])
def test_host_work_refuses_what_is_no_time(microseconds):
    with pytest.raises(ValueError, match="at least 0 microseconds"):
        cudalab.host_work(microseconds)


def test_host_work_refuses_what_is_no_number():
    with pytest.raises(TypeError, match="a number of microseconds, got '5'"):
        cudalab.host_work("5")


def test_reset_frees_all_memory_and_the_clock_starts_again():
    cudalab.reset()
    _, pointer = cudalab.cudart.cudaMalloc(1 << 30)
    cudalab.host_work(1000)
    cudalab.reset()
    assert cudalab.clock() < 1000
    (error,) = cudalab.cudart.cudaFree(pointer)
    assert error == cudalab.cudart.cudaError_t.cudaErrorInvalidValue


def test_reset_on_a_gpu_explains_the_restart(monkeypatch):
    monkeypatch.setattr(backend, "choice", lambda: backend.Choice("gpu", "", "a GPU"))
    with pytest.raises(cudalab.device.__globals__["DeviceError"], match="Restart the notebook's kernel"):
        cudalab.reset()


ENDLESS = 'extern "C" __global__ void spin(int* p) { for (unsigned long long i = 0; i < 1ull << 50; ++i) *p ^= i % 7; }'


def test_the_time_limit_of_a_launch_is_a_setting_that_its_message_names():
    before = cudalab.time_limit()
    assert before == 10
    try:
        assert cudalab.time_limit(0.2) == cudalab.time_limit() == 0.2
        cp = cudalab.cp
        cp.RawKernel(ENDLESS, "spin")((1,), (1,), (cp.zeros(1, cp.int32),))
        with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match=r"No block finished for 0.2 seconds") as caught:
            cp.cuda.Device().synchronize()
        assert "cudalab.time_limit(60), or with CUDALAB_TIME_LIMIT=60" in "\n".join(caught.value.__notes__)
        cudalab.reset()
        assert cudalab.time_limit() == 0.2
    finally:
        cudalab.reset()
        cudalab.time_limit(before)


def test_the_environment_sets_the_time_limit(monkeypatch):
    monkeypatch.setenv("CUDALAB_TIME_LIMIT", " 2.5 ")
    assert Device().settings.time_limit == 2.5
    monkeypatch.setenv("CUDALAB_TIME_LIMIT", "inf")
    assert Device().settings.time_limit == math.inf


@pytest.mark.parametrize("text", ["long", "0", "-1", "nan"])
def test_a_time_limit_is_a_number_above_zero(monkeypatch, text):
    monkeypatch.setenv("CUDALAB_TIME_LIMIT", text)
    with pytest.raises(ValueError, match=f"CUDALAB_TIME_LIMIT='{text}': the time limit of a launch is a number"):
        Device()
    with pytest.raises((ValueError, TypeError), match="time_limit takes a number of seconds"):
        cudalab.time_limit(float(text) if text != "long" else text)


def test_a_gpu_has_no_time_limit(monkeypatch):
    monkeypatch.setattr(backend, "choice", lambda: backend.Choice("gpu", "measured", "asked for"))
    assert cudalab.time_limit(60) == math.inf
