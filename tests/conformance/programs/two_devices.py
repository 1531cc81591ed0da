"""Two devices: selection, what each has of its own, streams and events across them, copies and peer access."""

import contextlib
import ctypes
import threading
import warnings

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import STORE_SOURCE, attribute, event_state, fetched, launched, seen, spin, state, warm
from ..program import code, program, raised

KIND = cudart.cudaMemcpyKind
SIZE = 1 << 16
READ = r"""
extern "C" __global__ void read(const int* from, int* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + 1;
}"""


def last():
    return code(cudart.cudaGetLastError())


@contextlib.contextmanager
def both():
    """Both devices have a context and loaded kernels; afterwards device 0 is current, and access is as at first."""
    for number in (1, 0):
        cudart.cudaSetDevice(number)
        cudart.cudaFree(0)
        warm()
    try:
        yield
    finally:
        for number in (1, 0):
            cudart.cudaSetDevice(number)
            cudart.cudaDeviceSynchronize()
            cudart.cudaDeviceDisablePeerAccess(1 - number)
        cudart.cudaGetLastError()


@contextlib.contextmanager
def on_device(number):
    """A device for a while; the one before comes back."""
    before = cudart.cudaGetDevice()[1]
    cudart.cudaSetDevice(number)
    try:
        yield
    finally:
        cudart.cudaSetDevice(before)


@contextlib.contextmanager
def memory_of_both(size=SIZE):
    """``size`` bytes on each device, set to zero."""
    pointers = []
    for number in (0, 1):
        with on_device(number):
            pointers.append(int(cudart.cudaMalloc(size)[1]))
            cudart.cudaMemset(pointers[-1], 0, size)
            cudart.cudaDeviceSynchronize()
    try:
        yield pointers
    finally:
        for number in (0, 1):
            with on_device(number):
                cudart.cudaDeviceSynchronize()
                cudart.cudaFree(pointers[number])


@contextlib.contextmanager
def streams_of_both(flags=1):
    """A stream on each device."""
    made = []
    for number in (0, 1):
        with on_device(number):
            made.append(int(cudart.cudaStreamCreateWithFlags(flags)[1]))
    try:
        yield made
    finally:
        for number in (0, 1):
            with on_device(number):
                cudart.cudaDeviceSynchronize()
                cudart.cudaStreamDestroy(made[number])


def filled(pointer, first=0, count=16):
    """Writes ``first``, ``first + 1`` … to device memory."""
    values = np.arange(first, first + count, dtype=np.int32)
    cudart.cudaMemcpy(pointer, values.ctypes.data, values.nbytes, KIND.cudaMemcpyHostToDevice)
    cudart.cudaDeviceSynchronize()


def read(source, destination, count=16, stream=0):
    """Launches the kernel that copies and adds one, and says what the launch and the wait for it return."""
    kernel = cp.RawKernel(READ, "read")
    answer = launched(kernel, [], source, destination, np.int32(count), stream=stream, block=64)
    return [answer, code(cudart.cudaDeviceSynchronize())]


@program("two devices of one kind, with numbers, buses and identifiers of their own", devices=2)
def numbers():
    properties = [cudart.cudaGetDeviceProperties(number)[1] for number in (0, 1)]
    buses = [cudart.cudaDeviceGetPCIBusId(64, number)[1] for number in (0, 1)]
    return {
        "count": [cudart.cudaGetDeviceCount()[1] >= 2, driver.cuDeviceGetCount()[1] >= 2],
        "same name": properties[0].name == properties[1].name,
        "memory": properties[0].totalGlobalMem == properties[1].totalGlobalMem,
        "other bus": buses[0] != buses[1],
        "other identifier": bytes(properties[0].uuid.bytes) != bytes(properties[1].uuid.bytes),
        "by bus": [cudart.cudaDeviceGetByPCIBusId(bus)[1] for bus in buses],
        "driver's": [int(driver.cuDeviceGet(number)[1]) for number in (0, 1)],
    }


@program("the current device: set, asked for, of a second host thread", devices=2)
def selection():
    with both():
        found = [[code(cudart.cudaSetDevice(number)), cudart.cudaGetDevice()[1]] for number in (1, 1, 0, 99, 1)]
        others = []

        def other():
            others.append(cudart.cudaGetDevice()[1])
            cudart.cudaSetDevice(0)
            others.append(cudart.cudaGetDevice()[1])

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return {"own": found, "of another thread": others, "afterwards": cudart.cudaGetDevice()[1]}


