"""The stored comparison of the public corpus with a GPU, and the corpus itself where clones of it are."""

from __future__ import annotations

import collections
import os
from pathlib import Path

import pytest

from cudalab import cp
from tests.public_corpus import store, written
from tests.public_corpus.__main__ import run, tasks
from tests.public_corpus.device_code import items, split
from tests.public_corpus.run import fresh_module
from tests.public_corpus.sources import REPOSITORIES

FOLDER = os.environ.get("CUDALAB_PUBLIC_CORPUS", "")
STORED = store.load()
ROWS = STORED["kernels"]


def test_stored_kernels_are_of_the_commits_that_are_fetched() -> None:
    commits = {f"{each.owner}/{each.name}": each.commit for each in REPOSITORIES}
    assert {row["repository"]: row["commit"] for row in ROWS} == commits
    assert all(commits[row["repository"]] == row["commit"] for row in ROWS)


def test_each_kernel_is_stored_once_with_device_driver_and_date() -> None:
    names = collections.Counter((row["file"], row.get("kernel", "")) for row in ROWS)
    assert [name for name, count in names.items() if count > 1] == []
    assert all("H200" in row["device"] and row["driver"][0].isdigit() and row["date"] for row in ROWS)


def test_what_does_not_pass_has_a_reason_and_what_passes_was_compared() -> None:
    assert {row["verdict"] for row in ROWS} == {"passed", "failed", "nvrtc"}
    for row in ROWS:
        assert bool(row.get("reason")) == (row["verdict"] != "passed"), row
        if row["verdict"] == "passed":
            assert row["compared"] in ("exact", "close", "order"), row
            assert bool(row.get("findings")) >= (row["compared"] == "order"), row


def test_at_least_nine_of_ten_kernels_that_nvrtc_compiles_pass() -> None:
    total = store.counts(STORED)
    assert total["compiled"] >= 300
    assert total["passed"] + total["failed"] + total["nvrtc"] == len(ROWS)
    assert total["exact"] + total["close"] + total.get("order", 0) == total["passed"]
    assert total["passed"] - total.get("order", 0) >= 0.9 * total["compiled"]
    assert len(STORED["missed"]) <= 0.01 * len({row["file"] for row in ROWS})


def test_the_page_says_what_the_data_say() -> None:
    assert store.PAGE.read_text(encoding="utf-8") == store.page(STORED)


def test_launches_written_by_hand_belong_to_stored_kernels_and_their_rules_are_stored() -> None:
    for each in written.every():
        rows = [row for row in ROWS if written.find(row["file"], row.get("kernel", "")) is each]
        late = any(file.endswith(each.file) for file in STORED["missed"])
        assert rows or late, f"{each.file} has no kernel {each.kernel}"
        assert all(row.get("rule", "") == each.rule for row in rows if row.get("written"))


def test_host_code_goes_and_device_code_stays(tmp_path: Path) -> None:
    source = tmp_path / "mixed.cu"
    source.write_text(
        "#include <stdio.h>\n"
        "#define MADE(n) __device__ int n() { return 1; }\n"
        "struct Pair { int a, b; };\n"
        "#if defined(HOST)\nvoid started(int x)\n#else\nvoid other(int x)\n#endif\n{ }\n"
        "__global__ void k(Pair *p) { p->a = p->b; }\n"
        "int main() { k<<<1, 1>>>(0); }\n"
    )
    kept = [item.text.split("(")[0].split("{")[0].strip() for item in items(source, tmp_path) if item.kept]
    assert kept == ["#define MADE", "struct Pair", "#if defined", "__global__ void k"]
    cut = [item for item in items(source, tmp_path) if not item.kept]
    assert cut[0].shown.splitlines() == ["#else", "#endif"], "conditions that began outside must still end"
    assert "main" in cut[-1].text and not cut[-1].shown
    assert len(list(split(source.read_text()))) == 7


@pytest.mark.long
@pytest.mark.parametrize("repository", [each.name for each in REPOSITORIES])
@pytest.mark.timeout(3600)
def test_kernels_that_passed_still_run(repository: str) -> None:
    """Without a GPU: that each still has a launch and ends without a fault. Comparing takes a GPU."""
    if not FOLDER or not Path(FOLDER, repository).is_dir():
        pytest.skip("no clones of the public corpus here; CUDALAB_PUBLIC_CORPUS names their folder")
    passed = {(row["file"], row["kernel"]) for row in ROWS if row["verdict"] == "passed"}
    found = tasks(Path(FOLDER), repository)
    lost = [
        f"{outcome.file}: {outcome.kernel}: {outcome.reason}"
        for _, outcomes in run(found, jobs=2)
        for outcome in outcomes
        if outcome.verdict != "passed" and (outcome.file, outcome.kernel) in passed
    ]
    assert lost == []


def test_each_kernel_gets_a_module_of_its_own() -> None:
    """What one kernel did to the module's variables, the next must not see."""
    text = '__device__ int seen;\nextern "C" __global__ void k(int* out) { *out = ++seen; }'
    out = cp.zeros(1, cp.int32)
    for _ in range(2):
        fresh_module(cp, text, []).get_function("k")((1,), (1,), (out,))
        assert int(out[0]) == 1
