"""How sentences about numbers find them in what a cell printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.notebooks.chapter import Gain, Printed, Sentence

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


def test_a_gain_is_asked_for_enough_runs_and_for_its_least() -> None:
    gain = Gain("twice", "a", lambda a: a.after("slow") / a.after("fast"), least=2)
    good = {"a": Printed("slow 21.0 µs, median of 20, spread 1 µs\nfast 10.0 µs (measured, median of 50, spread 2 µs)")}
    assert gain.problems(good) == []
    assert gain.problems({"a": Printed(good["a"].text.replace("21.0", "19.0"))}) == [
        "twice: 1.90 times; 2 at least was said"
    ]
    few = ["twice: medians of [20, 9], not of 20 runs with their spread"]
    assert gain.problems({"a": Printed(good["a"].text.replace("50", "9"))}) == few
    assert len(gain.problems({"a": Printed("slow 21 fast 10")})) == 1


@pytest.mark.parametrize(
    "fast, same", [(10.0, True), (11.5, True), (9.0, True), (12.5, False), (8.5, False), (22, False)]
)
def test_a_modelled_gain_is_to_be_near_the_measured_one(fast: float, same: bool) -> None:
    gain = Gain("twice", "a", lambda a: a.after("slow") / a.after("fast"), least=2)
    found = gain.differences({"a": Printed("slow 20 fast 10")}, {"a": Printed(f"slow 20 fast {fast}")})
    assert found == [] if same else found == [f"twice: 2.00 times measured, {20 / fast:.2f} modelled"]


def test_the_winner_is_to_be_the_same_where_there_is_one() -> None:
    recorded, modelled = {"a": Printed("slow 10.5 fast 10")}, {"a": Printed("slow 9.9 fast 10")}
    ratio = Gain("nearly", "a", lambda a: a.after("slow") / a.after("fast"), least=1)
    assert ratio.differences(recorded, modelled) == ["nearly: 1.05 times measured, 0.99 modelled"]
    assert replace(ratio, share=True).differences(recorded, modelled) == []
