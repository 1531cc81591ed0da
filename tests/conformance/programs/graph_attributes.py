"""Attributes of kernel nodes: what they are when nothing was said, set and read back, copied, captured, updated."""

from cudalab import cp, cudart, driver

from ..appending import append_node, graph, launch_of, logged, mode_of, new_log, run_graph, warm_appends
from ..busy import attribute, launched, spin, streams, warm
from ..program import code, program

IDS = cudart.cudaLaunchAttributeID
CLUSTER_SOURCE = r"""
extern "C" __global__ void ranks(int* out) {
    unsigned rank, size;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    if (threadIdx.x == 0) out[blockIdx.x] = rank + 100 * size;
}"""


def node_of(made, log, value=1, after=()):
    return cudart.cudaGraphNode_t(int(append_node(made, list(after), log, value)))


def got(node, name):
    """The error, and the value of an attribute as plain numbers."""
    error, value = cudart.cudaGraphKernelNodeGetAttribute(node, getattr(IDS, f"cudaLaunchAttribute{name}"))
    if error.value:
        return error.name
    return plain(name, value)


NAMES = (
    "AccessPolicyWindow",
    "Cooperative",
    "SynchronizationPolicy",
    "ClusterDimension",
    "ClusterSchedulingPolicyPreference",
    "ProgrammaticStreamSerialization",
    "Priority",
    "MemSyncDomainMap",
    "MemSyncDomain",
    "PreferredClusterDimension",
    "PreferredSharedMemoryCarveout",
)


def plain(name, value):
    """The value of an attribute as plain numbers."""
    if name == "AccessPolicyWindow":
        window = value.accessPolicyWindow
        return [int(window.base_ptr) != 0, int(window.num_bytes), float(window.hitRatio), int(window.hitProp)]
    if name == "ClusterDimension":
        return [int(value.clusterDim.x), int(value.clusterDim.y), int(value.clusterDim.z)]
    if name == "MemSyncDomainMap":
        return [int(value.memSyncDomainMap.default_), int(value.memSyncDomainMap.remote)]
    if name == "PreferredClusterDimension":
        return int(value.preferredClusterDim.x)
    field = {
        "Cooperative": "cooperative",
        "SynchronizationPolicy": "syncPolicy",
        "ClusterSchedulingPolicyPreference": "clusterSchedulingPolicyPreference",
        "ProgrammaticStreamSerialization": "programmaticStreamSerializationAllowed",
        "Priority": "priority",
        "MemSyncDomain": "memSyncDomain",
        "PreferredSharedMemoryCarveout": "sharedMemCarveout",
    }[name]
    return int(getattr(value, field))


def put(node, name, **fields):
    """Set an attribute; a nested field is ``clusterDim__x``. The error."""
    value = cudart.cudaKernelNodeAttrValue()
    for path, number in fields.items():
        *outer, field = path.split("__")
        place = value
        for part in outer:
            place = getattr(place, part)
        setattr(place, field, number)
    return code(cudart.cudaGraphKernelNodeSetAttribute(node, getattr(IDS, f"cudaLaunchAttribute{name}"), value))


@program("attributes of a kernel node of which nothing was said")
def defaults():
    warm_appends()
    log = new_log()
    with graph() as made:
        node = node_of(made, log)
        found = {name: got(node, name) for name in NAMES}
    cudart.cudaGetLastError()
    return found


@program("priority: set, read back, beyond the range, and kept by a launch")
def priority():
    warm_appends()
    log = new_log()
    with graph() as made:
        node = node_of(made, log)
        result = {}
        for value in (-3, -5, 0, 4, -100):
            result[str(value)] = [put(node, "Priority", priority=value), got(node, "Priority")]
        put(node, "Priority", priority=-2)
        _, executable = cudart.cudaGraphInstantiate(made, 8)
        result["launch"] = [code(cudart.cudaGraphLaunch(executable, 0)), code(cudart.cudaDeviceSynchronize())]
        result["flags"] = int(cudart.cudaGraphExecGetFlags(executable)[1])
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return {**result, "log": logged(log)}


