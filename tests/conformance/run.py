"""Runs the conformance programs on one device and stores what they return.

    python -m tests.conformance.run --device gpu            # a real GPU: stored under h200/
    python -m tests.conformance.run --device gpu --only warps --merge
    python -m tests.conformance.run --device sim --only warps
    python -m tests.conformance.run --from FOLDER           # of a run elsewhere (--out FOLDER): into the stored ones

With ``--seconds`` a run ends in time: programs that have not ended then have no result, and the others' are stored.
Each worker process runs one program after another. A program that raises is a result like any other; one that
hangs is cut, and one that ends its process or poisons its CUDA context costs only its worker. Programs marked
``isolated`` get a process of their own on a GPU; on the simulated device ``cudalab.reset()`` after each does as well.

With ``--real`` (or when ``cudalab`` cannot be imported on a GPU) ``cp``, ``cudart`` and ``driver`` are CuPy and
``cuda.bindings`` themselves, without cudalab's recording subclasses between; what is stored under h200/ always comes
from such a run.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import multiprocessing
import os
import platform
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .observation import Observation, observed
from .program import REGISTRY, load_programs
from .results import EXCEPTION, differences, load, plain, save

HERE = Path(__file__).parent
COMPILE_SECONDS = 55.0  # a learner's limit is shorter; a loaded machine is no failure of a program
PATIENCE = 3  # times a program's own limit: the same
TWO_DEVICES = "sim:h200-x2"
"""Simulated, for programs that take two."""
START_TIMEOUT = 100.0  # seconds for a worker to import everything and touch the device


def bind(device: str, real: bool = False) -> str:
    """Makes ``from cudalab import cp, cudart, driver`` give the device asked for; returns how."""
    if device != "gpu":
        os.environ["CUDALAB_DEVICE"] = device
        import cudalab
        from cudalab.sim.compiler import set_limits

        set_limits(seconds=COMPILE_SECONDS)
        return f"cudalab ({cudalab.cp.__name__})"
    os.environ["CUDALAB_DEVICE"] = "gpu"
    if not real:
        try:
            from cudalab import cp, cudart, driver  # noqa: F401

            return "cudalab"
        except ImportError as error:
            print(f"cudalab has no GPU backend here ({error}); using CuPy and cuda.bindings directly", flush=True)
    import cupy
    from cuda.bindings import driver as real_driver
    from cuda.bindings import runtime

    module = types.ModuleType("cudalab")
    module.cp, module.cudart, module.driver = cupy, runtime, real_driver  # type: ignore[attr-defined]
    sys.modules["cudalab"] = module
    return "CuPy and cuda.bindings"


def about_device(device: str, via: str) -> dict[str, Any]:
    """What a stored result must say of where it comes from."""
    from cudalab import cp, cudart

    properties = cp.cuda.runtime.getDeviceProperties(0)
    name = properties["name"]
    return {
        "device": name.decode() if isinstance(name, bytes) else str(name),
        "requested": device,
        "via": via,
        "driver": cudart.cudaDriverGetVersion()[1],
        "runtime": cp.cuda.runtime.runtimeGetVersion(),
        "nvrtc": ".".join(str(part) for part in cp.cuda.nvrtc.getVersion()) if device == "gpu" else "cudalab's",
        "versions": {name: _version(name) for name in ("cupy-cuda13x", "cupy-cuda12x", "cuda-bindings", "numpy")},
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=HERE, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def serve(connection: Connection, device: str, real: bool) -> None:
    """A worker: receives keys of programs and whether their launches are sanitized, sends ``(key, values, seconds,
    still healthy, what was observed)``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        via = bind(device, real)
        load_programs()
        connection.send(("ready", about_device(device, via)))
    except BaseException:
        connection.send(("failed", traceback.format_exc()))
        return
    while (request := connection.recv()) is not None:
        key, sanitize = request
        if not REGISTRY[key].isolated:
            _make_context()
        start = time.perf_counter()
        with nullcontext(Observation()) if device == "gpu" else observed(key, sanitize) as seen:
            values = outcome(key)
        healthy = _clean(device, REGISTRY[key].isolated)
        connection.send((key, values, time.perf_counter() - start, healthy, seen))


def outcome(key: str) -> dict[str, Any]:
    """The plain values of one program run in this process; its own failure is a value too."""
    try:
        return plain(REGISTRY[key].run())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        note = f"{type(error).__name__}: {error}"[:800]
        return {EXCEPTION: note, "at": f"{Path(last.filename).name}:{last.lineno}"}


