"""The set-aside of the L2, access policy windows on streams, and giving persisting lines back.

What a window makes faster is measured elsewhere; here is what the calls say, what they keep, and what they
leave behind.
"""

from cudalab import cp, cudart, driver

from ..busy import spin, state, streams, warm
from ..program import code, program

MB = 1 << 20
WINDOW = cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
ASIDE = cudart.cudaLimit.cudaLimitPersistingL2CacheSize
NORMAL, STREAMING, PERSISTING = (
    getattr(cudart.cudaAccessProperty, f"cudaAccessProperty{name}") for name in ("Normal", "Streaming", "Persisting")
)


def policy(pointer=0, size=0, ratio=0.0, hit=NORMAL, miss=NORMAL):
    """A stream's attribute with an access policy window."""
    value = cudart.cudaStreamAttrValue()
    window = value.accessPolicyWindow
    window.base_ptr, window.num_bytes, window.hitRatio = pointer, size, ratio
    window.hitProp, window.missProp = hit, miss
    value.accessPolicyWindow = window
    return value


def asked(stream, *fields):
    """Sets a window: the error, which is taken."""
    result = code(cudart.cudaStreamSetAttribute(stream, WINDOW, policy(*fields)))
    cudart.cudaGetLastError()
    return result


def kept(stream, pointer=0):
    """The window of a stream, its address less ``pointer``."""
    error, value = cudart.cudaStreamGetAttribute(stream, WINDOW)
    window = value.accessPolicyWindow
    base = int(window.base_ptr or 0)
    return [
        error.name,
        base - pointer if base else None,
        int(window.num_bytes),
        float(window.hitRatio),
        window.hitProp.name,
        window.missProp.name,
    ]


def aside(value):
    """Sets the set-aside: the error, and what it is then."""
    error = code(cudart.cudaDeviceSetLimit(ASIDE, value))
    cudart.cudaGetLastError()
    return [error, int(cudart.cudaDeviceGetLimit(ASIDE)[1])]


def back():
    """No set-aside and no persisting lines, as at the start."""
    cudart.cudaCtxResetPersistingL2Cache()
    cudart.cudaDeviceSetLimit(ASIDE, 0)
    cudart.cudaGetLastError()


@program("the L2 in the device's properties and attributes")
def properties():
    _, found = cudart.cudaGetDeviceProperties(0)
    names = ("L2CacheSize", "MaxPersistingL2CacheSize", "MaxAccessPolicyWindowSize")
    kinds = [getattr(cudart.cudaDeviceAttr, f"cudaDevAttr{name}") for name in names]
    of_cupy = cp.cuda.runtime.getDeviceProperties(0)
    return {
        "properties": [found.l2CacheSize, found.persistingL2CacheMaxSize, found.accessPolicyMaxWindowSize],
        "attributes": [int(cudart.cudaDeviceGetAttribute(kind, 0)[1]) for kind in kinds],
        "cupy": [of_cupy[n] for n in ("l2CacheSize", "persistingL2CacheMaxSize", "accessPolicyMaxWindowSize")],
    }


@program("the set-aside's most is a part of the L2")
def most_of_the_l2():
    _, found = cudart.cudaGetDeviceProperties(0)
    return {"part": found.persistingL2CacheMaxSize / found.l2CacheSize}


@program("the set-aside by size: what is asked and what is read back")
def set_aside_by_size():
    result = {str(value): aside(value) for value in (MB, 3 * MB, 16 * MB, 20 * MB, 30 * MB, 32 * MB, 0)}
    back()
    return result


@program("sizes of the set-aside that are no round number")
def set_aside_rounded():
    result = {str(value): aside(value) for value in (1, 4096, 65536, MB - 1, MB + 1, 5_000_000, 16 * MB + 1)}
    back()
    return result


@program("the largest set-aside, and more than that")
def set_aside_largest():
    most = cudart.cudaGetDeviceProperties(0)[1].persistingL2CacheMaxSize
    result = {"most": aside(most), "less": aside(most - 1), "more": aside(most + 1), "far more": aside(1 << 40)}
    back()
    return result


