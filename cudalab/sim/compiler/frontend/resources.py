"""Resource usage of kernels as reported by ptxas: registers, shared and local memory, spills, barriers.

On hardware these numbers decide how many blocks fit on one multiprocessor (CUDA programming guide,
"Hardware multithreading"). NVRTC contains the real ptxas, so they are the real ones for ``sm_90``;
code that runs on the simulated device is compiled separately and does not use them.
"""

from __future__ import annotations

import re

from cudalab.sim.compiler.program import Resources

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '([^']+)' for '")
_PROPERTIES = re.compile(r"ptxas info\s*: Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (\d+) registers(.*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")
_CUMULATIVE = re.compile(r"(\d+) bytes (?:cumulative stack size|lmem)")
_NOISE = re.compile(r"ptxas info\s*: (?:Compile time = |0 bytes gmem$)")


def parse_resources(log: str) -> dict[str, Resources]:
    """Resources of each kernel, by its name in the PTX, from a log of ``--ptxas-options=-v``.

    ``local`` is the stack of the kernel with all functions it calls, in bytes a thread.
    """
    found: dict[str, Resources] = {}
    entry = ""
    frame = stores = loads = 0
    own = False  # the properties that follow belong to the entry, not to a function it calls
    for line in log.splitlines():
        if match := _ENTRY.match(line):
            entry, frame, stores, loads, own = match[1], 0, 0, 0, False
        elif match := _PROPERTIES.match(line):
            own = match[1] == entry
        elif match := _STACK.search(line):
            if own:
                frame, stores, loads = (int(number) for number in match.groups())
        elif (match := _USED.match(line)) and entry:
            rest = match[2]
            cumulative = _CUMULATIVE.search(rest)
            found[entry] = Resources(
                registers=int(match[1]),
                shared=_first(_SHARED, rest),
                local=max(frame, int(cumulative[1]) if cumulative else 0),
                spill_stores=stores,
                spill_loads=loads,
                barriers=_first(_BARRIERS, rest),
                constant=sum(int(number) for number in _CONSTANT.findall(rest)),
            )
            entry = ""
    return found


def _first(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match else 0


def clean_log(log: str, hidden: str) -> str:
    """``log`` without lines of no use to a learner: compile times, and ptxas's messages on the entry functions whose
    name contains ``hidden`` (cudalab's own)."""
    kept = []
    skipping = False
    for line in log.splitlines():
        if match := _ENTRY.match(line):
            skipping = hidden in match[1]
        elif not line.startswith("ptxas"):
            skipping = False
        if not (skipping or _NOISE.match(line)):
            kept.append(line.rstrip())
    return "\n".join(kept).strip()