@program("the contexts of two devices: one each, current with the device", devices=2)
def contexts():
    with both():
        held = [driver.cuDevicePrimaryCtxRetain(number)[1] for number in (0, 1)]
        numbers = {int(context): index for index, context in enumerate(held)}

        def now():
            return [
                numbers.get(int(driver.cuCtxGetCurrent()[1]), "none"), cudart.cudaGetDevice()[1],
                driver.cuCtxGetDevice()[0].name,
            ]  # fmt: skip

        found = [len(numbers), now()]
        cudart.cudaSetDevice(1)
        found.append(now())
        driver.cuCtxSetCurrent(held[0])
        found.append(now())
        driver.cuCtxPushCurrent(held[1])
        found.append(now())
        cudart.cudaSetDevice(0)
        found.append(now())
        popped = driver.cuCtxPopCurrent()
        found.append([code(popped), numbers.get(int(popped[1]), "none")])
        found.append(now())
        driver.cuCtxSetCurrent(driver.CUcontext(0))
        found.append(now())
        cudart.cudaFree(0)
        found.append(now())
        driver.cuCtxSetCurrent(held[0])
        for number in (0, 1):
            driver.cuDevicePrimaryCtxRelease(number)
        return {"steps": found}


@program("memory belongs to the device it was allocated on, and is freed from any", devices=2)
def memory():
    with both():
        cudart.cudaSetDevice(1)
        _, free_before, _ = cudart.cudaMemGetInfo()
        cudart.cudaSetDevice(0)
        _, other_before, _ = cudart.cudaMemGetInfo()
        cudart.cudaSetDevice(1)
        pointer = int(cudart.cudaMalloc(256 << 20)[1])
        _, free_after, _ = cudart.cudaMemGetInfo()
        attributes = cudart.cudaPointerGetAttributes(pointer)[1]
        cudart.cudaSetDevice(0)
        _, other_after, _ = cudart.cudaMemGetInfo()
        seen_from_0 = cudart.cudaPointerGetAttributes(pointer)[1]
        return {
            "device": [attributes.device, seen_from_0.device, int(seen_from_0.type)],
            "taken": [free_before - free_after > 128 << 20, other_before - other_after < 128 << 20],
            "set from the other": code(cudart.cudaMemset(pointer, 1, 64)),
            "freed from the other": code(cudart.cudaFree(pointer)),
            "again": [code(cudart.cudaFree(pointer)), last()],
        }


@program("limits belong to a device", devices=2)
def limits():
    with both():
        stack = cudart.cudaLimit.cudaLimitStackSize
        found = []
        for number, value in ((0, 2048), (1, 4096)):
            cudart.cudaSetDevice(number)
            found.append(code(cudart.cudaDeviceSetLimit(stack, value)))
        for number in (0, 1):
            cudart.cudaSetDevice(number)
            found.append(cudart.cudaDeviceGetLimit(stack)[1])
            cudart.cudaDeviceSetLimit(stack, 1024)
        return {"found": found}


@program("what the stream of another device may be used for", devices=2)
def stream_of_the_other():
    with both(), memory_of_both() as (here, there), streams_of_both() as (own, other):
        kernel = cp.RawKernel(STORE_SOURCE, "store")
        function = int(kernel.kernel.ptr)
        values = np.arange(16, dtype=np.int32)
        event = int(cudart.cudaEventCreateWithFlags(2)[1])
        calls = {
            "device": lambda: cudart.cudaStreamGetDevice(other),
            "query": lambda: cudart.cudaStreamQuery(other),
            "synchronize": lambda: cudart.cudaStreamSynchronize(other),
            "flags": lambda: cudart.cudaStreamGetFlags(other),
            "copy of own memory": lambda: cudart.cudaMemcpyAsync(
                here + 64, here, 64, KIND.cudaMemcpyDeviceToDevice, other
            ),
            "copy of its memory": lambda: cudart.cudaMemcpyAsync(
                there + 64, there, 64, KIND.cudaMemcpyDeviceToDevice, other
            ),
            "copy from the host": lambda: cudart.cudaMemcpyAsync(
                here, values.ctypes.data, 64, KIND.cudaMemcpyHostToDevice, other
            ),
            "memset of own memory": lambda: cudart.cudaMemsetAsync(here, 0, 64, other),
            "memset of its memory": lambda: cudart.cudaMemsetAsync(there, 0, 64, other),
            "own event": lambda: cudart.cudaEventRecord(event, other),
            "priority": lambda: cudart.cudaStreamGetPriority(other),
            "launch": lambda: driver.cuLaunchKernel(
                driver.CUfunction(function), 1, 1, 1, 1, 1, 1, 0, driver.CUstream(other),
                ((here, 1), (ctypes.c_void_p, ctypes.c_int)), 0,
            ),
        }  # fmt: skip
        found = {name: [code(call()), last()] for name, call in calls.items()}
        cudart.cudaEventDestroy(event)
        found["number"] = cudart.cudaStreamGetDevice(other)[1]
        found["wait"] = code(cudart.cudaDeviceSynchronize())
        return found | {"destroy": destroyed_from_the_other()}


