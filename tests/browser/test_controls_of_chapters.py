"""The controls of every chapter, operated in JupyterLab: what the page shows is what a direct run gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import nbformat
import pytest

from cudalab.dev import notebook_format as rules
from cudalab.dev.dataflow import Dataflow
from cudalab.dev.now_you import is_now_you
from tests.browser.kernel import ask

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

_TRACED = "with cudalab.trace() as seen:\n    {}\n    cp.cuda.Device().synchronize()\nfound = seen.elapsed"


@dataclass(frozen=True)
class Control:
    """One tuner of a chapter."""

    chapter: str
    cell: str
    choices: tuple[str, ...]
    """What is chosen in its lists, from left to right."""
    says: str
    """Words before the time on the page."""
    direct: str
    """Python that leaves in ``found`` what the chapter's own function gives for these choices, µs."""

    def __str__(self) -> str:
        return f"{self.chapter} {self.cell}"

    @property
    def page(self) -> str:
        return f"{self.chapter}_{self.cell}.ipynb"

    def notebook(self) -> Any:
        """The chapter's cells up to the tuner, of those only that it depends on."""
        (path,) = [path for path in rules.course_notebooks() if path.name.startswith(self.chapter)]
        code = [each for each in rules.read(path).cells if each.cell_type == "code" and not is_now_you(each)]
        (at,) = [place for place, each in enumerate(code) if each.id == self.cell]
        needed = Dataflow([each.source for each in code]).led_to(at)
        cells = [nbformat.v4.new_code_cell(code[place].source, id=code[place].id) for place in (*needed, at)]
        return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": rules.KERNELSPEC})


CONTROLS = [
    Control("00", "tuner", ("1 M elements", "128"), "block 128:", "found = time_square(1 << 20, 128).microseconds"),
    Control(
        "01", "tune-blocks", ("1 M elements", "264"), "blocks 264:", "found = time_scale(1 << 20, 264).microseconds"
    ),
    Control("03", "tuner", ("after a first call", "10"), "calls 10:", "found = mean_time(1, 10)"),
    Control("04", "tuner", ("1 M elements", "96"), "block 96:", "found = time_add(1 << 20, 96).microseconds"),
    Control(
        "05", "tuner", ("background of 24 MiB", "0.5"), "ratio 0.5:", "found = time_with_ratio(24, 0.5).microseconds"
    ),
    Control("06", "tune-shape", ("512 × 512", "16"), "width 16:", "found = time_naive(512, 16).microseconds"),
    Control("06", "tune-tile", ("1024 × 1024", "16"), "tile 16:", "found = time_tiled(1024, 16).microseconds"),
    Control("08", "tuner", ("2", "mapped"), "passes 2, mapped:", 'found = run(2, "mapped").elapsed'),
    Control("09", "tune-stages", ("8 MB", "3"), "stages 3:", "found = time_tiles(1 << 21, 3).microseconds"),
    Control(
        "11", "tuner", ("4", "breadth-first"), "streams 4, breadth-first:", _TRACED.format('run(4, "breadth-first")')
    ),
    Control(
        "12",
        "tuner",
        ("10", "higher"),
        "rounds 10, higher:",
        'with cudalab.trace():  # as the tuner does: calls take longer there\n    found = latency(10, "higher")',
    ),
    Control("14", "tuner", ("256 K elements", "10"), "launches 10:", "found = time_scale(1 << 18, 10)"),
    Control("15", "tuner", ("capture", "10"), "nodes 10:", 'found = host_time("capture", 10)'),
    Control("21", "tuner", ("2",), "streams 2:", _TRACED.format("round_in(2)")),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory, chromium_path):
    from tests.browser.server import serve

    folder = tmp_path_factory.mktemp("controls")
    for control in CONTROLS:
        nbformat.write(control.notebook(), folder / control.page)
    with serve(folder) as running:
        yield running


def test_every_chapter_with_a_tuner_is_here():
    found = [
        (path.name[:2], cell.id)
        for path in rules.course_notebooks()
        for cell in rules.read(path).cells
        if cell.cell_type == "code" and "cudalab.tune(" in cell.source
    ]
    assert [(control.chapter, control.cell) for control in CONTROLS] == found


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_a_chapters_tuner_shows_what_a_direct_run_gives(page, server, control):
    page.open(control.page)
    page.run_all()
    assert page.tracebacks() == []
    controls = page.page.locator(".widget-vbox", has=page.page.get_by_role("button", name="Run all")).first
    for place, choice in enumerate(control.choices):
        controls.locator("select").nth(place).select_option(choice)
    run = controls.locator("button").filter(has_text=re.compile(r"^\s*Run$"))
    run.click()
    page.wait_idle()
    status = controls.get_by_text(control.says)
    status.wait_for(timeout=60_000)
    shown = re.search(re.escape(control.says) + r"\s*([\d.,]+)\s*µs", status.inner_text())
    direct = ask(server, control.page, control.direct + "\nprint(cudalab.plots.style.number(found))")
    assert shown is not None and shown[1] == direct.strip()
    assert run.is_enabled()
    assert page.tracebacks() == [] and page.errors == [] and page.foreign_requests == []