@program("a set-aside that is refused leaves the one before")
def set_aside_refused():
    result = {"first": aside(16 * MB), "refused": aside(1 << 40)}
    result["error stays"] = [code(cudart.cudaDeviceSetLimit(ASIDE, 1 << 40)), code(cudart.cudaGetLastError())]
    result["then"] = int(cudart.cudaDeviceGetLimit(ASIDE)[1])
    back()
    return result


@program("the set-aside under the driver's name")
def set_aside_of_the_driver():
    limit = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    cudart.cudaFree(0)
    result = {}
    for value in (0, 8 * MB, 1 << 40):
        error = code(driver.cuCtxSetLimit(limit, value))
        found = driver.cuCtxGetLimit(limit)
        result[str(value)] = [error, code(found), int(found[1]), int(cudart.cudaDeviceGetLimit(ASIDE)[1])]
    back()
    return result


@program("the granularity of fetches from DRAM is a limit beside the set-aside")
def fetch_granularity():
    limit = cudart.cudaLimit.cudaLimitMaxL2FetchGranularity
    result = {"first": int(cudart.cudaDeviceGetLimit(limit)[1])}
    for value in (0, 32, 64, 128, 100, 129, 256):
        error = code(cudart.cudaDeviceSetLimit(limit, value))
        cudart.cudaGetLastError()
        result[str(value)] = [error, int(cudart.cudaDeviceGetLimit(limit)[1])]
    cudart.cudaDeviceSetLimit(limit, result["first"])
    return result


@program("setting something aside waits for all work")
def set_aside_beside_work():
    warm()
    with streams(1) as (stream,):
        spin(stream)
        result = {"set": aside(8 * MB), "busy": state(stream)}
        cudart.cudaStreamSynchronize(stream)
    back()
    return result


@program("giving persisting lines back, with nothing set aside and with something")
def reset():
    result = {"nothing": code(cudart.cudaCtxResetPersistingL2Cache())}
    aside(8 * MB)
    result["something"] = code(cudart.cudaCtxResetPersistingL2Cache())
    result["set-aside stays"] = int(cudart.cudaDeviceGetLimit(ASIDE)[1])
    back()
    return result


@program("giving persisting lines back under the driver's name")
def reset_of_the_driver():
    cudart.cudaFree(0)
    result = {"first": code(driver.cuCtxResetPersistingL2Cache())}
    back()
    return result


@program("giving persisting lines back keeps the window of a stream")
def reset_keeps_windows():
    memory = cp.zeros(MB, cp.uint8)
    with streams(0) as (stream,):
        asked(stream, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)
        result = {"reset": code(cudart.cudaCtxResetPersistingL2Cache()), "window": kept(stream, memory.data.ptr)}
    back()
    return result


@program("giving persisting lines back while a kernel runs")
def reset_beside_work():
    warm()
    with streams(1) as (stream,):
        spin(stream)
        result = {"reset": code(cudart.cudaCtxResetPersistingL2Cache()), "busy": state(stream)}
        cudart.cudaStreamSynchronize(stream)
    back()
    return result


@program("a new stream has no window")
def no_window_at_first():
    with streams(0, 1) as handles:
        return {"windows": [kept(handle) for handle in handles]}


@program("a window with each pair of properties")
def pairs_of_properties():
    memory = cp.zeros(MB, cp.uint8)
    result = {}
    with streams(0) as (stream,):
        for hit in (NORMAL, STREAMING, PERSISTING):
            for miss in (NORMAL, STREAMING, PERSISTING):
                error = asked(stream, memory.data.ptr, MB, 0.5, hit, miss)
                result[f"{hit.name[18:]} {miss.name[18:]}"] = [error, kept(stream, memory.data.ptr)]
    return result


