"""Attributes of a launch: which of them a plain launch takes, with which values, and what stays of them."""

import ctypes

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import STORE_SOURCE, attribute, event_state, fetched, launched, spin, streams, warm
from ..program import code, program

CLUSTER_SOURCE = r"""
extern "C" __global__ void ranks(int* out) {
    unsigned rank, count;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    out[blockIdx.x] = 100 * count + rank;
}"""


def codes(*lists, **options):
    """For each list of attributes: the code of a launch with them, what it wrote, and the code of the wait for it."""
    kernel, out = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32)
    found = []
    for number, attributes in enumerate(lists, 1):
        answer = launched(kernel, attributes, out.data.ptr, np.int32(number), **options)
        waited = code(driver.cuCtxSynchronize())
        found.append([answer, waited, int(out[0]) == number])
    return found


@program("each attribute of a launch with the value that a new structure has")
def first_values():
    names = (
        "IGNORE", "ACCESS_POLICY_WINDOW", "COOPERATIVE", "CLUSTER_SCHEDULING_POLICY_PREFERENCE",
        "PROGRAMMATIC_STREAM_SERIALIZATION", "PRIORITY", "MEM_SYNC_DOMAIN_MAP", "MEM_SYNC_DOMAIN",
        "PREFERRED_SHARED_MEMORY_CARVEOUT", "NVLINK_UTIL_CENTRIC_SCHEDULING",
    )  # fmt: skip
    return {name: codes([attribute(name)])[0] for name in names}


@program("attributes whose first value means nothing: sizes of zero, no event, no policy")
def empty_values():
    names = (
        "SYNCHRONIZATION_POLICY", "CLUSTER_DIMENSION", "PROGRAMMATIC_EVENT", "PREFERRED_CLUSTER_DIMENSION",
        "LAUNCH_COMPLETION_EVENT", "DEVICE_UPDATABLE_KERNEL_NODE",
    )  # fmt: skip
    found = {name: codes([attribute(name)])[0] for name in names}
    return found | {"last": code(cudart.cudaGetLastError())}


@program("priorities of a launch: within the range, beyond both ends; the stream keeps its own")
def priorities():
    with streams(1) as (stream,):
        kernel, out = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32)
        cudart.cudaDeviceSynchronize()
        found = {
            str(number): launched(
                kernel, [attribute("PRIORITY", priority=number)], out.data.ptr, np.int32(1), stream=stream
            )
            for number in (0, -1, -5, -6, -100, 1, 7)
        }
        found["of the stream"] = [code(cudart.cudaStreamGetPriority(stream)), cudart.cudaStreamGetPriority(stream)[1]]
    return found


@program("access policy windows of a launch: sizes, hit ratios, properties")
def windows():
    most = cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrMaxAccessPolicyWindowSize, 0)[1]
    memory = cp.zeros(1 << 16, cp.uint8)
    kind = driver.CUaccessProperty
    normal = kind.CU_ACCESS_PROPERTY_NORMAL
    streaming = kind.CU_ACCESS_PROPERTY_STREAMING
    persisting = kind.CU_ACCESS_PROPERTY_PERSISTING

    def window(size, ratio, hit, miss, base=None):
        made = driver.CUlaunchAttributeValue()
        made.accessPolicyWindow.base_ptr = memory.data.ptr if base is None else base
        made.accessPolicyWindow.num_bytes = size
        made.accessPolicyWindow.hitRatio = ratio
        made.accessPolicyWindow.hitProp = hit
        made.accessPolicyWindow.missProp = miss
        wanted = driver.CUlaunchAttribute()
        wanted.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
        wanted.value = made
        return codes([wanted])[0]

    return {
        "persisting": window(1 << 16, 1.0, persisting, streaming),
        "normal": window(1 << 16, 0.5, normal, normal),
        "streaming": window(1 << 16, 0.25, streaming, normal),
        "nothing": window(0, 1.0, persisting, streaming),
        "largest": window(most, 1.0, persisting, streaming),
        "too large": window(most + 1, 1.0, persisting, streaming),
        "ratio above 1": window(1 << 16, 1.5, persisting, streaming),
        "ratio below 0": window(1 << 16, -0.5, persisting, streaming),
        "misses persist": window(1 << 16, 1.0, persisting, persisting),
        "no address": window(1 << 16, 1.0, persisting, streaming, 0),
        "last": code(cudart.cudaGetLastError()),
    }


