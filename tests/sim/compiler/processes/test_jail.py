"""Sources of strangers: no file but CUDA's own headers can be read, by any of the walls alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from cudalab.sim.compiler import CompileError, compile, translation
from cudalab.sim.compiler.processes import command, helper, jail, worker
from cudalab.sim.compiler.processes.messages import Compile, Compiled, Limits

KERNEL = 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n'
ARRAY = "__device__ int a[2000000000] = {1};\n__global__ void k(int *x) { x[0] = a[x[1]]; }"
SECRET = "the_secret_word"


def _missing(wall: str) -> None:
    """A machine without the wall skips the test; continuous integration must have it."""
    if os.environ.get("CI") == "true" and sys.platform.startswith("linux"):
        pytest.fail(f"{wall} is missing")
    pytest.skip(f"no {wall} here")


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDALAB_CACHE", "off")
    translation.forget()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.h"
    path.write_text(f"{SECRET} = 1;\n")
    return path


def _ask(source: str) -> tuple[str, str]:
    """What a jailed helper says of ``source`` when nobody has looked at it before."""
    request = Compile(source, "k.cu", ["--gpu-architecture=sm_90"])
    try:
        reply = helper.call(request, Compiled, jailed=True)
    except helper.HelperFailure as failure:
        return failure.kind, failure.log
    return "compiled", str(reply)


def _without_scan_and_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    real = helper.call
    monkeypatch.setattr(
        helper,
        "call",
        lambda request, answer, **options: real(
            structs.replace(request, restricted=False), answer, **{**options, "jailed": False}
        ),
    )


def test_plain_kernels_and_own_headers_compile() -> None:
    for head in ("", "#include <cuda_fp16.h>\n", "#include <cuda/std/cstdint>\n", "// #include <iostream>\n"):
        assert "k" in compile(head + KERNEL, bundled_headers_only=True).kernels


def test_kernels_that_use_nvrtcs_own_declarations_compile() -> None:
    source = 'extern "C" __global__ void k(cudaTextureObject_t t, float* y) { *y = tex1Dfetch<float>(t, 0); }'
    assert "k" in compile(source, bundled_headers_only=True).kernels


@pytest.mark.parametrize("form", ['#include "{}"', "#include <{}>", '#define F "{}"\n#include F', '%:include "{}"'])
def test_no_file_is_printed(form: str, secret: Path) -> None:
    for path in (secret, Path("/etc/passwd")):
        with pytest.raises(CompileError) as caught:
            compile(form.format(path) + "\n" + KERNEL, bundled_headers_only=True)
        error = caught.value
        assert error.diagnostics[0].line >= 1
        assert SECRET not in str(error) + error.log and "root:" not in str(error) + error.log


def test_without_the_walls_it_would_be_printed(secret: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile(f'#include "{secret}"\n{KERNEL}')
    assert SECRET in caught.value.log


def test_the_log_is_checked_when_the_scan_is_fooled(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second wall alone: neither scan nor jail, as on a system that has none."""
    _without_scan_and_jail(monkeypatch)
    with pytest.raises(CompileError, match="other than CUDA's own headers") as caught:
        compile(f'#include "{secret}"\n{KERNEL}', bundled_headers_only=True)
    assert SECRET not in str(caught.value) + caught.value.log


def test_a_foreign_file_that_compiles_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "solution.cuh").write_text(KERNEL)
    _without_scan_and_jail(monkeypatch)
    with pytest.raises(CompileError, match="other than CUDA's own headers"):
        compile(f'#include "{tmp_path / "solution.cuh"}"\n', bundled_headers_only=True)


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", __file__, "SECRET"])
def test_jailed_helper_opens_nothing_else(path: str, secret: Path) -> None:
    if not jail.kinds():
        _missing("Landlock and bwrap")
    kind, log = _ask(f'#include "{path.replace("SECRET", str(secret))}"\n{KERNEL}')
    assert kind == "source"
    assert "cannot open source file" in log and SECRET not in log


def test_jailed_helper_does_not_even_tell_what_exists(secret: Path) -> None:
    if not jail.kinds():
        _missing("Landlock and bwrap")
    kind, _ = _ask(f'#if __has_include("{secret}")\n#error found\n#endif\n{KERNEL}')
    assert kind == "compiled"