@program("hit ratios within 0 to 1 and outside")
def hit_ratios():
    memory = cp.zeros(MB, cp.uint8)
    result = {}
    with streams(0) as (stream,):
        for ratio in (0.0, 0.25, 0.6, 1.0, 1.0001, -0.25, 2.0, float("inf"), float("nan")):
            error = asked(stream, memory.data.ptr, MB, ratio, PERSISTING, STREAMING)
            result[str(ratio)] = [error, kept(stream, memory.data.ptr)]
    return result


@program("windows up to the largest size and beyond")
def window_sizes():
    most = cudart.cudaGetDeviceProperties(0)[1].accessPolicyMaxWindowSize
    memory = cp.empty(most + MB, cp.uint8)
    result = {}
    with streams(0) as (stream,):
        for name, size in (("one", 1), ("odd", 12345), ("most", most), ("more", most + 1), ("far more", 1 << 40)):
            error = asked(stream, memory.data.ptr, size, 0.5, PERSISTING, STREAMING)
            result[name] = [error, kept(stream, memory.data.ptr)]
    return result


@program("a window that is larger than its memory")
def larger_than_its_memory():
    memory = cp.zeros(1024, cp.uint8)
    with streams(0) as (stream,):
        return {"set": asked(stream, memory.data.ptr, 16 * MB, 1.0, PERSISTING, STREAMING)}


@program("a window over no memory of the device: null, host memory, an address of nothing")
def addresses_of_windows():
    _, host = cudart.cudaMallocHost(MB)
    with streams(0) as (stream,):
        result = {
            "null": asked(stream, 0, MB, 1.0, PERSISTING, STREAMING),
            "host": asked(stream, host, MB, 1.0, PERSISTING, STREAMING),
            "nothing": asked(stream, 4096, MB, 1.0, PERSISTING, STREAMING),
        }
    cudart.cudaFreeHost(host)
    return result


@program("a window that does not begin at a line")
def window_off_a_line():
    memory = cp.zeros(MB, cp.uint8)
    with streams(0) as (stream,):
        error = asked(stream, memory.data.ptr + 7, 1000, 1.0, PERSISTING, STREAMING)
        return {"set": error, "then": kept(stream, memory.data.ptr)}


@program("a window of no bytes switches off the one before")
def switched_off():
    memory = cp.zeros(MB, cp.uint8)
    with streams(0) as (stream,):
        result = {"on": asked(stream, memory.data.ptr, MB, 1.0, PERSISTING, STREAMING)}
        result["off"] = asked(stream, memory.data.ptr, 0, 1.0, PERSISTING, STREAMING)
        result["then"] = kept(stream, memory.data.ptr)
        result["all zero"] = asked(stream)
        result["at last"] = kept(stream)
        return result


@program("a window that is refused leaves the one before")
def refused_window():
    memory = cp.zeros(MB, cp.uint8)
    with streams(0) as (stream,):
        result = {"first": asked(stream, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)}
        result["refused"] = asked(stream, memory.data.ptr, 1 << 40, 0.5, PERSISTING, STREAMING)
        result["then"] = kept(stream, memory.data.ptr)
        return result


@program("what is wrong with a window is remembered as the last error")
def last_error():
    with streams(0) as (stream,):
        error = code(cudart.cudaStreamSetAttribute(stream, WINDOW, policy(0, 1 << 40, 1.0, PERSISTING, STREAMING)))
        result = {
            "error": error,
            "peeked": code(cudart.cudaPeekAtLastError()),
            "taken": code(cudart.cudaGetLastError()),
        }
        result["then"] = code(cudart.cudaGetLastError())
        return result


@program("a window of a stream stays that of this stream")
def of_one_stream():
    memory = cp.zeros(MB, cp.uint8)
    with streams(0, 1) as (one, two):
        asked(one, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)
        return {"one": kept(one, memory.data.ptr), "two": kept(two)}


@program("windows of the default streams")
def default_streams():
    memory = cp.zeros(MB, cp.uint8)
    result = {}
    for handle in (0, 1, 2):
        error = asked(handle, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)
        result[str(handle)] = [error, kept(handle, memory.data.ptr)]
        asked(handle)
    return result


