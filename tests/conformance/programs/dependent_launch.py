"""Programmatic dependent launch: what counts as a trigger, what the second kernel sees, room on the SMs, events.

Whether two kernels overlap is shown without a clock: the first spins until the second has set a flag, for some 20 ms at
most. It sees the flag only when the second runs beside it.
"""

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import attribute, event_state, launched, pinned_memory, state, streams
from ..program import code, program

SOURCE = r"""
#define TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
__device__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
__device__ int watch(volatile int* flag, long long most) {
    long long start = clock64();
    while (clock64() - start < most) if (*flag) return 1;
    return 0;
}
// how: 0 nobody triggers, 1 every thread, 2 thread 0 of each block, 3 the last warp of each block,
// 4 odd blocks trigger and even ones end, 5 half of the threads exit, the others trigger, 6 behind a barrier
// Block 0 (block 1 where even ones end) then watches the flag, and a millisecond later stores its data.
extern "C" __global__ void first(volatile int* flag, volatile int* seen, int* data, long long most, int how) {
    if (how == 4 && blockIdx.x % 2 == 0) return;
    if (how == 5 && threadIdx.x >= blockDim.x / 2) return;
    if (how == 6) __syncthreads();
    if (how == 1 || how == 4 || how == 5 || how == 6) TRIGGER();
    if (how == 2 && threadIdx.x == 0) TRIGGER();
    if (how == 3 && threadIdx.x / 32 == blockDim.x / 32 - 1) TRIGGER();
    if (blockIdx.x != (how == 4 ? 1 : 0) || threadIdx.x) return;
    int got = watch(flag, most);
    if (got) spin(2000000);
    *seen = got;
    for (int i = 0; i < 4; i++) data[i] = 7 + i;
}
extern "C" __global__ void second(volatile int* flag, const int* data, int* found, int waits) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        found[0] = *(volatile const int*)data;
        __threadfence();
        *flag = 1;
    }
    if (waits == 1 || (waits == 2 && threadIdx.x == 0)) WAIT();
    if (waits == 3) { WAIT(); WAIT(); }
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1 && blockIdx.x == 0) found[1] = *(volatile const int*)(data + 1) - 1;
}
extern "C" __global__ void fill(int* data, int n, int factor, int waits, int triggers) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (triggers) TRIGGER();
    if (waits) WAIT();
    if (i < n) data[i] = factor * data[i] + i;
}
extern "C" __global__ void count(int* total, int* own, int triggers, int waits) {
    if (triggers) TRIGGER();
    atomicAdd(total, 1);
    if (waits) WAIT();
    atomicAdd(total + 1, 1);
    own[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
extern "C" __global__ void room(volatile int* flag, volatile int* seen, int* data, long long most, int how) {
    extern __shared__ int mine[];
    TRIGGER();
    if (threadIdx.x) return;
    mine[0] = 1;
    if (blockIdx.x == gridDim.x - 1) { seen[0] = watch(flag, most); data[0] = data[1] = 7; }
    else spin(2 * most);
}
// Tells the host that it runs, and goes on for most cycles.
extern "C" __global__ void told(volatile int* out, long long most, int triggers) {
    if (triggers) TRIGGER();
    __threadfence_system();
    *out = 1;
    spin(most);
}
extern "C" __global__ void tell(volatile int* out) { *out = 1; __threadfence_system(); }
extern "C" __global__ void relay(volatile int* flag, int triggers) { if (triggers) TRIGGER(); *flag = 1; }
"""
CYCLES = 40_000_000
LONG = 200_000_000
SHARED = 200 * 1024


def kernels(*names):
    made = [cp.RawKernel(SOURCE, name) for name in names]
    for kernel in made:
        kernel.compile()
    return made


