"""The rules for notebooks, each broken once, and the canonical form."""

import json

import nbformat
import pytest

from cudalab.dev import notebook_format as rules

STAMP = {"device": "NVIDIA H200", "driver": "CUDA 13.0", "date": "2026-11-21"}


def chapter(*cells, stamped=True):
    """A notebook with these cells, in order; each code cell carries a fitting stamp."""
    made = nbformat.v4.new_notebook(cells=list(cells), metadata={"kernelspec": rules.KERNELSPEC})
    if stamped:
        hashes = rules.source_hashes(made)
        for cell in made.cells:
            if cell.cell_type == "code":
                cell.metadata["cudalab"] = {"source_hash": hashes[cell.id], **STAMP}
    return made


def code(source, *outputs, name="some-cell", tags=()):
    metadata = {"tags": list(tags)} if tags else {}
    return nbformat.v4.new_code_cell(source, id=name, outputs=list(outputs), execution_count=1, metadata=metadata)


def printed(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def shown(**data):
    named = {kind.replace("_", "/", 1).replace("__", "+"): value for kind, value in data.items()}
    return nbformat.v4.new_output("execute_result", data=named, execution_count=1)


@pytest.fixture
def broken(tmp_path):
    """The rules that a notebook breaks, as texts."""

    def look(made):
        path = tmp_path / "chapter.ipynb"
        path.write_text(rules.canonical(made), encoding="utf-8")
        return [breach.rule for breach in rules.breaches(path)]

    return look


def test_a_good_notebook_breaks_no_rule(broken):
    made = chapter(
        nbformat.v4.new_markdown_cell("# Title", id="title"),
        code("x = 1", name="set-x"),
        code("# NBVAL_CHECK_OUTPUT\nprint(x)", printed("1\n"), name="print-x"),
    )
    assert broken(made) == []


@pytest.mark.parametrize("name", ["Cell_1", "a1b2c3d4", "0f3c9d2e-1b2c-4d5e"])
def test_cell_ids_are_readable(broken, name):
    assert any("not readable" in rule for rule in broken(chapter(code("1", name=name))))


def test_cell_ids_stand_once(tmp_path):
    made = chapter(code("1"), code("2", name="other"))
    text = rules.canonical(made).replace('"id": "other"', '"id": "some-cell"')
    path = tmp_path / "chapter.ipynb"
    path.write_text(text)
    assert "2 cells have this id; each needs one of its own" in [breach.rule for breach in rules.breaches(path)]


@pytest.mark.parametrize(
    "source",
    [
        "print(1)  # NBVAL_CHECK_OUTPUT",
        "x = 1\n# NBVAL_CHECK_OUTPUT\nprint(x)",
        "# NBVAL_CHECK_OUTPUT as on the GPU\nprint(1)",
        "# NBVAL_SKIP\nprint(1)",
        "# NBVAL_IGNORE_OUTPUT\nprint(1)",
    ],
)
def test_marker_stands_alone_on_the_first_line(broken, source):
    assert any("must stand alone on the first line" in rule for rule in broken(chapter(code(source, printed("1\n")))))


@pytest.mark.parametrize(
    "source",
    [
        "import time\nstart = time.perf_counter()",
        "from time import perf_counter",
        "%timeit add()",
        "%%time\nadd()",
        "from datetime import datetime\ndatetime.now()",
    ],
)
def test_host_clock_is_refused(broken, source):
    assert any("host's clock" in rule for rule in broken(chapter(code(source))))


@pytest.mark.parametrize(
    "source", ["# time.time() would be wrong here\nclock()", "x.kernel_time.sum()", "%%cuda f\nint time;"]
)
def test_host_clock_is_not_seen_where_it_is_not(broken, source):
    assert broken(chapter(code(source))) == []


def test_an_unrelated_cell_leaves_later_outputs_valid_and_a_changed_definition_does_not(broken):
    cells = (code("x = 1", name="first"), code("def f():\n    return x", name="second"), code("f()", name="third"))
    made = chapter(*cells, code("y = 2", name="fourth"))
    made.cells.insert(1, code("z = 0", name="unrelated"))
    made.cells[1].outputs, made.cells[1].execution_count = [], None
    assert broken(made) == []
    made.cells[0].source = "x = 2"
    stale = "its stored output is stale: code changed since"  # the first cell, and the one that calls the function
    assert [rule.split(";")[0] for rule in broken(made)] == [stale] * 2


def test_changed_code_makes_its_own_and_later_outputs_stale(broken):
    made = chapter(
        code("x = 1", name="first"), code("x = 2", name="second"), code("print(x)", printed("2\n"), name="third")
    )
    made.cells[1].source = "x = 3"
    assert sum("stale" in rule for rule in broken(made)) == 2


def test_output_without_a_record_is_named(broken):
    made = chapter(code("print(1)", printed("1\n")), stamped=False)
    assert any("never recorded" in rule for rule in broken(made))


def test_output_of_the_simulated_device_is_no_record(broken):
    made = chapter(code("print(1)", printed("1\n")))
    made.cells[0].metadata["cudalab"]["device"] = "simulated NVIDIA H200"
    assert any("came from the simulated device" in rule for rule in broken(made))


def test_a_cell_that_always_runs_on_the_simulated_device_may_be_recorded_there(broken):
    made = chapter(code("%%isolated sim\nprint(6 * 7)", printed("42\n")))
    made.cells[0].metadata["cudalab"]["device"] = "simulated NVIDIA H200"
    assert broken(made) == []


def test_chapters_that_await_a_gpu_may_be_recorded_on_the_simulated_device(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "AWAITING_GPU", {"07"})
    made = chapter(code("print(1)", printed("1\n")))
    made.cells[0].metadata["cudalab"]["device"] = "simulated NVIDIA H200"
    path = tmp_path / "07_topic.ipynb"
    path.write_text(rules.canonical(made), encoding="utf-8")
    assert list(rules.breaches(path)) == []


DRAWING = 'cudalab.plot.pitch({1000: 1024}, title="One row")'


def test_a_drawing_needs_no_device_and_is_drawn_by_fix(tmp_path, capsys):
    made = chapter(code("x = 1", name="first"))
    made.cells.insert(0, nbformat.v4.new_code_cell("# a row\n" + DRAWING, id="draw-row"))
    path = tmp_path / "chapter.ipynb"
    path.write_text(rules.canonical(made), encoding="utf-8")
    missing = "its drawing is missing or older than its code; run `python -m cudalab notebooks --fix`"
    assert [breach.rule for breach in rules.breaches(path)] == [missing]
    assert rules.check_all([path], fix=True) == 0
    drawn = rules.read(path).cells[0]
    assert set(drawn.metadata["cudalab"]) == {"source_hash"} and drawn.execution_count == 0
    assert "image/svg+xml" in drawn.outputs[0].data and "1000 → 1024" in drawn.outputs[1].data["text/plain"]
    text = path.read_text()
    assert rules.check_all([path], fix=True) == 0 and path.read_text() == text
    path.write_text(text.replace("1000: 1024", "1000: 2048"))
    assert [breach.rule for breach in rules.breaches(path)] == [missing]


@pytest.mark.parametrize("source", [f"x = 1\n{DRAWING}", "cudalab.plot.pitch(pitches)", f"picture = {DRAWING}", "f()"])
def test_what_is_no_drawing_is_recorded(source):
    assert set(rules.source_hashes(chapter(code(source)))) == {"some-cell"}


def test_record_without_a_date_is_named(broken):
    made = chapter(code("print(1)", printed("1\n")))
    del made.cells[0].metadata["cudalab"]["date"]
    assert "its record lacks date" in broken(made)


@pytest.mark.parametrize("text", ["True\n", "False", " True \n".strip()])
def test_compared_cell_shows_more_than_a_truth_value(broken, text):
    assert any("bare True" in rule for rule in broken(chapter(code("# NBVAL_CHECK_OUTPUT\nok", printed(text)))))


def test_compared_cell_has_text_only(broken):
    output = nbformat.v4.new_output("display_data", data={"text/plain": "figure", "image/svg+xml": "<svg/>"})
    assert any("text only" in rule for rule in broken(chapter(code("# NBVAL_CHECK_OUTPUT\nplot()", output))))


def test_compared_cell_does_not_end_with_a_semicolon(broken):
    """nbval runs cells without history, and IPython looks there for the semicolon that silences a value."""
    made = chapter(code("# NBVAL_CHECK_OUTPUT\nprint(1)\nfree(x);", printed("1\n")))
    assert any("ends with `;`" in rule for rule in broken(made))


def test_compared_cell_has_an_output(broken):
    assert "it is compared but has no stored output" in broken(chapter(code("# NBVAL_CHECK_OUTPUT\nx = 1")))


def test_path_of_the_machine_is_named(broken):
    made = chapter(code("warn()", printed("/home/someone/course/x.py:3: UserWarning", "stderr")))
    assert any("names a path" in rule for rule in broken(made))


def test_canonical_form_is_stable_and_drops_what_depends_on_the_machine():
    made = chapter(code("1", shown(text_plain="1")))
    made.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    made.metadata["language_info"] = {"name": "python", "version": "3.11.7"}
    made.cells[0].metadata["execution"] = {"iopub.execute_input": "2026-11-21T00:00:00Z"}
    text = rules.canonical(made)
    assert rules.canonical(nbformat.reads(text, as_version=4)) == text
    stored = json.loads(text)
    assert set(stored["metadata"]) == {"kernelspec", "language_info"}
    assert set(stored["cells"][0]["metadata"]) == {"cudalab"}
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)


