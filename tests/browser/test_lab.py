"""The course in JupyterLab, in a headless Chromium, as a learner meets it."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest

from cudalab.dev.notebook_format import KERNELSPEC
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
CUDA_CELL = '%%cuda add\nextern "C" __global__ void add(float *a)\n{\n    a[threadIdx.x] += 1;\n}'

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
    tuner = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(STREAM_TUNER)], metadata={"kernelspec": KERNELSPEC}
    )
    nbformat.write(tuner, copy / "tuner.ipynb")
    return copy


@pytest.fixture(scope="module")
def server(folder, chromium_path):
    from tests.browser.server import serve

    with serve(folder) as running:
        yield running


@pytest.fixture(scope="module")
def browser(chromium_path):
    from tests.browser.notebook_page import chromium

    with chromium() as running:
        yield running


@pytest.fixture
def page(browser, server):
    from tests.browser.notebook_page import notebook_page

    with notebook_page(browser, server) as opened:
        yield opened


def test_kernel_picker_offers_both_devices(server):
    specs = server.request("/api/kernelspecs")["kernelspecs"]
    titles = {name: spec["spec"]["display_name"] for name, spec in specs.items()}
    assert titles["cudalab-gpu"] == "CUDA: this machine's GPU"
    assert titles["cudalab-sim"] == "CUDA: simulated H200"
    assert specs["cudalab-sim"]["spec"]["env"] == {"CUDALAB_DEVICE": "sim:h200"}


@pytest.mark.turns(of=4)
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


@pytest.mark.turns(of=4)
def test_start_page_opens_without_the_network(page):
    page.open("notebooks/00_start_here.ipynb")
    page.run_all()
    assert page.tracebacks() == []
    assert page.errors == []
    assert page.foreign_requests == []
    assert page.page.get_by_text("official Jupyter news").count() == 0


@pytest.mark.turns(of=4)
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


@pytest.mark.turns(of=4)
def test_stream_tuner_redraws_its_timeline_on_a_press(page, server):
    page.open("tuner.ipynb")
    page.run_all()
    assert page.tracebacks() == []
    controls = page.page.locator(".widget-vbox", has=page.page.get_by_role("button", name="Run all")).first
    drawings = page.page.locator(".jp-OutputArea-output[data-mime-type='image/svg+xml'] img")
    assert drawings.count() == 2
    before = drawings.nth(1).get_attribute("src")
    assert "s%20in%20streams%5B0%5D" in before or "streams%201%2C%20round" in before
    controls.locator("select").nth(0).select_option("4")
    controls.locator("button").filter(has_text=re.compile(r"^\s*Run$")).click()
    page.wait_idle()
    controls.get_by_text("streams 4, round:").wait_for(timeout=60_000)
    page.page.wait_for_function(
        "before => [...document.querySelectorAll('img')].every(image => image.src !== before)",
        arg=before,
        timeout=20_000,
    )
    assert "streams%204%2C%20round" in drawings.nth(1).get_attribute("src")
    direct = ask(server, "tuner.ipynb", "print(round(tuner.timelines[4, 'round'].elapsed, 3))")
    assert float(direct) > 0
    assert page.page.locator("text=is fastest so far").count() >= 1
    assert page.tracebacks() == [] and page.errors == [] and page.foreign_requests == []
