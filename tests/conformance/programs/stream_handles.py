"""Streams as objects: flags, priorities, ids, attributes, capture state, handles of three modules, destruction."""

from cudalab import cp, cudart, driver

from ..busy import Handle, event_state, events, spin, state, streams, warm
from ..program import code, program, raised


def value_of(answer):
    """Error and value of a call, the value as a number."""
    return [code(answer), None if answer[1] is None else int(answer[1])]


@program("flags that streams can be created with")
def creation_flags():
    result = {}
    for flags in (0, 1, 2, 3, 4, 0x80000000):
        answer = cudart.cudaStreamCreateWithFlags(flags)
        result[str(flags)] = code(answer)
        if code(answer) == "cudaSuccess":
            result[str(flags)] += f" {cudart.cudaStreamGetFlags(answer[1])[1]}"
            cudart.cudaStreamDestroy(answer[1])
    cudart.cudaGetLastError()
    return result


@program("priorities are clamped to the range of the device")
def priorities():
    _, least, greatest = cudart.cudaDeviceGetStreamPriorityRange()
    found = {}
    for asked in (100, 1, 0, -1, -3, greatest, greatest - 1, -1000):
        error, stream = cudart.cudaStreamCreateWithPriority(cudart.cudaStreamNonBlocking, asked)
        found[str(asked)] = [error.name, *value_of(cudart.cudaStreamGetPriority(stream))]
        cudart.cudaStreamDestroy(stream)
    bad = cudart.cudaStreamCreateWithPriority(8, 0)[0].name
    cudart.cudaGetLastError()
    return {"range": [int(least), int(greatest)], "found": found, "bad flags": bad}


@program("every stream has an id of its own, which runtime and driver agree on")
def ids():
    with streams(0, 1, 0) as handles:
        found = [int(cudart.cudaStreamGetId(handle)[1]) for handle in handles]
        again = [int(cudart.cudaStreamGetId(handle)[1]) for handle in handles]
        same = [int(driver.cuStreamGetId(driver.CUstream(handle))[1]) for handle in handles]
    return {
        "different": len(set(found)) == 3,
        "stable": found == again,
        "driver": found == same,
        "growing": found == sorted(found),
    }


@program("the device and the context of a stream")
def device_of_stream():
    with streams(0) as (stream,):
        context = driver.cuStreamGetCtx(driver.CUstream(stream))
        return {
            "device": value_of(cudart.cudaStreamGetDevice(stream)),
            "context": [code(context), int(context[1]) == int(driver.cuCtxGetCurrent()[1])],
            "of null": code(driver.cuStreamGetCtx(driver.CUstream(0))),
        }


@program("destroying a stream with work pending returns at once, and the work completes")
def destroyed_with_work():
    warm()
    out = cp.zeros(1, cp.int32)
    cudart.cudaDeviceSynchronize()
    with events(1) as (event,):
        _, stream = cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)
        spin(stream, out.data.ptr, 8)
        cudart.cudaEventRecord(event, stream)
        destroyed = code(cudart.cudaStreamDestroy(stream))
        before = event_state(event)
        sync = code(cudart.cudaEventSynchronize(event))
        return {"destroy": destroyed, "before": before, "sync": sync, "out": int(out[0])}


@program("what a stream that does not capture says of capturing")
def not_capturing():
    none = cudart.cudaStreamCaptureStatus.cudaStreamCaptureStatusNone
    with streams(0) as (stream,):
        result = {}
        for name, handle in (("stream", stream), ("null", 0), ("per thread", 2)):
            error, status = cudart.cudaStreamIsCapturing(handle)
            information = cudart.cudaStreamGetCaptureInfo(handle)
            result[name] = [error.name, status == none, code(information), information[1] == none]
        mode = driver.cuStreamIsCapturing(driver.CUstream(stream))
        result["driver"] = [code(mode), mode[1].name]
        return result


def attribute(stream, name):
    """A stream attribute as it is now."""
    return cudart.cudaStreamGetAttribute(stream, getattr(cudart.cudaStreamAttrID, name))


def set_attribute(stream, name, **fields):
    """Sets fields of a stream attribute."""
    value = cudart.cudaStreamAttrValue()
    for field, new in fields.items():
        setattr(value, field, new)
    return code(cudart.cudaStreamSetAttribute(stream, getattr(cudart.cudaStreamAttrID, name), value))


@program("the attribute for how a host thread waits for a stream")
def synchronisation_policy():
    policies = cudart.cudaSynchronizationPolicy
    name = "cudaLaunchAttributeSynchronizationPolicy"
    with streams(0) as (stream,):
        result = {}
        for policy in (policies.cudaSyncPolicyBlockingSync, policies.cudaSyncPolicySpin, policies.cudaSyncPolicyYield):
            done = set_attribute(stream, name, syncPolicy=policy)
            result[policy.name] = [done, int(attribute(stream, name)[1].syncPolicy)]
        return result


