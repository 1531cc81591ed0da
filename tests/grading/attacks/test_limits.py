"""A process of a question that dies, hangs, takes all memory or talks without end costs that question only."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.checks.answers.answer import ROOT

# What a question's process does in the place of grading. Run in a process of its own, as the template is.
_SCRIPT = """
import json, os, signal, subprocess, sys, time
from cudalab.grading import question, template
from cudalab.grading.bank import Bank
from cudalab.grading.limits import Limits
from cudalab.grading.messages import Question, Refused, Wanted
from cudalab.sim.compiler.processes import messages
from cudalab.sim.compiler.processes.messages import MakeFaultHandler, Order
from cudalab.sim.compiler.processes import codec

def flood(said):
    while True:
        said.write(b"x" * 65536)

def lie(said):
    said.write(codec.frame({"type": "ResultRecord", "exercise": "04.1", "points": 1000}))
    said.flush()

def claim(said):
    said.write((1 << 29).to_bytes(8, "little"))
    said.flush()
    time.sleep(600)

def hog(said):
    kept = []
    while True:
        kept.append(b"x" * (16 << 20))

def leave_one_behind(said):
    subprocess.Popen(["sleep", "876"])
    time.sleep(600)

def spin(said):
    while True:
        pass

def order_and_end(said):
    order = Order(MakeFaultHandler(), messages.Limits(seconds=10.0, memory=0, ptx=0))
    said.write(codec.frame(Wanted(order)) + codec.frame(Refused("done")))
    said.flush()
    os._exit(0)

ACTS = {
    "an order that it does not wait for": order_and_end,
    "exit": lambda said: os._exit(0),
    "segmentation fault": lambda said: os.kill(os.getpid(), signal.SIGSEGV),
    "sleep": lambda said: time.sleep(600),
    "processor time": spin,
    "memory": hog,
    "output": flood,
    "a lie": lie,
    "a claim": claim,
    "a child": leave_one_behind,
}
bounded = question._bound
found = {}
for name, act in ACTS.items():
    def run(asked, exercise, said, heard, act=act):
        bounded(asked.limits, writes=False)
        act(said)
        os._exit(1)

    question.run = run
    limits = Limits(seconds=30 if name == "processor time" else 3, cpu_seconds=1, memory=600 << 20, output=1 << 20)
    outcome = template.ask(Question("04.1", "", 1, limits), Bank())
    found[name] = (getattr(outcome, "kind", type(outcome).__name__), outcome.text)
left = subprocess.run(["pgrep", "-fx", "sleep 876"], capture_output=True, text=True).stdout
print(json.dumps({"found": found, "left": left}))
os._exit(0)
"""


def test_each_is_ended_and_told() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE  # the end of its input would say that the grader is gone
    with subprocess.Popen([sys.executable, "-c", _SCRIPT], stdin=pipe, stdout=pipe, text=True, env=environment) as made:
        assert made.stdout is not None
        told = json.loads(made.stdout.read())
    kinds = {name: kind for name, (kind, _) in told["found"].items()}
    assert kinds == {
        "an order that it does not wait for": "Refused",
        "exit": "crash",
        "segmentation fault": "crash",
        "sleep": "time",
        "processor time": "time",
        "memory": "memory",
        "output": "output",
        "a lie": "crash",
        "a claim": "time",
        "a child": "time",
    }, told
    assert "SIGSEGV" in told["found"]["segmentation fault"][1] and not told["left"]
