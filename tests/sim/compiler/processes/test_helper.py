"""Helper processes: bombs, limits, interrupts, forks, the end of the caller."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from cudalab.sim.compiler import (
    CompileError,
    CompilerUnavailable,
    Limits,
    compile,
    native,
    prefetch,
    prewarm,
    set_limits,
    translation,
)
from cudalab.sim.compiler.processes import command, helper, zygote

KERNEL = 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n'
SLOW = """
template <int N, int M> struct Tree {
    typedef typename Tree<N - 1, 2 * M>::type left;
    typedef typename Tree<N - 1, 2 * M + 1>::type right;
    typedef left type;
};
template <int M> struct Tree<0, M> { typedef int type; };
__device__ Tree<22, 1>::type x;
"""
SMALL = Limits(seconds=20, memory=1 << 30, ptx=1 << 20)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDALAB_CACHE", "off")
    translation.forget()


PATIENT = """
import cudalab.sim.compiler.processes.command as starting
patience = "import cudalab.sim.compiler.processes.worker as w; w._KEPT = 60; main(c)"
starting.BOOT = starting.BOOT.replace("main(c)", patience)
"""
"""Helpers started after this do not end for want of work, however long a loaded machine takes for the next line."""


@pytest.fixture
def own_helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    helper.stop()
    with monkeypatch.context() as patch:
        patch.setattr(command, "BOOT", command.BOOT)
        exec(PATIENT, {})
        yield
    helper.stop()


def _processes() -> set[int]:
    """Helper processes of this one."""
    pids = {entry.process.pid for pool in helper._pools.values() for entry in pool._helpers if entry.alive()}
    return {child.pid for child in psutil.Process().children(recursive=True) if child.pid in pids}


def _works() -> bool:
    translation.forget()
    return list(compile(KERNEL).kernels) == ["k"]


# ------------------------------------------------------------------------------------ bombs

MEMORY_BOMBS = {
    "initialised array": "__device__ int a[2000000000] = {1};\n__global__ void k(int *x) { x[0] = a[x[1]]; }",
    "template tree": SLOW,
    "macro": "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\n#define C(x) B(B(B(x)))\n"
    "__device__ void f(int *p) { C(p[0] += 1;) }",
}


@pytest.mark.parametrize("bomb", MEMORY_BOMBS)
def test_memory_limit(bomb: str) -> None:
    with pytest.raises(CompileError, match=r"memory limit of 1,024 MB") as caught:
        compile(MEMORY_BOMBS[bomb], limits=replace(SMALL, seconds=60))
    assert caught.value.limit == "memory"
    assert "large array with an initialiser" in caught.value.__notes__[0]
    assert _works()


def test_time_limit() -> None:
    start = time.monotonic()
    with pytest.raises(CompileError, match=r"time limit of 0.5 s") as caught:
        compile(SLOW, limits=Limits(seconds=0.5))
    assert caught.value.limit == "time"
    assert time.monotonic() - start < 10
    assert _works()


def test_size_limit() -> None:
    body = "".join(f"x[{i}] = sinf(x[{i + 1}]);\n" for i in range(40))
    with pytest.raises(CompileError, match=r"size limit: \d+ bytes of PTX, at most 4,096") as caught:
        compile(f'extern "C" __global__ void k(float *x) {{ {body} }}', limits=Limits(ptx=4096))
    assert caught.value.limit == "size"


def test_a_crash_of_the_assembler_at_a_cache_hint_names_its_line() -> None:
    """ptxas dies of such an address (CUDA 13.0), and with CuPy so does the notebook's kernel."""
    code = 'extern "C" __global__ void k(int *a)\n{\n    asm volatile("prefetch.global.L2 [%0];" :: "l"(ADDRESS));\n}\n'
    assert compile(code.replace("ADDRESS", "a + 32")).kernels
    with pytest.raises(CompileError, match=r"kernel\.cu:3: error: the compiler crashed") as caught:
        compile(code.replace("ADDRESS", "(char *)4096"))
    assert "an address in an array" in caught.value.__notes__[0]


