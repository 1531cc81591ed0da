"""`%%cuda` and `%%isolated` in IPython."""

import json
import sys

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from cudalab import cp
from cudalab.cells import isolated, magics

TWICE = 'extern "C" __global__ void twice(float *a, int n)\n{\n    int i = threadIdx.x;\n    if (i < n) a[i] *= 2;\n}\n'
SCALE = "template <typename T> __global__ void scale(T *a, T by)\n{\n    a[threadIdx.x] *= by;\n}\n"


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell puts its own there
    made = InteractiveShell()
    magics.register(made)
    yield made
    made.history_manager.end_session()


def run(shell, cell):
    """Run a cell; its error is raised."""
    result = shell.run_cell(cell, store_history=False)
    result.raise_error()
    return result.result


def test_import_in_ipython_makes_the_magics_known():
    import subprocess

    code = "import cudalab\nprint([n for n in ('cuda', 'isolated') if get_ipython().find_cell_magic(n)])"
    line = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", code]
    output = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert "['cuda', 'isolated']" in output


def test_cuda_binds_a_kernel_that_launches(shell):
    run(shell, "%%cuda twice\n" + TWICE)
    numbers = cp.arange(8, dtype=cp.float32)
    shell.user_ns["twice"]((1,), (32,), (numbers, np.int32(8)))
    np.testing.assert_array_equal(numbers.get(), 2 * np.arange(8))


def test_kernel_knows_its_source_for_profile_and_sanitize(shell):
    run(shell, "%%cuda twice --std c++20 --option=-DN=4 --option -DM=2\n" + TWICE)
    kernel = shell.user_ns["twice"]
    assert kernel.name == "twice" and TWICE in kernel.code
    assert kernel.options == ("-DN=4", "-DM=2", "--std=c++20")


def test_template_instance_is_found_by_its_name_expression(shell):
    run(shell, "%%cuda scale --instance 'scale<double>'\n" + SCALE)
    numbers = cp.ones(4, dtype=cp.float64)
    shell.user_ns["scale"]((1,), (4,), (numbers, np.float64(2.5)))
    np.testing.assert_array_equal(numbers.get(), np.full(4, 2.5))


def test_cpp_kernel_needs_no_extern_c(shell):
    run(shell, "%%cuda twice\n" + TWICE.replace('extern "C" ', ""))
    numbers = cp.ones(4, dtype=cp.float32)
    shell.user_ns["twice"]((1,), (4,), (numbers, np.int32(4)))
    np.testing.assert_array_equal(numbers.get(), np.full(4, 2))


def test_module_gives_access_to_its_variables(shell):
    code = "__constant__ float factor;\n" + TWICE.replace("*= 2", "*= factor")
    run(shell, "%%cuda twice --module m\n" + code)
    factor = cp.ndarray(1, cp.float32, memptr=shell.user_ns["m"].get_global("factor"))
    factor[:] = 3
    numbers = cp.ones(4, dtype=cp.float32)
    shell.user_ns["twice"]((1,), (4,), (numbers, np.int32(4)))
    np.testing.assert_array_equal(numbers.get(), np.full(4, 3))


def test_compile_error_is_raised_with_the_line_of_the_cell(shell):
    cell = "%%cuda twice\n" + TWICE.replace("int i", "integer i")
    line = cell.split("\n").index("    integer i = threadIdx.x;") + 1
    with pytest.raises(cp.cuda.compiler.CompileException, match=rf"\({line}\): error: .*integer"):
        run(shell, cell)
    assert "twice" not in shell.user_ns


@pytest.mark.parametrize(
    "line, words",
    [
        ("%%cuda", "the following arguments are required: NAME"),
        ("%%cuda twise", "declares no kernel named 'twise'; it declares twice"),
        ("%%cuda 2x", "'2x' is no name"),
        ("%%cuda twice<int>", "write %%cuda twice --instance 'twice<int>'"),
        ("%%cuda twice --fast", "unrecognized arguments: --fast"),
        ("%%cuda twice --instance 'x", "No closing quotation"),
    ],
)
def test_mistakes_in_the_magic_s_line_say_what_is_wrong(shell, line, words):
    with pytest.raises(magics.UsageError, match=words):
        run(shell, f"{line}\n{TWICE}")


def test_isolated_prints_output_and_error_and_goes_on(shell, capsys):
    run(shell, "n = 3")
    run(shell, "%%isolated --with n\nprint(n + 1)\nraise ValueError('no')")
    assert capsys.readouterr().out == "4\nValueError: no\n  line 3 of the cell: raise ValueError('no')\n"


def test_isolated_runs_on_another_device(shell, capsys):
    run(shell, "%%isolated sim:h200\nprint(cudalab.device().kind)")
    assert capsys.readouterr().out == "sim\n"


def test_isolated_names_what_the_notebook_does_not_have(shell):
    with pytest.raises(magics.UsageError, match="--with names nothing, which the notebook does not have"):
        run(shell, "%%isolated --with nothing\n1")


def cell_of(source, kind="code"):
    return {"cell_type": kind, "source": source.splitlines(keepends=True)}


@pytest.mark.parametrize(
    "cells, last",
    [
        (["%%isolated sim\nprint(1)", "%%isolated\nprint(2)\n", "print(3)"], True),
        (["%%isolated\nprint(2)", "%%isolated\nprint(1)"], False),
        (["print(2)"], False),
    ],
    ids=["the last", "one of two", "not saved"],
)
def test_no_process_is_prepared_behind_the_last_isolated_cell(shell, monkeypatch, tmp_path, cells, last):
    (tmp_path / "01.ipynb").write_text(json.dumps({"cells": [cell_of("text", "markdown"), *map(cell_of, cells)]}))
    monkeypatch.setattr("cudalab.course.progress.here", lambda: (tmp_path, "01.ipynb"))
    isolated.run("1")
    run(shell, "%%isolated\nprint(2)")
    assert (isolated._spare is None) == last
