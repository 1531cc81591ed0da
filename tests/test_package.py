"""The package's public names."""

import subprocess
import sys

import pytest

import cudalab


def test_public_names_are_those_of_the_contract():
    assert set(cudalab.__all__) == {
        *("cp", "cudart", "driver", "device", "reset", "clock", "host_work", "benchmark", "trace"),
        *("profile", "sanitize", "source", "tune", "quiz", "predict", "plot", "check"),
        "time_limit",  # how long a launch may take on the simulated device
        "graph",  # the drawing of a graph that exists: chapter 15
        "cupyx",  # cupyx.profiler.benchmark, on both devices: CuPy has no other home for it
    }


@pytest.mark.parametrize("name", cudalab.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(cudalab, name) is not None


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"no 'grid'\. Its names are: cp, cudart, .*check"):
        cudalab.grid  # noqa: B018


@pytest.mark.parametrize(
    "module", ["benchmark", "device", "graph", "analysis.profile", "analysis.sanitize", "analysis.source"]
)
def test_importing_a_module_does_not_hide_the_function_of_the_same_name(module):
    name = module.split(".")[-1]
    code = f"import cudalab.{module}, cudalab; print(callable(cudalab.{name}), cudalab.{name}.__name__)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["True", name]


def test_import_is_fast_and_loads_nothing_heavy():
    code = (
        "import sys, time; start = time.process_time(); import cudalab; took = time.process_time() - start\n"
        "print(took, [name for name in ('numpy', 'cupy', 'matplotlib', 'IPython', 'llvmlite') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    took, heavy = output.split(maxsplit=1)
    assert float(took) < 0.3
    assert heavy.strip() == "[]"


def test_simulator_imports_nothing_from_above():
    code = (
        "import sys, cudalab.sim.cupy, cudalab.sim.cudart, cudalab.sim.driver\n"
        "above = ('IPython', 'ipykernel', 'matplotlib', 'ipywidgets', 'cupy', 'nbformat')\n"
        "own = {n for n in sys.modules if n.startswith('cudalab.') and not n.startswith('cudalab.sim')}\n"
        "own -= {'cudalab.import_advice', 'cudalab.installation', 'cudalab.installation.platforms'}\n"
        "print([n for n in above if n in sys.modules], sorted(own))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[] []"