def destroyed_from_the_other():
    with on_device(1):
        stream = int(cudart.cudaStreamCreateWithFlags(1)[1])
        event = int(cudart.cudaEventCreate()[1])
    return [code(cudart.cudaStreamDestroy(stream)), code(cudart.cudaEventDestroy(event)), last()]


@program("events across devices: recorded, waited for, asked, timed", devices=2)
def events_across():
    with both(), streams_of_both() as (own, other):
        first = int(cudart.cudaEventCreate()[1])
        with on_device(1):
            second = int(cudart.cudaEventCreate()[1])
        found = {
            "its event in its stream, from here": [code(cudart.cudaEventRecord(second, other)), last()],
            "its event in a stream of here": [code(cudart.cudaEventRecord(second, own)), last()],
            "own event in its stream": [code(cudart.cudaEventRecord(first, other)), last()],
            "own event": code(cudart.cudaEventRecord(first, own)),
            "its event in the null stream": [code(cudart.cudaEventRecord(second, 0)), last()],
            "wait here for its event": [code(cudart.cudaStreamWaitEvent(own, second, 0)), last()],
            "wait there for own event": [code(cudart.cudaStreamWaitEvent(other, first, 0)), last()],
        }
        cudart.cudaDeviceSynchronize()
        cudart.cudaSetDevice(1)
        cudart.cudaDeviceSynchronize()
        found["query from there"] = [code(cudart.cudaEventQuery(first)), code(cudart.cudaEventSynchronize(first))]
        found["elapsed"] = [code(cudart.cudaEventElapsedTime(first, second)), last()]
        cudart.cudaSetDevice(0)
        found["query from here"] = [code(cudart.cudaEventQuery(second)), code(cudart.cudaEventSynchronize(second))]
        for event in (first, second):
            cudart.cudaEventDestroy(event)
        return found


@program("a stream waits for work of the other device by its event", devices=2)
def waiting_across():
    with both(), streams_of_both() as (own, other):
        with on_device(1):
            event = int(cudart.cudaEventCreateWithFlags(2)[1])
            spin(other)
            cudart.cudaEventRecord(event, other)
        cudart.cudaStreamWaitEvent(own, event, 0)
        before = [state(own), state(other), event_state(event)]
        cudart.cudaStreamSynchronize(own)
        after = [state(own), state(other), event_state(event)]
        cudart.cudaEventDestroy(event)
        return {"before": before, "after": after}


@program("each device has default streams and a synchronize of its own", devices=2)
def default_streams():
    with both(), streams_of_both(0) as (own, other):
        with on_device(1):
            spin(0)
        found = {"null here": [state(0), state(own)]}
        cudart.cudaDeviceSynchronize()
        with on_device(1):
            found["null there"] = [state(0), state(other)]
            found["there, after a wait here"] = state(0)
            cudart.cudaDeviceSynchronize()
            found["there, at last"] = [state(0), state(other)]
            spin(other)
        found["its blocking stream"] = [state(0), state(own), state(other)]
        return found


@program("cudaFree and cudaMemset wait for which device", devices=2)
def waits_of_frees():
    with both(), streams_of_both() as (own, other):
        found = {}
        for name, busy in (("own", 0), ("other", 1)):
            pointers = []
            for number in (0, 1):
                with on_device(number):
                    pointers.append(int(cudart.cudaMalloc(64)[1]))
            for kind, pointer in (("own memory", pointers[0]), ("its memory", pointers[1])):
                with on_device(busy):
                    spin((own, other)[busy])
                answer = code(cudart.cudaFree(pointer))
                found[f"{kind}, {name} device busy"] = [answer, state((own, other)[busy])]
                with on_device(busy):
                    cudart.cudaDeviceSynchronize()
        return found


