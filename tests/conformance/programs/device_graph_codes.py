"""What ``cudaGraphLaunch`` returns to kernels, and what it leaves behind."""

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append_node, function_of, logged, new_log
from ..busy import device_memory, fetched
from ..launching import (
    DEVICE,
    FIRE,
    INTO,
    ITSELF,
    KEPT,
    LAUNCH_DECLARATION,
    LONG_NUMBER,
    NUMBER,
    POINTER,
    SIBLING,
    TAIL,
    appends,
    codes_of,
    counted,
    executable_of,
    finished,
    kernel_node,
    launch_node,
    launches,
    loaded,
    new_graph,
    of_driver,
    went,
)
from ..program import code, program

CURRENT_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void current(unsigned long long* out) { *out = itself(); }"""
)
LANES_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void lanes(const unsigned long long* graphs, unsigned long long stream, int* codes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    codes[i] = cudaGraphLaunch((cudaGraphExec_t)graphs[i], (cudaStream_t)stream);
}"""
)
WAITING_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void waiting(volatile int* log, unsigned long long graph, unsigned long long stream, int* out) {
    int before = log[0];
    out[0] = cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)stream);
    long long start = clock64();
    while (log[0] == before && clock64() - start < 100000000) { }
    out[1] = log[0] - before;
}"""
)
"""Launches a graph and waits for what it appends, 50 ms at most."""
WRONG_SOURCE = 'extern "C" __global__ void wrong(int* out) { out[1ll << 40] = 1; }'


@program("a kernel launches one graph: fire and forget, as a tail, as a sibling")
def kinds():
    loaded()
    result = {}
    for name, stream in INTO.items():
        log = new_log()
        parent, codes = launches(log, 1, (appends(log, 2), stream))
        result[name] = [went(parent), codes_of(codes), logged(log)]
    return finished(result)


@program("streams that graphs cannot be launched into by a kernel")
def other_streams():
    loaded()
    log = new_log()
    child = appends(log, 2)
    numbers = (0, 1, 2, 3, 4 << 56, 8 << 56, TAIL + 1, FIRE + 1, SIBLING + 1, TAIL >> 8)
    parent, codes = launches(log, 1, *((child, each) for each in numbers))
    return finished({"went": went(parent), "codes": codes_of(codes), "log": sorted(logged(log))})


@program("a kernel launches the null graph")
def null_graph():
    loaded()
    log = new_log()
    parent, codes = launches(log, 1, *((0, stream) for stream in INTO.values()))
    return finished({"went": went(parent), "codes": codes_of(codes), "log": logged(log)})


@program("a kernel launches a graph that was not uploaded, into each stream")
def never_uploaded():
    loaded()
    log = new_log()
    child = appends(log, 2, upload=False)
    parent, codes = launches(log, 1, *((child, stream) for stream in INTO.values()))
    return finished({"went": went(parent), "codes": codes_of(codes), "log": logged(log)})


def host_graph(stream):
    """A kernel launches a graph that was instantiated for the host; what the next calls say."""
    loaded()
    log = new_log()
    parent, _ = launches(log, 1, (appends(log, 2, flags=0), stream))
    result = {"went": went(parent)}
    result["then"] = [code(cudart.cudaGetLastError()), code(cudart.cudaMalloc(64)), code(cudart.cudaGraphCreate(0))]
    return result


@program("a graph for the host, fire and forget", isolated=True)
def host_graph_fire():
    return host_graph(FIRE)


@program("a graph for the host as a tail", isolated=True)
def host_graph_tail():
    return host_graph(TAIL)


@program("a graph for the host as a sibling", isolated=True)
def host_graph_sibling():
    return host_graph(SIBLING)


@program("a kernel launches the same graph twice in a row, in all pairs of kinds")
def the_same_twice():
    loaded()
    result = {}
    for first, one in INTO.items():
        for second, two in INTO.items():
            log = new_log()
            child = appends(log, 2, slowly=True)
            parent, codes = launches(log, 1, (child, one), (child, two))
            result[f"{first}, {second}"] = [went(parent), codes_of(codes), logged(log)]
    return finished(result)


TWICE_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void twice(int* log, int* counter, int most, int* codes) {
    atomicExch(log + 1 + atomicAdd(log, 1), 1);
    if (++*counter < most)
        for (int i = 0; i < 3; i++) codes[i] = cudaGraphLaunch((cudaGraphExec_t)itself(), (cudaStream_t)(1ull << 56));
}"""
)


