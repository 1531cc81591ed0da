"""Programmatic dependent launch: when the second kernel may start, what it sees before and after its wait.

Whether two kernels overlap is shown without a clock: the first spins until the second has set a flag, for some 20 ms at
most. It sees the flag only when the second runs beside it.
"""

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import attribute, launched, streams
from ..program import code, program

PAIR = r"""
#define TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
__device__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
// trigger: 0 never, 1 all blocks, 2 all but block 0, 3 twice, 4 after the wait for the flag.
// It stores to data a millisecond after it has seen the flag.
extern "C" __global__ void first(volatile int* flag, volatile int* seen, volatile int* data,
                                 long long most, int trigger) {
    if (trigger == 1 || trigger == 3 || (trigger == 2 && blockIdx.x > 0)) TRIGGER();
    if (trigger == 3) TRIGGER();
    int got = 0;
    long long start = clock64();
    while (clock64() - start < most) {
        if (*flag) { got = 1; break; }
    }
    if (trigger == 4) TRIGGER();
    if (got) spin(2000000);
    seen[blockIdx.x] = got;
    data[blockIdx.x] = 7;
    __threadfence();
}
// found: what data[0] was at the start, and behind the wait, if there is one
extern "C" __global__ void second(volatile int* flag, volatile int* data, volatile int* found, int waits) {
    found[0] = data[0];
    __threadfence();
    *flag = 1;
    if (waits) WAIT();
    found[1] = data[0];
}
extern "C" __global__ void third(volatile int* data, volatile int* found) { found[2] = data[0]; }
"""
CYCLES = 40_000_000


def kernels():
    made = [cp.RawKernel(PAIR, name) for name in ("first", "second", "third")]
    for kernel in made:
        kernel.compile()
    return made


def serial(allowed=1):
    return [attribute("PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=allowed)]


def pair(trigger, attributes, *, waits=1, blocks=1, between=None, cycles=CYCLES, stream=None, leading=()):
    """Launches the two and a third one behind: whether the first saw the flag, and what the others found."""
    first, second, third = kernels()
    flag, seen, data, found = (cp.zeros(max(blocks, 4), cp.int32) for _ in range(4))
    found.fill(-1)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (own,):
        queue = own if stream is None else stream
        codes = [
            launched(
                first, list(leading), flag.data.ptr, seen.data.ptr, data.data.ptr, cycles, np.int32(trigger),
                stream=queue, grid=blocks,
            )
        ]  # fmt: skip
        if between is not None:
            between(queue)
        codes.append(
            launched(second, attributes, flag.data.ptr, data.data.ptr, found.data.ptr, np.int32(waits), stream=queue)
        )
        codes.append(launched(third, [], data.data.ptr, found.data.ptr, stream=queue))
        codes.append(code(cudart.cudaDeviceSynchronize()))
    return {
        "codes": codes,
        "overlap": bool(seen[:blocks].all()),
        "before, after, third": [int(value) for value in found.get()[:3]],
    }


@program("the same pair without the attribute: the second starts when the first has ended")
def without_attribute():
    return pair(1, [])


@program("the attribute set to 0 is none")
def attribute_of_zero():
    return pair(1, serial(0))


@program("a kernel that never triggers does so by ending")
def no_trigger():
    return pair(0, serial())


@program("one block that does not trigger holds the second kernel back")
def one_block_holds_back():
    return pair(2, serial(), blocks=3)


@program("a trigger that comes behind the wait for the second kernel comes too late")
def late_trigger():
    return pair(4, serial())


@program("a memset between the two: the second waits for it")
def memset_between():
    other = cp.zeros(4, cp.int32)
    return pair(1, serial(), between=lambda queue: cudart.cudaMemsetAsync(other.data.ptr, 0, 4, queue))


@program("the first kernel of a stream with the attribute, and a wait in a kernel without one")
def nothing_before():
    _, second, _ = kernels()
    flag, data, found = (cp.zeros(4, cp.int32) for _ in range(3))
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        answers = [
            launched(second, wanted, flag.data.ptr, data.data.ptr, found.data.ptr, np.int32(1), stream=stream)
            for wanted in (serial(), [], serial())
        ]
        answers.append(code(cudart.cudaDeviceSynchronize()))
    return {"codes": answers, "flag": int(flag[0])}


CHAIN = r"""
extern "C" __global__ void link(volatile int* values, int index, int waits) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (waits) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (threadIdx.x == 0) values[index] = index ? values[index - 1] + 1 : 1;
}"""


@program(
    "a chain of sixteen programmatic launches, each waiting for the one before it: every sum is right",
    expect=lambda v: {"values": np.arange(1, 17, dtype=np.int32)},
)
def long_chain():
    link = cp.RawKernel(CHAIN, "link")
    link.compile()
    values = cp.zeros(16, cp.int32)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        answers = {
            launched(link, serial(), values.data.ptr, np.int32(i), np.int32(1), stream=stream, block=64)
            for i in range(16)
        }
        cudart.cudaDeviceSynchronize()
    return {"codes": sorted(answers), "values": values.get()}


def second_stream(wanted, trigger, *, waits=0, blocks=1):
    """A kernel in one stream with an event of its launch, and one behind that event in another stream."""
    first, second, _ = kernels()
    flag, seen, data, found = (cp.zeros(4, cp.int32) for _ in range(4))
    found.fill(-1)
    cudart.cudaDeviceSynchronize()
    with streams(1, 1) as (one, other):
        event = driver.cuEventCreate(2)[1]
        codes = [
            launched(
                first, [wanted(event)], flag.data.ptr, seen.data.ptr, data.data.ptr, CYCLES, np.int32(trigger),
                stream=one, grid=blocks,
            ),
            code(driver.cuStreamWaitEvent(driver.CUstream(other), event, 0)),
            launched(second, [], flag.data.ptr, data.data.ptr, found.data.ptr, np.int32(waits), stream=other),
            code(cudart.cudaDeviceSynchronize()),
        ]  # fmt: skip
        driver.cuEventDestroy(event)
    return {"codes": codes, "overlap": bool(seen[:blocks].all()), "before, after": [int(v) for v in found.get()[:2]]}


def _programmatic(at_start):
    return lambda event: attribute(
        "PROGRAMMATIC_EVENT", programmaticEvent__event=event, programmaticEvent__triggerAtBlockStart=at_start
    )


@program("another stream waits for a programmatic event: it goes on when all blocks have triggered")
def programmatic_event():
    return {
        "triggers": second_stream(_programmatic(0), 1),
        "never triggers": second_stream(_programmatic(0), 0),
        "waits": second_stream(_programmatic(0), 1, waits=1),
    }


@program("another stream waits for a programmatic event that comes with the start of the blocks")
def programmatic_event_at_start():
    return {"triggers": second_stream(_programmatic(1), 1), "never triggers": second_stream(_programmatic(1), 0)}


@program("the host waits for the event of a launch that triggers")
def host_waits_for_programmatic_event():
    first, _, _ = kernels()
    flag, seen, data = (cp.zeros(4, cp.int32) for _ in range(3))
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        event = driver.cuEventCreate(2)[1]
        answer = launched(
            first, [_programmatic(0)(event)], flag.data.ptr, seen.data.ptr, data.data.ptr, CYCLES, np.int32(1),
            stream=stream,
        )  # fmt: skip
        waited = code(driver.cuEventSynchronize(event))
        cudart.cudaDeviceSynchronize()
    return {"codes": [answer, waited], "seen": int(seen[0])}
