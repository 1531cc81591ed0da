"""Who waits for the compiler is told, and only who waits."""

import contextlib
import threading
import uuid

import pytest

from cudalab.sim.compiler import translation, waiting


@pytest.fixture
def told(monkeypatch):
    """What a listener hears, with ``told.ended`` for its end."""
    heard, ended = [], threading.Event()

    def listener(text, seconds):
        heard.append(text)
        if not text:
            ended.set()

    waiting.listen(listener)
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    monkeypatch.setattr(waiting, "_EVERY", 0.01)
    yield type("Told", (), {"heard": heard, "ended": ended})()
    waiting.listen(None)


def test_long_step_is_reported_until_it_ends(told):
    with waiting.step("work"):
        while len(told.heard) < 2:
            threading.Event().wait(0.01)
    assert told.ended.wait(30)
    assert set(told.heard[:-1]) == {"work"} and told.heard[-1] == ""


def test_short_step_is_not_reported(told, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 3600)
    with waiting.step("work"):
        pass
    assert told.heard == []


def test_compiling_and_making_code_are_steps(monkeypatch):
    steps = []
    monkeypatch.setattr(waiting, "step", lambda text: steps.append(text) or contextlib.nullcontext())
    kernel = f"never_compiled_before_{uuid.uuid4().hex}"
    program = translation.compile(f"#include <cassert>\n__global__ void {kernel}() {{}}")
    translation.native(program, "plain")
    assert [step.split(" is ")[0] for step in steps] == ["NVRTC", "LLVM"]
    assert steps[0] == "NVRTC is compiling, with <cassert>"
    assert waiting.reading("__global__ void f() {}") == "NVRTC is compiling"
