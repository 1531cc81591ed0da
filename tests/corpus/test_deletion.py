"""Without a barrier, a guard or an atomic the sanitizer must speak up, or the reason why not is written down."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor

import pytest

from .deletion import Deletion, Verdict, deletions, examine, explained
from .kernel import load_corpus, sites
from .run import module_of, run, verify

ALL = {deletion.key: deletion for deletion in deletions()}
SLICE = 8
QUICK = ("elementwise", "indexing", "reductions", "scans", "stencils", "sorting", "summaries", "warps")
AWKWARD = [form for entry in load_corpus().values() for form in entry.forms()[1:]]


def sampled() -> list[Deletion]:
    """A few that are not in `survivors.toml`, of topics without large headers, half of them not guards."""
    corpus, known = load_corpus(), explained()
    quick = [d for d in ALL.values() if corpus[d.entry].topic in QUICK and d.key not in known]
    draw = random.Random(20261121)
    guards = draw.sample([d for d in quick if d.kind == "guard"], SLICE // 2)
    return guards + draw.sample([d for d in quick if d.kind in ("barrier", "atomic")], SLICE - len(guards))


def test_explanations_name_sites_and_argue() -> None:
    known = explained()
    assert [key for key in known if key not in ALL] == []
    assert [key for key, why in known.items() if len(why.split()) < 12 or not why.endswith(".")] == []


@pytest.mark.parametrize("deletion", sampled(), ids=lambda deletion: deletion.key.replace(": ", "-"))
def test_a_slice_is_noticed(deletion: Deletion) -> None:
    verdict = examine(deletion)
    assert verdict.findings and not verdict.refused, (deletion, verdict)


@pytest.mark.parametrize("form", AWKWARD, ids=lambda form: form.name)
def test_awkward_data_agrees_with_numpy(form) -> None:  # type: ignore[no-untyped-def]
    verify(form, run(form, module_of([form])))


def test_a_mutant_without_its_block_of_leaving_threads() -> None:
    source = "if (x == 0) {  // guard\n    y = 1;\n    return;\n}\nif (x < n) {  // guard\n    y = 2;\n}"
    first, second = (site.mutant for site in sites(source))
    assert first.startswith("if (false) {") and "if (x < n)" in first
    assert second.endswith("if (true) {  // guard\n    y = 2;\n}")


def test_mutants_of_fences_votes_and_atomic_references() -> None:
    source = (
        "int c = __syncthreads_count(a < b);\n__threadfence_block();\nempty[k % 2].arrive_and_wait();\n"
        "cuda::atomic_ref<long long, cuda::thread_scope_device>(*sum).fetch_add(v, order);\ncg::wait(block);"
    )
    found = list(sites(source))
    assert [(site.kind, site.line) for site in found] == [
        ("barrier", 1),
        ("fence", 2),
        ("barrier", 3),
        ("atomic", 4),
        ("barrier", 5),
    ]
    assert "int c = (int)(a < b);" in found[0].mutant
    assert "__threadfence" not in found[1].mutant and "arrive" not in found[2].mutant
    assert "plain_ref<long long>(*sum).fetch_add(v, order);" in found[3].mutant
    assert found[4].mutant.endswith("\n;")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_survivor_is_explained_and_nothing_else() -> None:
    with ProcessPoolExecutor(2) as pool:
        verdicts: list[Verdict] = list(pool.map(examine, ALL.values(), chunksize=4))
    survivors = {verdict.deletion.key for verdict in verdicts if verdict.survives}
    known = set(explained())
    assert (survivors - known, known - survivors) == (set(), set())
    assert sum(bool(verdict.refused) for verdict in verdicts) <= 5, [v for v in verdicts if v.refused]
