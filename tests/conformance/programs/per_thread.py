"""The per-thread default stream, and the switches that make it the default one."""

import os
import subprocess
import sys
import threading

from cudalab import cp, cudart

from ..busy import event_state, events, spin, state, streams, warm
from ..program import code, program

PER_THREAD = 2


def in_thread(function):
    """Calls in another host thread and returns what it returned."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0] if found else None


@program("the null stream waits for the per-thread default stream, and it for the null stream")
def is_blocking():
    warm()
    result = {}
    for name, first, second in (("null after", PER_THREAD, 0), ("per thread after", 0, PER_THREAD)):
        with events(1) as (event,):
            spin(first)
            cudart.cudaEventRecord(event, second)
            before = event_state(event)
            cudart.cudaEventSynchronize(event)
            result[name] = [before, state(first)]
    return result


@program("the per-thread default stream of one host thread does not wait for another's")
def one_for_each_thread():
    warm()

    spin(PER_THREAD, cycles=400_000_000)
    found = []
    with events(1) as (event,):

        def ask():
            found.append(state(PER_THREAD))
            cudart.cudaEventRecord(event, PER_THREAD)
            cudart.cudaEventSynchronize(event)
            found.append(event_state(event))

        in_thread(ask)
        mine = state(PER_THREAD)
    return {"other": found, "mine": mine}


@program("other blocking streams do not wait for the per-thread default stream")
def independent():
    warm()
    with streams(0) as (stream,), events(1) as (event,):
        spin(PER_THREAD)
        cudart.cudaEventRecord(event, stream)
        cudart.cudaEventSynchronize(event)
        return {"event": event_state(event), "per thread": state(PER_THREAD)}


@program("what getters say of the default streams")
def getters():
    ids = [int(cudart.cudaStreamGetId(handle)[1]) for handle in (0, 1, PER_THREAD)]
    return {
        "flags": [[code(a), int(a[1])] for a in map(cudart.cudaStreamGetFlags, (0, 1, PER_THREAD))],
        "priorities": [[code(a), int(a[1])] for a in map(cudart.cudaStreamGetPriority, (0, 1, PER_THREAD))],
        "devices": [[code(a), int(a[1])] for a in map(cudart.cudaStreamGetDevice, (0, 1, PER_THREAD))],
        "same ids": [ids[0] == ids[1], ids[0] == ids[2]],
        "another thread's id": in_thread(lambda: int(cudart.cudaStreamGetId(PER_THREAD)[1])) == ids[2],
        "this thread's again": int(cudart.cudaStreamGetId(PER_THREAD)[1]) == ids[2],
    }


@program("default streams cannot be destroyed", isolated=True)
def cannot_be_destroyed():
    return {str(handle): code(cudart.cudaStreamDestroy(handle)) for handle in (0, 1, PER_THREAD)}


@program("CuPy's Stream.ptds: handle, flags, work and waiting")
def of_cupy():
    warm()
    stream = cp.cuda.Stream.ptds
    spin(stream)
    busy = [stream.done, cp.cuda.Stream.null.done]
    stream.synchronize()
    with stream:
        current = cp.cuda.get_current_stream().ptr
    return {
        "busy": busy,
        "after": stream.done,
        "ptr": stream.ptr,
        "equal": [cp.cuda.Stream(ptds=True) == stream, stream == cp.cuda.Stream.null],
        "non-blocking": stream.is_non_blocking,
        "priority": stream.priority,
        "current": current,
    }


@program("the current stream of CuPy belongs to the host thread")
def current_of_thread():
    stream = cp.cuda.Stream()
    with stream:
        inside = in_thread(lambda: cp.cuda.get_current_stream().ptr)
        here = cp.cuda.get_current_stream() == stream

    def use():
        stream.use()
        return cp.cuda.get_current_stream() == stream

    return {
        "another thread": inside,
        "here": here,
        "use in another": in_thread(use),
        "afterwards here": cp.cuda.get_current_stream() == cp.cuda.Stream.null,
    }


CHILD = r"""
import os
from cudalab import cp, cudart, driver
{body}
"""


def run_child(body, **environment):
    """What a new process prints that has these variables set."""
    found = dict(os.environ, **environment)
    found["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD.format(body=body)],
        capture_output=True,
        text=True,
        env=found,
        timeout=90,
    )
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else [done.stderr[-600:]]


@program("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM makes the per-thread stream CuPy's default", timeout=120)
def switch_of_cupy():
    body = """
print(cp.cuda.get_current_stream().ptr, cp.cuda.Stream.null.ptr, cp.cuda.Stream.ptds.ptr)
print(cp.cuda.get_current_stream() == cp.cuda.Stream.ptds)
with cp.cuda.Stream.null:
    print(cp.cuda.get_current_stream().ptr)
print(cp.cuda.get_current_stream().ptr, int((cp.arange(5) * 2).sum()))
"""
    return {
        "on": run_child(body, CUPY_CUDA_PER_THREAD_DEFAULT_STREAM="1"),
        "off": run_child(body, CUPY_CUDA_PER_THREAD_DEFAULT_STREAM="0"),
    }


@program("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM makes handle 0 of the bindings the per-thread stream", timeout=120)
def switch_of_the_bindings():
    body = """
ids = [int(cudart.cudaStreamGetId(handle)[1]) for handle in (0, 1, 2)]
print(ids[0] == ids[2], ids[0] == ids[1])
print(int(driver.cuStreamGetId(0)[1]) == int(driver.cuStreamGetId(2)[1]))
print(cudart.cudaStreamGetFlags(0)[1], cudart.cudaStreamQuery(0)[0].name)
"""
    return {
        "on": run_child(body, CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM="1"),
        "off": run_child(body, CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM="0"),
    }
