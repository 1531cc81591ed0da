"""Each mistake of ``mistakes.py``, one after another in one live notebook kernel.

Each gives the right exception with the right CUDA error, names the line to blame, explains itself, and leaves a kernel
that computes right after ``cudalab.reset()``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests import slices

from .mistake import Mistake
from .mistakes import MISTAKES
from .notebook import Notebook, Reply

KINDS = {
    "out_of_bounds", "use_after_free", "misaligned", "host_pointer", "null_pointer", "endless_loop", "barrier",
    "block_of_2048", "shared_memory", "arguments", "assert", "syntax_error", "unknown_header", "compile_bomb",
    "terabyte",
}  # fmt: skip
FEWEST_FORMS = 5

# Shorter limits than a learner's, so that what has to be stopped is stopped soon.
SETUP = """
import os, sys
import numpy as np
import cudalab
from cudalab import cp, cudart, driver, backend
from cudalab.sim.compiler import set_limits
set_limits(seconds=4.0, memory=1536 << 20)
backend.simulated_device().settings.time_limit = 0.5

def kernel(name="k", **options):
    return cp.RawKernel(source, name, **options)

def instance(expression, **options):
    return cp.RawModule(code=source, name_expressions=(expression,), **options).get_function(expression)

def healthy():
    add = cp.RawKernel('''extern "C" __global__ void add(const int* x, int* total) {
        __shared__ int part;
        if (threadIdx.x == 0) part = 0;
        __syncthreads();
        atomicAdd(&part, x[blockIdx.x * blockDim.x + threadIdx.x]);
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(total, part);
    }''', "add")
    x, total = cp.arange(1000, dtype=cp.int32), cp.zeros(1, cp.int32)
    add((10,), (100,), (x, total))
    return [int(total[0]), float(cp.sqrt(cp.asarray([16.0]))[0]), int(cudart.cudaGetLastError()[0]), os.getpid()]
"""
STATE = "[getattr(sys.last_value, 'status', None), getattr(sys.last_value, '__notes__', [])]"


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    reply = notebook.run(SETUP)
    assert not reply.error, reply.traceback
    yield notebook
    notebook.close()


@pytest.fixture(scope="module")
def process(notebook: Notebook) -> int:
    """The process of the kernel; a kernel that died and was started again has another."""
    return int(notebook.ask("os.getpid()"))


def test_every_kind_of_mistake_is_there_in_several_forms() -> None:
    forms = {kind: [m for m in MISTAKES.values() if m.kind == kind] for kind in KINDS}
    assert {m.kind for m in MISTAKES.values()} == KINDS
    assert min(len(rows) for rows in forms.values()) >= FEWEST_FORMS


@pytest.mark.parametrize("name", slices.cases(MISTAKES, kind=lambda name: MISTAKES[name].kind))
def test_mistake_is_reported_and_survived(name: str, notebook: Notebook, process: int) -> None:
    mistake = MISTAKES[name]
    reply = notebook.run(f"returned = None\nsource = {mistake.source!r}\n{mistake.launch}", timeout=40)
    wrong = _complaints(mistake, reply, notebook)
    reset = notebook.run("cudalab.reset()")
    if reset.error:
        wrong.append(f"cudalab.reset() raised {reset.error}: {reset.value}")
    state = notebook.ask("healthy()")
    if state != [499500, 4.0, 0, process]:
        wrong.append(f"afterwards the kernel computes {state}")
    assert not wrong, "\n".join([*wrong, "", "what the learner reads:", reply.traceback or reply.text])


def _complaints(mistake: Mistake, reply: Reply, notebook: Notebook) -> list[str]:
    if not mistake.error:
        returned = None if reply.error else notebook.ask("int(returned)")
        return [] if returned == mistake.code else [f"returned {returned}, {reply.error}; expected {mistake.code}"]
    if reply.error != mistake.error:
        return [f"raised {reply.error or 'nothing'} ({reply.value[:200]}), expected {mistake.error}"]
    status, notes = notebook.ask(STATE)
    wrong = [] if status == mistake.code else [f"the code is {status}, expected {mistake.code}"]
    if mistake.text and mistake.text not in reply.value:
        wrong.append(f"{mistake.text!r} is not in the message {reply.value[:300]!r}")
    # what CUDA says stands in the message, and what the simulated device knows in the notes
    explanation = "\n".join([*notes, reply.value])
    if mistake.line:
        found = blamed_lines(explanation)
        if found[:1] != [mistake.line]:
            wrong.append(f"blames line {found[:1] or 'none'}, expected {mistake.line}: {mistake.line_text}")
        if mistake.line_text not in explanation:
            wrong.append(f"does not quote the line {mistake.line_text!r}")
    for word in mistake.words:
        if word.casefold() not in explanation.casefold():
            wrong.append(f"does not say {word!r}")
    wrong += [f"the learner cannot read the note {note[:80]!r}" for note in notes if not _shown(note, reply.traceback)]
    return wrong


def blamed_lines(text: str) -> list[int]:
    """The lines of the learner's source that a text names, in its order: ``kernel.cu:7``, ``kernel.cu(7)``."""
    return [int(a or b) for a, b in re.findall(r"(?:^|[\s\"(])[\w.]+\.cu(?::(\d+)|\((\d+)\))", text, re.MULTILINE)]