@program("peer access: asked for, enabled twice, disabled twice, with flags; the errors that stay", devices=2)
def enabling():
    with both():
        can = [cudart.cudaDeviceCanAccessPeer(a, b)[1] for a, b in ((0, 1), (1, 0), (0, 0), (1, 1))]
        found = {
            "can": can,
            "disabled before": [code(cudart.cudaDeviceDisablePeerAccess(1)), last()],
            "flags": [code(cudart.cudaDeviceEnablePeerAccess(1, 1)), last()],
            "enabled": [code(cudart.cudaDeviceEnablePeerAccess(1, 0)), last()],
            "twice": [code(cudart.cudaDeviceEnablePeerAccess(1, 0)), last()],
            "from there": None,
            "disabled": [code(cudart.cudaDeviceDisablePeerAccess(1)), last()],
            "disabled twice": [code(cudart.cudaDeviceDisablePeerAccess(1)), last()],
            "no device": [code(cudart.cudaDeviceEnablePeerAccess(99, 0)), last()],
            "itself": [code(cudart.cudaDeviceEnablePeerAccess(0, 0)), last()],
        }
        with on_device(1):
            found["from there"] = [code(cudart.cudaDeviceDisablePeerAccess(0)), last()]
        return found


@program("peer access of the driver: its codes, and that the runtime sees it", devices=2)
def enabling_by_the_driver():
    with both():
        context = driver.cuDevicePrimaryCtxRetain(1)[1]
        found = {
            "disabled before": code(driver.cuCtxDisablePeerAccess(context)),
            "flags": code(driver.cuCtxEnablePeerAccess(context, 1)),
            "enabled": code(driver.cuCtxEnablePeerAccess(context, 0)),
            "twice": code(driver.cuCtxEnablePeerAccess(context, 0)),
            "by the runtime": [code(cudart.cudaDeviceEnablePeerAccess(1, 0)), last()],
            "disabled by the runtime": [code(cudart.cudaDeviceDisablePeerAccess(1)), last()],
            "disabled": code(driver.cuCtxDisablePeerAccess(context)),
        }
        driver.cuDevicePrimaryCtxRelease(1)
        return found | {"last": last()}


@program("attributes of the link between two devices", devices=2)
def link():
    kinds = ("PerformanceRank", "AccessSupported", "NativeAtomicSupported", "CudaArrayAccessSupported")
    found = {}
    for kind in kinds:
        wanted = getattr(cudart.cudaDeviceP2PAttr, f"cudaDevP2PAttr{kind}")
        answers = [cudart.cudaDeviceGetP2PAttribute(wanted, a, b) for a, b in ((0, 1), (1, 0))]
        found[kind] = [[code(answer), answer[1]] for answer in answers]
    return found


@program(
    "copies between devices without peer access: cudaMemcpyPeer, its asynchronous form, and every kind that fits",
    expect=lambda v: {"data": np.tile(np.arange(16, dtype=np.int32), 5)},
    devices=2,
)
def copies():
    with both(), memory_of_both() as (here, there), streams_of_both() as (own, other):
        filled(here)
        codes = [
            code(cudart.cudaMemcpyPeer(there, 1, here, 0, 64)),
            code(cudart.cudaMemcpyPeerAsync(there + 64, 1, here, 0, 64, own)),
            code(cudart.cudaMemcpy(there + 128, here, 64, KIND.cudaMemcpyDefault)),
            code(cudart.cudaMemcpy(there + 192, here, 64, KIND.cudaMemcpyDeviceToDevice)),
            code(cudart.cudaMemcpyAsync(there + 256, here, 64, KIND.cudaMemcpyDefault, other)),
        ]
        cudart.cudaDeviceSynchronize()
        with on_device(1):
            cudart.cudaDeviceSynchronize()
            return {"codes": codes, "data": fetched(there, 80)}


@program("wrong device numbers and wrong memory in peer copies", devices=2)
def wrong_copies():
    with both(), memory_of_both() as (here, there):
        filled(here)
        host = np.zeros(16, np.int32)
        found = {
            "numbers swapped": [code(cudart.cudaMemcpyPeer(there, 0, here, 1, 64)), last()],
            "both 0": [code(cudart.cudaMemcpyPeer(there, 0, here, 0, 64)), last()],
            "no device": [code(cudart.cudaMemcpyPeer(there, 99, here, 0, 64)), last()],
            "to the host": [code(cudart.cudaMemcpyPeer(host.ctypes.data, 1, here, 0, 64)), last()],
            "beyond the end": [code(cudart.cudaMemcpyPeer(there, 1, here, 0, 8 * SIZE << 10)), last()],
            "kind to host": [code(cudart.cudaMemcpy(there, here, 64, KIND.cudaMemcpyDeviceToHost)), last()],
        }
        cudart.cudaDeviceSynchronize()
        with on_device(1):
            cudart.cudaDeviceSynchronize()
            return found | {"data": fetched(there, 16)}


