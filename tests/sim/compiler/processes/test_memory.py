"""What a compiler's process has mapped."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MEASURE = """
import json
from pathlib import Path
from cudalab.sim.compiler.frontend import headers
from cudalab.sim.compiler.processes.messages import Compile, Compiled, Limits, Native, ObjectCode, Order
from cudalab.sim.compiler.processes.worker import Worker

def mapped():
    "Megabytes of each compiler's library."
    found, library = {"nvrtc": 0, "llvm": 0}, None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line[0].isupper():
            name = line.rpartition("/")[2]
            library = "nvrtc" if name.startswith("libnvrtc.") else "llvm" if name.startswith("libllvm") else None
        elif library and line.startswith("Rss:"):
            found[library] += int(line.split()[1]) / 1000
    return found

worker, seen = Worker(str(headers.nvrtc_library() or ""), []), []
for number in range(2):
    source = f'extern "C" __global__ void k{number}(float* x) {{ x[threadIdx.x] += 1.0f; }}'
    reply = worker.answer(Order(Compile(source, "k.cu", ["--gpu-architecture=sm_90"]), Limits(memory=0)))
    assert isinstance(reply, Compiled), reply
    seen.append(["nvrtc", mapped()])
    assert isinstance(worker.answer(Order(Native(reply.program.ptx, "plain"), Limits(memory=0))), ObjectCode)
    seen.append(["llvm", mapped()])
print(json.dumps(seen))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone lets go of them")
def test_a_process_has_the_pages_of_one_compiler_at_a_time() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, timeout=100)
    assert not done.stderr
    for used, mapped in json.loads(done.stdout):
        (other,) = mapped.keys() - {used}
        assert mapped[used] > 20 > 10 > mapped[other], (used, mapped)