OTHER_BOMBS = {
    "brackets": 'extern "C" __global__ void k(int *x) { x[0] = ' + "(" * 2_000_000 + "1" + ")" * 2_000_000 + "; }",
    "braces": 'extern "C" __global__ void k(int *x) { ' + "{" * 2_000_000 + "}" * 2_000_000 + " }",
    "includes itself": "#include __FILE__\n",
    "endless template": "template <int N> struct F { static const int v = F<N + 1>::v; };\n__device__ int x = F<0>::v;",
    "constexpr": "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n__device__ int x[f(90) > 0];",
}


@pytest.mark.parametrize("bomb", OTHER_BOMBS)
def test_other_bombs(bomb: str) -> None:
    with pytest.raises(CompileError):
        compile(OTHER_BOMBS[bomb], limits=SMALL)
    assert _works()


@pytest.mark.parametrize("source", ["", "\n", "\ud800", "\x00", "\x1a\x7f\x01", "é" * 1000, "\\", '"', "/*", 'R"x('])
def test_odd_sources_end_well(source: str) -> None:
    try:
        compile(source)
    except CompileError:
        pass
    assert _works()


@pytest.mark.parametrize("ptx", ["", "not PTX", ".version 9.0\n.target sm_90\n.entry k(", "\x00"])
def test_odd_ptx_ends_well(ptx: str) -> None:
    from cudalab.sim.compiler import compile_ptx

    try:
        compile_ptx(ptx)
    except CompileError:
        pass
    assert _works()


# ------------------------------------------------------------------------------- processes


def test_helper_is_kept_warm(own_helpers: None) -> None:
    _works()
    first = _processes()
    _works()
    assert _processes() == first and len(first) == 1


def test_a_warm_helper_answers_without_a_new_start(own_helpers: None) -> None:
    """How fast it is, `bench.latency` says; a start of the helper would cost half a second each time."""
    times = []
    for number in range(8):
        start = time.perf_counter()
        compile(KERNEL + f"// {number}\n")
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3


def test_prewarm_returns_at_once(own_helpers: None) -> None:
    prewarm()
    (started,) = helper._pools[False]._helpers
    assert not started._ready  # nobody has waited for it
    prewarm()
    assert len(_processes()) == 1
    assert _works()


def test_killed_helper_is_replaced(own_helpers: None) -> None:
    _works()
    (pid,) = _processes()
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=5)
    assert _works()
    assert pid not in _processes()