@program("what a peer copy waits for on either device, and whether the host waits for it", devices=2)
def order_of_peer_copies():
    with both(), memory_of_both() as (here, there):
        found = {}
        for name, flags in (("blocking", 0), ("non-blocking", 1)):
            for busy in (0, 1):
                with streams_of_both(flags) as pair:
                    with on_device(busy):
                        spin(pair[busy])
                    answer = code(cudart.cudaMemcpyPeer(there, 1, here, 0, 64))
                    found[f"{name}, {busy} busy"] = [answer, state(pair[busy])]
        return found


@program("a peer copy in a stream of its source and of its destination: what is busy meanwhile", devices=2)
def peer_copies_in_streams():
    with both(), memory_of_both() as (here, there), streams_of_both() as pair:
        found = {}
        for number in (0, 1):
            with on_device(number):
                spin(pair[number])
            answer = code(cudart.cudaMemcpyPeerAsync(there, 1, here, 0, 64, pair[number]))
            found[str(number)] = [answer, *map(state, pair)]
            for device in (0, 1):
                with on_device(device):
                    cudart.cudaDeviceSynchronize()
        return found


@program(
    "rows between devices, in two and three dimensions",
    expect=lambda v: {"2D": np.arange(64, dtype=np.int32).reshape(8, 8)[:, :4].ravel()},
    devices=2,
)
def shapes():
    with both(), memory_of_both() as (here, there):
        filled(here, count=64)
        codes = [code(cudart.cudaMemcpy2D(there, 16, here, 32, 16, 8, KIND.cudaMemcpyDefault))]
        cudart.cudaDeviceSynchronize()
        with on_device(1):
            cudart.cudaDeviceSynchronize()
            return {"codes": codes, "2D": fetched(there, 32)}


@program(
    "a kernel reads and writes memory of the other device once access is enabled",
    expect=lambda v: {"read": np.arange(1, 17, dtype=np.int32), "written": np.arange(2, 18, dtype=np.int32)},
    devices=2,
)
def kernel_with_access():
    with both(), memory_of_both() as (here, there):
        with on_device(1):
            filled(there)
        codes = [code(cudart.cudaDeviceEnablePeerAccess(1, 0))]
        codes += read(there, here)
        codes += read(here, there + 1024)
        with on_device(1):
            written = fetched(there + 1024, 16)
        return {"codes": codes, "read": fetched(here, 16), "written": written}


@program("a kernel reads memory of the other device without access", isolated=True, devices=2)
def kernel_without_access():
    for number in (1, 0):
        cudart.cudaSetDevice(number)
        cudart.cudaFree(0)
    with on_device(1):
        there = int(cudart.cudaMalloc(SIZE)[1])
    here = int(cudart.cudaMalloc(SIZE)[1])
    found = {"launch": read(there, here), "last": [last(), last()], "malloc": code(cudart.cudaMalloc(64))}
    return found | _of_the_other(1)


def _of_the_other(number):
    """What the device works like, after the other was lost."""
    found = {"set device": [code(cudart.cudaSetDevice(number)), last()]}
    answer = cudart.cudaMalloc(64)
    found["malloc there"] = [code(answer), last()]
    found["synchronize there"] = [code(cudart.cudaDeviceSynchronize()), last()]
    found["back"] = [code(cudart.cudaSetDevice(1 - number)), last()]
    found["malloc here"] = [code(cudart.cudaMalloc(64)), last()]
    found["stream there"] = [code(cudart.cudaSetDevice(number)), code(cudart.cudaStreamCreate()), last()]
    return found


@program("after access is disabled a kernel fails again", isolated=True, devices=2)
def kernel_after_disabling():
    for number in (1, 0):
        cudart.cudaSetDevice(number)
        cudart.cudaFree(0)
    with on_device(1):
        there = int(cudart.cudaMalloc(SIZE)[1])
    here = int(cudart.cudaMalloc(SIZE)[1])
    codes = [code(cudart.cudaDeviceEnablePeerAccess(1, 0))]
    codes += read(there, here)
    codes.append(code(cudart.cudaDeviceDisablePeerAccess(1)))
    return {"codes": codes, "afterwards": read(there, here), "last": last()}