@program("cooperative: set, read back, cleared")
def cooperative():
    warm_appends()
    log = new_log()
    with graph() as made:
        node = node_of(made, log)
        result = {
            "set": [put(node, "Cooperative", cooperative=1), got(node, "Cooperative")],
            "went": run_graph(made),
            "cleared": [put(node, "Cooperative", cooperative=0), got(node, "Cooperative")],
            "seven": [put(node, "Cooperative", cooperative=7), got(node, "Cooperative")],
        }
    cudart.cudaGetLastError()
    return {**result, "log": logged(log)}


@program("clusters: set, read back, and what the kernel sees of it")
def clusters():
    out = cp.zeros(8, cp.int32)
    kernel = cp.RawKernel(CLUSTER_SOURCE, "ranks")
    with graph() as made:
        params = launch_of(out, 0, grid=8, block=32)
        params.func = driver.CUfunction(int(kernel.kernel.ptr))
        error, found = driver.cuGraphAddKernelNode(driver.CUgraph(int(made)), [], 0, params)
        node = cudart.cudaGraphNode_t(int(found))
        result = {"added": error.name}
        for size in (2, 4, 3, 16):
            answer = put(node, "ClusterDimension", clusterDim__x=size, clusterDim__y=1, clusterDim__z=1)
            result[str(size)] = [answer, got(node, "ClusterDimension")]
        put(node, "ClusterDimension", clusterDim__x=4, clusterDim__y=1, clusterDim__z=1)
        result["went"] = run_graph(made)
        result["zero"] = put(node, "ClusterDimension", clusterDim__x=0, clusterDim__y=0, clusterDim__z=0)
        result["then"] = got(node, "ClusterDimension")
    cudart.cudaGetLastError()
    return {**result, "out": out}


@program("a node whose clusters do not divide its grid: when that is noticed")
def wrong_clusters():
    warm_appends()
    log = new_log()
    with graph() as made:
        node = node_of(made, log)  # one block
        result = {"set": put(node, "ClusterDimension", clusterDim__x=2, clusterDim__y=1, clusterDim__z=1)}
        result["read"] = got(node, "ClusterDimension")
        result["went"] = run_graph(made)
    cudart.cudaGetLastError()
    return result


@program("an access policy window of a node")
def windows():
    warm_appends()
    log, data = new_log(), cp.zeros(1 << 16, cp.uint8)
    with graph() as made:
        node = node_of(made, log)
        fields = {
            "accessPolicyWindow__base_ptr": int(data.data.ptr),
            "accessPolicyWindow__num_bytes": 1 << 16,
            "accessPolicyWindow__hitRatio": 0.5,
            "accessPolicyWindow__hitProp": cudart.cudaAccessProperty.cudaAccessPropertyPersisting,
            "accessPolicyWindow__missProp": cudart.cudaAccessProperty.cudaAccessPropertyStreaming,
        }
        result = {"set": put(node, "AccessPolicyWindow", **fields), "read": got(node, "AccessPolicyWindow")}
        wrong = {**fields, "accessPolicyWindow__hitRatio": 1.5}
        result["ratio"] = [put(node, "AccessPolicyWindow", **wrong), got(node, "AccessPolicyWindow")]
        result["too long"] = put(node, "AccessPolicyWindow", **{**fields, "accessPolicyWindow__num_bytes": 1 << 40})
        result["went"] = run_graph(made)
    cudart.cudaGetLastError()
    return {**result, "log": logged(log)}