def test_where_helpers_are_no_copies_one_alone_precompiles_headers_and_is_asked_first(
    own_helpers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would keep over 100 MB of them."""
    monkeypatch.setattr(zygote, "OFFERED", False)
    pool = helper._pools[False]
    prewarm(2)
    assert [entry.precompiles for entry in pool._helpers] == [True, False]
    pool._helpers[0].kill()
    prewarm(2)
    assert [entry.precompiles for entry in pool._helpers] == [True, False]
    compile(KERNEL)
    assert [bool(entry.programs) for entry in pool._helpers] == [True, False]


def test_a_helper_whose_folder_was_tidied_away_is_replaced(own_helpers: None) -> None:
    _works()
    (pid,) = _processes()
    shutil.rmtree(psutil.Process(pid).cwd())
    assert _works()
    assert _processes().isdisjoint({pid})


def test_helper_killed_at_work(own_helpers: None) -> None:
    _works()
    (pid,) = _processes()
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(CompileError, match="crashed.*SIGKILL"):
        compile(SLOW)
    assert _works()


def test_a_request_whose_helper_aborts_is_repeated(own_helpers: None) -> None:
    _works()
    (pid,) = _processes()
    os.kill(pid, signal.SIGSTOP)  # it cannot have finished when it is aborted

    def abort() -> None:
        os.kill(pid, signal.SIGABRT)
        os.kill(pid, signal.SIGCONT)

    threading.Timer(0.3, abort).start()
    assert _works()
    assert pid not in _processes()


def test_a_request_whose_helpers_abort_twice_is_refused(own_helpers: None) -> None:
    _works()

    def abort() -> None:
        seen: set[int] = set()
        while len(seen) < 2:
            for pid in set(_processes()) - seen:
                time.sleep(0.5)
                seen.add(pid)
                os.kill(pid, signal.SIGABRT)
            time.sleep(0.02)

    aborting = threading.Thread(target=abort)
    aborting.start()
    with pytest.raises(CompileError, match="(crashed|did not start).*SIGABRT"):
        compile(SLOW)
    aborting.join()
    assert _works()


def test_two_at_a_time(own_helpers: None) -> None:
    """Two slow requests take one time limit together, not two; a third waits for its turn."""
    prewarm(2)
    _works()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            compile(SLOW, limits=Limits(seconds=1.0))
        except CompileError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, len(_processes()))
        time.sleep(0.02)
    assert [getattr(error, "limit", "") for error in errors] == ["time"] * 3
    assert most == 2


def test_requests_of_many_threads_do_not_mix(own_helpers: None) -> None:
    results: dict[int, str] = {}

    def work(number: int) -> None:
        results[number] = compile(KERNEL.replace("x[0] = 1", f"x[0] = {7000 + number}")).ptx

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(7000 + number) in results[number] for number in range(12)] == [True] * 12


def test_prefetch_and_native_agree(own_helpers: None) -> None:
    program = compile(KERNEL)
    prefetch(program, ("plain", "traced"))
    codes = {variant: native(program, variant) for variant in ("plain", "traced")}
    assert program.objects == codes
    translation.forget()
    again = compile(KERNEL)
    assert again is not program
    assert {variant: native(again, variant) for variant in codes} == codes


def test_unknown_variant() -> None:
    program = compile(KERNEL)
    with pytest.raises(ValueError, match="variant must be one of plain, atomic, traced, .*, got 'fast'"):
        native(program, "fast")
    with pytest.raises(ValueError, match="got 'fast'"):
        prefetch(program, ("fast",))


def test_memory_is_watched_where_the_system_cannot(own_helpers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _works()
    monkeypatch.setattr(helper, "_WATCH_MEMORY", True)
    with pytest.raises(CompileError, match="memory limit of 300 MB") as caught:
        compile(SLOW, limits=Limits(seconds=20, memory=300 << 20))
    assert caught.value.limit == "memory"
    assert _works()


def test_limits_can_be_set() -> None:
    former = set_limits(seconds=7)
    try:
        assert helper.limits().seconds == 7 and helper.limits().memory == former.memory
    finally:
        set_limits(former)
    assert helper.limits() == former


def test_nothing_to_compile_with(own_helpers: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command.headers, "nvrtc_library", lambda: tmp_path / "libnvrtc.so.13")
    with pytest.raises(CompilerUnavailable, match="pip install nvidia-cuda-nvrtc"):
        compile(KERNEL)
    assert isinstance(CompilerUnavailable("x"), ImportError)


def test_macos_is_told_of_the_container() -> None:
    assert "container" in translation.unavailable_message("", "darwin")


# ---------------------------------------------------------------------------- other processes


@contextmanager
def _python(program: str) -> Iterator[subprocess.Popen[str]]:
    """Another Python process that runs ``program``; ended when the test is."""
    environment = {**os.environ, "CUDALAB_CACHE": "off"}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def _run(program: str) -> tuple[str, str]:
    with _python(program) as child:
        return child.communicate(timeout=60)


INTERRUPTED = f"""
import os, sys, time
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.processes import helper
SLOW = {SLOW!r}
KERNEL = {KERNEL!r}
exec({PATIENT!r})
compile(KERNEL)
pid = helper._pools[False]._helpers[0].process.pid
print("ready", flush=True)
try:
    compile(SLOW)
except KeyboardInterrupt:
    start = time.monotonic()
    gone = not os.path.exists(f"/proc/{{pid}}")
    compile(KERNEL + "//")
    print("interrupted", gone, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_interrupt() -> None:
    with _python(INTERRUPTED) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=30)
    assert output == "interrupted True\n", errors
    assert time.monotonic() - start < 10


def _gone(pid: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("at_work", [False, True])
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_helpers_end_with_their_parent(at_work: bool) -> None:
    program = f"""
    import threading, time
    from cudalab.sim.compiler import compile
    from cudalab.sim.compiler.processes import helper
    exec({PATIENT!r})
    compile({KERNEL!r})
    if {at_work}:
        threading.Thread(target=compile, args=({SLOW!r},), daemon=True).start()
        time.sleep(0.3)
    print(helper._pools[False]._helpers[0].process.pid, flush=True)
    time.sleep(60)
    """
    with _python(program) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        assert psutil.pid_exists(pid)
        child.kill()
    assert _gone(pid)


def test_helpers_end_when_the_program_does() -> None:
    program = f"""
    from cudalab.sim.compiler import compile
    from cudalab.sim.compiler.processes import command, helper
    compile({KERNEL!r})
    print(helper._pools[False]._helpers[0].process.pid, command.empty_folder())
    """
    output, errors = _run(program)
    pid, folder = output.split()
    assert errors == ""
    assert _gone(int(pid))
    assert not os.path.exists(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork() -> None:
    """A forked child gets helpers of its own, and its end does not touch the parent's."""
    program = f"""
    import os, sys, warnings
    warnings.simplefilter("ignore")
    from cudalab.sim.compiler import compile
    from cudalab.sim.compiler.processes import helper
    exec({PATIENT!r})
    compile({KERNEL!r})
    mine = helper._pools[False]._helpers[0].process.pid
    pid = os.fork()
    if pid == 0:
        assert list(compile({KERNEL!r} + "// child").kernels) == ["k"]
        assert helper._pools[False]._helpers[0].process.pid != mine
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(compile({KERNEL!r} + "// parent").kernels) == ["k"]
    assert helper._pools[False]._helpers[0].process.pid == mine
    print("both")
    """
    output, errors = _run(program)
    assert (output, errors) == ("both\n", "")


def test_a_file_in_the_current_folder_stands_in_for_nothing(tmp_path: Path) -> None:
    for name in ("json.py", "types.py", "cudalab.py", "numpy.py", "llvmlite.py", "struct.py"):
        (tmp_path / name).write_text("raise SystemExit('wrong module')\n")
    program = f"""
    import sys
    import json, types, struct
    from cudalab.sim.compiler import compile
    import os
    os.chdir({str(tmp_path)!r})
    sys.path.insert(0, "")
    sys.path.insert(0, os.getcwd())
    print(list(compile({KERNEL!r}).kernels))
    """
    output, errors = _run(program)
    assert output == "['k']\n", errors


def test_no_file_names_of_this_machine_in_the_result() -> None:
    program = compile(KERNEL)
    assert '"kernel.cu"' in program.ptx
    assert command.empty_folder() not in program.ptx + program.log


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone gives back")
def test_a_helper_without_work_gives_back_what_its_compilers_have_freed():
    helper.stop()
    sums = "".join(f"a[{i}] = sqrtf(a[{i + 1}]) / a[{i + 2}];" for i in range(60))
    compile(f'extern "C" __global__ void sums(float* a) {{ {sums} }} // {time.time_ns()}')
    (process,) = (psutil.Process(each.process.pid) for each in helper._pools[False]._helpers if each.programs)
    busy = process.memory_info().rss
    for _ in range(100):
        if process.memory_info().rss < busy - 2_000_000:
            break
        time.sleep(0.1)
    assert process.memory_info().rss < busy - 2_000_000


# --------------------------------------------------------------------------- copies of one process

copied = pytest.mark.skipif(not zygote.OFFERED, reason="Linux alone forks its helpers")


def _own_memory(pid: int) -> int:
    """Megabytes that a process shares with no other."""
    full = psutil.Process(pid).memory_full_info()
    return int(full.uss) // 1_000_000


@copied
def test_two_helpers_are_copies_of_one_process_and_share_its_memory(own_helpers: None) -> None:
    prewarm(2)
    pids = [entry.process.pid for entry in helper._pools[False]._helpers]
    parents = {psutil.Process(pid).ppid() for pid in pids}
    assert len(pids) == 2 and len(parents) == 1 and os.getpid() not in parents
    (parent,) = parents
    for entry in helper._pools[False]._helpers:
        entry.wait_ready()
    end = time.monotonic() + 20
    while (most := max(map(_own_memory, (parent, *pids)))) >= 15 and time.monotonic() < end:
        time.sleep(0.1)
    assert most < 15


@copied
def test_a_new_helper_is_warm_at_once(own_helpers: None) -> None:
    _works()
    helper._pools[False]._helpers[0].kill()
    begin = time.process_time(), psutil.Process(helper._pools[False]._zygote.process.pid).cpu_times().user
    _works()
    zygote_took = psutil.Process(helper._pools[False]._zygote.process.pid).cpu_times().user - begin[1]
    assert zygote_took < 0.2  # NVRTC and LLVM are not loaded anew


@copied
def test_a_helper_without_work_ends_and_nobody_notices(own_helpers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BOOT", command.BOOT.replace("main(c)", "worker._KEPT = w._KEPT = 0.05\nmain(c)"))
    monkeypatch.setattr(command, "BOOT", command.BOOT.replace("import main", "import main\n" + IMPORT))
    for number in range(3):
        assert list(compile(KERNEL + f"// {number}\n").kernels) == ["k"]
        (entry,) = helper._pools[False]._helpers
        assert entry.process.pid and entry.process.ended.wait(10)
        assert entry.process.poll() == zygote.RETIRED


@copied
def test_a_request_that_meets_the_end_of_a_helper_goes_to_the_next(own_helpers: None) -> None:
    _works()
    (entry,) = helper._pools[False]._helpers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "alive", lambda: True)  # it ends between the look and the request
        patch.setattr(entry.process, "returncode", zygote.RETIRED)
        entry.process.stdin.close()
        entry.process.ended.wait(10)
        patch.setattr(entry.process, "stdin", _ClosedPipe())
        assert list(compile(KERNEL + "// another").kernels) == ["k"]
    assert entry not in helper._pools[False]._helpers


class _ClosedPipe:
    def write(self, data: bytes) -> int:
        raise BrokenPipeError

    def close(self) -> None:
        pass


IMPORT = "from cudalab.sim.compiler.processes import worker, zygote"
HEADER = "#include <cuda/ptx>\n"


def _wanted_header(monkeypatch: pytest.MonkeyPatch) -> tuple[psutil.Process, Path]:
    """A compile that wants a precompiled header, which is written soon; the zygote, and the folder of its headers."""
    monkeypatch.delenv("CUDALAB_PRECOMPILED_HEADERS", raising=False)
    boot = command.BOOT.replace("import main", f"import main\n{IMPORT}\nzygote._HEADER_QUIET = 0.1")
    monkeypatch.setattr(command, "BOOT", boot)
    compile(HEADER + KERNEL)
    parent = psutil.Process(helper._pools[False]._zygote.process.pid)
    return parent, Path(command.empty_folder(), f"headers-{parent.pid}")


@copied
def test_a_header_is_written_by_a_process_that_ends_and_fits_all_helpers(
    own_helpers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, home = _wanted_header(monkeypatch)
    end = time.monotonic() + 60
    while not list(home.glob("*.ready")) and time.monotonic() < end:
        time.sleep(0.05)
    (note,) = home.glob("*.ready")
    helper._pools[False]._helpers[0].kill()
    used = note.stat().st_mtime_ns
    compile(HEADER + KERNEL + "// edited")
    assert note.stat().st_mtime_ns > used  # by another helper than the one that asked for it
    assert {child.pid for child in parent.children()} == _processes()
    helper.stop()
    assert not home.exists()


@copied
def test_a_compile_stops_who_writes_a_header_and_it_is_written_later(
    own_helpers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, home = _wanted_header(monkeypatch)
    end = time.monotonic() + 60
    while not (writers := {child.pid for child in parent.children()} - _processes()) and time.monotonic() < end:
        time.sleep(0.01)
    (writer,) = writers
    os.kill(writer, signal.SIGSTOP)  # it cannot have finished when the next compile begins
    assert list(compile(KERNEL + "// meanwhile").kernels) == ["k"]
    assert _gone(writer)
    while not list(home.glob("*.ready")) and time.monotonic() < end:
        time.sleep(0.05)
    assert list(home.glob("*.ready"))