@program("the priority of a stream as an attribute")
def priority_attribute():
    name = "cudaLaunchAttributePriority"
    _, stream = cudart.cudaStreamCreateWithPriority(1, -2)
    first = attribute(stream, name)
    result = {
        "first": [code(first), first[1].priority if first[1] is not None else None],
        "set": set_attribute(stream, name, priority=-4),
        "then": value_of(cudart.cudaStreamGetPriority(stream)),
        "too great": set_attribute(stream, name, priority=-100),
        "at last": value_of(cudart.cudaStreamGetPriority(stream)),
    }
    cudart.cudaStreamDestroy(stream)
    cudart.cudaGetLastError()
    return result


@program("the access policy window of a stream: none at first, set, read back, too large")
def access_policy():
    name = "cudaLaunchAttributeAccessPolicyWindow"
    memory = cp.zeros(1 << 20, cp.uint8)
    with streams(0) as (stream,):
        error, value = attribute(stream, name)
        window = value.accessPolicyWindow
        result = {"first": [error.name, int(window.num_bytes), float(window.hitRatio), window.hitProp.name]}
        wanted = cudart.cudaStreamAttrValue()
        wanted.accessPolicyWindow.base_ptr = memory.data.ptr
        wanted.accessPolicyWindow.num_bytes = 1 << 20
        wanted.accessPolicyWindow.hitRatio = 0.5
        wanted.accessPolicyWindow.hitProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting
        wanted.accessPolicyWindow.missProp = cudart.cudaAccessProperty.cudaAccessPropertyStreaming
        number = cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
        result["set"] = code(cudart.cudaStreamSetAttribute(stream, number, wanted))
        window = attribute(stream, name)[1].accessPolicyWindow
        result["then"] = [
            int(window.base_ptr) == memory.data.ptr,
            int(window.num_bytes),
            float(window.hitRatio),
            window.hitProp.name,
            window.missProp.name,
        ]
        wanted.accessPolicyWindow.num_bytes = 1 << 40
        result["too large"] = code(cudart.cudaStreamSetAttribute(stream, number, wanted))
        wanted.accessPolicyWindow.num_bytes = 1 << 20
        wanted.accessPolicyWindow.hitRatio = 1.5
        result["ratio"] = code(cudart.cudaStreamSetAttribute(stream, number, wanted))
        wanted.accessPolicyWindow.hitRatio = 0.5
        wanted.accessPolicyWindow.missProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting
        result["misses persist"] = code(cudart.cudaStreamSetAttribute(stream, number, wanted))
        cudart.cudaGetLastError()
        return result


@program("the memory synchronisation domain of a stream")
def sync_domain():
    name, mapping = "cudaLaunchAttributeMemSyncDomain", "cudaLaunchAttributeMemSyncDomainMap"
    remote = cudart.cudaLaunchMemSyncDomain.cudaLaunchMemSyncDomainRemote
    with streams(0) as (stream,):
        first, mapped = attribute(stream, name), attribute(stream, mapping)
        return {
            "first": [code(first), first[1].memSyncDomain.name],
            "map": [code(mapped), int(mapped[1].memSyncDomainMap.default_), int(mapped[1].memSyncDomainMap.remote)],
            "set": set_attribute(stream, name, memSyncDomain=remote),
            "then": attribute(stream, name)[1].memSyncDomain.name,
        }


@program("attributes that are not a stream's")
def wrong_attributes():
    result = {}
    with streams(0) as (stream,):
        for name in ("Cooperative", "ClusterDimension", "ProgrammaticStreamSerialization", "Ignore"):
            found = attribute(stream, f"cudaLaunchAttribute{name}")
            result[name] = [code(found), set_attribute(stream, f"cudaLaunchAttribute{name}")]
    cudart.cudaGetLastError()
    return result


@program("attributes are copied from one stream to another")
def copied_attributes():
    name = "cudaLaunchAttributeSynchronizationPolicy"
    blocking = cudart.cudaSynchronizationPolicy.cudaSyncPolicyBlockingSync
    with streams(0, 1) as (one, two):
        set_attribute(one, name, syncPolicy=blocking)
        copied = code(cudart.cudaStreamCopyAttributes(two, one))
        return {
            "copy": copied,
            "policy": int(attribute(two, name)[1].syncPolicy),
            "flags": value_of(cudart.cudaStreamGetFlags(two)),
        }


@program("attributes of the default streams")
def attributes_of_default():
    name = "cudaLaunchAttributeSynchronizationPolicy"
    return {
        str(handle): [code(attribute(handle, name)), code(attribute(handle, "cudaLaunchAttributePriority"))]
        for handle in (0, 1, 2)
    }