def _shown(note: str, traceback: str) -> bool:
    """Is the note to be read, or each diagnosis of it as the compiler's log has it, the line blamed, and its advice?"""
    lines, plain = [line.strip() for line in note.splitlines()], traceback.replace("catastrophic error", "error")
    logged = [
        f"{file}({line}): {kind}: {text}"
        for file, line, kind, text in re.findall(r"^(\S+?):(\d+)(?::\d+)?: (error|warning): (.*)$", note, re.MULTILINE)
    ]
    wanted = [*logged, *re.findall(r"^ *\d+ \| (.*)$", note, re.MULTILINE)[:1]]
    wanted += [line for line in lines if line.startswith("Try: ")]
    return all(line in plain for line in lines) or bool(logged) and all(line.strip() in plain for line in wanted)


@pytest.mark.parametrize(
    ("name", "launch"),
    [
        ("loop", "kernel()((1,), (32,), (cp.zeros(1, cp.int32),)); cp.cuda.Device().synchronize()"),
        ("copy", "x = cp.zeros(1, cp.int32); kernel()((1,), (32,), (x,)); print(x.get())"),
    ],
)
def test_stop_button_ends_an_endless_loop(name: str, launch: str, notebook: Notebook, process: int) -> None:
    source = 'extern "C" __global__ void k(volatile int* x) { while (true) *x = *x + 1; }'
    notebook.run("backend.simulated_device().settings.time_limit = 30.0")
    reply = notebook.run(f"source = {source!r}\n{launch}", timeout=20, interrupt_after=1.0)
    notebook.run("cudalab.reset(); backend.simulated_device().settings.time_limit = 0.5")
    assert reply.error == "KeyboardInterrupt", reply.traceback or reply.text
    assert notebook.ask("healthy()") == [499500, 4.0, 0, process]


def test_stop_button_ends_a_compilation(notebook: Notebook, process: int) -> None:
    bomb = MISTAKES["compile_bomb/templates"]
    notebook.run("set_limits(seconds=30.0)")
    reply = notebook.run(f"source = {bomb.source!r}\n{bomb.launch}", timeout=20, interrupt_after=1.0)
    notebook.run("set_limits(seconds=4.0)")
    assert reply.error == "KeyboardInterrupt", reply.traceback or reply.text
    assert notebook.ask("healthy()") == [499500, 4.0, 0, process]


def test_error_stays_until_reset(notebook: Notebook, process: int) -> None:
    source = 'extern "C" __global__ void k(int* x) { *x = 1; }'
    reply = notebook.run(f"source = {source!r}\nkernel()((1,), (1,), (0,))\ncp.cuda.Device().synchronize()")
    assert reply.error == "CUDARuntimeError"
    again = notebook.run("cp.zeros(4).get()")
    assert (again.error, "cudaErrorIllegalAddress" in again.value) == ("CUDARuntimeError", True)
    assert "cudalab.reset()" in again.traceback
    notebook.run("cudalab.reset()")
    assert notebook.ask("healthy()") == [499500, 4.0, 0, process]
