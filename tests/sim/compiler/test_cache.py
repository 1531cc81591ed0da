"""The disk cache: what comes back, what is ignored, what goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cudalab.sim.compiler import cache, compile, native, translation
from cudalab.sim.compiler.processes import helper

SOURCE = 'extern "C" __global__ void k(float *x) { x[0] = 1.0f; }\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    translation.forget()
    return tmp_path / "cache"


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_round_trip(folder: Path) -> None:
    name = cache.key("a", 1)
    assert cache.load(name) is None
    cache.store(name, {"n": [1, 2]}, [b"\x00\xff", b""])
    assert cache.load(name) == ({"n": [1, 2]}, [b"\x00\xff", b""])
    assert cache.load(cache.key("a", 2)) is None


@pytest.mark.parametrize("damage", [b"", b"\x00" * 200, b"cudalab1" + b"\x00" * 50])
def test_a_damaged_entry_is_ignored_and_replaced(folder: Path, damage: bytes) -> None:
    name = cache.key("a")
    cache.store(name, {"n": 1}, [])
    (entry,) = _entries(folder)
    entry.write_bytes(damage)
    assert cache.load(name) is None
    cache.store(name, {"n": 2}, [])
    assert cache.load(name) == ({"n": 2}, [])


def test_every_flipped_bit_is_noticed(folder: Path) -> None:
    name = cache.key("a")
    cache.store(name, {"n": 1}, [b"code"])
    (entry,) = _entries(folder)
    whole = entry.read_bytes()
    for position in range(len(whole)):
        entry.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        assert cache.load(name) is None


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file where the folder should be")
    cache.store(cache.key("a"), {}, [])
    assert cache.load(cache.key("a")) is None
    assert compile(SOURCE).kernels.keys() == {"k"}


def test_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDALAB_CACHE", "off")
    cache.store(cache.key("a"), {}, [])
    assert cache.load(cache.key("a")) is None
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
    names = [cache.key(number) for number in range(6)]
    for age, name in enumerate(names):
        cache.store(name, {}, [bytes(1000)])
        path = folder / name[:2] / name[2:]
        os.utime(path, (time.time() - 1000 + age, time.time() - 1000 + age))
    assert cache.load(names[0]) is not None  # used again
    remaining = cache.clean(3200)
    assert remaining <= 3200
    assert [cache.load(name) is not None for name in names] == [True, False, False, False, True, True]


def test_writers_at_the_same_time(folder: Path) -> None:
    program = (
        "import sys\nfrom cudalab.sim.compiler import cache\nname = cache.key('shared')\n"
        "for i in range(150):\n"
        "    cache.store(name, {'n': 1}, [bytes([int(sys.argv[1])]) * 20000])\n"
        "    found = cache.load(name)\n"
        "    assert found is None or len(set(found[1][0])) == 1 and len(found[1][0]) == 20000\n"
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

    def call(request: dict[str, object], **options: object) -> object:
        asked.append(request["do"])
        return real(request, **options)  # type: ignore[arg-type]

    real = helper.call
    monkeypatch.setattr(helper, "call", call)
    translation._made_runtime.cache_clear()
    first = native(compile(SOURCE), "plain")
    other = native(compile(SOURCE.replace("1.0f", "2.0f")), "plain")
    assert asked.count("runtime") == 1 and asked.count("native") == 2
    translation.forget()
    translation._made_runtime.cache_clear()  # as in another process
    assert native(compile(SOURCE), "plain") == first != other
    assert asked.count("runtime") == 1, "the next process takes it from the disk"
    largest, *others = sorted((path.stat().st_size for path in _entries(folder)), reverse=True)
    assert largest > 2 * max(others), "no program's entry holds it"
