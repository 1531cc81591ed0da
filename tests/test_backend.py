"""Which device is taken, and what is said about it."""

import subprocess
import sys

import pytest

from cudalab.backend import DeviceChoiceError, decide
from cudalab.installation.gpu_probe import Gpu, NoGpu, probe

H200 = Gpu((13, 0), ("NVIDIA H200",))
NOTHING = NoGpu("no NVIDIA driver was found on this machine")


def works(gpu):
    return None


def broken(gpu):
    return "NVIDIA H200 is here, but CuPy is not installed; run `python -m cudalab setup`"


def choose(request, found, problem=works):
    return decide(request, found, problem)


def test_a_working_gpu_is_taken():
    chosen = choose("", H200)
    assert (chosen.kind, chosen.label) == ("gpu", "measured")
    assert "simulated device is not used" in chosen.reason


def test_without_a_gpu_the_simulated_device_is_taken_and_says_why():
    chosen = choose("", NOTHING)
    assert (chosen.kind, chosen.profile, chosen.label) == ("sim", "h200", "modelled")
    assert "no NVIDIA driver was found" in chosen.reason


def test_a_gpu_without_cupy_is_named_as_the_reason():
    chosen = choose("", H200, broken)
    assert chosen.kind == "sim"
    assert "CuPy is not installed" in chosen.reason and "cudalab setup" in chosen.reason


@pytest.mark.parametrize("request_, profile", [("sim", "h200"), ("sim:h200-1ce", "h200-1ce")])
def test_simulated_device_can_be_asked_for_where_a_gpu_is(request_, profile):
    chosen = choose(request_, H200)
    assert (chosen.kind, chosen.profile) == ("sim", profile)
    assert f"CUDALAB_DEVICE={request_}" in chosen.reason


def test_gpu_asked_for_and_absent_is_an_error_with_the_reason():
    with pytest.raises(DeviceChoiceError, match="no NVIDIA driver was found.*CUDALAB_DEVICE=sim"):
        choose("gpu", NOTHING)


def test_gpu_asked_for_without_cupy_is_an_error_with_the_reason():
    with pytest.raises(DeviceChoiceError, match="CuPy is not installed"):
        choose("gpu", H200, broken)


def test_unknown_profile_lists_those_there_are():
    with pytest.raises(
        DeviceChoiceError, match="no simulated device called 'h300'; the profiles are: .*h200, h200-0ce"
    ):
        choose("sim:h300", NOTHING)


@pytest.mark.parametrize("request_", ["cpu", "gpu:0", "simulated"])
def test_unknown_device_is_an_error(request_):
    with pytest.raises(DeviceChoiceError, match="names no device. Use gpu, sim, or sim:PROFILE"):
        choose(request_, H200)


def run(code, device):
    environment = {"CUDALAB_DEVICE": device, "PATH": ""}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_asking_for_an_absent_gpu_never_falls_back():
    if isinstance(probe(), Gpu):
        pytest.skip("a GPU is here")
    ended = run("from cudalab import cp", "gpu")
    assert ended.returncode == 1
    assert "CUDALAB_DEVICE=gpu asks for a real GPU" in ended.stderr


def test_modules_are_the_simulated_ones():
    ended = run("from cudalab import cp, cudart, driver; print(cp.__name__, cudart.__name__, driver.__name__)", "sim")
    assert ended.stdout.split() == ["cudalab.sim.cupy", "cudalab.sim.cudart", "cudalab.sim.driver"], ended.stderr