@program("access goes one way: the other device has none", isolated=True, devices=2)
def access_goes_one_way():
    for number in (1, 0):
        cudart.cudaSetDevice(number)
        cudart.cudaFree(0)
    here = int(cudart.cudaMalloc(SIZE)[1])
    cudart.cudaDeviceEnablePeerAccess(1, 0)
    cudart.cudaSetDevice(1)
    there = int(cudart.cudaMalloc(SIZE)[1])
    return {"there": read(here, there), "last": last()}


@program("memory that is allocated after access was enabled is reached as well", devices=2)
def allocated_later():
    with both():
        cudart.cudaDeviceEnablePeerAccess(1, 0)
        with memory_of_both() as (here, there):
            with on_device(1):
                filled(there, 5)
            return {"codes": read(there, here), "data": fetched(here, 16)}


ADD = r"""
extern "C" __global__ void add(int* counter, int times) {
    for (int i = 0; i < times; i++) atomicAdd_system(counter, 1);
}"""


@program("atomics of both devices on one counter", expect=lambda v: {"count": 2 * 64 * 10 * 4}, devices=2)
def atomics():
    with both(), memory_of_both() as (here, _):
        for number in (1, 0):
            cudart.cudaSetDevice(number)
            if number:
                cudart.cudaDeviceEnablePeerAccess(0, 0)
            launched(cp.RawKernel(ADD, "add"), [], here, np.int32(10), grid=4, block=64)
        for number in (1, 0):
            cudart.cudaSetDevice(number)
            cudart.cudaDeviceSynchronize()
        return {"count": int(fetched(here, 1)[0])}


@program("memset of memory of the other device, without and with access", devices=2)
def memsets():
    with both(), memory_of_both() as (here, there):
        found = {"without": [code(cudart.cudaMemset(there, 1, 64)), last(), code(cudart.cudaDeviceSynchronize())]}
        cudart.cudaDeviceEnablePeerAccess(1, 0)
        found["with"] = [code(cudart.cudaMemset(there + 64, 2, 64)), last(), code(cudart.cudaDeviceSynchronize())]
        with on_device(1):
            cudart.cudaDeviceSynchronize()
            return found | {"data": fetched(there, 40)}


@program("managed memory: kernels of both devices in turn, where it lies, prefetching", devices=2)
def managed():
    with both():
        pointer = int(cudart.cudaMallocManaged(SIZE, 1)[1])
        view = seen(pointer, 64, np.int32)
        view[:] = np.arange(16)
        codes = read(pointer, pointer)
        cudart.cudaSetDevice(1)
        codes += read(pointer, pointer)
        device = cudart.cudaPointerGetAttributes(pointer)[1].device
        location = cudart.cudaMemLocation()
        location.type, location.id = cudart.cudaMemLocationType.cudaMemLocationTypeDevice, 1
        codes.append(code(cudart.cudaMemPrefetchAsync(pointer, SIZE, location, 0, 0)))
        codes.append(code(cudart.cudaDeviceSynchronize()))
        asked = cudart.cudaMemRangeAttribute.cudaMemRangeAttributeLastPrefetchLocation
        prefetched = cudart.cudaMemRangeGetAttribute(4, asked, pointer, SIZE)
        values = view.copy()
        cudart.cudaFree(pointer)
        return {"codes": codes, "device": device, "data": values, "prefetched": [code(prefetched), int(prefetched[1])]}


@program("page-locked memory of one device used by the other, portable or not", devices=2)
def portable():
    with both(), memory_of_both() as (_, there), streams_of_both() as (_, other):
        found = {}
        for name, flags in (
            ("default", 0),
            ("portable", 1),
            ("mapped", 2),
            ("write-combined", 4),
            ("combined, portable", 5),
        ):
            pointer = int(cudart.cudaHostAlloc(64, flags)[1])
            seen(pointer, 64, np.int32)[:] = np.arange(16)
            with on_device(1):
                answers = [
                    code(cudart.cudaMemcpyAsync(there, pointer, 64, KIND.cudaMemcpyDefault, other)),
                    code(cudart.cudaStreamSynchronize(other)),
                    cudart.cudaPointerGetAttributes(pointer)[1].device,
                    code(cudart.cudaHostGetDevicePointer(pointer, 0)),
                    cudart.cudaHostGetFlags(pointer)[1],
                    *read(pointer, there + 64),
                    int(fetched(there + 64, 16)[15]),
                ]
            cudart.cudaFreeHost(pointer)
            found[name] = answers
        return found