@program("a graph launches itself three times in one run")
def itself_again_and_again():
    loaded()
    log, made, codes, counter = new_log(), new_graph(), cp.full(3, -1, cp.int32), cp.zeros(1, cp.int32)
    args = int(log.data.ptr), int(counter.data.ptr), 3, int(codes.data.ptr)
    kernel_node(made, [], function_of(TWICE_SOURCE, "twice"), args, (POINTER, POINTER, NUMBER, POINTER))
    ran = went(executable_of(made))
    return finished({"went": ran, "codes": codes_of(codes), "log": logged(log)})


@program("a graph for the host launches itself: it cannot")
def itself_for_the_host():
    loaded()
    log = new_log()
    parent, codes = launches(log, 1, *((ITSELF, stream) for stream in (TAIL, FIRE, SIBLING)))
    # Where there is no current graph the kernel hands on 1, which stands for it, as 0.
    return finished({"went": went(parent), "codes": codes_of(codes), "log": logged(log)})


@program("the graph that runs: of the host's launch, fire and forget, as a tail; in a graph for the host")
def current():
    loaded()
    log, out, function = new_log(), cp.zeros(4, cp.uint64), function_of(CURRENT_SOURCE, "current")
    cudart.cudaDeviceSynchronize()
    made = []
    for place, flags in enumerate((DEVICE, DEVICE, DEVICE, 0)):
        inner = new_graph()
        kernel_node(inner, [], function, (int(out.data.ptr) + 8 * place,), (POINTER,))
        made.append(executable_of(inner, flags))
    parent, codes = launches(log, 1, (made[1], FIRE), (made[2], TAIL))
    ran = [went(made[0]), went(parent), went(made[3])]
    handles = [int(each) for each in made]
    found = [handles.index(int(each)) if int(each) in handles else int(each) != 0 for each in cp.asnumpy(out)]
    return finished({"went": ran, "codes": codes_of(codes), "found": found})


@program("the graph that runs, in a kernel that no graph launched", expect=lambda v: {"found": [0]})
def current_in_a_stream():
    out = cp.ones(1, cp.uint64)
    source = LAUNCH_DECLARATION.replace("cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)", "unused()")
    source += 'extern "C" __global__ void current(unsigned long long* out) { *out = itself(); }'
    cp.RawKernel(source, "current")((1,), (1,), (out,))
    return finished({"found": cp.asnumpy(out).tolist()})


