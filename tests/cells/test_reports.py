"""Errors, hazards and findings as cards, and what `%%cuda` does where something fails."""

import html
import re
import sys
import traceback

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import cudalab
from cudalab import cp
from cudalab.cells import magics, reports
from cudalab.sim.machine.reports import card

TWICE = 'extern "C" __global__ void twice(float *a)\n{\n    a[threadIdx.x] *= 2;\n}\n'


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell puts its own there
    for name in ("cell_of_file", "stream_names"):
        monkeypatch.setattr(card, name, getattr(card, name))
    monkeypatch.setattr(card, "cell_of_kernel", {})
    cudalab.reset()
    made = InteractiveShell()
    magics.register(made)
    made.user_ns.update(cp=cp, np=np, cudalab=cudalab)
    yield made
    made.user_ns.clear()
    made.history_manager.end_session()
    cudalab.reset()


def error_of(shell, cell):
    result = shell.run_cell(cell, store_history=True)
    return result.error_before_exec or result.error_in_exec


def words(markup):
    return html.unescape(re.sub(r"<[^>]+>", " ", markup))


def test_an_error_says_what_where_and_what_to_try_and_folds_the_library_away(shell):
    shell.run_cell("%%cuda twice\n" + TWICE, store_history=True)
    error = error_of(shell, "x = 1\ntwice((1,), (32,), (np.zeros(4, np.float32),))")
    page = reports.error_card(error)
    shown, folded = page.split("<details")
    assert type(error).__name__ in shown and "In[2], line 2" in shown
    assert "twice((1,), (32,)" in html.unescape(shown) and "site-packages" not in shown and "sim/cupy" not in shown
    assert "Traceback" in folded and "raw.py" in folded
    assert reports.is_ours(error)


@pytest.mark.parametrize("cell", ["1 / 0", "undefined", "int('x')", "def f(:", "%%cuda 3\nx"])
def test_plain_python_keeps_its_traceback(shell, cell):
    assert not reports.is_ours(error_of(shell, cell))


def test_a_kernel_that_does_not_compile_is_unbound_and_its_card_says_it_once(shell):
    shell.run_cell("%%cuda twice\n" + TWICE, store_history=True)
    assert "twice" in shell.user_ns
    error = error_of(shell, "%%cuda twice\n" + TWICE.replace("*= 2", "*= k"))
    assert "twice" not in shell.user_ns, "the old kernel must not be graded in the place of the new one"
    shown = words(reports.error_card(error).split("<details")[0])
    assert shown.count('identifier "k" is undefined') == 1 and "does not compile" in shown
    assert not any("sim/" in frame.filename for frame in traceback.extract_tb(error.__traceback__))
    assert words(reports.error_card(error)).count("*= k") == 3, "the line; and folded away the log, and the cell"
    emitted = []
    shell._showtraceback = lambda kind, value, lines: emitted.extend(lines)
    reports._show_error(shell, type(error), error, error.__traceback__)
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(emitted))
    assert text.count('identifier "k" is undefined') == 1 and "magics.py" not in text and "Try: " in text
    assert "run_cell_magic" in text and any(note.startswith("kernel.cu:4") for note in error.__notes__)
    unbound = error_of(shell, "cudalab.check('01.1', twice)")
    reports._show_error(shell, NameError, unbound, unbound.__traceback__)
    assert "Try: the last %%cuda twice did not compile" in "".join(unbound.__notes__)
    shell.run_cell("%%cuda twice\n" + TWICE, store_history=True)
    assert "twice" not in reports.uncompiled


def test_a_lost_device_compiles_and_says_once_what_it_was_and_then_how_to_go_on(shell, capsys):
    shell.run_cell("%%cuda twice\n" + TWICE, store_history=True)
    wild = "twice((1,), (32,), (np.uint64(16),)); cp.cuda.Device().synchronize()"
    first, second = error_of(shell, wild), error_of(shell, "cp.cuda.Device().synchronize()")
    assert "threadIdx.x" in "".join(first.__notes__)
    (note,) = second.__notes__
    assert "go on with cudalab.reset()" in note and "\n" not in note and note.count(". ") == 0
    assert error_of(shell, "%%cuda twice\n" + TWICE) is None and "is compiled" in capsys.readouterr().out
    assert error_of(shell, "%%cuda twice\n" + TWICE.replace("*= 2", "*= k")) is not None
    assert error_of(shell, "%%cuda twice\n" + TWICE) is None
    shell.run_cell("cudalab.reset()\ny = cp.ones(32, np.float32)\ntwice((1,), (32,), (y,))", store_history=True)
    assert shell.user_ns["y"].get().tolist() == [2.0] * 32


def test_a_hazard_names_streams_and_operations_as_the_timeline_does(shell):
    shell.run_cell("%%cuda twice\n" + TWICE, store_history=True)
    code = (
        "import warnings\nup, y = cp.cuda.Stream(non_blocking=True), cp.ones(32, np.float32)\n"
        "streams = [cp.cuda.Stream(non_blocking=True)]\ncp.cuda.Device().synchronize()\n"
        "with warnings.catch_warnings(record=True) as found, cudalab.trace() as t:\n"
        "    warnings.simplefilter('always')\n"
        "    twice((1,), (32,), (y,), stream=up)\n"
        "    twice((1,), (32,), (y,), stream=streams[0])\n"
        "    cp.cuda.Device().synchronize()\n"
    )
    assert error_of(shell, code) is None
    assert shell.user_ns["t"].streams == ["up", "streams[0]"]
    (warning,) = shell.user_ns["found"]
    text, page = str(warning.message), words(warning.message.hazard._repr_html_())
    for said in (text, page):
        assert (
            "stream up" in said and " streams[0]" in said and "stream streams" not in said and "In[2], line 8" in said
        )
    assert page.count("▲") == 1 and "Rule:" in page and "Try:" in page
    assert "twice in stream up" in page


def test_good_news_looks_like_it_and_findings_know_their_cell(shell):
    shell.run_cell("%%cuda twice\n" + TWICE, store_history=True)
    shell.run_cell("y = cp.ones(32, np.float32)", store_history=True)
    twice, y = shell.user_ns["twice"], shell.user_ns["y"]
    good = cudalab.sanitize(twice, (1,), (32,), (y,))._repr_html_()
    bad = cudalab.sanitize(twice, (1,), (64,), (y,))._repr_html_()
    assert "data-state='good'" in good and "✔" in good and "data-state='wrong'" not in good
    assert "data-state='wrong'" in bad and "In[1], line 4" in bad and "Rule:" in bad