@program("domains, carve-outs and preferences of a node")
def others():
    warm_appends()
    log = new_log()
    with graph() as made:
        node = node_of(made, log)
        domain = cudart.cudaLaunchMemSyncDomain
        spread = cudart.cudaClusterSchedulingPolicy.cudaClusterSchedulingPolicySpread
        result = {
            "domain": [
                put(node, "MemSyncDomain", memSyncDomain=domain.cudaLaunchMemSyncDomainRemote),
                got(node, "MemSyncDomain"),
            ],
            "map": [
                put(node, "MemSyncDomainMap", memSyncDomainMap__default_=1, memSyncDomainMap__remote=2),
                got(node, "MemSyncDomainMap"),
            ],
            "map of 9": put(node, "MemSyncDomainMap", memSyncDomainMap__default_=9, memSyncDomainMap__remote=0),
            "carve-out": [
                put(node, "PreferredSharedMemoryCarveout", sharedMemCarveout=50),
                got(node, "PreferredSharedMemoryCarveout"),
            ],
            "carve-out of 101": put(node, "PreferredSharedMemoryCarveout", sharedMemCarveout=101),
            "scheduling": [
                put(node, "ClusterSchedulingPolicyPreference", clusterSchedulingPolicyPreference=spread),
                got(node, "ClusterSchedulingPolicyPreference"),
            ],
            "serialisation": [
                put(node, "ProgrammaticStreamSerialization", programmaticStreamSerializationAllowed=1),
                got(node, "ProgrammaticStreamSerialization"),
            ],
            "policy": put(node, "SynchronizationPolicy", syncPolicy=cudart.cudaSynchronizationPolicy(1)),
            "ignored": code(
                cudart.cudaGraphKernelNodeSetAttribute(
                    node, IDS.cudaLaunchAttributeIgnore, cudart.cudaKernelNodeAttrValue()
                )
            ),
        }
        result["went"] = run_graph(made)
    cudart.cudaGetLastError()
    return {**result, "log": logged(log)}


@program("attributes of nodes that are no kernels, of nothing, and without a value")
def wrong_nodes():
    warm_appends()
    log = new_log()
    with graph() as made:
        empty = cudart.cudaGraphAddEmptyNode(made, [], 0)[1]
        node = node_of(made, log)
        value = cudart.cudaKernelNodeAttrValue()
        kind = IDS.cudaLaunchAttributePriority
        result = {
            "get": code(cudart.cudaGraphKernelNodeGetAttribute(empty, kind)),
            "set": code(cudart.cudaGraphKernelNodeSetAttribute(empty, kind, value)),
            "copy to": code(cudart.cudaGraphKernelNodeCopyAttributes(empty, node)),
            "copy from": code(cudart.cudaGraphKernelNodeCopyAttributes(node, empty)),
            "copy to itself": code(cudart.cudaGraphKernelNodeCopyAttributes(node, node)),
            "null": code(cudart.cudaGraphKernelNodeGetAttribute(cudart.cudaGraphNode_t(0), kind)),
        }
    cudart.cudaGetLastError()
    return result


@program("attributes copied from one node to another, and kept by clones, children and new parameters")
def copied():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as parent:
        one, other = node_of(made, log, 1), node_of(made, log, 2)
        put(one, "Priority", priority=-2)
        put(one, "PreferredSharedMemoryCarveout", sharedMemCarveout=25)
        result = {"copied": code(cudart.cudaGraphKernelNodeCopyAttributes(other, one))}
        result["read"] = [got(other, "Priority"), got(other, "PreferredSharedMemoryCarveout")]
        _, clone = cudart.cudaGraphClone(made)
        found = cudart.cudaGraphNodeFindInClone(one, clone)[1]
        result["clone"] = got(found, "Priority")
        cudart.cudaGraphDestroy(clone)
        _, child = cudart.cudaGraphAddChildGraphNode(parent, [], 0, made)
        inner = cudart.cudaGraphChildGraphNodeGetGraph(child)[1]
        result["child"] = [got(each, "Priority") for each in cudart.cudaGraphGetNodes(inner, 2)[1]]
        driver.cuGraphKernelNodeSetParams(driver.CUgraphNode(int(one)), launch_of(log, 5))
        result["new parameters"] = got(one, "Priority")
        result["went"] = run_graph(made)
    return {**result, "log": sorted(logged(log))}