def serial(allowed=1):
    return [attribute("PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=allowed)]


def pair(how, *, waits=1, blocks=1, block=64, more=(), cycles=CYCLES, between=None, followers=1):
    """Launches the two: whether the first saw the flag, and what the second found before and after its wait."""
    first, second = kernels("first", "second")
    flag, seen, data, found = (cp.zeros(4, cp.int32) for _ in range(4))
    found.fill(-1)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        codes = [
            launched(
                first, [], flag.data.ptr, seen.data.ptr, data.data.ptr, cycles, np.int32(how),
                stream=stream, grid=blocks, block=block,
            )
        ]  # fmt: skip
        if between is not None:
            between(stream)
        codes.append(
            launched(
                second, [*serial(), *more], flag.data.ptr, data.data.ptr, found.data.ptr, np.int32(waits),
                stream=stream, grid=followers, block=block,
            )
        )  # fmt: skip
        codes.append(code(cudart.cudaDeviceSynchronize()))
    return {"codes": codes, "overlap": bool(seen[0]), "found": [int(value) for value in found.get()[:2]]}


@program("one thread of each block triggers for its block")
def one_thread_triggers():
    return pair(2, blocks=3)


@program("the last warp of each block triggers for its block")
def last_warp_triggers():
    return pair(3, blocks=3, block=96)


@program("blocks that have ended count as those that trigger")
def ended_blocks_count():
    return pair(4, blocks=6)


@program("half of a block's threads exit, the others trigger")
def exited_threads():
    return pair(5, blocks=2)


@program("a trigger behind a barrier")
def trigger_behind_a_barrier():
    return pair(6, blocks=2)


@program("one thread waits and the others meet it at a barrier: all see what the first kernel wrote")
def one_thread_waits():
    return pair(1, waits=2)


@program("a kernel waits twice")
def waits_twice():
    return pair(1, waits=3)


@program("a second kernel without a wait reads what is there while the first one runs")
def no_wait():
    return pair(1, waits=0)


@program("many blocks of the second kernel run beside the first")
def many_followers():
    return pair(1, followers=64)


@program("the second kernel has another priority than its stream")
def with_priority():
    return pair(1, more=[attribute("PRIORITY", priority=-3)])


@program("a copy from the host comes between the two: the second waits for it")
def copy_between():
    other = cp.zeros(4, cp.int32)
    with pinned_memory(16) as (pointer, _):
        return pair(
            1, between=lambda stream: cudart.cudaMemcpyAsync(
                other.data.ptr, pointer, 16, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream
            )
        )  # fmt: skip


@program("a host function comes between the two: the second waits for it")
def host_function_between():
    def nothing(_):
        pass

    return pair(1, between=lambda stream: cp.cuda.ExternalStream(stream).launch_host_func(nothing, None))


@program("the first kernel fills each SM: the second finds no room beside it and starts when blocks have ended")
def no_room():
    return beside(0)


@program("the first kernel leaves one SM free: the second runs there")
def room_on_one_sm():
    return beside(1)


def beside(free):
    """The first kernel takes all but ``free`` SMs by its shared memory, as the second one would."""
    room, second = kernels("room", "second")
    for kernel in (room, second):
        kernel.max_dynamic_shared_size_bytes = SHARED
    sms = cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrMultiProcessorCount, 0)[1]
    flag, seen, data, found = (cp.zeros(4, cp.int32) for _ in range(4))
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        codes = [
            with_shared(room, [], sms - free, stream, flag.data.ptr, seen.data.ptr, data.data.ptr, CYCLES, np.int32(0)),
            with_shared(second, serial(), 1, stream, flag.data.ptr, data.data.ptr, found.data.ptr, np.int32(1)),
            code(cudart.cudaDeviceSynchronize()),
        ]
    return {"codes": codes, "overlap": bool(seen[0]), "after": int(found[1])}


def with_shared(kernel, attributes, grid, stream, *args):
    import ctypes

    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 64, 1, 1
    config.sharedMemBytes, config.hStream = SHARED, driver.CUstream(stream)
    config.attrs, config.numAttrs = list(attributes), len(attributes)
    kinds = tuple(ctypes.c_int if isinstance(value, np.int32) else ctypes.c_longlong for value in args)
    values = tuple(int(value) for value in args)
    return code(driver.cuLaunchKernelEx(config, driver.CUfunction(kernel.kernel.ptr), (values, kinds), 0))


@program(
    "each of eight kernels triggers first and waits before it changes the whole array",
    expect=lambda v: {"data": chained(8)},
)
def array_in_a_chain():
    (fill,) = kernels("fill")
    n, data = 1 << 16, cp.zeros(1 << 16, cp.int32)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        codes = [
            launched(
                fill, serial(), data.data.ptr, np.int32(n), np.int32(3), np.int32(1), np.int32(1),
                stream=stream, grid=n // 256, block=256,
            )
            for _ in range(8)
        ]  # fmt: skip
        codes.append(code(cudart.cudaDeviceSynchronize()))
    return {"codes": sorted(set(codes)), "data": data.get()}


def chained(times):
    found = np.zeros(1 << 16, np.int64)
    for _ in range(times):
        found = 3 * found + np.arange(1 << 16)
    return found.astype(np.int32)


@program(
    "both kernels add to the same counters, one of them before its wait: no addition is lost",
    expect=lambda v: {"total": np.array([20 * 8 * 64, 20 * 8 * 64], np.int32), "own": 20 * 8 * 64},
)
def atomics_of_both():
    (count,) = kernels("count")
    total, own = cp.zeros(2, cp.int32), cp.zeros(20 * 512, cp.int32)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        codes = {
            launched(
                count, serial(), total.data.ptr, own.data.ptr + 4 * 512 * number, np.int32(1), np.int32(number % 2),
                stream=stream, grid=8, block=64,
            )
            for number in range(20)
        }  # fmt: skip
        cudart.cudaDeviceSynchronize()
    return {"codes": sorted(codes), "total": total.get(), "own": int(own.sum())}


def three(middle_waits, last, last_attributes=1):
    """A long first kernel, a second one that triggers and may end at once, and a third: what it finds of the first."""
    first, relay, second = kernels("first", "relay", "second")
    flag, seen, data, found, other = (cp.zeros(4, cp.int32) for _ in range(5))
    found.fill(-1)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        codes = [
            launched(
                first, [], flag.data.ptr, seen.data.ptr, data.data.ptr, CYCLES, np.int32(1), stream=stream, block=64
            ),
            launched(relay, serial(), other.data.ptr, np.int32(middle_waits), stream=stream),
            launched(
                second, serial(last_attributes), flag.data.ptr, data.data.ptr, found.data.ptr, np.int32(last),
                stream=stream, block=64,
            ),
            code(cudart.cudaDeviceSynchronize()),
        ]  # fmt: skip
    return {"codes": codes, "overlap": bool(seen[0]), "found": [int(value) for value in found.get()[:2]]}


@program("a kernel two places behind: it triggers its way past a second one that waits for nothing")
def two_places_behind():
    return three(1, 1)


@program("a second kernel that neither waits nor triggers lets the third one start when it has ended itself")
def middle_does_not_trigger():
    return three(0, 1)


@program("the third kernel has no attribute: it starts when both before it have ended")
def third_without_attribute():
    return three(1, 0, last_attributes=0)


@program("the second kernel has ended and the first has not: the stream is busy, an event behind both is pending")
def stream_is_busy():
    told, tell = kernels("told", "tell")
    with pinned_memory(64) as (pointer, view), streams(1) as (stream,):
        numbers = view.view(np.int32)
        event = int(cudart.cudaEventCreateWithFlags(2)[1])
        codes = [launched(told, [], pointer, LONG, np.int32(1), stream=stream)]
        codes.append(launched(tell, serial(), pointer + 4, stream=stream))
        cudart.cudaEventRecord(event, stream)
        left = 300_000
        while left:  # some queries more, so that the second kernel is over
            cudart.cudaEventQuery(event)
            left = min(left, 300) - 1 if numbers[1] else left - 1
        answers = {"stream": state(stream), "event": event_state(event)}
        codes.append(code(cudart.cudaDeviceSynchronize()))
        cudart.cudaEventDestroy(event)
        return {"codes": codes, "told": [int(number) for number in numbers[:2]], **answers}


def completion(kind, wait, **options):
    """The host waits for the event of a launch that spins: is the launch still running then?"""
    (told,) = kernels("told")
    with pinned_memory(64) as (pointer, _), streams(1) as (stream,):
        event = driver.cuEventCreate(2)[1]
        cudart.cudaDeviceSynchronize()
        answer = launched(
            told, [attribute(kind, **{name: event if value is None else value for name, value in options.items()})],
            pointer, LONG, np.int32(1), stream=stream,
        )  # fmt: skip
        waited = code(driver.cuEventSynchronize(event)) if wait else ""
        found = {"codes": [answer, waited], "event": event_state(int(event)) if wait else "", "stream": state(stream)}
        cudart.cudaDeviceSynchronize()
        found["then"] = [event_state(int(event)), state(stream)]
        driver.cuEventDestroy(event)
    return found


@program("the host waits for the launch completion event of a kernel that goes on running")
def host_waits_for_completion_event():
    return completion("LAUNCH_COMPLETION_EVENT", True, launchCompletionEvent__event=None)


@program("the host waits for the programmatic event of a kernel that has triggered and goes on running")
def host_waits_for_trigger_event():
    return completion("PROGRAMMATIC_EVENT", True, programmaticEvent__event=None)


@program("the host waits for the programmatic event, at the start of its blocks, of a kernel that goes on running")
def host_waits_for_start_event():
    return completion(
        "PROGRAMMATIC_EVENT", True, programmaticEvent__event=None, programmaticEvent__triggerAtBlockStart=1
    )


def behind_completion(kind, **options):
    """A kernel in another stream behind the event of a launch: does it run beside it?"""
    first, second = kernels("first", "second")
    flag, seen, data, found = (cp.zeros(4, cp.int32) for _ in range(4))
    found.fill(-1)
    cudart.cudaDeviceSynchronize()
    with streams(1, 1) as (one, other):
        event = driver.cuEventCreate(2)[1]
        wanted = attribute(kind, **{name: event if value is None else value for name, value in options.items()})
        codes = [
            launched(
                first, [wanted], flag.data.ptr, seen.data.ptr, data.data.ptr, CYCLES, np.int32(0), stream=one, block=64
            ),
            code(driver.cuStreamWaitEvent(driver.CUstream(other), event, 0)),
            launched(second, [], flag.data.ptr, data.data.ptr, found.data.ptr, np.int32(0), stream=other, block=64),
            code(cudart.cudaDeviceSynchronize()),
        ]  # fmt: skip
        driver.cuEventDestroy(event)
    return {"codes": codes, "overlap": bool(seen[0]), "found": [int(value) for value in found.get()[:2]]}


@program("another stream waits for a launch completion event, behind which a kernel spins")
def stream_behind_completion_event():
    return behind_completion("LAUNCH_COMPLETION_EVENT", launchCompletionEvent__event=None)


@program("a launch completion event behind work that is not done is pending, and complete when all is over")
def completion_event_behind_work():
    told, tell = kernels("told", "tell")
    with pinned_memory(64) as (pointer, _), streams(1) as (stream,):
        event = driver.cuEventCreate(2)[1]
        cudart.cudaDeviceSynchronize()
        wanted = attribute("LAUNCH_COMPLETION_EVENT", launchCompletionEvent__event=event)
        codes = [
            launched(told, [], pointer, LONG, np.int32(1), stream=stream),
            launched(tell, [wanted], pointer + 4, stream=stream),
        ]
        found = {"codes": codes, "before": event_state(int(event))}
        cudart.cudaDeviceSynchronize()
        found["after"] = event_state(int(event))
        driver.cuEventDestroy(event)
    return found
