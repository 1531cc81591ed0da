"""The child of ``cudalab.cells.isolated``: imports, waits for one request, runs it, reports how it ended.

The request is one line of JSON on standard input. What is to be compiled is ordered from the parent, through two pipes
whose numbers are arguments. Output goes where it always goes, so that ``printf`` of a kernel and
messages of libraries appear in order. An exception is written to a file that the request names, as text.
"""

from __future__ import annotations

import ast
import base64
import json
import linecache
import os
import pickle
import sys
import threading
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

CELL = "<isolated cell>"


def describe(error: BaseException) -> str:
    """Type, message, line of the cell, and notes. Of the traceback, only the learner's own line is kept."""
    lines = [f"{type(error).__name__}: {error}".rstrip(": ")]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == CELL]
    if isinstance(error, SyntaxError) and error.filename == CELL:
        lines.append(f"  line {error.lineno} of the cell: {(error.text or '').strip()}")
    elif frames:
        lines.append(f"  line {frames[-1].lineno} of the cell: {frames[-1].line}")
    lines.extend(getattr(error, "__notes__", ()))
    return "\n".join(lines)


def execute(code: str, names: dict[str, Any]) -> None:
    """Run a cell: its statements, and, as a notebook does, show the value of a last expression."""
    linecache.cache[CELL] = (len(code), None, code.splitlines(keepends=True), CELL)
    tree = ast.parse(code, CELL)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, CELL, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), CELL, "eval"), names)
        if value is not None:
            print(repr(value))


# cudalab's names that the cell gets; the others (widgets, pictures) are there as `cudalab.NAME`.
NAMES = (
    "cp",
    "cudart",
    "driver",
    "device",
    "reset",
    "clock",
    "host_work",
    "benchmark",
    "profile",
    "sanitize",
    "source",
    "trace",
)


def _import_ahead(kind: str) -> None:
    """What the request will most likely need. No device is chosen or touched by it."""
    if kind == "gpu":
        modules = ("cudalab.recording", "cuda.bindings.runtime", "cuda.bindings.driver")
    else:
        modules = ("cudalab.sim.cupy", "cudalab.sim.cudart", "cudalab.sim.driver")
    for name in (
        *modules,
        "cudalab.device",
        "cudalab.benchmark",
        "cudalab.analysis.profile",
        "cudalab.analysis.sanitize",
    ):
        import_module(name)


def _wait_for_device() -> None:
    """An error of work that is still under way must come out before the process ends."""
    import cudalab

    driver = cudalab.driver
    driver.cuInit(0)
    if driver.cuDevicePrimaryCtxGetState(0)[2]:  # else the cell has not touched the device
        cudalab.cp.cuda.runtime.deviceSynchronize()


def _order_from_parent(replies: int, orders: int) -> None:
    """Have the parent's compilers do what is to be compiled: they are warm, and processes of this one's own would end
    with the cell. A process that is forked off starts its own, for the pipes are this one's."""
    from cudalab.sim.compiler.processes import codec, helper
    from cudalab.sim.compiler.processes.messages import Limits, Order, Reply, Request

    heard, said = os.fdopen(replies, "rb"), os.fdopen(orders, "wb", buffering=0)
    one = threading.Lock()

    def ask(request: Request, bounds: Limits) -> Reply:
        with one:
            codec.write(said, Order(request, bounds))
            message = codec.read(heard)
        if message is None:
            os._exit(1)  # the parent is gone
        return codec.decode(Reply, message)  # type: ignore[arg-type]  # a union is no `type` to mypy

    helper.hand_over(ask)
    os.register_at_fork(after_in_child=lambda: helper.hand_over(None))


def main(kind: str, *pipes: str) -> int:
    """Serve one request; returns the exit code of the process."""
    import numpy as np

    import cudalab
    from cudalab import backend
    from cudalab.sim.compiler.processes import helper

    if pipes:
        _order_from_parent(*map(int, pipes))
    else:
        helper.keep_to_one()
    _import_ahead(kind)
    line = sys.stdin.readline()
    if not line:  # the notebook ended without using this child
        return 0
    request = json.loads(line)
    # The parent stops this process when the time is up; this is for the case that the parent is gone by then.
    watch = threading.Timer(request["time_limit"] + 5, os._exit, (124,))
    watch.daemon = True
    watch.start()
    os.environ[backend.VARIABLE] = request["device"]
    os.chdir(request["folder"])
    try:
        names: dict[str, Any] = {"__name__": "__main__", "np": np, "cudalab": cudalab}
        names.update({name: getattr(cudalab, name) for name in NAMES})
        names.update(pickle.loads(base64.b64decode(request["values"])))
        execute(request["code"], names)
        _wait_for_device()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:
        Path(request["answer"]).write_text(json.dumps({"error": describe(error)}), encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    # Without the interpreter's own clean-up: after a sticky error CuPy's would only complain about it again.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