@program("a captured launch takes what its stream says: priority, window, domain")
def of_a_stream():
    warm_appends()
    data = cp.zeros(1 << 16, cp.uint8)
    stream = cudart.cudaStreamCreateWithPriority(1, -3)[1]
    value = cudart.cudaStreamAttrValue()
    window = value.accessPolicyWindow
    window.base_ptr, window.num_bytes, window.hitRatio = int(data.data.ptr), 4096, 1.0
    window.hitProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting
    cudart.cudaStreamSetAttribute(stream, cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow, value)
    domain = cudart.cudaStreamAttrValue()
    domain.memSyncDomain = cudart.cudaLaunchMemSyncDomain.cudaLaunchMemSyncDomainRemote
    cudart.cudaStreamSetAttribute(stream, cudart.cudaStreamAttrID.cudaLaunchAttributeMemSyncDomain, domain)
    cudart.cudaStreamBeginCapture(stream, mode_of(0))
    kernel = cp.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
    answer = launched(kernel, [], stream=int(stream))
    own = launched(kernel, [attribute("PRIORITY", priority=-1)], stream=int(stream))
    _, made = cudart.cudaStreamEndCapture(stream)
    nodes = cudart.cudaGraphGetNodes(made, 2)[1]
    result = {"launched": [answer, own], "priority": [got(node, "Priority") for node in nodes]}
    for name in ("AccessPolicyWindow", "MemSyncDomain", "MemSyncDomainMap"):
        result[name] = [got(node, name) for node in nodes]
    cudart.cudaGraphDestroy(made)
    cudart.cudaStreamDestroy(stream)
    cudart.cudaGetLastError()
    return result


@program("a captured launch with attributes of its own")
def captured():
    out = cp.zeros(8, cp.int32)
    kernel = cp.RawKernel(CLUSTER_SOURCE, "ranks")
    pointer = int(out.data.ptr)
    wanted = {
        "cluster": attribute("CLUSTER_DIMENSION", clusterDim__x=2, clusterDim__y=1, clusterDim__z=1),
        "cooperative": attribute("COOPERATIVE", cooperative=1),
        "priority": attribute("PRIORITY", priority=-2),
        "carve-out": attribute("PREFERRED_SHARED_MEMORY_CARVEOUT", sharedMemCarveout=30),
    }
    kernel.compile()
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, mode_of(0))
        result = {
            name: launched(kernel, [each], pointer, stream=stream, grid=8, block=32) for name, each in wanted.items()
        }
        error, made = cudart.cudaStreamEndCapture(stream)
        result["end"] = error.name
        nodes = cudart.cudaGraphGetNodes(made, 4)[1]
        for name in ("ClusterDimension", "Cooperative", "Priority", "PreferredSharedMemoryCarveout"):
            result[name] = [got(node, name) for node in nodes]
        result["went"] = run_graph(made)
        cudart.cudaGraphDestroy(made)
    cudart.cudaGetLastError()
    return {**result, "out": out}


@program("an update to a graph whose nodes have other attributes")
def updated():
    warm_appends()
    log = new_log()
    result = {}
    cases = {
        "priority": ("Priority", {"priority": -2}),
        "cooperative": ("Cooperative", {"cooperative": 1}),
        "carve-out": ("PreferredSharedMemoryCarveout", {"sharedMemCarveout": 50}),
        "cluster": ("ClusterDimension", {"clusterDim__x": 1, "clusterDim__y": 1, "clusterDim__z": 1}),
    }
    for name, (kind, fields) in cases.items():
        with graph() as made, graph() as other:
            node_of(made, log)
            put(node_of(other, log), kind, **fields)
            _, executable = cudart.cudaGraphInstantiate(made, 0)
            error, found = cudart.cudaGraphExecUpdate(executable, other)
            result[name] = [error.name, found.result.name if found is not None else ""]
            cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return result


@program("nodes of a graph that was instantiated with node priorities, behind a launch that fills the device")
def used_priorities():
    warm_appends()
    warm()
    log = new_log()
    with graph() as made, streams(1) as (stream,):
        nodes = [node_of(made, log, value) for value in range(4)]
        for value, node in enumerate(nodes):
            put(node, "Priority", priority=-value)
        _, executable = cudart.cudaGraphInstantiate(made, 8)
        spin(stream, cycles=1_000_000)
        launch = code(cudart.cudaGraphLaunch(executable, stream))
        cudart.cudaStreamSynchronize(stream)
        cudart.cudaGraphExecDestroy(executable)
    return {"launch": launch, "log": sorted(logged(log))}