@program("a window copied from one stream to another")
def copied_window():
    memory = cp.zeros(MB, cp.uint8)
    with streams(0, 0) as (one, two):
        asked(one, memory.data.ptr, MB, 0.25, PERSISTING, STREAMING)
        result = {"copy": code(cudart.cudaStreamCopyAttributes(two, one)), "then": kept(two, memory.data.ptr)}
        asked(one)
        result["after the first changed"] = kept(two, memory.data.ptr)
        return result


@program("a window set through the driver is read by the runtime")
def window_of_the_driver():
    memory = cp.zeros(MB, cp.uint8)
    number = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    value = driver.CUstreamAttrValue()
    window = value.accessPolicyWindow
    window.base_ptr, window.num_bytes, window.hitRatio = memory.data.ptr, MB, 0.75
    window.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    value.accessPolicyWindow = window
    with streams(0) as (stream,):
        result = {"set": code(driver.cuStreamSetAttribute(driver.CUstream(stream), number, value))}
        result["runtime"] = kept(stream, memory.data.ptr)
        error, found = driver.cuStreamGetAttribute(driver.CUstream(stream), number)
        window = found.accessPolicyWindow
        result["driver"] = [error.name, int(window.num_bytes), window.hitProp.name, window.missProp.name]
        return result


@program("what is wrong with a window, in the driver's words")
def errors_of_the_driver():
    memory = cp.zeros(MB, cp.uint8)
    number = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    kinds = [driver.CUaccessProperty(each) for each in (0, 1, 2)]
    result = {}
    with streams(0) as (stream,):
        for name, size, ratio, miss in (
            ("size", 1 << 40, 0.5, kinds[1]),
            ("ratio", MB, 1.5, kinds[1]),
            ("miss", MB, 0.5, kinds[2]),
        ):
            value = driver.CUstreamAttrValue()
            window = value.accessPolicyWindow
            window.base_ptr, window.num_bytes, window.hitRatio = memory.data.ptr, size, ratio
            window.hitProp, window.missProp = kinds[2], miss
            value.accessPolicyWindow = window
            result[name] = code(driver.cuStreamSetAttribute(driver.CUstream(stream), number, value))
    return result


@program("a window does not change what a kernel computes, its memory freed or not")
def results_stay():
    aside(8 * MB)
    source = 'extern "C" __global__ void twice(int* x, int n) { for (int i = threadIdx.x; i < n; i += 256) x[i] *= 2; }'
    twice = cp.RawKernel(source, "twice")
    x, gone = cp.arange(4096, dtype=cp.int32), cp.zeros(MB, cp.uint8)
    stream = cp.cuda.Stream(non_blocking=True)
    cudart.cudaDeviceSynchronize()
    asked(stream.ptr, x.data.ptr, x.nbytes, 0.5, PERSISTING, STREAMING)
    with stream:
        twice((1,), (256,), (x, 4096))
    asked(stream.ptr, gone.data.ptr, MB, 1.0, PERSISTING, STREAMING)
    del gone
    cp.get_default_memory_pool().free_all_blocks()
    with stream:
        twice((1,), (256,), (x, 4096))
    result = {"sync": code(cudart.cudaStreamSynchronize(stream.ptr)), "x": x.get()}
    back()
    return result


@program("calls about the L2 while nothing has used the device, in any order")
def any_order():
    return {
        "reset": code(cudart.cudaCtxResetPersistingL2Cache()),
        "off": aside(0),
        "on": aside(MB),
        "again": aside(MB),
        "reset again": code(cudart.cudaCtxResetPersistingL2Cache()),
        "at last": aside(0),
    }


@program("what CUDA's types call the access properties")
def names_of_properties():
    return {
        "runtime": {each.name: int(each) for each in cudart.cudaAccessProperty},
        "driver": {each.name: int(each) for each in driver.CUaccessProperty},
    }
