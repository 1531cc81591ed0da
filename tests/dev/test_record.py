"""Recording: run by nbclient, stored in canonical form with stamps, without widgets and paths."""

import datetime

import nbformat
import pytest

from cudalab.dev import notebook_format as rules
from cudalab.dev.record import RecordError, record, record_all

CELLS = {
    "widget": "import ipywidgets\ndisplay(ipywidgets.IntSlider())\nprint('picture')",
    "device": "import cudalab\nprint(cudalab.device().name)",
    "warning": "import warnings\nwarnings.warn('careful')",
    "error": "import os\nopen(os.path.expanduser('~/nothing-here'))",
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A small notebook after recording on the simulated device."""
    path = tmp_path_factory.mktemp("record") / "small.ipynb"
    cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in CELLS.items()]
    cells[-1].metadata["tags"] = ["raises-exception"]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    record(path, device="sim", timeout=60)
    return path


def cell(path, name):
    return next(cell for cell in rules.read(path).cells if cell.id == name)


def test_outputs_are_stored(recorded):
    assert cell(recorded, "device").outputs[0].text == "NVIDIA H200\n"


def test_only_the_device_is_amiss_with_a_record_from_the_simulated_one(recorded):
    found = {breach.rule.split(";")[0] for breach in rules.breaches(recorded)}
    assert found == {"its stored output came from the simulated device"}


def test_stamps_name_device_driver_and_day(recorded):
    stamp = cell(recorded, "device").metadata["cudalab"]
    assert (stamp["device"], stamp["driver"]) == ("simulated NVIDIA H200", "CUDA 13.0")
    assert abs(datetime.date.fromisoformat(stamp["date"]) - datetime.date.today()).days <= 1


def test_live_views_are_not_stored(recorded):
    assert "widget" not in "".join(map(str, cell(recorded, "widget").outputs))
    assert [output.get("text") for output in cell(recorded, "widget").outputs] == ["picture\n"]


def test_no_path_of_this_machine_is_stored(recorded):
    warning, error = cell(recorded, "warning").outputs[0], cell(recorded, "error").outputs[0]
    assert warning.text.startswith("cell:2: UserWarning: careful")
    assert "~/nothing-here" in error.evalue


def test_failing_cell_is_an_error_and_leaves_the_file(tmp_path, capsys):
    path = tmp_path / "broken.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0", id="zero")])))
    before = path.read_text()
    with pytest.raises(RecordError, match="broken.ipynb: a cell failed on the device 'sim'(.|\n)*ZeroDivisionError"):
        record(path, device="sim")
    assert path.read_text() == before
    assert record_all([path], device="sim") == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_stale_keeps_what_fits_and_runs_nothing_of_the_learner_s(tmp_path):
    path = tmp_path / "small.ipynb"
    made = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("import cudalab\nfound = cudalab.predict('00.blocks')\nprint('anew')", id="old"),
            nbformat.v4.new_code_cell("found.compare(4)", id="compare-old"),
            nbformat.v4.new_code_cell("1 / 0", id="now-something"),
            nbformat.v4.new_code_cell("cudalab.plot.pitch({1000: 1024})", id="drawing"),
            nbformat.v4.new_code_cell("print('anew')", id="new"),
            nbformat.v4.new_code_cell("found.compare(4)", id="compare-new"),
        ]
    )
    stamp = {"device": "NVIDIA H200", "driver": "CUDA 13.0", "date": "2026-11-21"}
    for kept in made.cells[:2]:
        kept.outputs = [nbformat.v4.new_output("stream", text="kept\n")]
    made.cells[0].metadata[rules.RECORD] = {"source_hash": rules.source_hashes(made)["old"], **stamp}
    path.write_text(nbformat.writes(made), encoding="utf-8")
    record(path, device="sim", stale=True)
    assert [cell(path, name).outputs[0].text for name in ("old", "compare-old", "new")] == [
        "kept\n",
        "kept\n",
        "anew\n",
    ]
    assert "The run says **4**" in str(cell(path, "compare-new").outputs)
    assert cell(path, "old").metadata[rules.RECORD]["device"] == "NVIDIA H200"
    assert cell(path, "new").metadata[rules.RECORD]["device"] == "simulated NVIDIA H200"
    assert cell(path, "now-something").outputs == []
    assert set(cell(path, "drawing").metadata[rules.RECORD]) == {"source_hash"}
