"""The disk cache: what comes back, what is ignored, what goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cudalab.sim.compiler import cache, compile, native, translation
from cudalab.sim.compiler.processes import helper
from cudalab.sim.compiler.processes.messages import MakeRuntime, Native, ObjectCode, Request
from cudalab.sim.compiler.program import Program

SOURCE = 'extern "C" __global__ void k(float *x) { x[0] = 1.0f; }\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    translation.forget()
    return tmp_path / "cache"


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _numbers(key: cache.Key) -> dict[str, int] | None:
    return cache.load(key, dict[str, int])


def test_a_process_that_only_reads_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, left = cache.key("a", 1), cache.key("a", 2)
    cache.store(kept, ObjectCode(b"1"))
    monkeypatch.setattr(cache, "_only_read", False)  # as it was, afterwards
    cache.only_read()
    cache.store(left, ObjectCode(b"2"))
    assert cache.load(kept, ObjectCode) == ObjectCode(b"1") and cache.load(left, ObjectCode) is None
    assert len(_entries(folder)) == 1


def test_round_trip(folder: Path) -> None:
    key = cache.key("a", 1)
    assert cache.load(key, ObjectCode) is None
    cache.store(key, ObjectCode(b"\x00\xff", ["k", ""]))
    assert cache.load(key, ObjectCode) == ObjectCode(b"\x00\xff", ["k", ""])
    assert cache.load(cache.key("a", 2), ObjectCode) is None
    assert cache.load(key, Program) is None, "an entry of another kind is none"


@pytest.mark.parametrize("damage", [b"", b"\x00" * 200, b"cudalab2" + b"\x00" * 50])
def test_a_damaged_entry_is_ignored_and_replaced(folder: Path, damage: bytes) -> None:
    key = cache.key("a")
    cache.store(key, {"n": 1})
    (entry,) = _entries(folder)
    entry.write_bytes(damage)
    assert _numbers(key) is None
    cache.store(key, {"n": 2})
    assert _numbers(key) == {"n": 2}


def test_every_flipped_bit_is_noticed(folder: Path) -> None:
    key = cache.key("a")
    cache.store(key, ObjectCode(b"code"))
    (entry,) = _entries(folder)
    whole = entry.read_bytes()
    for position in range(len(whole)):
        entry.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        assert cache.load(key, ObjectCode) is None


def test_entries_of_another_secret_are_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that was planted by somebody who knows everything but the secret, nor one of the grader's own that
    was altered and given a fitting digest."""
    monkeypatch.setattr(cache, "_secret", b"")
    key = cache.key("planted")
    cache.store(key, "a stranger's")
    cache.sign_with(b"the grader's")
    assert cache.load(key, str) is None
    cache.store(key, "the grader's")
    assert cache.load(key, str) == "the grader's"
    cache.sign_with(b"another's")
    assert cache.load(key, str) is None


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file where the folder should be")
    cache.store(cache.key("a"), {})
    assert _numbers(cache.key("a")) is None
    assert compile(SOURCE).kernels.keys() == {"k"}


def test_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDALAB_CACHE", "off")
    cache.store(cache.key("a"), {})
    assert _numbers(cache.key("a")) is None
    assert not folder.exists()


def test_place_follows_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUDALAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache._default_folder.cache_clear()
    try:
        expected = tmp_path / "cudalab" if sys.platform.startswith("linux") else None
        found = cache.folder()
        assert found is not None and found.name == "cudalab" and expected in (None, found)
    finally:
        cache._default_folder.cache_clear()


def test_the_entries_used_longest_ago_go_first(folder: Path) -> None:
    keys = [cache.key(number) for number in range(6)]
    for age, key in enumerate(keys):
        cache.store(key, bytes(1000))
        path = _place(folder, key.name)
        os.utime(path, (time.time() - 1000 + age, time.time() - 1000 + age))
    assert cache.load(keys[0], bytes) is not None  # used again
    remaining = cache.clean(3200)
    assert remaining <= 3200
    assert [cache.load(key, bytes) is not None for key in keys] == [True, False, False, False, True, True]


