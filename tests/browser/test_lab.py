"""The course in JupyterLab, in a headless Chromium, as a learner meets it."""

import re
import shutil
import time
from pathlib import Path

import nbformat
import pytest

from cudalab.course import edition
from cudalab.course.progress import Progress
from cudalab.course.working_copy import WorkingCopy
from cudalab.dev.notebook_format import KERNELSPEC
from cudalab.installation.gpu_probe import Gpu, probe
from tests.browser.kernel import ask

ROOT = Path(__file__).parent.parent.parent
CHAPTER = "notebooks/04_device_memory.ipynb"
STREAM_TUNER = """import numpy as np
import cudalab
from cudalab import cp
scale = cp.RawKernel('extern "C" __global__ void scale(float *x) { x[blockIdx.x * 256 + threadIdx.x] *= 2; }', "scale")
x, streams = cp.ones(1 << 16, np.float32), [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
cp.cuda.Device().synchronize()
def run(count, order):
    for at in range(4):
        scale((64,), (256,), (x[at << 14 : (at + 1) << 14],), stream=streams[at % count if order == "round" else 0])
tuner = cudalab.tune(run, sweep=[(1, "round")], streams=[1, 2, 4], order=["round", "one"])"""
RAISING = (
    "import cudalab\nfrom pathlib import Path",
    "assert not Path('broken').exists(), 'half written'",
    "print('what stood here')",
)
PREDICTION = 'guess = cudalab.predict("How many?", [3, 4])'
BRING_BACK = "Run the cells above and this one"
CUDA_CELL = '%%cuda add\nextern "C" __global__ void add(float *a)\n{\n    a[threadIdx.x] += 1;\n}'