def _make_context() -> None:
    """The driver's calls need one that is current. A program finds it after any other, and so as the first, too."""
    from cudalab import cudart

    cudart.cudaDeviceSynchronize()


def _clean(device: str, isolated: bool) -> bool:
    """Drops what a program left behind; false when this process cannot run another one."""
    if device == "gpu" and isolated:
        return False
    import cudalab

    try:
        if isolated:
            cudalab.reset()
        if int(cudalab.cudart.cudaDeviceSynchronize()[0]) != 0:
            return False
        cudalab.cudart.cudaGetLastError()
        cudalab.cp.get_default_memory_pool().free_all_blocks()
    except Exception:  # whatever is broken, the program's own result is to be seen
        return False
    return True


class Worker:
    """One child process that runs programs, replaced when it dies."""

    def __init__(self, device: str, real: bool) -> None:
        self.device = device
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=serve, args=(child, device, real), daemon=True)
        self._process.start()
        child.close()
        self.about: dict[str, Any] = {}
        kind, detail = self._receive(START_TIMEOUT)
        if kind != "ready":
            self.stop()
            raise RuntimeError(f"a worker could not start:\n{detail}")
        self.about = detail

    def _receive(self, timeout: float) -> Any:
        if not self._pipe.poll(timeout):
            return "failed", f"no answer within {timeout:g} s"
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join(10)
            return "failed", f"the process ended with exit code {self._process.exitcode}"

    def run(
        self, key: str, *, sanitize: bool = False, until: float = float("inf")
    ) -> tuple[dict[str, Any], float, bool, Observation]:
        """Values, seconds, whether this worker may go on, and what the simulated device said of the program.

        Raises ``TimeoutError`` when the program has not ended at ``until`` (``time.perf_counter``).
        """
        start = time.perf_counter()
        self._pipe.send((key, sanitize))
        own = PATIENCE * REGISTRY[key].timeout
        answer = self._receive(min(own, max(0.0, until - start)))
        if answer[0] == "failed" and self._process.is_alive() and time.perf_counter() - start < own:
            raise TimeoutError(f"{key} has not ended in the time of the whole run")
        if answer[0] == "failed":
            return {EXCEPTION: f"WorkerLost: {answer[1]}"}, time.perf_counter() - start, False, Observation()
        return answer[1:]

    def stop(self) -> None:
        self._process.kill()
        self._process.join(10)
        self._pipe.close()


@dataclass
class Run:
    """All results of one run, and what went wrong with single workers."""

    about: dict[str, Any]
    results: dict[str, dict[str, Any]]


def device_for(key: str, device: str) -> str:
    """The device on which a program runs, when ``device`` is asked for."""
    return TWO_DEVICES if device == "sim" and REGISTRY[key].devices > 1 else device


