"""`%%isolated`: code in a process of its own."""

import os
import time

import numpy as np
import pytest

from cudalab.backend import DeviceChoiceError
from cudalab.cells import isolated

FAULT = """
k = cp.RawKernel('extern "C" __global__ void far(float *a) { a[1 << 28] = 1; }', 'far')
k((1,), (1,), (cp.zeros(4, dtype=cp.float32),))
cp.cuda.Device().synchronize()
"""


def test_output_comes_through_in_order(capfd):
    result = isolated.run("import os\nprint('one', flush=True)\nos.write(1, b'two\\n')\nprint('drei ü')")
    assert (result.error, result.exit_code) == (None, 0)
    assert capfd.readouterr().out == result.printed == "one\ntwo\ndrei ü\n"


def test_last_expression_is_shown_as_in_a_notebook(capfd):
    isolated.run("x = 20\nx + 1")
    assert capfd.readouterr().out == "21\n"


def test_names_of_the_course_are_there(capfd):
    isolated.run("print(np.__name__, cp.__name__, cudart.__name__, callable(clock), cudalab.device is device)")
    assert capfd.readouterr().out.split() == ["numpy", "cudalab.sim.cupy", "cudalab.sim.cudart", "True", "True"]


def test_values_are_handed_over_and_nothing_comes_back(capfd):
    data = np.arange(5)
    isolated.run("data[:] = 7\nprint(data.sum() + n)", values={"data": data, "n": 1})
    assert capfd.readouterr().out == "36\n"
    np.testing.assert_array_equal(data, np.arange(5))


def test_value_that_cannot_be_handed_over_is_named():
    with pytest.raises(TypeError, match="f .a function. cannot be handed to another process"):
        isolated.run("1", values={"f": lambda: 1})


def test_exception_is_told_with_type_message_line_and_notes():
    result = isolated.run(
        "\ndef f(x):\n    return 1 / x\ntry:\n    f(0)\nexcept Exception as e:\n    e.add_note('why')\n    raise"
    )
    assert result.error == "ZeroDivisionError: division by zero\n  line 3 of the cell: return 1 / x\nwhy"
    assert result.exit_code == 1


def test_syntax_error_is_told_with_its_line():
    assert isolated.run("x = 1\nif x\n").error.startswith("SyntaxError: expected ':'")
    assert "line 2 of the cell: if x" in isolated.run("x = 1\nif x\n").error


def test_end_of_the_process_is_told():
    assert isolated.run("import os; os.kill(os.getpid(), 11)").error.startswith("The process was ended by SIGSEGV")
    assert isolated.run("import os; os._exit(3)").error == "The process ended with exit code 3."


def test_endless_loop_ends_at_the_time_limit():
    start = time.monotonic()
    result = isolated.run("while True: pass", time_limit=1.0)
    assert result.exit_code is None and result.error.startswith("The cell was stopped after 1 s")
    assert time.monotonic() - start < 15


def test_interrupt_ends_the_child():
    import _thread
    import threading

    threading.Timer(1.0, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        isolated.run("while True: pass", time_limit=30)


def test_unknown_device_is_an_error_here():
    with pytest.raises(DeviceChoiceError, match="no simulated device called 'nothing'"):
        isolated.run("1", device="sim:nothing")


def test_fault_stays_in_the_child(capfd):
    result = isolated.run(FAULT)
    assert "cudaErrorIllegalAddress" in result.error
    assert isolated.run("print(float(cp.arange(4).sum()))").error is None
    assert capfd.readouterr().out == "6.0\n"


COUNT_CHILDREN = "import psutil\nprint(len(psutil.Process().children()))"


@pytest.mark.skipif(os.name != "posix", reason="a child inherits pipes")
def test_a_cell_compiles_in_the_processes_of_its_notebook(capfd):
    """One of its own would take 50 MB, half a second to start, and end with the cell."""
    isolated.run(f"{FAULT.replace('1 << 28', '1')}{COUNT_CHILDREN}")
    assert capfd.readouterr().out == "0\n"


def test_what_does_not_compile_is_told_from_a_cell():
    source = 'extern "C" __global__ void wrong() { missing(); }'
    error = isolated.run(f"cp.RawKernel('{source}', 'wrong').compile()").error
    assert 'identifier "missing" is undefined' in error


@pytest.mark.skipif(os.name != "posix", reason="a child inherits pipes")
def test_a_process_that_a_cell_forks_off_compiles_on_its_own(capfd):
    own = FAULT.replace("1 << 28", "2").replace("far", f"own{time.time_ns()}")  # not in the cache
    forked = "".join(f"    {line}\n" for line in f"{own}{COUNT_CHILDREN}".splitlines())
    isolated.run(f"import os\nif not os.fork():\n{forked}    os._exit(0)\n_ = os.wait()")
    assert int(capfd.readouterr().out.split()[-1]) >= 1  # Python 3.12 warns of the fork


def test_a_cell_that_ends_while_it_waits_for_the_compiler_leaves_the_notebook_its_compilers(capfd):
    slow = 'extern "C" __global__ void slow(float* a) { ' + "a[0] = sinf(a[0]); " * 20 + "}"
    compile = f"cp.RawKernel('{slow}', 'slow').compile()"
    ends = "import os, threading; threading.Timer(0.05, os._exit, (0,)).start()\n"
    assert isolated.run(ends + compile).exit_code == 0
    assert isolated.run(f"{compile}; print('compiled')").error is None
    assert capfd.readouterr().out == "compiled\n"


def test_fault_of_work_under_way_comes_out_at_the_end_of_the_cell():
    assert "cudaErrorIllegalAddress" in isolated.run(FAULT.replace("cp.cuda.Device().synchronize()", "")).error


def test_the_next_run_takes_a_child_that_has_started_before(capfd):
    """It has had the time to import what it needs, while the learner reads."""
    isolated.run("1")
    spare = isolated._spare
    assert spare is not None and spare.alive()
    isolated.run("import os; print(os.getpid())")
    assert capfd.readouterr().out == f"1\n{spare.process.pid}\n"


def test_folder_is_that_of_the_notebook(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    isolated.run("import os; print(os.getcwd())")
    assert os.path.samefile(capfd.readouterr().out.strip(), tmp_path)


@pytest.mark.parametrize("device, engines", [("sim", 3), ("sim:h200-1ce", 1), ("sim:h200-0ce", 0)])
def test_the_profile_asked_for_is_the_one_that_runs(capfd, device, engines):
    isolated.warm_up()  # imported everything before it knew which device is wanted
    isolated.run("print(cp.cuda.runtime.getDeviceProperties(0)['asyncEngineCount'])", device=device)
    assert capfd.readouterr().out == f"{engines}\n"