def test_bwrap_alone(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not jail.bwrap():
        _missing("bwrap")
    with _fresh_helpers():
        monkeypatch.setattr(command, "BOOT", command.BOOT.replace("main(c)", "c['readable'] = []; main(c)"))
        assert helper.walls() == ("bwrap",)
        kind, log = _ask(f'#include "{secret}"\n{KERNEL}')
        assert kind == "source" and SECRET not in log


def test_landlock_alone(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not jail.landlock_version():
        _missing("Landlock")
    with _fresh_helpers():
        monkeypatch.setattr(jail, "bwrap", lambda: "")
        assert helper.walls() == ("landlock",)
        kind, log = _ask(f'#include "{secret}"\n{KERNEL}')
        assert kind == "source" and SECRET not in log


class _fresh_helpers:
    def __enter__(self) -> None:
        helper.stop()

    def __exit__(self, *error: object) -> None:
        helper.stop()


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "open").mkdir()
    (tmp_path / "open/file").write_text("open")
    (tmp_path / "closed").write_text("closed")
    path = tmp_path / "script.py"
    path.write_text(
        "import os, socket, sys\n"
        "from cudalab.sim.compiler.processes import jail\n"
        "here = sys.argv[1]\n"
        "assert jail.restrict([here + '/open', '/no/such/folder'])\n"
        "print(open(here + '/open/file').read(), os.listdir(here + '/open'))\n"
        "def refused(action):\n"
        "    try:\n        action()\n    except OSError as error:\n        print(type(error).__name__)\n"
        "    else:\n        print('allowed')\n"
        "refused(lambda: open(here + '/closed'))\n"
        "refused(lambda: open(here + '/open/new', 'w'))\n"
        "refused(lambda: os.unlink(here + '/open/file'))\n"
        "refused(lambda: os.listdir(here))\n"
        "refused(lambda: os.execv('/bin/true', ['true']))\n"
        "refused(lambda: socket.create_connection(('127.0.0.1', 1), 1))\n"
    )
    yield path


def test_landlock_restricts_a_process(script: Path) -> None:
    if jail.landlock_version() < 4:
        _missing("Landlock")
    command = [sys.executable, str(script), str(script.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[4])
    assert done.stdout.splitlines() == ["open ['file']", *["PermissionError"] * 6], done.stderr


def test_no_landlock_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail.sys, "platform", "win32")
    assert jail.landlock_version() == 0 and not jail.restrict([])
    jail.bwrap.cache_clear()
    try:
        assert jail.bwrap() == "" and jail.kinds() == ()
    finally:
        jail.bwrap.cache_clear()


@pytest.mark.parametrize("options", [("-I", "/etc"), ("--pre-include=/etc/passwd",), ("--time=/tmp/x",)])
def test_options_that_name_files(options: tuple[str, ...]) -> None:
    with pytest.raises(CompileError, match="not allowed"):
        compile(KERNEL, options=options, bundled_headers_only=True)


def test_a_jailed_helper_answers_in_a_child() -> None:
    """What a compiler remembers of one source is gone before it reads the next one."""
    assert _ask(KERNEL)[0] == "compiled"
    (entry,) = [entry for entry in helper._pools[True]._helpers if entry.alive()]
    before = helper.resident_bytes(entry.process.pid)
    heavy = "#define A(x) x x x x x x x x\n" + KERNEL.replace("x[0] = 1;", "A(A(A(x[0] += x[1];)))")
    assert _ask(heavy)[0] == "compiled" and entry.alive()
    assert helper.resident_bytes(entry.process.pid) < before + (4 << 20)
    with pytest.raises(CompileError, match="memory limit"):
        compile(ARRAY, bundled_headers_only=True, limits=Limits(memory=256 << 20))
    assert _ask(KERNEL)[0] == "compiled"


def test_requests_can_be_answered_elsewhere() -> None:
    asked: list[object] = []

    def elsewhere(request: object, bounds: object) -> object:
        asked.append(request)
        raise helper.HelperFailure("time", "not today")

    helper.hand_over(elsewhere)  # type: ignore[arg-type]
    try:
        with pytest.raises(CompileError, match="time limit"):
            compile(KERNEL)
    finally:
        helper.hand_over(None)
    assert [type(one) for one in asked] == [Compile]


def test_a_process_that_is_confined_compiles_everything_in_the_jail(
    secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation, "_confined", False)
    translation.confine()
    with pytest.raises(CompileError, match="CUDA's own headers"):
        compile(f'#include "{secret}"\n{KERNEL}')
    program = compile(KERNEL)
    jails = []

    def call(*given: object, jailed: bool = False, **options: object) -> object:
        jails.append(jailed)
        raise helper.HelperFailure("time", "enough is known")

    monkeypatch.setattr(helper, "call", call)
    with pytest.raises(CompileError):
        translation.native(program, "plain")
    assert jails == [True]


def test_a_jailed_helper_outlives_a_quiet_moment() -> None:
    """It gives memory back then, and may read no file that says where it is."""
    assert _ask(KERNEL)[0] == "compiled"
    (entry,) = [entry for entry in helper._pools[True]._helpers if entry.alive()]
    time.sleep(worker._QUIET + 0.5)
    assert entry.alive()
    assert _ask(KERNEL)[0] == "compiled"
