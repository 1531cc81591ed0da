"""How sentences about numbers find them in what a cell printed."""

from __future__ import annotations

import pytest

from tests.notebooks.chapter import Printed, Sentence

TABLE = "  1 empty kernels:   62.4 µs, 62.43 µs each\n100 empty kernels: 1,795.5 µs, 7.95 µs each; x2 -3 1e-5\n"


def test_numbers_are_those_that_are_no_part_of_a_name() -> None:
    assert Printed(TABLE).numbers == [1, 62.4, 62.43, 100, 1795.5, 7.95, -3, 1e-5]


def test_a_number_is_found_by_the_words_before_it() -> None:
    assert Printed(TABLE).after("100 empty kernels:") == 1795.5
    assert Printed(TABLE).after("100 empty kernels:", 1) == 7.95
    with pytest.raises(ValueError, match="no number 0 behind 'no such words'"):
        Printed(TABLE).after("no such words")


def test_what_is_shown_counts_and_live_views_and_warnings_do_not() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "one\n"},
        {"output_type": "stream", "name": "stderr", "text": "careful\n"},
        {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>", "text/plain": "a curve"}},
        {
            "output_type": "display_data",
            "data": {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "VBox()"},
        },
    ]
    assert Printed.of(outputs).text == "one\na curve\n"


def test_a_sentence_takes_what_each_of_its_cells_printed() -> None:
    sentence = Sentence("text", "more", ("a", "b"), lambda a, b: a.numbers[0] > b.numbers[0])
    assert sentence.is_true({"a": Printed("2"), "b": Printed("1")})
    assert not sentence.is_true({"a": Printed("1"), "b": Printed("2")})
