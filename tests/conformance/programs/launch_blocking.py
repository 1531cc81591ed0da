"""``CUDA_LAUNCH_BLOCKING``: each launch waits for its kernel. The variable is read when a process starts."""

import os
import subprocess
import sys

from ..program import program

PREPARE = r"""
import os
from cudalab import cp, cudart
import numpy as np
code = r'''
extern "C" __global__ void spin(long long cycles, int* out) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
    if (out) *out = 5;
}'''
kernel = cp.RawKernel(code, "spin")
out = cp.zeros(1, cp.int32)
kernel((1,), (1,), (np.int64(1), out))
stream = cp.cuda.Stream(non_blocking=True)
cp.cuda.Device().synchronize()
def spin():
    with stream:
        kernel((1,), (1,), (np.int64(100_000_000), out))
"""
LAUNCH = """
spin()
print(stream.done)
event = stream.record()
print(event.done)
stream.synchronize()
print(int(out[0]))
"""
FUNCTIONS = """
calls = []
spin()
stream.launch_host_func(calls.append, "called")
print(stream.done, calls)
stream.synchronize()
print(stream.done, calls)
"""
FAULT = r"""
bad = cp.RawKernel('extern "C" __global__ void bad(int* p) { *(int*)(((unsigned long long)p & 0) + 64) = 1; }', "bad")
bad.compile()
try:
    bad((1,), (1,), (out,))
    print("launched")
except Exception as error:
    print("launch", type(error).__name__, getattr(error, "status", None))
try:
    cp.cuda.Device().synchronize()
    print("synchronised")
except Exception as error:
    print("synchronise", type(error).__name__, getattr(error, "status", None))
os._exit(0)
"""


def run_child(body, switch):
    """What a new process prints in which the variable has that value."""
    environment = dict(os.environ, CUDA_LAUNCH_BLOCKING=switch, PYTHONUNBUFFERED="1")
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PREPARE + body],
        capture_output=True,
        text=True,
        env=environment,
        timeout=90,
        check=False,
    )
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else [done.stderr[-600:]]


@program("a launch returns when its kernel has ended", timeout=120)
def launches():
    return {"on": run_child(LAUNCH, "1"), "off": run_child(LAUNCH, "0")}


@program("host functions still come later, or not", timeout=120)
def host_functions():
    return {"on": run_child(FUNCTIONS, "1"), "off": run_child(FUNCTIONS, "0")[-1:]}


@program("a fault comes up at the launch that caused it", timeout=120)
def faults():
    return {"on": run_child(FAULT, "1"), "off": run_child(FAULT, "0")}