@program("memory synchronisation domains of a launch, and their map")
def domains():
    domain = driver.CUlaunchMemSyncDomain
    value = cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrMemSyncDomainCount, 0)
    found = {"domains": [code(value), value[1]]}
    for name in ("DEFAULT", "REMOTE"):
        number = getattr(domain, f"CU_LAUNCH_MEM_SYNC_DOMAIN_{name}")
        found[name] = codes([attribute("MEM_SYNC_DOMAIN", memSyncDomain=number)])[0]
    for default, remote in ((0, 1), (1, 0), (3, 3), (3, 4), (4, 0), (0, 255)):
        wanted = attribute("MEM_SYNC_DOMAIN_MAP", memSyncDomainMap__default_=default, memSyncDomainMap__remote=remote)
        found[f"{default} {remote}"] = codes([wanted])[0]
    return found


@program("a domain of a launch with a map in the same launch; the stream keeps its own")
def domain_and_map():
    remote = driver.CUlaunchMemSyncDomain.CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE
    both = [
        attribute("MEM_SYNC_DOMAIN", memSyncDomain=remote),
        attribute("MEM_SYNC_DOMAIN_MAP", memSyncDomainMap__default_=2, memSyncDomainMap__remote=3),
    ]
    with streams(1) as (stream,):
        found = {"codes": codes(both, both[::-1], stream=stream)}
        ask = driver.CUlaunchAttributeID
        error, value = driver.cuStreamGetAttribute(driver.CUstream(stream), ask.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
        found["domain"] = [error.name, int(value.memSyncDomain)]
        error, value = driver.cuStreamGetAttribute(driver.CUstream(stream), ask.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
        found["map"] = [error.name, int(value.memSyncDomainMap.default_), int(value.memSyncDomainMap.remote)]
    return found


@program("a synchronisation policy belongs to a stream")
def synchronization_policy():
    policy = driver.CUsynchronizationPolicy
    found = {}
    for name in ("AUTO", "SPIN", "YIELD", "BLOCKING_SYNC"):
        wanted = getattr(policy, f"CU_SYNC_POLICY_{name}")
        found[name] = codes([attribute("SYNCHRONIZATION_POLICY", syncPolicy=wanted)])[0]
    return found


@program("shares of shared memory that a launch prefers")
def carveouts():
    return {
        str(share): codes([attribute("PREFERRED_SHARED_MEMORY_CARVEOUT", sharedMemCarveout=share)])[0]
        for share in (0, 33, 100, 101, 1000)
    }


@program("cluster sizes of a launch, and the ranks that its blocks have")
def cluster_sizes():
    kernel, out = cp.RawKernel(CLUSTER_SOURCE, "ranks"), cp.zeros(24, cp.int32)
    found = {}
    for size in (1, 2, 3, 8, 16, 5):
        out.fill(-1)
        wanted = attribute("CLUSTER_DIMENSION", clusterDim__x=size, clusterDim__y=1, clusterDim__z=1)
        found[str(size)] = [launched(kernel, [wanted], out.data.ptr, grid=24, block=32), out.get()]
    for y, z in ((0, 1), (1, 0), (2, 1)):
        wanted = attribute("CLUSTER_DIMENSION", clusterDim__x=2, clusterDim__y=y, clusterDim__z=z)
        found[f"2 {y} {z}"] = launched(kernel, [wanted], out.data.ptr, grid=24, block=32)
    found["last"] = code(cudart.cudaGetLastError())
    return found


@program("where the blocks of a cluster go: each policy")
def cluster_policies():
    policy, found = driver.CUclusterSchedulingPolicy, {}
    for name in ("DEFAULT", "SPREAD", "LOAD_BALANCING"):
        wanted = getattr(policy, f"CU_CLUSTER_SCHEDULING_POLICY_{name}")
        kind = "CLUSTER_SCHEDULING_POLICY_PREFERENCE"
        found[name] = codes([attribute(kind, clusterSchedulingPolicyPreference=wanted)])[0]
    return found


@program("the same attribute twice: the code, and which one counts")
def twice():
    kernel, out = cp.RawKernel(CLUSTER_SOURCE, "ranks"), cp.zeros(16, cp.int32)

    def sizes(*each):
        wanted = [attribute("CLUSTER_DIMENSION", clusterDim__x=x, clusterDim__y=1, clusterDim__z=1) for x in each]
        out.fill(-1)
        return [launched(kernel, wanted, out.data.ptr, grid=16, block=32), int(out.max())]

    return {
        "2 and 4": sizes(2, 4),
        "4 and 2": sizes(4, 2),
        "4 and 3": sizes(4, 3),
        "3 and 4": sizes(3, 4),
        "priorities": codes([attribute("PRIORITY", priority=-1), attribute("PRIORITY", priority=0)])[0],
    }


@program("attributes that go together, and those that do not")
def together():
    cluster = attribute("CLUSTER_DIMENSION", clusterDim__x=2, clusterDim__y=1, clusterDim__z=1)
    cooperative = attribute("COOPERATIVE", cooperative=1)
    serial = attribute("PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=1)
    priority = attribute("PRIORITY", priority=-2)
    return {
        "cooperative clusters": codes([cluster, cooperative], grid=2)[0][:2],
        "programmatic clusters": codes([cluster, serial], grid=2)[0][:2],
        "programmatic and cooperative": codes([serial, cooperative])[0],
        "cooperative with priority": codes([cooperative, priority])[0],
        "three": codes([serial, priority, attribute("IGNORE")])[0],
        "last": code(cudart.cudaGetLastError()),
    }


@program("the number of attributes: fewer than the list has, none, far too many blocks with one")
def number_of_attributes():
    kernel, out = cp.RawKernel(CLUSTER_SOURCE, "ranks"), cp.zeros(4, cp.int32)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 4, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 1, 1, 1
    two = attribute("CLUSTER_DIMENSION", clusterDim__x=2, clusterDim__y=1, clusterDim__z=1)
    found = {}
    for name, number in (("both", 2), ("first", 1), ("none", 0)):
        config.attrs = [attribute("IGNORE"), two]
        config.numAttrs = number
        answer = driver.cuLaunchKernelEx(
            config, driver.CUfunction(kernel.kernel.ptr), ((out.data.ptr,), (ctypes.c_void_p,)), 0
        )
        found[name] = [code(answer), out.get()]
    return found


@program("an event that a launch records when its blocks have started, or when they have triggered")
def events_of_launches():
    with streams(1) as (stream,):
        kernel, out = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32)
        cudart.cudaDeviceSynchronize()
        found = {}
        for name, flags in (("timing", 0), ("no timing", 2), ("blocking", 3)):
            event = driver.cuEventCreate(flags)[1]
            programmatic = attribute("PROGRAMMATIC_EVENT", programmaticEvent__event=event)
            at_start = attribute(
                "PROGRAMMATIC_EVENT", programmaticEvent__event=event, programmaticEvent__triggerAtBlockStart=1
            )
            external = attribute("PROGRAMMATIC_EVENT", programmaticEvent__event=event, programmaticEvent__flags=1)
            completion = attribute("LAUNCH_COMPLETION_EVENT", launchCompletionEvent__event=event)
            for kind, wanted in (
                ("programmatic", programmatic), ("at start", at_start), ("external", external),
                ("completion", completion),
            ):  # fmt: skip
                answer = launched(kernel, [wanted], out.data.ptr, np.int32(1), stream=stream)
                cudart.cudaStreamSynchronize(stream)
                found[f"{kind}, {name}"] = [answer, event_state(int(event))]
            driver.cuEventDestroy(event)
        found["last"] = code(cudart.cudaGetLastError())
    return found


@program("an event of a launch completes with it, behind what its stream has to do before")
def event_behind_work():
    warm()
    with streams(1) as (stream,):
        kernel, out = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32)
        event = driver.cuEventCreate(2)[1]
        found = {}
        for kind, wanted in (
            ("programmatic", attribute("PROGRAMMATIC_EVENT", programmaticEvent__event=event)),
            ("completion", attribute("LAUNCH_COMPLETION_EVENT", launchCompletionEvent__event=event)),
        ):
            spin(stream)
            answer = launched(kernel, [wanted], out.data.ptr, np.int32(1), stream=stream)
            before = event_state(int(event))
            waited = code(driver.cuEventSynchronize(event))
            found[kind] = [answer, before, waited, event_state(int(event))]
            cudart.cudaDeviceSynchronize()
        driver.cuEventDestroy(event)
    return found


@program("a kernel of a graph only: an updatable node in a plain launch")
def updatable_node():
    updatable = attribute("DEVICE_UPDATABLE_KERNEL_NODE", deviceUpdatableKernelNode__deviceUpdatable=1)
    return {"codes": codes([updatable])[0], "last": code(cudart.cudaGetLastError())}


@program("attributes of launches that a stream is asked for, or given")
def of_streams():
    names = (
        "IGNORE", "COOPERATIVE", "CLUSTER_DIMENSION", "CLUSTER_SCHEDULING_POLICY_PREFERENCE",
        "PROGRAMMATIC_STREAM_SERIALIZATION", "PROGRAMMATIC_EVENT", "PREFERRED_CLUSTER_DIMENSION",
        "LAUNCH_COMPLETION_EVENT", "DEVICE_UPDATABLE_KERNEL_NODE", "PREFERRED_SHARED_MEMORY_CARVEOUT",
        "NVLINK_UTIL_CENTRIC_SCHEDULING",
    )  # fmt: skip
    found = {}
    with streams(1) as (stream,):
        for name in names:
            wanted = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
            asked = driver.cuStreamGetAttribute(driver.CUstream(stream), wanted)
            given = driver.cuStreamSetAttribute(driver.CUstream(stream), wanted, driver.CUstreamAttrValue())
            found[name] = [code(asked), code(given)]
    return found


@program("how many clusters of a launch are resident, as its configuration says")
def cluster_occupancy():
    kernel = cp.RawKernel(CLUSTER_SOURCE, "ranks")
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 64, 1, 1
    found = {}
    for threads, shared, size in ((32, 0, 2), (1024, 0, 4), (1024, 40000, 8), (256, 0, 3), (32, 0, 16), (32, 60000, 2)):
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = shared
        config.attrs = [attribute("CLUSTER_DIMENSION", clusterDim__x=size, clusterDim__y=1, clusterDim__z=1)]
        config.numAttrs = 1
        error, count = driver.cuOccupancyMaxActiveClusters(driver.CUfunction(kernel.kernel.ptr), config)
        found[f"{threads} {shared} {size}"] = [error.name, None if count is None else int(count)]
    return found


@program("what a launch wrote is fetched after attributes were refused: the device is as before")
def state_after_errors():
    out = cp.zeros(1, cp.int32)
    kernel = cp.RawKernel(STORE_SOURCE, "store")
    refused = launched(
        kernel, [attribute("MEM_SYNC_DOMAIN_MAP", memSyncDomainMap__default_=9, memSyncDomainMap__remote=9)],
        out.data.ptr, np.int32(1),
    )  # fmt: skip
    last = code(cudart.cudaGetLastError())
    plain = launched(kernel, [], out.data.ptr, np.int32(5))
    return {"refused": refused, "last": last, "plain": plain, "out": fetched(out.data.ptr, 1)}
