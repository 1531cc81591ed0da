"""Run the programs of `programs.py` on the real CuPy and write what it answers to `facts.json`.

    python tests/sim/cupy/record.py OUTPUT.json

Needs a GPU. What a program gives is told in JSON by `describe`, which the tests use on the simulated CuPy as well.
"""

from __future__ import annotations

import ast
import json
import multiprocessing
import pathlib
import queue
import re
import sys
import threading
import warnings
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))
from tests.sim.cupy.programs import PROGRAMS  # noqa: E402


def describe(value: Any, array_type: type) -> Any:
    """``value`` as JSON: arrays with dtype, shape and values, containers entry by entry, the rest by type and text."""
    if isinstance(value, array_type):
        return {"array": _values(value.get()), "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, np.ndarray):
        return {"numpy": _values(value), "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [describe(item, array_type) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[describe(k, array_type), describe(v, array_type)] for k, v in value.items()]}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, complex, np.generic)):
        return {type(value).__name__: repr(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return {"type": type(value).__name__}


def _values(array: np.ndarray) -> Any:
    if array.size > 64:
        array = array.ravel()[:: max(1, array.size // 16)]
    return json.loads(json.dumps(array.tolist(), default=repr))


def run(program: str, cp: Any, array_type: type) -> Any:
    """What ``program`` gives, or the error it raises."""
    tree = ast.parse(program)
    scope: dict[str, Any] = {"cp": cp, "np": np}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = None
            if tree.body and isinstance(tree.body[-1], ast.Expr):
                last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
                exec(compile(tree, "program", "exec"), scope)
                value = eval(compile(last, "program", "eval"), scope)
            else:
                exec(compile(tree, "program", "exec"), scope)
            return describe(value, array_type)
        except BaseException as error:
            message = re.sub(r"/tmp/\S+?\.cubin\.cu", "kernel.cu", str(error))
            return {"error": type(error).__name__, "message": message[:500]}


def _batch(names: list[str], answers: Any) -> None:
    import cupy

    for name in names:
        answers.put((name, run(PROGRAMS[name], cupy, cupy.ndarray)))
    answers.put(None)


def _record(names: list[str], facts: dict[str, Any]) -> None:
    """Run ``names`` in child processes; one that ends or loses its device is replaced by a fresh one."""
    context = multiprocessing.get_context("spawn")
    while names:
        answers = context.Queue()
        child = context.Process(target=_batch, args=(names, answers))
        child.start()
        done = 0
        while True:
            try:
                answer = answers.get(timeout=60)
            except queue.Empty:
                facts[names[done]] = {"process": "ended or hung"}
                done += 1
                break
            if answer is None:
                break
            facts[answer[0]] = answer[1]
            done += 1
            if "CUDA_ERROR_ILLEGAL" in str(answer[1]) or "cudaErrorIllegal" in str(answer[1]):
                break
        child.kill()
        child.join(5)
        names = names[done:]


def main(output: str, workers: int = 15) -> None:
    names = list(PROGRAMS)
    facts: dict[str, Any] = {}
    threads = [threading.Thread(target=_record, args=(names[i::workers], facts)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    header = {"cupy": cupy.__version__, "device": name, "numpy": np.__version__}
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(facts[key], sort_keys=True)}" for key in sorted(facts))
    pathlib.Path(output).write_text(f'{{"about": {json.dumps(header)},\n"facts": {{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