BACK_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void back(
    int* log, int value, int* counter, const unsigned long long* graph, unsigned long long stream, int* code
) {
    atomicExch(log + 1 + atomicAdd(log, 1), value);
    if (++*counter == 1) *code = cudaGraphLaunch((cudaGraphExec_t)*graph, (cudaStream_t)stream);
}"""
)
"""Launches a graph that is not known yet when the node is made, once."""


def back_node(made, after, log, value, graph, stream):
    """A node of such a kernel; what it counts, and the code."""
    numbers = cp.array([0, -1], cp.int32)
    KEPT.arrays += [numbers, graph]
    counter = int(numbers.data.ptr)
    args = int(log.data.ptr), value, counter, int(graph.data.ptr), stream, counter + 4
    kinds = POINTER, NUMBER, POINTER, POINTER, LONG_NUMBER, POINTER
    kernel_node(made, after, function_of(BACK_SOURCE, "back"), args, kinds)
    return numbers


@program("a graph for the device launches itself, each kind alone")
def itself_once():
    loaded()
    result = {}
    for name, stream in INTO.items():
        log, graph, made = new_log(), cp.zeros(1, cp.uint64), new_graph()
        numbers = back_node(made, [], log, 1, graph, stream)
        mine = executable_of(made)
        graph[:] = cp.asarray(np.array([int(mine)], np.uint64))
        cudart.cudaDeviceSynchronize()
        result[name] = [went(mine), codes_of(numbers[1:]), logged(log)]
    return finished(result)


def back_to_the_parent(stream):
    """A child launches the graph that launched it, while that one still runs."""
    loaded()
    log, graph = new_log(), cp.zeros(1, cp.uint64)
    child_graph, parent_graph = new_graph(), new_graph()
    numbers = back_node(child_graph, [], log, 2, graph, stream)
    first, codes = launch_node(parent_graph, [], log, 1, (executable_of(child_graph), FIRE))
    append_node(of_driver(parent_graph), [first], log, 3, slowly=True)
    parent = executable_of(parent_graph)
    graph[:] = cp.asarray(np.array([int(parent)], np.uint64))
    ran = went(parent)
    return finished({"went": ran, "codes": codes_of(codes) + codes_of(numbers[1:]), "log": sorted(logged(log))})


@program("a child launches the graph that launched it, fire and forget")
def back_by_fire():
    return back_to_the_parent(FIRE)


@program("a child launches the graph that launched it, as a sibling")
def back_by_sibling():
    return back_to_the_parent(SIBLING)


@program("a child launches the graph that launched it, as a tail")
def back_by_tail():
    return back_to_the_parent(TAIL)


@program("a child launches the graph that launched it, when the nodes of that one have ended", timeout=5)
def back_from_a_late_child():
    loaded()
    result = {}
    for name, stream in INTO.items():
        log, graph = new_log(), cp.zeros(1, cp.uint64)
        inner, outer = new_graph(), new_graph()
        after = []
        for value in (2, 3):
            after = [append_node(of_driver(inner), after, log, value, slowly=True)]
        numbers = back_node(inner, after, log, 4, graph, stream)
        child = cp.asarray(np.array([int(executable_of(inner))], np.uint64))
        first = back_node(outer, [], log, 1, child, FIRE)
        parent = executable_of(outer)
        graph[:] = cp.asarray(np.array([int(parent)], np.uint64))
        cudart.cudaDeviceSynchronize()
        result[name] = [went(parent), codes_of(first[1:]) + codes_of(numbers[1:]), logged(log)]
    return finished(result)


@program("a tail launch launches the graph that it came behind")
def back_from_a_tail():
    loaded()
    result = {}
    for name, stream in INTO.items():
        log, graph = new_log(), cp.zeros(1, cp.uint64)
        inner = new_graph()
        numbers = back_node(inner, [], log, 2, graph, stream)
        outer = new_graph()
        again = back_node(outer, [], log, 1, cp.asarray(np.array([int(executable_of(inner))], np.uint64)), TAIL)
        parent = executable_of(outer)
        graph[:] = cp.asarray(np.array([int(parent)], np.uint64))
        ran = went(parent)
        result[name] = [ran, codes_of(numbers[1:]) + codes_of(again[1:]), logged(log)]
    return finished(result)


def many_threads(grid, block, stream):
    """Each thread launches a graph of its own."""
    loaded()
    log, made = new_log(), new_graph()
    graphs = cp.asarray(np.array([int(appends(log, value)) for value in range(grid * block)], np.uint64))
    codes = cp.full(grid * block, -1, cp.int32)
    cudart.cudaDeviceSynchronize()
    params = driver.CUDA_KERNEL_NODE_PARAMS()
    params.func = function_of(LANES_SOURCE, "lanes")
    params.gridDimX, params.gridDimY, params.gridDimZ = grid, 1, 1
    params.blockDimX, params.blockDimY, params.blockDimZ = block, 1, 1
    args = int(graphs.data.ptr), stream, int(codes.data.ptr)
    params.kernelParams = (args, (POINTER, LONG_NUMBER, POINTER))
    answer = driver.cuGraphAddKernelNode(of_driver(made), [], 0, params)
    ran = went(executable_of(made, 0))
    everything = sorted(logged(log)) == list(range(grid * block))
    return finished({"added": code(answer), "went": ran, "codes": counted(codes), "all ran": everything})


@program("two threads of a block launch a graph each", timeout=5)
def two_threads():
    return many_threads(1, 2, FIRE)


@program("32 threads of a block launch a graph each", timeout=5)
def threads_of_a_block():
    return many_threads(1, 32, FIRE)


@program("32 threads of a block launch a graph each, as siblings", timeout=5)
def threads_of_a_block_with_siblings():
    return many_threads(1, 32, SIBLING)


@program("eight blocks launch a graph each", timeout=5)
def threads_of_blocks():
    return many_threads(8, 1, FIRE)


@program("a graph launched fire and forget, or as a sibling, runs while the kernel that launched it waits for it")
def waited_for_in_the_kernel():
    loaded()
    result = {}
    for name, stream in INTO.items():
        log, out, made = new_log(), cp.full(2, -1, cp.int32), new_graph()
        child = appends(log, 2)
        args = int(log.data.ptr), int(child), stream, int(out.data.ptr)
        function = function_of(WAITING_SOURCE, "waiting")
        kernel_node(made, [], function, args, (POINTER, LONG_NUMBER, LONG_NUMBER, POINTER))
        ran = went(executable_of(made, 0))
        result[name] = [ran, codes_of(out[:1]), cp.asnumpy(out[1:]).tolist(), logged(log)]
    return finished(result)


@program("a child that has ended can be launched again by a later kernel of the same graph")
def again_by_a_later_kernel():
    loaded()
    result = {}
    for name, stream in (("fire", FIRE), ("sibling", SIBLING), ("tail", TAIL)):
        log, made = new_log(), new_graph()
        child = appends(log, 2)
        first, one = launch_node(made, [], log, 1, (child, stream))
        after = [first]
        for value in (3, 4, 5):
            after = [append_node(of_driver(made), after, log, value, slowly=True)]
        _, two = launch_node(made, after, log, 6, (child, stream))
        ran = went(executable_of(made, 0))
        result[name] = [ran, codes_of(one), codes_of(two), logged(log)]
    return finished(result)


@program("a child that still runs is launched by a later kernel of the same graph")
def still_running():
    loaded()
    result = {}
    for name, stream in INTO.items():
        log, made = new_log(), new_graph()
        child = appends(log, 2, 3, 4, slowly=True)
        first, one = launch_node(made, [], log, 1, (child, FIRE))
        _, two = launch_node(made, [first], log, 6, (child, stream))
        ran = went(executable_of(made, 0))
        result[name] = [ran, codes_of(one), codes_of(two), sorted(logged(log))]
    return finished(result)


@program("two graphs of one stream launch the same child, one behind the other")
def from_two_graphs():
    loaded()
    log = new_log()
    child = appends(log, 2)
    (one, first), (two, second) = (launches(log, value, (child, FIRE)) for value in (1, 3))
    ran = [code(cudart.cudaGraphLaunch(each, 0)) for each in (one, two, one)]
    ran.append(code(cudart.cudaDeviceSynchronize()))
    return finished({"went": ran, "codes": codes_of(first) + codes_of(second), "log": logged(log)})


@program("a fault in a graph that a kernel launched", isolated=True)
def fault_in_a_child():
    loaded()
    log = new_log()
    made = new_graph()
    kernel_node(made, [], function_of(WRONG_SOURCE, "wrong"), (int(log.data.ptr),), (POINTER,))
    parent, _ = launches(log, 1, (executable_of(made), FIRE))
    result = {"went": went(parent)}
    result["then"] = [
        code(cudart.cudaGetLastError()),
        code(cudart.cudaMalloc(64)),
        code(cudart.cudaGraphLaunch(parent, 0)),
    ]
    return result


@program("a fault in a tail launch", isolated=True)
def fault_in_a_tail():
    loaded()
    log = new_log()
    made = new_graph()
    kernel_node(made, [], function_of(WRONG_SOURCE, "wrong"), (int(log.data.ptr),), (POINTER,))
    parent, _ = launches(log, 1, (executable_of(made), TAIL))
    result = {"went": went(parent)}
    result["then"] = [code(cudart.cudaGetLastError()), code(cudart.cudaMalloc(64))]
    return result


def after_an_error(stream, graph_of=lambda log: 0):
    """A kernel launches what it cannot, then what it can; its graph runs twice."""
    loaded()
    log = new_log()
    parent, codes = launches(log, 1, (graph_of(log), stream), (appends(log, 2), FIRE))
    ran = went(parent, 2)
    last = code(cudart.cudaGetLastError())
    return finished({"went": ran, "codes": codes_of(codes), "last": last, "log": sorted(logged(log))})


@program("a launch of the null graph, then one that can be", timeout=5)
def after_the_null_graph():
    return after_an_error(FIRE)


@program("a launch into a stream that there is not, then one that can be", timeout=5)
def after_a_wrong_stream():
    return after_an_error(5, lambda log: appends(log, 3))


@program("a child that stores what the parent stored before, and the parent's copy behind it")
def memory_between():
    loaded()
    result = {}
    copy_source = 'extern "C" __global__ void more(int* to, const int* from) { *to = *from + 1; }'
    for name, stream in INTO.items():
        log = new_log()
        with device_memory(16) as memory:
            made = new_graph()
            args = memory, int(log.data.ptr) + 4
            kernel_node(made, [], function_of(copy_source, "more"), args, (POINTER, POINTER))
            parent, codes = launches(log, 41, (executable_of(made), stream))
            result[name] = [went(parent), codes_of(codes), fetched(memory, 1).tolist()]
            cudart.cudaDeviceSynchronize()
    return finished(result)
