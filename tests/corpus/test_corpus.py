"""What the corpus promises as a whole: its size, that kernels differ, what can be taken out of them, its records."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from .comparison import module
from .kernel import Entry, Near, load_corpus, sites
from .likeness import likeness, tokens
from .results import STORED, Stored, save
from .run import Launch, compare, launch_plainly, run, verify

LEAST = 150
MOST_ALIKE = 0.86  # saxpy and a vector sum have 0.71, a sparse product and a PageRank pull 0.84
MOST_BYTES = 1_000_000
CORPUS = load_corpus()


def test_there_are_enough_kernels_of_every_topic() -> None:
    assert len(CORPUS) >= LEAST
    topics = {entry.topic for entry in CORPUS.values()}
    assert all(sum(entry.topic == topic for entry in CORPUS.values()) >= 4 for topic in topics)
    assert all(entry.shows.endswith((".", "?")) and len(entry.shows) > 30 for entry in CORPUS.values())


def test_no_two_differ_only_in_types_constants_or_names() -> None:
    names = list(CORPUS)
    forms = [tokens(entry.body) for entry in CORPUS.values()]
    assert len({tuple(form) for form in forms}) == len(forms)
    alike = likeness(forms)
    np.fill_diagonal(alike, 0)
    one, other = np.unravel_index(alike.argmax(), alike.shape)
    assert alike.max() < MOST_ALIKE, (names[one], names[other], alike.max())


def test_normal_forms_leave_types_constants_and_names_out() -> None:
    vector_add = CORPUS["vector_add"].body
    other = (
        re.sub(r"\bfloat\b", "unsigned long long", vector_add).replace("vector_add", "sum").replace("int i", "size_t k")
    )
    assert tokens(other.replace("[i]", "[k]").replace("i < n", "k < n")) == tokens(vector_add)
    assert tokens(vector_add.replace("a[i] + b[i]", "a[i] - b[i]")) != tokens(vector_add)


@pytest.mark.parametrize(("kind", "least"), [("guard", 250), ("barrier", 170), ("atomic", 75)])
def test_barriers_guards_and_atomics_can_be_taken_out(kind: str, least: int) -> None:
    count = 0
    for entry in CORPUS.values():
        for site in sites(entry.body):
            if site.kind == kind:
                count += 1
                assert site.mutant != entry.body and site.text in entry.body, (entry.name, site)
                assert f"{kind}s" in entry.tags
    assert count >= least


def test_a_mutant_is_the_source_without_the_guard() -> None:
    guarded = (
        "int i = 0;\nif (i < n && f(i)) x[i] = 1;  // guard\nif (i >= n) return;  // guard\n"
        "y = (i < n) ? x[i] : 0;  // guard"
    )
    mutants = [site.mutant for site in sites(guarded)]
    assert [m.splitlines()[k + 1].split("//")[0].strip() for k, m in enumerate(mutants)] == [
        "if (true) x[i] = 1;",
        "if (false) return;",
        "y = (true) ? x[i] : 0;",
    ]


def test_mutants_of_atomics_and_barriers() -> None:
    found = list(sites("__syncthreads();\nint old = atomicAdd(&x[at(1)], 2);\n__syncwarp(mask);"))
    assert [(site.kind, site.line) for site in found] == [("barrier", 1), ("atomic", 2), ("barrier", 3)]
    assert "int old = plain_add(&x[at(1)], 2);" in found[1].mutant and "atomicAdd" not in found[1].mutant
    assert found[2].mutant.endswith("2);\n;")


def test_tolerances_against_an_h200_are_for_approximate_functions_and_float_atomics() -> None:
    for entry in CORPUS.values():
        if entry.tolerance is not None:
            assert re.match(r"approximate functions: \w+|float atomics$", entry.tolerance.why), entry.name
    assert sum(entry.tolerance is None for entry in CORPUS.values()) > 0.9 * len(CORPUS)


def test_the_record_of_the_h200_is_whole_and_small() -> None:
    stored = Stored()
    assert "H200" in stored.about["device"]
    assert stored.names() == set(CORPUS)
    assert [entry.name for entry in CORPUS.values() if not stored.fits(entry)] == []
    assert STORED.stat().st_size < MOST_BYTES


def test_a_record_of_a_few_entries_keeps_the_others(tmp_path: Path) -> None:
    stored, entry = Stored(), CORPUS["vector_add"]
    values = run(entry, module(entry)).values
    save(tmp_path / "new.npz", stored.about | {"date": "2027-01-31"}, {entry.name: values}, stored)
    new = Stored(tmp_path / "new.npz")
    assert new.names() == stored.names()
    assert new.entries["vector_add"] == stored.entries["vector_add"] | {"date": "2027-01-31"}
    assert {name: row for name, row in new.entries.items() if name != entry.name} == {
        name: row for name, row in stored.entries.items() if name != entry.name
    }
    loose = next(each for each in CORPUS.values() if stored.arrays(each))
    assert all((new.arrays(loose)[key] == value).all() for key, value in stored.arrays(loose).items())
    with pytest.raises(ValueError, match="the stored results are of driver"):
        save(tmp_path / "other.npz", stored.about | {"driver": 1}, {entry.name: values}, stored)


def test_an_element_that_a_kernel_forgets_is_seen() -> None:
    entry = CORPUS["grid_stride_square"]

    def with_one_block_less(kernel, grid, block, args, launch: Launch) -> None:  # type: ignore[no-untyped-def]
        kernel.kernel((1,), block, (*args[:2], np.int32(args[2] - 1)))

    ran = run(entry, module(entry), launcher=with_one_block_less)
    with pytest.raises(AssertionError, match="out, NumPy: 1 of 1501 elements differ; the first at \\(1500,\\)"):
        verify(entry, ran)


def test_a_changed_input_is_seen() -> None:
    entry = CORPUS["vector_add"]

    def and_an_input(kernel, grid, block, args, launch: Launch) -> None:  # type: ignore[no-untyped-def]
        launch_plainly(kernel, grid, block, args, launch)
        args[0][7] += 1

    with pytest.raises(
        AssertionError, match="vector_add: a, unchanged: 1 of 1000 elements differ; the first at \\(7,\\)"
    ):
        verify(entry, run(entry, module(entry), launcher=and_an_input))


def test_comparison_is_of_bits_or_within_the_bound() -> None:
    one, other = np.array([1, 0.0, np.nan]), np.array([1, -0.0, np.nan])
    with pytest.raises(AssertionError, match="1 of 3"):
        compare("x", one, other, None)
    compare("x", one, other, Near(0, 0, ""))
    with pytest.raises(AssertionError, match="1 of 3"):
        compare("x", one + [0.1, 0, 0], other, Near(0.05, 0, ""))


@pytest.mark.long
@pytest.mark.parametrize("seed", [None, 1], ids=["in-order", "shuffled"])
@pytest.mark.parametrize("entry", [*CORPUS.values()], ids=lambda entry: entry.name)
def test_the_sanitizer_finds_nothing(entry: Entry, seed: int | None) -> None:
    import cudalab

    found: list[str] = []

    def watched(kernel, grid, block, args, launch: Launch) -> None:  # type: ignore[no-untyped-def]
        report = cudalab.sanitize(
            kernel, grid, block, args, shared=launch.shared, cooperative=launch.cooperative, seed=seed
        )
        found.extend(str(report) for _ in [0] if not report.ok)
        launch_plainly(kernel, grid, block, args, launch)

    for form in entry.forms():
        run(form, module(entry), launcher=watched, poison=False)
    assert not found, found[0]
