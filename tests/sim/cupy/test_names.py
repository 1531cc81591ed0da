"""Every name of the simulated CuPy exists in the real one, with the real one's parameters."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy
import pytest

import cudalab.sim.cupy as cp
from cudalab.sim.cupy._base import catalogue

from . import list_names

SIMULATED = (
    "cupy",
    "cupy.cuda",
    "cupy.cuda.compiler",
    "cupy.cuda.device",
    "cupy.cuda.driver",
    "cupy.cuda.function",
    "cupy.cuda.memory",
    "cupy.cuda.memory_hook",
    "cupy.cuda.memory_hooks",
    "cupy.cuda.nvtx",
    "cupy.cuda.pinned_memory",
    "cupy.cuda.profiler",
    "cupy.cuda.runtime",
    "cupy.cuda.stream",
    "cupy.cuda.texture",
    "cupy.exceptions",
    "cupy.fft",
    "cupy.linalg",
    "cupy.random",
    "cupy.testing",
    "cupyx",
    "cupyx.profiler",
)
CLASSES = {  # cupy.random.Generator is private in CuPy; its members are in the catalogue all the same
    name: name.removeprefix("cupy.") for name in catalogue.data()["classes"] if name not in ("cupy.random.Generator",)
}
OURS_ONLY = {
    "cupy.RawKernel": {"name_expressions"},  # cudalab.profile needs it; the recording kernels on a GPU have it too
    "cupy.cuda.memory.PooledMemory": {"free"},
    "cupy.cuda.PinnedMemory": {"ptr"},  # an instance has it in CuPy too
    "cupy.cuda.MemoryPointer": {"address"},  # `ptr`, after a look whether the memory is of a device before a reset
}


def module(name: str) -> ModuleType:
    return importlib.import_module(name.replace("cupy", "cudalab.sim.cupy", 1))


def find(path: str) -> Any:
    found: Any = cp
    for part in path.split("."):
        found = getattr(found, part)
    return found


def test_catalogue_is_that_of_the_installed_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.__version__ != catalogue.data()["cupy"]:
        pytest.skip(f"CuPy {cupy.__version__} is installed, the catalogue is of {catalogue.data()['cupy']}")
    assert json.loads(list_names.text()) == catalogue.data(), "run tests/sim/cupy/list_names.py"


@pytest.mark.parametrize("name", SIMULATED)
def test_names_of_modules_exist_in_cupy(name: str) -> None:
    found = {entry for entry in dir(module(name)) if not entry.startswith("_")}
    assert found, "a module without names"
    assert found <= catalogue.names(name)


@pytest.mark.parametrize("name", CLASSES)
def test_names_of_classes_exist_in_cupy(name: str) -> None:
    try:
        found = find(CLASSES[name])
    except AttributeError as error:
        assert "is not simulated" in str(error)
        return
    public = {entry for entry in dir(found) if not entry.startswith("_")}
    assert public - OURS_ONLY.get(name, set()) <= catalogue.members(name)


def functions() -> list[tuple[str, str]]:
    result = []
    for name in SIMULATED:
        here = set(dir(module(name)))
        result += [(name, entry) for entry in catalogue.data()["signatures"].get(name, {}) if entry in here]
    return result


@pytest.mark.parametrize(("home", "name"), functions())
def test_parameters_are_those_of_cupy(home: str, name: str) -> None:
    found = getattr(module(home), name)
    if not inspect.isfunction(found):
        return
    expected = catalogue.signature(home, name).parameters
    if any(p.kind is p.VAR_POSITIONAL for p in expected.values()):
        return
    ours = inspect.signature(found).parameters
    if any(p.kind is p.VAR_POSITIONAL for p in ours.values()):
        return  # checked by binding to the catalogue's signature at the call
    assert [n for n in ours if not n.startswith("_")] == [n for n in expected if not n.startswith("_")]


def test_enough_is_simulated() -> None:
    assert len(set(dir(cp)) & catalogue.names("cupy")) >= 400
    assert len(functions()) >= 300


@pytest.mark.parametrize("name", ["fuse", "vectorize", "poly1d", "piecewise"])
def test_what_is_not_simulated_says_so(name: str) -> None:
    with pytest.raises(AttributeError, match=f"cupy.{name} is not simulated.*works on a machine with a GPU"):
        getattr(cp, name)


@pytest.mark.parametrize("home", [cp, cp.cuda, cp.cuda.runtime, cp.random, cp.linalg, cp.fft, cp.testing])
def test_what_nobody_has_is_an_ordinary_error(home: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"module 'cupy.*' has no attribute 'nonsense'"):
        _ = home.nonsense


def test_methods_that_are_not_simulated_say_so() -> None:
    with pytest.raises(AttributeError, match=r"cupy.ndarray.mdspan is not simulated"):
        _ = cp.zeros(3).mdspan
    with pytest.raises(AttributeError, match="'ndarray' object has no attribute 'itemset'"):
        _ = cp.zeros(3).itemset


def test_imports_without_cupy_and_without_a_front_end() -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, *_):
        if name.split('.')[0] in ('cupy', 'cupyx', 'IPython', 'matplotlib'):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import cudalab.sim.cupy as cp
assert int(cp.arange(5).sum()) == 10
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_cupys_any_does_not_stand_in_for_pythons():
    assert bool(cp.any(cp.ones(3)))
    assert cp.get_array_module(cp.ones(1)) is cp and cp.get_array_module(numpy.ones(1)) is numpy
