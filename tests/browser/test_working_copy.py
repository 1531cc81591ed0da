"""The learner's copy of the course in JupyterLab: the start page, what it offers, and a notebook that is opened again."""

import shutil
import urllib.request
from pathlib import Path

import nbformat
import pytest

from cudalab.course import edition
from cudalab.course.working_copy import WorkingCopy
from cudalab.dev.notebook_format import KERNELSPEC
from tests.browser.kernel import kernel_of

ROOT = Path(__file__).parents[2]
START = "notebooks/00_start_here.ipynb"
CONTROLS = "notebooks/99_controls.ipynb"
QUESTION = """import cudalab
cudalab.quiz("Which?", [("this one", True, "It is."), ("that one", False, "It is not.")])"""

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A working copy of the course and of a small notebook with a control."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    for folder in edition.FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / "course" / folder)
    cells = [nbformat.v4.new_code_cell(QUESTION, id="question")]
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


def test_learner_starts_works_reopens_and_starts_over(copy, chromium_path):
    from tests.browser.notebook_page import chromium, notebook_page
    from tests.browser.server import serve

    with serve(copy.folder) as server, chromium() as browser, notebook_page(browser, server) as opened:
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
        opened.run_all()
        page.get_by_role("button", name="A", exact=True).wait_for()
        page.keyboard.press("Control+s")
        stored = copy.folder / CONTROLS
        page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')")
        assert "widget-view" in stored.read_text()
        _restart_kernel(server, kernel_of(server, CONTROLS))
        page.reload()
        page.get_by_text("Run this cell again to use its controls.").wait_for(timeout=60_000)
        assert page.get_by_text("model not found").count() == 0
        opened.open(CONTROLS)
        opened.run_all()
        page.get_by_role("button", name="A", exact=True).wait_for()
        assert page.get_by_text("Run this cell again").count() == 0

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


def _restart_kernel(server, kernel):
    address = f"http://127.0.0.1:{server.port}/api/kernels/{kernel}/restart?token={server.token}"
    urllib.request.urlopen(urllib.request.Request(address, method="POST"), timeout=60).close()