@program("pools: each device has one, and what the other may do with its memory", devices=2)
def pools():
    with both(), streams_of_both() as (own, other):
        handles = [int(cudart.cudaDeviceGetDefaultMemPool(number)[1]) for number in (0, 1)]
        pointer = int(cudart.cudaMallocAsync(SIZE, own)[1])
        cudart.cudaStreamSynchronize(own)
        found = {
            "two": len(set(handles)),
            "device": cudart.cudaPointerGetAttributes(pointer)[1].device,
        }
        with on_device(1):
            theirs = cudart.cudaMallocAsync(SIZE, other)
            cudart.cudaStreamSynchronize(other)
            found["device there"] = [code(theirs), cudart.cudaPointerGetAttributes(int(theirs[1]))[1].device]
            crossed = cudart.cudaMallocFromPoolAsync(SIZE, handles[0], other)
            found["from the other's pool"] = [code(crossed), last()]
            if int(crossed[1] or 0):
                cudart.cudaStreamSynchronize(other)
                found["device of it"] = cudart.cudaPointerGetAttributes(int(crossed[1]))[1].device
                found["its free"] = code(cudart.cudaFreeAsync(int(crossed[1]), other))
            found["freed in a stream of the other"] = [code(cudart.cudaFreeAsync(pointer, other)), last()]
            found["free"] = code(cudart.cudaFreeAsync(int(theirs[1]), other))
            cudart.cudaDeviceSynchronize()
        in_its_stream = cudart.cudaMallocAsync(SIZE, other)
        found["in a stream of the other"] = [code(in_its_stream), last()]
        if int(in_its_stream[1] or 0):
            cudart.cudaStreamSynchronize(other)
            found["where"] = cudart.cudaPointerGetAttributes(int(in_its_stream[1]))[1].device
            cudart.cudaFreeAsync(int(in_its_stream[1]), other)
        return found


@program("access to a pool: none at first for the other device, given, taken back", devices=2)
def pool_access():
    with both():
        pool = int(cudart.cudaDeviceGetDefaultMemPool(0)[1])
        place = cudart.cudaMemLocation()
        place.type, place.id = cudart.cudaMemLocationType.cudaMemLocationTypeDevice, 1
        found = {"at first": _pool_access(pool, place)}
        for name, flags in (("given", 3), ("taken back", 0), ("read only", 1)):
            wanted = cudart.cudaMemAccessDesc()
            wanted.location = place
            wanted.flags = cudart.cudaMemAccessFlags(flags)
            found[name] = [code(cudart.cudaMemPoolSetAccess(pool, [wanted], 1)), last(), _pool_access(pool, place)]
        wanted.flags = cudart.cudaMemAccessFlags(0)
        cudart.cudaMemPoolSetAccess(pool, [wanted], 1)
        place.id = 0
        wanted.location = place
        found["own taken away"] = [code(cudart.cudaMemPoolSetAccess(pool, [wanted], 1)), last()]
        place.id = 99
        wanted.location = place
        found["no device"] = [code(cudart.cudaMemPoolSetAccess(pool, [wanted], 1)), last()]
        cudart.cudaGetLastError()
        return found


def _pool_access(pool, place):
    answer = cudart.cudaMemPoolGetAccess(pool, place)
    return [code(answer), int(answer[1]) if answer[1] is not None else None]


@program("a kernel reads memory of the other's pool when access is given, without enabling peers", devices=2)
def kernel_and_pool():
    with both(), streams_of_both() as (own, _), memory_of_both() as (_, there):
        pool = int(cudart.cudaDeviceGetDefaultMemPool(0)[1])
        wanted = cudart.cudaMemAccessDesc()
        wanted.location.type, wanted.location.id = cudart.cudaMemLocationType.cudaMemLocationTypeDevice, 1
        wanted.flags = cudart.cudaMemAccessFlags(3)
        codes = [code(cudart.cudaMemPoolSetAccess(pool, [wanted], 1))]
        pointer = int(cudart.cudaMallocAsync(SIZE, own)[1])
        cudart.cudaStreamSynchronize(own)
        filled(pointer, 30)
        with on_device(1):
            codes += read(pointer, there)
            data = fetched(there, 16)
        cudart.cudaFreeAsync(pointer, own)
        cudart.cudaStreamSynchronize(own)
        wanted.flags = cudart.cudaMemAccessFlags(0)
        cudart.cudaMemPoolSetAccess(pool, [wanted], 1)
        return {"codes": codes, "data": data}