def test_writers_at_the_same_time(folder: Path) -> None:
    program = (
        "import sys\nfrom cudalab.sim.compiler import cache\nkey = cache.key('shared')\n"
        "for i in range(150):\n"
        "    cache.store(key, bytes([int(sys.argv[1])]) * 20000)\n"
        "    found = cache.load(key, bytes)\n"
        "    assert found is None or len(set(found)) == 1 and len(found) == 20000\n"
        "    assert found is not None\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(n)], stderr=subprocess.PIPE) for n in (1, 2)]
    results = [writer.communicate(timeout=60) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], results
    assert len(_entries(folder)) == 1


def test_compile_and_native_without_a_helper(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile(SOURCE)
    code = native(program, "plain")
    translation.forget()
    monkeypatch.setattr(helper, "call", None)  # a call would fail
    again = compile(SOURCE)
    assert again is not program
    assert native(again, "plain") == code
    assert (again.ptx, again.kernels, again.globals, again.log) == (
        program.ptx,
        program.kernels,
        program.globals,
        program.log,
    )


WARM = """
from cudalab.sim.compiler import compile, native
from cudalab.sim.compiler.frontend import nvrtc
from cudalab.sim.compiler.processes import helper
import sys

def refuse(*arguments, **options):
    raise AssertionError("a compiler was started")

helper._Helper.__init__ = refuse
nvrtc.Nvrtc.__init__ = refuse
program = compile(sys.argv[1])
print(len(native(program, "plain")), program.key)
"""


def test_a_warm_compile_in_a_fresh_process_starts_no_compiler(folder: Path) -> None:
    """Neither a helper process nor NVRTC: each would fail."""
    command = [sys.executable, "-c", WARM, SOURCE]
    cold = subprocess.run(command, capture_output=True, text=True, check=False)
    assert cold.returncode == 1 and "a compiler was started" in cold.stderr
    translation._made_runtime.cache_clear()
    program = compile(SOURCE)
    code = native(program, "plain")
    entries = {path: path.read_bytes() for path in _entries(folder)}
    warm = subprocess.run(command, capture_output=True, text=True, check=False)
    assert warm.stdout.split() == [str(len(code)), program.key], warm.stderr
    assert {path: path.read_bytes() for path in _entries(folder)} == entries, "nothing was made again"


def _place(folder: Path, name: str) -> Path:
    return folder / name[:2] / name[2:]


@pytest.mark.parametrize("changed", [{"source": SOURCE.replace("1.0f", "2.0f")}, {"options": ("-DN=1",)}])
def test_a_program_copied_over_another_key_is_refused(folder: Path, changed: dict[str, Any]) -> None:
    mine, other = compile(SOURCE), compile(**{"source": SOURCE, **changed})
    place = _place(folder, mine.key)
    place.write_bytes(_place(folder, other.key).read_bytes())
    before = {path: path.read_bytes() for path in _entries(folder)}
    translation.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "store", lambda key, result: None)
        assert compile(SOURCE).source == SOURCE and compile(SOURCE).ptx == mine.ptx
        assert compile(**{"source": SOURCE, **changed}).ptx == other.ptx
    assert {path: path.read_bytes() for path in _entries(folder)} == before, "nothing is dropped"
    translation.forget()
    compile(SOURCE)
    assert place.read_bytes() != before[place], "the right one takes its place"


def test_object_code_copied_over_another_key_is_refused(folder: Path) -> None:
    mine, other = compile(SOURCE), compile(SOURCE.replace("1.0f", "2.0f"))
    programs = {_place(folder, mine.key), _place(folder, other.key)}
    translation._made_runtime.cache_clear()
    code = native(mine, "plain")
    known = set(_entries(folder))
    native(other, "plain")
    (theirs,) = set(_entries(folder)) - known
    for entry in known - programs:
        entry.write_bytes(theirs.read_bytes())
    translation.forget()
    translation._made_runtime.cache_clear()
    assert native(compile(SOURCE), "plain") == code


def test_cached_compile_and_native_take_under_3_ms(folder: Path) -> None:
    native(compile(SOURCE), "plain")
    times = []
    for _ in range(10):
        translation.forget()
        start = time.perf_counter()
        native(compile(SOURCE), "plain")
        times.append(time.perf_counter() - start)
    assert min(times) < 0.003


@pytest.mark.parametrize(
    "changed",
    [
        {"source": SOURCE + "\n"},
        {"options": ("-DN=1",)},
        {"name": "other.cu"},
        {"bundled_headers_only": True},
        {"name_expressions": ("k",)},
    ],
)
def test_what_a_result_depends_on_is_in_its_key(changed: dict[str, object]) -> None:
    first = compile(SOURCE)
    second = compile(**{"source": SOURCE, **changed})  # type: ignore[arg-type]
    assert first.key and second.key and first.key != second.key


def test_a_changed_header_compiles_again(tmp_path: Path) -> None:
    source = '#include <size.h>\nextern "C" __global__ void k(int *x) { x[0] = SIZE; }\n'
    (tmp_path / "size.h").write_text("#define SIZE 1234\n")
    first = compile(source, options=("-I", str(tmp_path)))
    (tmp_path / "size.h").write_text("#define SIZE 4321\n")
    second = compile(source, options=("-I", str(tmp_path)))
    assert "1234" in first.ptx and "4321" in second.ptx and "1234" not in second.ptx


def test_a_computed_include_is_not_cached(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "size.h").write_text("#define SIZE 1234\n")
    source = '#define NAME <size.h>\n#include NAME\nextern "C" __global__ void k(int *x) { x[0] = SIZE; }\n'
    assert "1234" in compile(source, options=("-I", str(tmp_path))).ptx
    (tmp_path / "size.h").write_text("#define SIZE 4321\n")
    assert "4321" in compile(source, options=("-I", str(tmp_path))).ptx


def test_object_code_depends_on_the_processor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile(SOURCE)
    native(program, "plain")
    count = len(_entries(folder))
    program.objects.clear()
    monkeypatch.setattr(cache, "processor", lambda: "another")
    native(program, "plain")
    assert len(_entries(folder)) == count + 1


def test_variants_are_kept_apart(folder: Path) -> None:
    program = compile(SOURCE)
    codes = {variant: native(program, variant) for variant in ("plain", "traced")}
    assert program.objects == codes and codes["plain"] != codes["traced"]


def test_the_runtime_object_is_made_once_for_all_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def call(request: Request, answer: type, **options: Any) -> object:
        asked.append(type(request))
        return real(request, answer, **options)

    real = helper.call
    monkeypatch.setattr(helper, "call", call)
    translation._made_runtime.cache_clear()
    first = native(compile(SOURCE), "plain")
    other = native(compile(SOURCE.replace("1.0f", "2.0f")), "plain")
    assert asked.count(MakeRuntime) == 1 and asked.count(Native) == 2
    translation.forget()
    translation._made_runtime.cache_clear()  # as in another process
    assert native(compile(SOURCE), "plain") == first != other
    assert asked.count(MakeRuntime) == 1, "the next process takes it from the disk"
    largest, *others = sorted((path.stat().st_size for path in _entries(folder)), reverse=True)
    assert largest > 2 * max(others), "no program's entry holds it"