@program("one stream under the names of runtime, driver and CuPy")
def three_names():
    warm()
    _, made = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    handle = int(made)
    spin(handle)
    busy = [code(cudart.cudaStreamQuery(handle)), code(driver.cuStreamQuery(made))]
    stream = cp.cuda.Stream.from_external(Handle(handle))
    busy.append(stream.done)
    stream.synchronize()
    result = {
        "busy": busy,
        "after": [code(cudart.cudaStreamQuery(handle)), code(driver.cuStreamQuery(made)), stream.done],
        "flags": [
            stream.is_non_blocking,
            value_of(driver.cuStreamGetFlags(made)),
            value_of(cudart.cudaStreamGetFlags(handle)),
        ],
        "priority": [stream.priority, value_of(driver.cuStreamGetPriority(made))],
        "destroy": code(cudart.cudaStreamDestroy(handle)),
    }
    return result


@program("streams of the driver: flags, priorities, invalid flags, default handles")
def of_the_driver():
    result = {}
    for flags in (0, 1, 2):
        error, stream = driver.cuStreamCreate(flags)
        result[str(flags)] = [error.name]
        if error.name == "CUDA_SUCCESS":
            result[str(flags)] += [int(driver.cuStreamGetFlags(stream)[1]), code(driver.cuStreamSynchronize(stream))]
            driver.cuStreamDestroy(stream)
    error, stream = driver.cuStreamCreateWithPriority(1, -99)
    result["clamped"] = [error.name, int(driver.cuStreamGetPriority(stream)[1])]
    result["range"] = [int(x) for x in driver.cuCtxGetStreamPriorityRange()[1:]]
    result["idle"] = code(driver.cuStreamQuery(stream))
    result["destroy"] = code(driver.cuStreamDestroy(stream))
    result["null"] = [
        code(driver.cuStreamQuery(driver.CUstream(0))),
        code(driver.cuStreamSynchronize(driver.CUstream(0))),
    ]
    return result


@program("a stream of another library in CuPy: work, queries, equality, no destruction")
def external_stream():
    warm()
    out = cp.zeros(1, cp.int32)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (handle,):
        stream = cp.cuda.Stream.from_external(Handle(handle))
        with stream:
            inside = cp.cuda.get_current_stream().ptr == handle
            spin(stream, out.data.ptr, 6)
        busy = [stream.done, state(handle)]
        event = stream.record()
        event.synchronize()
        facts = [stream.ptr == handle, stream == cp.cuda.Stream.from_external(Handle(handle)), type(stream).__name__]
        del stream
        still = state(handle)
    return {
        "inside": inside,
        "busy": busy,
        "facts": facts,
        "out": int(out[0]),
        "still there": still,
        "not a stream": raised(lambda: cp.cuda.Stream.from_external(5)),
    }


@program("streams of CuPy: hash, equality, protocol, properties")
def of_cupy():
    a, b = cp.cuda.Stream(non_blocking=True, priority=-1), cp.cuda.Stream()
    return {
        "hash": [hash(a) == a.ptr, hash(cp.cuda.Stream.null)],
        "equal": [a == a, a == b, a != b, cp.cuda.Stream(null=True) == cp.cuda.Stream.null, a == 5],
        "protocol": [a.__cuda_stream__() == (0, a.ptr), cp.cuda.Stream.null.__cuda_stream__()],
        "non-blocking": [a.is_non_blocking, b.is_non_blocking, cp.cuda.Stream.null.is_non_blocking],
        "priority": [a.priority, b.priority, cp.cuda.Stream.null.priority],
        "device": [a.device_id, cp.cuda.Stream.null.device_id],
        "capturing": [a.is_capturing(), cp.cuda.Stream.null.is_capturing()],
        "bool": bool(a),
    }


@program("CuPy's calls of the runtime for streams: numbers in, numbers out")
def of_cupy_runtime():
    runtime = cp.cuda.runtime
    stream = runtime.streamCreateWithFlags(runtime.streamNonBlocking)
    other = runtime.streamCreate()
    result = {
        "type": type(stream).__name__,
        "flags": [runtime.streamGetFlags(stream), runtime.streamGetFlags(other)],
        "priority": runtime.streamGetPriority(stream),
        "query": runtime.streamQuery(stream),
        "capturing": runtime.streamIsCapturing(stream),
        "bad flags": raised(lambda: runtime.streamCreateWithFlags(77)),
        "null event": raised(lambda: runtime.streamWaitEvent(stream, 0)),
        "destroy null": raised(lambda: runtime.streamDestroy(0)),
    }
    runtime.streamSynchronize(stream)
    runtime.streamDestroy(stream), runtime.streamDestroy(other)
    return result


@program("waiting for an event with flags that do not exist, or that belong to capture")
def wait_flags():
    with streams(1) as (stream,), events(1) as (event,):
        cudart.cudaEventRecord(event, stream)
        result = {str(flags): code(cudart.cudaStreamWaitEvent(stream, event, flags)) for flags in (0, 1, 2, 77)}
        result["null event"] = code(cudart.cudaStreamWaitEvent(stream, 0, 0))
        result["driver"] = [
            code(driver.cuStreamWaitEvent(driver.CUstream(stream), driver.CUevent(event), flags))
            for flags in (0, 1, 77)
        ]
        cudart.cudaGetLastError()
        return result