def test_canonical_form_keeps_the_static_picture_and_drops_the_live_view():
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "VBox()"}
    live = nbformat.v4.new_output("display_data", data=view)
    both = nbformat.v4.new_output("display_data", data={**view, "image/svg+xml": "<svg/>"})
    stored = json.loads(rules.canonical(chapter(code("tune()", live, both, printed("best: 256\n")))))
    outputs = stored["cells"][0]["outputs"]
    assert [output.get("data", output.get("text")) for output in outputs] == [
        {"image/svg+xml": ["<svg/>"]},
        ["best: 256\n"],
    ]


def test_file_that_is_no_notebook_is_named(tmp_path):
    path = tmp_path / "broken.ipynb"
    path.write_text("{")
    with pytest.raises(ValueError, match="broken.ipynb is not a notebook"):
        rules.read(path)


def test_check_all_reports_and_fixes(tmp_path, capsys):
    path = tmp_path / "chapter.ipynb"
    path.write_text(json.dumps(chapter(code("x = 1")), indent=4))
    assert rules.check_all([path]) == 1
    assert "not in canonical form" in capsys.readouterr().out
    assert rules.check_all([path], fix=True) == 0


def test_a_question_takes_no_part_in_the_hash_of_what_a_device_gave(broken):
    """It may be worded anew, or moved, and the cells after it are as recorded."""
    asking = code('guess = cudalab.predict("04.block")', name="predict-size")
    run = code("x = 6 * 7\nprint(x)\nguess.compare(x)", printed("42\n"), name="run-it")
    made = chapter(asking, run, code("cudalab.quiz('04.1')", name="ask"), stamped=False)
    hashes = rules.source_hashes(made)
    assert set(hashes) == {"run-it"}
    made.cells[0].source = 'guess = cudalab.predict("How many?", [1, 42])'
    made.cells[1].source = "x = 6 * 7\nguess.compare(x + 1)\nprint(x)"
    assert rules.source_hashes(made) == hashes
    made.cells[1].source += "\nother.compare(x)"
    assert rules.source_hashes(made) != hashes, "what is no prediction counts"


def test_a_live_figure_is_stored_as_a_picture_and_a_question_without_a_device(broken):
    svg = nbformat.v4.new_output(
        "display_data", data={"image/svg+xml": "<svg/>", "text/html": "<div><script/></div>", "text/plain": "[figure]"}
    )
    card = nbformat.v4.new_output("display_data", data={"text/html": "<div class='cudalab-error'>what</div>"})
    made = chapter(code("cudalab.quiz('04.1')", name="ask"), code("x = 1", card, svg, name="draw"), stamped=False)
    made.cells[0].metadata["cudalab"] = {"source_hash": "0", **STAMP}
    kept = json.loads(rules.canonical(made))["cells"]
    assert [set(output["data"]) for output in kept[1]["outputs"]] == [{"image/svg+xml", "text/plain"}]
    assert "cudalab" not in kept[0]["metadata"]
