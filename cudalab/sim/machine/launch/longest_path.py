"""Kernels without loops: how many instructions one of their threads can execute at most.

A launch runs on a thread of its own, so that an interrupt or the time limit can stop it (worker.py). The hand-over
takes longer than a small kernel does. Where a kernel has no way to go back, neither by a branch nor by a call nor by
waiting for another thread's store, its length bounds its time, and a small launch of it can run where it is called.
"""

from __future__ import annotations

import re

from cudalab.sim.compiler.program import Kernel, Program

_LABEL = re.compile(r"([$%\w]+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+([$%\w]+)")
_MAY_WAIT = re.compile(r"\b(call|brx|mbarrier|nanosleep|griddepcontrol|barrier\.cluster|cp\.async|vprintf)\b")


def longest_path(program: Program, kernel: Kernel) -> int:
    """PTX instructions that a thread executes at most; 0 when nothing bounds them, or the text leaves a doubt."""
    found = re.search(rf"\.entry\s+{re.escape(kernel.name)}\s*[(\n{{]", program.ptx)
    if found is None:
        return 0
    end = program.ptx.find("\n}", found.end())
    if end < 0:
        return 0
    body = program.ptx[found.end() : end]
    if _MAY_WAIT.search(body):
        return 0
    labels = {match[1]: match.start() for match in _LABEL.finditer(body)}
    for branch in _BRANCH.finditer(body):
        if labels.get(branch[1], -1) < branch.start():
            return 0
    return max(1, body.count(";"))