START = "notebooks/00_start_here.ipynb"
CONTROLS = "notebooks/99_controls.ipynb"
QUESTION = """cudalab.quiz("Which?", [("this one", True, "It is."), ("that one", False, "It is not.")])"""
WAIT = """import time
from cudalab.sim.compiler import waiting
with waiting.step(waiting.reading("#include <cooperative_groups.h>")):
    time.sleep(4)"""

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the course, so that a run changes nothing."""
    copy = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "notebooks", copy / "notebooks")
    cells = [
        nbformat.v4.new_code_cell("import cudalab"),
        nbformat.v4.new_code_cell(CUDA_CELL),
        nbformat.v4.new_code_cell("add"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC}), copy / "small.ipynb")
    for name, sources in {"tuner": (STREAM_TUNER, PREDICTION), "raising": (*RAISING, PREDICTION)}.items():
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
        nbformat.write(notebook, copy / f"{name}.ipynb")
    return copy


@pytest.fixture(scope="module")
def server(folder, chromium_path):
    from tests.browser.server import serve

    with serve(folder) as running:
        yield running


def test_kernel_picker_offers_the_devices_that_are_here(server):
    specs = server.request("/api/kernelspecs")["kernelspecs"]
    titles = {name: spec["spec"]["display_name"] for name, spec in specs.items()}
    assert ("cudalab-gpu" in titles) is isinstance(probe(), Gpu)
    assert titles["cudalab-sim"] == "CUDA: simulated H200"
    assert specs["cudalab-sim"]["spec"]["env"] == {"CUDALAB_DEVICE": "sim:h200"}


def test_cuda_cell_is_highlighted_as_cpp_and_back(page):
    page.open("small.ipynb")
    page.run_all()
    page.page.wait_for_function(
        "() => document.querySelectorAll('.jp-Cell .cm-content')[1].dataset.language === 'cpp'", timeout=20_000
    )
    assert page.languages() == ["python", "cpp", "python"]
    editor = page.page.locator(".jp-Cell .cm-content").nth(1)
    editor.click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("x = 1")
    page.page.wait_for_function(
        "() => document.querySelectorAll('.jp-Cell .cm-content')[1].dataset.language === 'python'", timeout=20_000
    )


def test_start_page_opens_without_the_network(page):
    page.open("notebooks/00_start_here.ipynb")
    page.run_all()
    assert page.tracebacks() == []
    assert page.errors == []
    assert page.foreign_requests == []
    assert page.page.get_by_text("official Jupyter news").count() == 0


def test_chapter_04_runs_and_its_tuner_measures_what_a_direct_run_does(page, server):
    page.open(CHAPTER)
    page.run_all()
    assert page.tracebacks() == []
    controls = page.page.locator(".widget-vbox", has=page.page.get_by_role("button", name="Run all")).first
    controls.locator("select").nth(1).select_option("96")
    run = controls.locator("button").filter(has_text=re.compile(r"^\s*Run$"))
    run.click()
    page.wait_idle()
    status = controls.get_by_text("block 96:")
    status.wait_for(timeout=60_000)
    shown = re.search(r"block 96:\s*([\d.,]+)\s*µs", status.inner_text())
    direct = ask(server, CHAPTER, "print(cudalab.plots.style.number(time_add(1 << 26, 96).microseconds))")
    assert shown is not None and shown[1] == direct.strip()
    assert run.is_enabled()
    assert page.tracebacks() == []
    assert page.errors == []
    assert page.foreign_requests == []


def test_stream_tuner_redraws_its_timeline_on_a_press(page, server):
    page.open("tuner.ipynb")
    page.run_all()
    assert page.tracebacks() == []
    controls = page.page.locator(".widget-vbox", has=page.page.get_by_role("button", name="Run all")).first
    figures = page.page.locator(".cudalab-figure svg")
    assert figures.count() == 2
    assert "streams 1, round" in figures.nth(1).text_content()
    controls.locator("select").nth(0).select_option("4")
    controls.locator("button").filter(has_text=re.compile(r"^\s*Run$")).click()
    page.wait_idle()
    controls.get_by_text("streams 4, round:").wait_for(timeout=60_000)
    page.page.wait_for_function(
        "() => document.querySelectorAll('.cudalab-figure svg')[1].textContent.includes('streams 4, round')",
        timeout=20_000,
    )
    look_at_the_live_timeline(page)
    make_a_prediction(page)
    direct = ask(server, "tuner.ipynb", "print(round(tuner.timelines[4, 'round'].elapsed, 3))")
    assert float(direct) > 0
    assert page.page.locator("text=is fastest so far").count() >= 1
    assert page.tracebacks() == [] and page.errors == [] and page.foreign_requests == []


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A working copy of the course and of a small notebook with a control."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    for folder in edition.FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / "course" / folder)
    named = {"setup": "import cudalab", "question": QUESTION, "wait": WAIT}
    cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in named.items()]
    small = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
    nbformat.write(small, tmp_path / "course" / CONTROLS)
    made = WorkingCopy(tmp_path / "work")
    made.update(tmp_path / "course")
    return made


def cut_names(page):
    """The names in the file browser that do not fit it."""
    script = "items => items.filter(item => item.scrollWidth > item.clientWidth).map(item => item.textContent)"
    page.locator(".jp-DirListing-itemText").first.wait_for()
    return page.locator(".jp-DirListing-itemText").evaluate_all(script)


def test_learner_starts_works_reopens_and_starts_over(copy, browser):
    from tests.browser.notebook_page import notebook_page
    from tests.browser.server import serve

    with serve(copy.folder) as server, notebook_page(browser, server) as opened:
        page = opened.page
        page.goto(f"http://127.0.0.1:{server.port}/lab?token={server.token}")
        page.get_by_text("Begin with: 00 Start here").wait_for(timeout=60_000)
        assert page.get_by_role("menuitem").all_inner_texts().count("Nbgrader") == 0
        assert opened.errors == [] and opened.foreign_requests == []
        for folder in edition.FOLDERS:
            page.locator(".jp-DirListing-item", has_text=folder).dblclick()
            page.locator(".jp-DirListing-item", has_text="01_programming_model.ipynb").wait_for()
            assert cut_names(page) == []
            page.locator(".jp-BreadCrumbs-home").click()

        # a chapter opens without the recorded outputs
        page.locator(f'tr a[data-open="{START}"]').click()
        page.locator(".jp-Notebook .jp-Cell").nth(5).wait_for(timeout=60_000)
        assert page.locator(".jp-Notebook .jp-OutputArea-output").count() == 0
        assert page.get_by_role("button", name="Validate").count() == 0

        # a control that is reopened without its kernel
        opened.open(CONTROLS)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

        # while the compiler works, a line below the cell says what it does; then it is gone
        line = page.locator(".jp-CodeCell").nth(2).locator(".cudalab-progress")
        line.get_by_text("NVRTC is compiling, with <cooperative_groups.h>").wait_for(timeout=60_000)
        line.wait_for(state="detached", timeout=60_000)
        page.locator(".cudalab-options button").first.wait_for()
        opened.wait_idle()
        page.keyboard.press("Control+s")
        stored = copy.folder / CONTROLS
        _wait_until_saved(page, stored)
        assert not edition.read(stored).cells[2].outputs
        opened.reopen_without_kernel()
        assert page.get_by_text("model not found").count() == 0
        _bring_back(page)

        # a control on a page that stays open while the kernel restarts
        _restart(page)
        _bring_back(page)

        # what has changed, and starting over, with the notebook's text as it stands in the page
        page.goto(f"http://127.0.0.1:{server.port}/lab?token={server.token}")
        row = page.locator('tr[data-chapter="99"]')
        row.locator("summary").click()
        row.get_by_text("What have I changed").click()
        page.get_by_text("you have changed nothing").wait_for()
        page.get_by_role("button", name="Ok").click()
        row.locator("summary").click()
        row.get_by_text("Start the chapter over").click()
        page.get_by_role("button", name="Start over").click()
        page.get_by_text("What was there before you started over").wait_for()
        assert not edition.read(stored).cells[0].outputs
        (backup,) = (copy.folder / "backups").iterdir()
        assert "widget-view" in backup.read_text()

        # answers are saved as a file, and count no more when the learner says so
        Progress(copy.folder).append({"kind": "check", "notebook": START, "name": "00.1", "answer": 1, "text": "mine"})
        with page.expect_download() as download:
            page.get_by_role("button", name="with your texts").click()
        assert download.value.suggested_filename == "cudalab-answers.json"
        assert '"text": "mine"' in Path(download.value.path()).read_text()
        page.get_by_role("button", name="begin to count anew").click()
        page.get_by_role("button", name="Count anew", exact=True).click()
        page.locator(".jp-Dialog").wait_for(state="detached")
        page.get_by_text("Begin with: 00 Start here").wait_for()


def test_what_brings_controls_back_stops_at_a_cell_that_raises(page, folder):
    page.open("raising.ipynb")
    page.run_all()
    broken = folder / "broken"
    broken.touch()
    _restart(page.page)
    page.page.get_by_role("button", name=BRING_BACK).click()
    page.page.get_by_text("Stopped at cell [2], which raises AssertionError").wait_for(timeout=60_000)
    assert page.page.locator(".jp-OutputArea-output", has_text="what stood here").count() == 1
    assert page.page.locator(".cudalab-options:visible").count() == 0
    broken.unlink()
    _bring_back(page.page)
    assert page.page.get_by_text("Stopped at").count() == 0 and page.tracebacks() == []


def _restart(page):
    """Restart the kernel by its menu, and wait until controls say that it is gone."""
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.locator(".lm-Menu-itemLabel").get_by_text("Restart Kernel…", exact=True).click()
    page.locator(".jp-Dialog button", has_text="Restart").click()
    page.get_by_text("Run this cell again to use its controls").wait_for(timeout=60_000)


def _bring_back(page):
    """Controls whose kernel is gone say so; the button beside runs what they need."""
    page.get_by_text("Run this cell again to use its controls").wait_for(timeout=60_000)
    assert page.locator(".cudalab-options:visible").count() == 0
    page.get_by_role("button", name=BRING_BACK).click()
    page.locator(".cudalab-options button").first.wait_for(timeout=60_000)
    assert page.get_by_text("Run this cell again").count() == 0


def _wait_until_saved(page, notebook):
    """Wait until the file holds the view of a control."""
    end = time.monotonic() + 60
    while "widget-view" not in notebook.read_text(encoding="utf-8"):
        assert time.monotonic() < end, "JupyterLab has not saved the notebook"
        page.wait_for_timeout(100)


def look_at_the_live_timeline(page):
    """Keyboard, zoom, widths and theme of the figures that are on the page."""
    live = page.page.locator(".cudalab-figure[data-live]")
    first_bar = ".cudalab-figure[data-live] .tl-bar rect"
    width = f"() => document.querySelector('{first_bar}').getBoundingClientRect().width"
    whole = page.page.evaluate(width)
    live.focus()
    for key in ("ArrowRight", "+", "+"):
        page.page.keyboard.press(key)
    assert "modelled" in page.page.locator(".tl-note").inner_text()
    note, frame = page.page.locator(".tl-note").bounding_box(), live.bounding_box()
    assert frame["y"] <= note["y"] and note["y"] + note["height"] <= frame["y"] + frame["height"] + 1, "a cut note"
    assert page.page.evaluate(width) > 1.5 * whole
    for key in ("0", "0", "Escape"):  # not for the notebook, which would restart its kernel
        page.page.keyboard.press(key)
    assert page.page.evaluate(width) == pytest.approx(whole) and page.page.locator(".jp-Dialog").count() == 0
    edges = """() => [...document.querySelectorAll('.cudalab-figure')].map(figure => [
        figure.querySelector('svg').getBoundingClientRect().right,
        figure.getBoundingClientRect().right, figure.closest('.jp-OutputArea-output').getBoundingClientRect().right])"""
    for size in (900, 1280, 1600):
        page.page.set_viewport_size({"width": size, "height": 900})
        page.page.wait_for_timeout(300)
        for drawn, figure, output in page.page.evaluate(edges):
            assert drawn <= figure + 1 <= output + 2, f"cut at {size} px"
        scale = live.locator("svg").evaluate("svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width")
        assert scale == pytest.approx(1.2, abs=0.01), f"the timeline's text is not in its size at {size} px"
        ends = live.locator(".tl-entry").evaluate_all("all => all.map(each => each.getBoundingClientRect().right)")
        assert max(ends) <= live.bounding_box()["x"] + live.bounding_box()["width"], f"legend cut at {size} px"
    drawn, figure, _ = page.page.evaluate(edges)[1]
    assert drawn == pytest.approx(figure, abs=2), "the timeline is as wide as the page"
    assert live.locator("svg").evaluate("svg => getComputedStyle(svg).filter") == "none"
    page.page.evaluate("() => document.body.dataset.jpThemeLight = 'false'")
    assert "invert" in live.locator("svg").evaluate("svg => getComputedStyle(svg).filter")


def make_a_prediction(page):
    """The options are buttons, for the mouse and the keyboard; their list, for pages without a kernel, is hidden."""
    three, four = (page.page.get_by_role("button", name=f"{letter}") for letter in ("A · 3", "B · 4"))
    assert not page.page.locator(".cudalab-listed").first.is_visible()
    three.click()
    page.page.locator("button.cudalab-chosen", has_text="A · 3").wait_for()
    four.focus()
    page.page.keyboard.press("Enter")
    page.page.locator("button.cudalab-chosen", has_text="B · 4").wait_for()
    assert page.page.locator("button.cudalab-chosen").count() == 1
