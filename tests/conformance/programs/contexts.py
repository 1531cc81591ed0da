"""The device, its primary context, the stack of current contexts of a host thread, and peers that are none."""

import threading

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import device_memory, fetched, streams
from ..program import code, program

FAR = 99  # no device of any machine that this runs on


def last():
    return code(cudart.cudaGetLastError())


def in_thread(action):
    """What ``action()`` returns in a new host thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    return found[0]


def current():
    """The current context as ``none``, ``primary``, or ``another``."""
    error, context = driver.cuCtxGetCurrent()
    if error.name != "CUDA_SUCCESS":
        return error.name
    retained = driver.cuDevicePrimaryCtxRetain(0)[1]
    driver.cuDevicePrimaryCtxRelease(0)
    return "none" if not int(context) else "primary" if int(context) == int(retained) else "another"


class Kept:
    """Within it the primary context is retained, and afterwards current alone, as it was."""

    def __enter__(self):
        cudart.cudaFree(0)
        self.context = driver.cuDevicePrimaryCtxRetain(0)[1]
        return self.context

    def __exit__(self, *_):
        while int(driver.cuCtxGetCurrent()[1] or 0):
            driver.cuCtxPopCurrent()
        driver.cuCtxSetCurrent(self.context)
        driver.cuDevicePrimaryCtxRelease(0)
        cudart.cudaGetLastError()


@program("devices that do not exist are not selected, and the one before stays")
def wrong_selection():
    found = {str(number): [code(cudart.cudaSetDevice(number)), last(), last()] for number in (FAR, -1, 1 << 30)}
    return found | {"current": [code(cudart.cudaGetDevice()), cudart.cudaGetDevice()[1]]}


@program("questions about devices that do not exist")
def wrong_numbers():
    attribute = cudart.cudaDeviceAttr.cudaDevAttrWarpSize
    calls = {
        "properties": lambda: cudart.cudaGetDeviceProperties(FAR),
        "attribute": lambda: cudart.cudaDeviceGetAttribute(attribute, FAR),
        "bus id": lambda: cudart.cudaDeviceGetPCIBusId(64, FAR),
        "init": lambda: cudart.cudaInitDevice(FAR, 0, 0),
        "pool": lambda: cudart.cudaDeviceGetDefaultMemPool(FAR),
        "current pool": lambda: cudart.cudaDeviceGetMemPool(FAR),
        "peer": lambda: cudart.cudaDeviceCanAccessPeer(0, FAR),
        "peer of": lambda: cudart.cudaDeviceCanAccessPeer(FAR, 0),
        "of no bus": lambda: cudart.cudaDeviceGetByPCIBusId(b"ffff:ff:1f.0"),
        "by nonsense": lambda: cudart.cudaDeviceGetByPCIBusId(b"nonsense"),
    }
    return {name: [code(call()), last()] for name, call in calls.items()}


@program("questions to the driver about devices that do not exist")
def wrong_numbers_of_the_driver():
    warp = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE
    calls = {
        "get": lambda: driver.cuDeviceGet(FAR),
        "negative": lambda: driver.cuDeviceGet(-1),
        "name": lambda: driver.cuDeviceGetName(64, FAR),
        "attribute": lambda: driver.cuDeviceGetAttribute(warp, FAR),
        "memory": lambda: driver.cuDeviceTotalMem(FAR),
        "retain": lambda: driver.cuDevicePrimaryCtxRetain(FAR),
        "release": lambda: driver.cuDevicePrimaryCtxRelease(FAR),
        "state": lambda: driver.cuDevicePrimaryCtxGetState(FAR),
        "pool": lambda: driver.cuDeviceGetDefaultMemPool(FAR),
        "peer": lambda: driver.cuDeviceCanAccessPeer(0, FAR),
    }
    return {name: code(call()) for name, call in calls.items()} | {"last": last()}


@program("a device is no peer of itself: asking, enabling, disabling, and the error that stays")
def own_peer():
    found = {
        "can": [code(cudart.cudaDeviceCanAccessPeer(0, 0)), cudart.cudaDeviceCanAccessPeer(0, 0)[1]],
        "enable": [code(cudart.cudaDeviceEnablePeerAccess(0, 0)), last()],
        "with flags": [code(cudart.cudaDeviceEnablePeerAccess(0, 1)), last()],
        "disable": [code(cudart.cudaDeviceDisablePeerAccess(0)), last()],
        "no device": [code(cudart.cudaDeviceEnablePeerAccess(FAR, 0)), last()],
        "disable none": [code(cudart.cudaDeviceDisablePeerAccess(FAR)), last()],
    }
    return found | {"last": last()}


@program("the driver's peer access to the context itself, and to none")
def own_peer_of_the_driver():
    with Kept() as context:
        return {
            "own": code(driver.cuCtxEnablePeerAccess(context, 0)),
            "with flags": code(driver.cuCtxEnablePeerAccess(context, 1)),
            "disable": code(driver.cuCtxDisablePeerAccess(context)),
            "null": code(driver.cuCtxEnablePeerAccess(driver.CUcontext(0), 0)),
            "disable null": code(driver.cuCtxDisablePeerAccess(driver.CUcontext(0))),
            "can": [code(driver.cuDeviceCanAccessPeer(0, 0)), driver.cuDeviceCanAccessPeer(0, 0)[1]],
            "last": last(),
        }


@program("attributes of the link of a device with itself")
def link_with_itself():
    found = {}
    for kind in ("PerformanceRank", "AccessSupported", "NativeAtomicSupported", "CudaArrayAccessSupported"):
        answer = cudart.cudaDeviceGetP2PAttribute(getattr(cudart.cudaDeviceP2PAttr, f"cudaDevP2PAttr{kind}"), 0, 0)
        found[kind] = [code(answer), answer[1], last()]
        answer = cudart.cudaDeviceGetP2PAttribute(getattr(cudart.cudaDeviceP2PAttr, f"cudaDevP2PAttr{kind}"), 0, FAR)
        found[f"{kind}, none"] = [code(answer), last()]
    kind = driver.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
    found["driver"] = code(driver.cuDeviceGetP2PAttribute(kind, 0, 0))
    return found


@program("contexts are a stack of the host thread: push, pop, replace")
def stack():
    with Kept() as context:
        seen = [current()]
        steps = [
            lambda: driver.cuCtxPushCurrent(context), lambda: driver.cuCtxPushCurrent(context),
            driver.cuCtxPopCurrent, driver.cuCtxPopCurrent, driver.cuCtxPopCurrent, driver.cuCtxPopCurrent,
            lambda: driver.cuCtxPushCurrent(context), lambda: driver.cuCtxSetCurrent(driver.CUcontext(0)),
            lambda: driver.cuCtxSetCurrent(driver.CUcontext(0)), lambda: driver.cuCtxSetCurrent(context),
            driver.cuCtxPopCurrent,
        ]  # fmt: skip
        for step in steps:
            seen.append([code(step()), current()])
        wrong = [code(driver.cuCtxPushCurrent(driver.CUcontext(0)))]
        return {"steps": seen, "null": wrong, "last": last()}


@program("the driver without a current context, and the runtime that makes one current again")
def without_a_context():
    with Kept():
        driver.cuCtxSetCurrent(driver.CUcontext(0))
        found = {
            "memory": driver.cuMemAlloc(64)[0].name,
            "device": driver.cuCtxGetDevice()[0].name,
            "stream": driver.cuStreamCreate(0)[0].name,
            "event": driver.cuEventCreate(0)[0].name,
            "wait": code(driver.cuCtxSynchronize()),
            "flags": driver.cuCtxGetFlags()[0].name,
            "limit": driver.cuCtxGetLimit(driver.CUlimit.CU_LIMIT_STACK_SIZE)[0].name,
            "info": driver.cuMemGetInfo()[0].name,
            "devices": driver.cuDeviceGetCount()[0].name,
            "context": current(),
        }
        found["of the runtime"] = [code(cudart.cudaGetDevice()), cudart.cudaGetDevice()[1], current()]
        found["free"] = [code(cudart.cudaFree(0)), current()]
        return found | {"last": last()}


@program("a host thread begins without a context; a call of the runtime gives it the primary one")
def of_another_thread():
    cudart.cudaFree(0)

    def others():
        found = [current(), driver.cuMemAlloc(64)[0].name, driver.cuCtxGetDevice()[0].name]
        found += [cudart.cudaGetDevice()[1], current(), code(cudart.cudaFree(0)), current()]
        driver.cuCtxSetCurrent(driver.CUcontext(0))
        return [*found, current()]

    before = current()
    seen = in_thread(others)
    return {"before": before, "thread": seen, "after": current(), "again": in_thread(current)}


@program("errors belong to the host thread")
def errors_of_threads():
    cudart.cudaGetLastError()
    cudart.cudaSetDevice(FAR)
    found = {"other": in_thread(last), "own": last(), "own again": last()}
    found["made by another"] = in_thread(lambda: code(cudart.cudaSetDevice(FAR)))
    return found | {"then": last()}


@program("the primary context: state, flags, holding it")
def primary_state():
    cudart.cudaFree(0)
    before = driver.cuDevicePrimaryCtxGetState(0)
    answers = [code(driver.cuDevicePrimaryCtxRetain(0)), code(driver.cuDevicePrimaryCtxRetain(0))]
    answers += [code(driver.cuDevicePrimaryCtxRelease(0)), code(driver.cuDevicePrimaryCtxRelease(0))]
    return {
        "state": [before[0].name, before[2]],
        "codes": answers,
        "active": driver.cuDevicePrimaryCtxGetState(0)[2],
        "flags of none": code(driver.cuDevicePrimaryCtxSetFlags(FAR, 0)),
        "wrong flags": code(driver.cuDevicePrimaryCtxSetFlags(0, 1 << 20)),
        "two schedules": code(driver.cuDevicePrimaryCtxSetFlags(0, 3)),
        "of the runtime": [
            code(cudart.cudaSetDeviceFlags(3)),
            last(),
            code(cudart.cudaSetDeviceFlags(1 << 20)),
            last(),
        ],
    }


@program("released as often as nobody retained it", isolated=True)
def released_too_often():
    cudart.cudaFree(0)
    driver.cuDevicePrimaryCtxRetain(0)
    codes = [code(driver.cuDevicePrimaryCtxRelease(0)) for _ in range(3)]
    return {
        "codes": codes,
        "active": driver.cuDevicePrimaryCtxGetState(0)[2],
        "memory": code(cudart.cudaMalloc(64)),
        "last": last(),
    }


@program("cudaMemcpyPeer on one device: data, sizes, wrong devices, wrong memory")
def peer_copies_on_one_device():
    with device_memory(256) as memory, streams(1) as (stream,):
        values = np.arange(16, dtype=np.int32)
        cudart.cudaMemcpy(memory, values.ctypes.data, 64, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
        found = {
            "plain": code(cudart.cudaMemcpyPeer(memory + 64, 0, memory, 0, 64)),
            "in a stream": code(cudart.cudaMemcpyPeerAsync(memory + 128, 0, memory + 64, 0, 64, stream)),
            "wait": code(cudart.cudaDeviceSynchronize()),
            "nothing": code(cudart.cudaMemcpyPeer(memory, 0, memory + 64, 0, 0)),
            "no destination device": [code(cudart.cudaMemcpyPeer(memory, FAR, memory + 64, 0, 64)), last()],
            "no source device": [code(cudart.cudaMemcpyPeer(memory, 0, memory + 64, FAR, 64)), last()],
            "null": [code(cudart.cudaMemcpyPeer(0, 0, memory + 64, 0, 64)), last()],
        }
        return found | {"data": fetched(memory, 48)}


@program("cuMemcpyPeer in one context: data, and contexts that are none")
def peer_copies_of_the_driver():
    with Kept() as context, device_memory(256) as memory:
        values = np.arange(16, dtype=np.int32)
        cudart.cudaMemcpy(memory, values.ctypes.data, 64, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
        to, of = driver.CUdeviceptr(memory + 64), driver.CUdeviceptr(memory)
        null = driver.CUcontext(0)
        found = {
            "plain": code(driver.cuMemcpyPeer(to, context, of, context, 64)),
            "no destination": code(driver.cuMemcpyPeer(to, null, of, context, 64)),
            "no source": code(driver.cuMemcpyPeer(to, context, of, null, 64)),
            "nothing": code(driver.cuMemcpyPeer(to, context, of, context, 0)),
        }
        cudart.cudaDeviceSynchronize()
        return found | {"data": fetched(memory, 32), "last": last()}


@program("CuPy's device: number, comparison, with, use, of nobody")
def devices_of_cupy():
    device = cp.cuda.Device(0)
    with device as entered:
        number = cp.cuda.runtime.getDevice()
    return {
        "numbers": [device.id, int(device), number, cp.cuda.get_device_id()],
        "same": [entered is device, device == cp.cuda.Device(), device < cp.cuda.Device(0)],
        "used": cp.cuda.Device(0).use() == device,
        "capability": device.compute_capability,
        "peers": cp.cuda.runtime.deviceCanAccessPeer(0, 0),
        "count": cp.cuda.runtime.getDeviceCount() >= 1,
        "array": [cp.zeros(2).device == device, int(cp.zeros(2).data.device_id)],
        "stream": cp.cuda.Stream().device_id,
    }