def run_programs(
    keys: list[str],
    device: str,
    *,
    real: bool = False,
    jobs: int = 2,
    progress: bool = True,
    seconds: float = float("inf"),
) -> Run:
    """Runs the programs in ``jobs`` worker processes, for ``seconds`` at most: then those that have not ended have no
    result.

    Raises ``RuntimeError`` when not even one worker can start.
    """
    until = time.perf_counter() + seconds
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for key in sorted(keys, key=lambda k: REGISTRY[k].isolated):
        waiting.put(key)
    run = Run({}, {})
    lock = threading.Lock()
    failures: list[str] = []

    def work() -> None:
        worker: Worker | None = None
        while time.perf_counter() < until:
            try:
                key = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                wanted = device_for(key, device)
                if worker is not None and (wanted != worker.device or wanted == "gpu" and REGISTRY[key].isolated):
                    worker.stop()
                    worker = None
                worker = worker or Worker(wanted, real)
                values, took, healthy, _ = worker.run(key, until=until)
            except TimeoutError as error:
                print(error, flush=True)
                break
            except Exception as error:
                values, took, healthy = {EXCEPTION: f"{type(error).__name__}: {error}"}, 0.0, False
            with lock:
                if worker is not None and worker.about:
                    run.about = worker.about
                if EXCEPTION in values:
                    failures.append(key)
                run.results[key] = {"source": REGISTRY[key].source_hash, "values": values, "seconds": round(took, 3)}
                if progress:
                    verdict = values.get(EXCEPTION, "ok").splitlines()[0][:150]
                    print(f"[{len(run.results):3}/{len(keys)}] {key:60} {took:6.2f} s  {verdict}", flush=True)
            if worker is not None and not healthy:
                worker.stop()
                worker = None
        if worker is not None:
            worker.stop()

    threads = [threading.Thread(target=work) for _ in range(max(1, min(jobs, len(keys))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not run.about:
        why = next((result["values"][EXCEPTION] for result in run.results.values()), "the time was over")
        raise RuntimeError(f"no worker could start: {why}")
    return run


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 when every program ran and agrees with its oracle."""
    parser = argparse.ArgumentParser(description="Runs the conformance programs and stores their results.")
    parser.add_argument("--device", default=os.environ.get("CUDALAB_DEVICE", "sim"), help="gpu, sim or sim:PROFILE")
    parser.add_argument("--real", action="store_true", help="on a GPU: CuPy itself, without cudalab's recording")
    parser.add_argument("--out", type=Path, help="folder for results.json and arrays.npz")
    parser.add_argument("--only", default="*", help="run only programs whose key matches one of 'warps/*,pool/*'")
    parser.add_argument("--merge", action="store_true", help="put the results into the stored ones; same device only")
    parser.add_argument("--from", type=Path, dest="source", help="folder of a run elsewhere: merge it, run nothing")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for the whole run")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 2), help="worker processes")
    options = parser.parse_args(arguments)
    if options.source:
        return take_over(options.source, options.out or HERE / "h200")
    storing = options.merge or (options.device == "gpu" and options.only == "*")
    if options.device == "gpu" and storing and not options.out:
        options.real = True  # what is stored is CuPy's own behaviour
    bind(options.device, options.real)
    load_programs()
    patterns = [part if "*" in part else f"*{part}*" for part in options.only.split(",")]
    keys = [key for key in REGISTRY if any(fnmatch.fnmatch(key, pattern) for pattern in patterns)]
    if not keys:
        parser.error(f"no program matches {options.only!r}; families: {sorted({k.split('/')[0] for k in REGISTRY})}")
    start = time.perf_counter()
    run = run_programs(keys, options.device, real=options.real, jobs=options.jobs, seconds=options.seconds)
    wrong = len(keys) - len(run.results)
    for key, result in sorted(run.results.items()):
        lines = judge(key, result["values"])
        wrong += bool(lines)
        for line in lines:
            print(f"{key}: {line}")
    if options.out or storing:
        folder = options.out or HERE / "h200"
        results = merged(folder, run) if options.merge else run.results
        save(folder, run.about, results)
        print(f"stored in {folder}")
    seconds = time.perf_counter() - start
    where = run.about["device"]
    print(f"{len(keys)} programs on {where} in {seconds:.0f} s: {wrong} failed or disagree with their oracle")
    return 1 if wrong else 0


def take_over(source: Path, folder: Path) -> int:
    """Put the results of a run elsewhere into those of ``folder``, but for programs that did not end there or have
    changed since."""
    load_programs()
    about, results = load(source)
    left = []
    for key, each in list(results.items()):
        lost = str(each["values"].get(EXCEPTION, "")).startswith("WorkerLost")
        if lost or key not in REGISTRY or each["source"] != REGISTRY[key].source_hash:
            left.append(key)
            del results[key]
    save(folder, about, merged(folder, Run(about, results)))
    print(f"{len(results)} results stored in {folder}; did not end, or changed since: {', '.join(left) or 'none'}")
    return 1 if left else 0


def merged(folder: Path, run: Run) -> dict[str, dict[str, Any]]:
    """The stored results of programs that still exist, with those of ``run`` in their place.

    Raises ``ValueError`` when the stored ones come from another device or other versions.
    """
    about, results = load(folder)
    for fact in ("device", "driver", "runtime", "nvrtc", "versions"):
        if about[fact] != run.about[fact]:
            raise ValueError(f"{folder} is of {fact} {about[fact]}, this run of {run.about[fact]}; run all programs")
    return {key: result for key, result in results.items() if key in REGISTRY} | run.results


def judge(key: str, values: dict[str, Any]) -> list[str]:
    """How the values of a program differ from what its oracle says."""
    if EXCEPTION in values:
        return [f"{values[EXCEPTION]} ({values.get('at', 'worker')})"]
    expect = REGISTRY[key].expect
    if expect is None:
        return []
    try:
        return differences(values, expect(values))
    except Exception as error:
        return [f"the oracle failed: {type(error).__name__}: {error}"]


if __name__ == "__main__":
    sys.exit(main())