@program("a module belongs to the context that it was loaded in", devices=2)
def modules():
    with both(), memory_of_both() as (here, there):
        kernel = cp.RawKernel(STORE_SOURCE, "store")
        function = int(kernel.kernel.ptr)
        kinds = (ctypes.c_void_p, ctypes.c_int)
        with on_device(1):
            answers = [
                code(
                    driver.cuLaunchKernel(
                        driver.CUfunction(function), 1, 1, 1, 1, 1, 1, 0, driver.CUstream(0), ((there, 5), kinds), 0
                    )
                ),
                code(cudart.cudaDeviceSynchronize()),
                last(),
            ]
            same = int(kernel.kernel.ptr) == function
        cudart.cudaDeviceSynchronize()
        return {"codes": answers, "cupy has one each": not same, "here": code(cudart.cudaMemset(here, 0, 4))}


@program("a reset of one device leaves the other as it is", isolated=True, devices=2)
def reset_of_one():
    for number in (1, 0):
        cudart.cudaSetDevice(number)
        cudart.cudaFree(0)
    here = int(cudart.cudaMalloc(64)[1])
    filled(here)
    cudart.cudaSetDevice(1)
    there = int(cudart.cudaMalloc(64)[1])
    found = {
        "reset": code(cudart.cudaDeviceReset()),
        "active": [driver.cuDevicePrimaryCtxGetState(n)[2] for n in (0, 1)],
    }
    found["of the other"] = fetched(here, 16)
    cudart.cudaSetDevice(0)
    found["free"] = [code(cudart.cudaFree(here)), code(cudart.cudaFree(there)), last()]
    return found


@program("arrays, streams and pools of CuPy on two devices", devices=2)
def with_cupy():
    with both():
        x = cp.arange(16, dtype=cp.int32)
        with cp.cuda.Device(1):
            y = cp.arange(16, dtype=cp.int32) * 2
            stream = cp.cuda.Stream(non_blocking=True)
            used = cp.get_default_memory_pool().used_bytes() > 0
            inner = cp.cuda.runtime.getDevice()
            moved = cp.asarray(x)
            with cp.cuda.Device(0):
                nested = cp.cuda.runtime.getDevice()
            again = cp.cuda.runtime.getDevice()
        return {
            "devices": [int(x.device.id), int(y.device.id), int(moved.device.id), stream.device_id],
            "current": [inner, nested, again, cp.cuda.runtime.getDevice()],
            "pool": used,
            "fetched": cp.asnumpy(y),
            "got": y.get(),
            "moved": moved.get(),
        }


@program("an array of the other device in an expression of CuPy", devices=2)
def mixed_arrays():
    with both():
        x = cp.arange(16, dtype=cp.int32)
        with cp.cuda.Device(1):
            y = cp.arange(16, dtype=cp.int32)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            failure = raised(lambda: x + y)
            kinds = sorted({type(w.message).__name__ for w in caught})
            texts = [str(w.message) for w in caught][:1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            total = (x + y).get() if failure == "none" else None
        return {"raised": failure, "warned": kinds, "text": texts, "sum": total, "enabled": raised(_enabled)}


def _enabled():
    cp.cuda.runtime.deviceEnablePeerAccess(1)


@program("using an array, or a stream, of the other device", devices=2)
def crossed_cupy():
    with both():
        with cp.cuda.Device(1):
            y = cp.arange(16, dtype=cp.int32)
            stream = cp.cuda.Stream(non_blocking=True)
        found = {"filled": raised(lambda: y.fill(3)), "in its stream": raised(lambda: _used(stream))}
        found["copied"] = raised(lambda: y.copy())
        found["device of the copy"] = int(y.copy().device.id)
        found["set"] = raised(lambda: y.set(np.zeros(16, np.int32)))
        found["value"] = y.get()
        cp.cuda.Device(1).synchronize()
        found["current"] = cp.cuda.runtime.getDevice()
        return found


def _used(stream):
    with stream:
        return cp.zeros(4)


@program("a programmatic launch, a priority, and a domain on the second device", devices=2)
def attributes_there():
    with both(), streams_of_both() as (own, other), memory_of_both() as (_, there):
        kernel = cp.RawKernel(STORE_SOURCE, "store")
        kinds = (
            attribute("PRIORITY", priority=-1),
            attribute("PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=1),
        )
        with on_device(1):
            codes = [launched(kernel, [kind], there, np.int32(4), stream=other) for kind in kinds]
            codes.append(code(cudart.cudaDeviceSynchronize()))
            codes.append(launched(kernel, [], there, np.int32(4), stream=own))
            codes.append(code(cudart.cudaDeviceSynchronize()))
            return {"codes": codes, "last": last(), "data": int(fetched(there, 1)[0])}
