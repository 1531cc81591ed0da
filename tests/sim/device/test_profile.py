"""Profiles: those that come with cudalab, the user's own, and files that are none."""

import json

import pytest

from cudalab.backend import DeviceChoiceError, decide
from cudalab.doctor import examine
from cudalab.installation import kernelspecs, lab
from cudalab.installation.gpu_probe import NoGpu
from cudalab.sim.device import Device, profile
from cudalab.sim.device.profile import ProfileError, load

MINE = {"name": "mine", "extends": "h200", "title": "My GPU (simulated)", "properties": {"name": "My GPU"}}


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "own_folder", lambda: tmp_path)
    load.cache_clear()
    yield tmp_path
    load.cache_clear()


def test_a_file_is_a_profile(tmp_path, monkeypatch):
    (tmp_path / "my.json").write_text(json.dumps(MINE))
    monkeypatch.chdir(tmp_path)
    found = load("./my.json")
    assert found.title == "My GPU (simulated)" and found.sms == load("h200").sms
    assert load(found.name) == found, "its own name finds it again, from any folder"
    chosen = decide("sim:./my.json", NoGpu("none"))
    assert chosen.kind == "sim" and Device(chosen.profile).profile.properties["name"] == "My GPU"


def test_the_users_own_profiles_have_names(own_folder):
    (own_folder / "mine.json").write_text(json.dumps(MINE))
    assert profile.own_names() == ["mine"] and load("mine").title == MINE["title"]
    assert decide("sim:mine", NoGpu("none")).profile == "mine"
    assert "ok   your own profile 'mine': My GPU (simulated)" in str(examine())


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("{", r"bad\.json is no profile, which is one JSON object: Expecting"),
        ("[]", r"bad\.json is no profile, which is one JSON object"),
        ('{"extends": "bad"}', r"the profile 'bad' extends itself"),
        ('{"title": "T"}', r"'.*bad\.json' has no 'host'. A profile with \"extends\": \"h200\" needs only"),
        ('{"extends": "h300"}', r"no simulated device called 'h300'; the profiles are: .*h200"),
        ('{"extends": "h200", "host": {"launch": {"value": 1, "unit": "ns"}}}', r"\"value\", \"unit\" and \"source\""),
    ],
)
def test_a_file_that_is_no_profile_says_why(own_folder, text, wrong):
    (own_folder / "bad.json").write_text(text)
    with pytest.raises(ProfileError, match=wrong):
        load(str(own_folder / "bad.json"))
    with pytest.raises(DeviceChoiceError, match="CUDALAB_DEVICE is 'sim:bad': "):
        decide("sim:bad", NoGpu("none"))
    assert not examine().healthy


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ProfileError, match=r"'.*none\.json' cannot be read: .*No such file"):
        load(str(tmp_path / "none.json"))


def test_the_kernel_picker_lists_own_profiles(own_folder, monkeypatch):
    monkeypatch.setattr(lab.sys, "prefix", str(own_folder / "prefix"))
    (own_folder / "mine.json").write_text(json.dumps(MINE))
    (own_folder / "bad.json").write_text("{")
    lab.list_kernels()
    kernels = own_folder / "prefix/share/jupyter/kernels"
    spec = json.loads((kernels / "cudalab-own-mine/kernel.json").read_text())
    assert spec["display_name"] == "CUDA: My GPU (simulated)" and spec["env"] == {"CUDALAB_DEVICE": "sim:mine"}
    (own_folder / "mine.json").unlink()
    lab.list_kernels()
    listed = {folder.name for folder in kernels.iterdir()}
    assert listed | {kernelspecs.GPU} == set(kernelspecs.KERNELSPECS)  # that one stands there where there is a GPU
