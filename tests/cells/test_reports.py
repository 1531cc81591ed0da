"""Errors, hazards and findings as cards, and what `%%cuda` does where something fails."""

import html
import re
import sys
import traceback
from types import SimpleNamespace

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import cudalab
from cudalab import backend, cp
from cudalab.cells import doubts, magics, reports
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


DOUBTFUL = """extern "C" __global__ void sum(float *a, int n)
{
    int i = threadIdx.x;
    __syncwarp;
    if (i < n) a[i] = 1;
}
"""


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(doubts, "display", lambda data, raw: bundles.append(data))
    return bundles


def test_what_compiles_and_is_doubtful_is_one_card_with_line_rule_and_advice(shell, shown):
    assert error_of(shell, "%%cuda sum\n" + DOUBTFUL) is None
    (bundle,) = shown
    page = words(bundle["text/html"])
    assert "data-state='warning'" in bundle["text/html"] and page.count("expression has no effect") == 1
    assert "In[1], line 5" in page and "__syncwarp;" in page and "Rule:" in page and "Try:" in page
    assert "call it with brackets: __syncwarp()." in page and "Try: call it with brackets" in bundle["text/plain"]
    assert error_of(shell, "%%cuda sum\n" + DOUBTFUL.replace("warp;", "warp();")) is None and len(shown) == 1


def test_several_doubts_share_a_card_each_with_its_line(shell, shown):
    cell = DOUBTFUL.replace("if (i < n)", "if (i = 3)").replace("a[i] = 1;", "a[i] == 1;")
    assert error_of(shell, "%%cuda sum\n" + cell) is None
    (bundle,) = shown
    page = words(bundle["text/html"])
    assert bundle["text/html"].count("cudalab-card") == 1 and "look again at 3 places" in page
    assert "In[1], line 5: expression has no effect" in page and 'In[1], line 6: use of "="' in page


def test_options_and_instances_reach_what_doubts(shell, shown):
    cell = "template <int N> __global__ void take(int *a)\n{\n    a[0] = (WHICH << N);\n}\n"
    assert error_of(shell, "%%cuda take --instance 'take<40>' --option=-DWHICH=1 --module m\n" + cell) is None
    assert "In[1], line 4" in words(shown[0]["text/html"]) and "1LL << 40" in words(shown[0]["text/html"])


def test_a_kernel_made_in_python_is_as_silent_as_under_cupy(shell, shown, capsys):
    assert error_of(shell, f"k = cp.RawKernel({DOUBTFUL!r}, 'sum')\nk.compile()") is None
    assert not shown and capsys.readouterr() == ("", "")


def test_on_a_gpu_the_compiler_of_the_simulated_device_is_asked(shell, shown, monkeypatch):
    """CuPy's own log is empty where CuPy has the kernel in its cache."""
    kernel = SimpleNamespace(code="\n" + DOUBTFUL, options=(), name_expressions=())
    with monkeypatch.context() as patched:
        patched.setattr(backend, "choice", lambda: SimpleNamespace(kind="gpu"))
        doubts.show(kernel, 7)
        assert "In[7], line 5" in words(shown[0]["text/html"])
        doubts.show(SimpleNamespace(code="#include <only/there.h>\n" + DOUBTFUL, options=(), name_expressions=()), 8)
        assert len(shown) == 1
