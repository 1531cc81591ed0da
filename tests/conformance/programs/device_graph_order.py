"""Execution environments: in which order the graphs run that kernels launch, how often, and how many there may be."""

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append, append_node, function_of, logged, new_log
from ..busy import streams
from ..launching import (
    DEVICE,
    FIRE,
    LAUNCH_DECLARATION,
    NUMBER,
    POINTER,
    SIBLING,
    TAIL,
    again_node,
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
    runs_again,
    went,
)
from ..program import code, program

CHOOSE_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void choose(int* log, const unsigned long long* graphs, const int* jobs, int* next, int count) {
    int job = (*next)++;
    if (job >= count) return;
    cudaGraphLaunch((cudaGraphExec_t)graphs[jobs[job]], (cudaStream_t)(2ull << 56));
    cudaGraphLaunch((cudaGraphExec_t)itself(), (cudaStream_t)(1ull << 56));
}"""
)
"""A scheduler: takes a job, launches the graph for it, then itself."""


def order(parent, log, *codes):
    """Runs; what the calls returned, and the order."""
    ran = went(parent)
    return {"went": ran, "codes": [codes_of(each) for each in codes], "log": logged(log)}


@program("a tail launch waits for the other nodes of its graph", expect=lambda v: {"log": [1, 2, 3]})
def tail_behind_nodes():
    loaded()
    log, made = new_log(), new_graph()
    first, codes = launch_node(made, [], log, 1, (appends(log, 3), TAIL))
    append_node(of_driver(made), [first], log, 2, slowly=True)
    return finished(order(executable_of(made, 0), log, codes))


@program("a tail launch waits for graphs launched fire and forget", expect=lambda v: {"log": [1, 2, 3]})
def tail_behind_children():
    loaded()
    log = new_log()
    parent, codes = launches(log, 1, (appends(log, 3), TAIL), (appends(log, 2, slowly=True), FIRE))
    return finished(order(parent, log, codes))


@program("a graph launched fire and forget does not wait for the rest of its parent")
def child_before_the_end():
    loaded()
    log, made = new_log(), new_graph()
    first, codes = launch_node(made, [], log, 1, (appends(log, 2), FIRE))
    append_node(of_driver(made), [first], log, 3, slowly=True)
    return finished(order(executable_of(made, 0), log, codes))


@program("tail launches run in the order of the calls", expect=lambda v: {"log": [1, 2, 3, 4]})
def tails_in_order():
    loaded()
    log = new_log()
    tails = [appends(log, value, slowly=value == 2) for value in (2, 3, 4)]
    parent, codes = launches(log, 1, *((each, TAIL) for each in tails))
    return finished(order(parent, log, codes))


@program("tail launches of a tail launch come before those behind it", expect=lambda v: {"log": [1, 2, 3, 4, 5]})
def tails_of_a_tail():
    loaded()
    log = new_log()
    first, inner = launches(log, 2, (appends(log, 3), TAIL), (appends(log, 4), TAIL), flags=DEVICE)
    parent, codes = launches(log, 1, (first, TAIL), (appends(log, 5), TAIL))
    return finished(order(parent, log, codes, inner))


@program("children of a tail launch end before the next", expect=lambda v: {"log": [1, 2, 3, 4]})
def children_of_a_tail():
    loaded()
    log = new_log()
    first, inner = launches(log, 2, (appends(log, 3, slowly=True), FIRE), flags=DEVICE)
    parent, codes = launches(log, 1, (first, TAIL), (appends(log, 4), TAIL))
    return finished(order(parent, log, codes, inner))


@program("a tail waits for children of children", expect=lambda v: {"log": [1, 2, 3, 4]})
def children_of_children():
    loaded()
    log = new_log()
    child, inner = launches(log, 2, (appends(log, 3, slowly=True), FIRE), flags=DEVICE)
    parent, codes = launches(log, 1, (child, FIRE), (appends(log, 4), TAIL))
    return finished(order(parent, log, codes, inner))


@program("a tail waits for the tails of children", expect=lambda v: {"log": [1, 2, 3, 4]})
def tails_of_children():
    loaded()
    log = new_log()
    child, inner = launches(log, 2, (appends(log, 3, slowly=True), TAIL), flags=DEVICE)
    parent, codes = launches(log, 1, (child, FIRE), (appends(log, 4), TAIL))
    return finished(order(parent, log, codes, inner))


@program("a tail of a graph does not wait for the sibling that it launched")
def sibling_of_the_first():
    loaded()
    log = new_log()
    sibling = appends(log, 3, slowly=True)
    parent, codes = launches(log, 1, (sibling, SIBLING), (appends(log, 2), TAIL))
    found = order(parent, log, codes)
    return finished({**found, "log": sorted(found["log"])})


@program("a long sibling ends behind the tail of the graph that launched it", expect=lambda v: {"log": [1, 2, 3]})
def long_sibling():
    loaded()
    log, other, made = new_log(), new_log(), new_graph()
    after = []
    for _ in range(4):
        after = [append_node(of_driver(made), after, other, 0, slowly=True)]
    append_node(of_driver(made), after, log, 3)
    parent, codes = launches(log, 1, (executable_of(made), SIBLING), (appends(log, 2), TAIL))
    return finished(order(parent, log, codes))


@program("a sibling of a child: the tail of the graph around waits for it", expect=lambda v: {"log": [1, 2, 3, 4]})
def sibling_of_a_child():
    loaded()
    log = new_log()
    child, inner = launches(log, 2, (appends(log, 3, slowly=True), SIBLING), flags=DEVICE)
    parent, codes = launches(log, 1, (child, FIRE), (appends(log, 4), TAIL))
    return finished(order(parent, log, codes, inner))


@program("a child's tail does not wait for the child's sibling", expect=lambda v: {"log": [1, 2, 3, 4, 5]})
def sibling_and_tail_of_a_child():
    loaded()
    log, other, made = new_log(), new_log(), new_graph()
    after = []
    for _ in range(4):
        after = [append_node(of_driver(made), after, other, 0, slowly=True)]
    append_node(of_driver(made), after, log, 4)
    child, inner = launches(log, 2, (executable_of(made), SIBLING), (appends(log, 3), TAIL), flags=DEVICE)
    parent, codes = launches(log, 1, (child, FIRE), (appends(log, 5), TAIL))
    return finished(order(parent, log, codes, inner))


@program("a sibling of a tail launch", expect=lambda v: {"log": [1, 2, 3]})
def sibling_of_a_tail():
    loaded()
    log = new_log()
    tail, inner = launches(log, 2, (appends(log, 3, slowly=True), SIBLING), flags=DEVICE)
    parent, codes = launches(log, 1, (tail, TAIL))
    return finished(order(parent, log, codes, inner))


@program("children of one graph run side by side")
def side_by_side():
    loaded()
    log = new_log()
    slow, quick = appends(log, 3, slowly=True), appends(log, 2)
    parent, codes = launches(log, 1, (slow, FIRE), (quick, FIRE))
    found = order(parent, log, codes)
    return finished({**found, "log": sorted(found["log"])})


@program("a graph launches itself again as a tail", expect=lambda v: {"log": [1] * 20, "numbers": [20, 0]})
def again():
    loaded()
    log = new_log()
    mine, numbers = runs_again(log, 1, 20)
    ran = went(mine)
    return finished({"went": ran, "numbers": cp.asnumpy(numbers).tolist(), "log": logged(log)})


@program("a graph that has launched itself is launched by the host once more")
def again_twice():
    loaded()
    log = new_log()
    mine, numbers = runs_again(log, 1, 5)
    ran = [went(mine, 2)]
    numbers[0] = 0
    ran.append(went(mine))
    return finished({"went": ran, "count": int(numbers[0]), "log": logged(log)})


@program("a graph launches a child and itself: the child ends before the next run")
def again_with_a_child():
    loaded()
    log = new_log()
    mine, numbers = runs_again(log, 1, 5, appends(log, 2, slowly=True))
    ran = went(mine)
    return finished({"went": ran, "count": int(numbers[0]), "log": logged(log)})


@program("a child launches itself as a tail; the parent's tail waits for all its runs")
def again_as_a_child():
    loaded()
    log = new_log()
    child, numbers = runs_again(log, 2, 4)
    parent, codes = launches(log, 1, (child, FIRE), (appends(log, 3), TAIL))
    return finished({**order(parent, log, codes), "count": int(numbers[0])})


@program("a tail launch launches itself; what was behind it waits")
def again_as_a_tail():
    loaded()
    log = new_log()
    tail, numbers = runs_again(log, 2, 4)
    parent, codes = launches(log, 1, (tail, TAIL), (appends(log, 3), TAIL))
    return finished({**order(parent, log, codes), "count": int(numbers[0])})


MIXED_SOURCE = (
    LAUNCH_DECLARATION
    + r"""
extern "C" __global__ void mixed(
    int* log, int* counter, unsigned long long before, unsigned long long behind, int* codes
) {
    atomicExch(log + 1 + atomicAdd(log, 1), 1);
    if (++*counter > 1) return;
    codes[0] = cudaGraphLaunch((cudaGraphExec_t)before, (cudaStream_t)(1ull << 56));
    codes[1] = cudaGraphLaunch((cudaGraphExec_t)itself(), (cudaStream_t)(1ull << 56));
    codes[2] = cudaGraphLaunch((cudaGraphExec_t)behind, (cudaStream_t)(1ull << 56));
}"""
)


@program("tail launches of others before and behind that of the graph itself")
def again_between_others():
    loaded()
    log, made, numbers = new_log(), new_graph(), cp.array([0, -1, -1, -1], cp.int32)
    before, behind, counter = appends(log, 2), appends(log, 3), int(numbers.data.ptr)
    args = int(log.data.ptr), counter, int(before), int(behind), counter + 4
    kinds = POINTER, POINTER, POINTER, POINTER, POINTER
    kernel_node(made, [], function_of(MIXED_SOURCE, "mixed"), args, kinds)
    return finished(order(executable_of(made), log, numbers[1:]))


@program("a scheduler: each run takes a job, launches the graph for it and itself")
def scheduler():
    loaded()
    jobs, next_job = [2, 0, 1, 1, 2, 0, 0, 2], cp.zeros(1, cp.int32)
    log, made = new_log(), new_graph()
    graphs = cp.asarray(np.array([int(appends(log, 10 + number)) for number in range(3)], np.uint64))
    queue = cp.array(jobs, cp.int32)
    args = int(log.data.ptr), int(graphs.data.ptr), int(queue.data.ptr), int(next_job.data.ptr), len(jobs)
    kinds = POINTER, POINTER, POINTER, POINTER, NUMBER
    kernel_node(made, [], function_of(CHOOSE_SOURCE, "choose"), args, kinds)
    return finished({**order(executable_of(made), log), "taken": int(next_job[0])})


@program("two kernels of a graph launch itself: one run more")
def again_by_two_kernels():
    loaded()
    log, made = new_log(), new_graph()
    _, one = again_node(made, log, 1, 3)
    _, two = again_node(made, log, 1, 3)
    ran = went(executable_of(made))
    counts = [int(each[0]) for each in (one, two)]
    return finished({"went": ran, "counts": counts, "log": logged(log)})


def many(stream, count, parts=1):
    """How many of so many graphs a graph can launch, by some kernels one behind the other."""
    loaded()
    log, made = new_log(1024), new_graph()
    children = [appends(log, 2) for _ in range(count)]
    after, all_codes = [], []
    for part in range(parts):
        mine = children[part * count // parts : (part + 1) * count // parts]
        node, codes = launch_node(made, after, log, 1, *((child, stream) for child in mine))
        after = [node]
        all_codes.append(codes)
    ran = went(executable_of(made, 0))
    found = logged(log)
    return {"went": ran, "codes": [counted(codes) for codes in all_codes], "ran": [found.count(1), found.count(2)]}


@program("120 graphs fire and forget, and the next")
def most_children():
    return finished(many(FIRE, 130))


@program("120 graphs fire and forget of one graph, by two kernels")
def most_children_of_two_kernels():
    return finished(many(FIRE, 150, parts=2))


@program("130 siblings")
def many_siblings():
    return finished(many(SIBLING, 130))


@program("70 graphs fire and forget and 70 siblings of one graph")
def most_of_both():
    loaded()
    log = new_log(1024)
    children, siblings = ([appends(log, value) for _ in range(70)] for value in (2, 3))
    calls = [(child, FIRE) for child in children] + [(child, SIBLING) for child in siblings]
    parent, codes = launches(log, 1, *calls)
    ran = went(parent)
    found = logged(log)
    return finished({"went": ran, "codes": counted(codes), "ran": [found.count(value) for value in (1, 2, 3)]})


@program("255 tail launches, and the next")
def most_tails():
    return finished(many(TAIL, 260))


@program("the number of children begins anew with each launch of the parent")
def most_children_each_time():
    loaded()
    log = new_log(1024)
    children = [appends(log, 2) for _ in range(100)]
    parent, codes = launches(log, 1, *((child, FIRE) for child in children))
    ran = went(parent, 3)
    found = logged(log)
    return finished({"went": ran, "codes": counted(codes), "ran": [found.count(1), found.count(2)]})


@program("a child has a number of children of its own")
def most_children_of_children():
    loaded()
    log = new_log(1024)
    inner = [appends(log, 3) for _ in range(100)]
    child, codes = launches(log, 2, *((each, FIRE) for each in inner), flags=DEVICE)
    others = [appends(log, 4) for _ in range(100)]
    parent, outer = launches(log, 1, (child, FIRE), *((each, FIRE) for each in others))
    ran = went(parent)
    found = logged(log)
    counts = [found.count(value) for value in (1, 2, 3, 4)]
    return finished({"went": ran, "codes": [counted(codes), counted(outer)], "ran": counts})


@program("tail launches of a tail count with those that wait already")
def most_tails_of_a_tail():
    loaded()
    log = new_log(1024)
    inner = [appends(log, 3) for _ in range(100)]
    first, codes = launches(log, 2, *((each, TAIL) for each in inner), flags=DEVICE)
    others = [appends(log, 4) for _ in range(200)]
    parent, outer = launches(log, 1, (first, TAIL), *((each, TAIL) for each in others))
    ran = went(parent)
    found = logged(log)
    counts = [found.count(value) for value in (1, 2, 3, 4)]
    return finished({"went": ran, "codes": [counted(codes), counted(outer)], "ran": counts})


@program("graphs that launch one another, 20 deep", expect=lambda v: {"log": list(range(1, 22))})
def deep():
    loaded()
    log = new_log()
    last, found = appends(log, 21), []
    for value in range(20, 1, -1):
        last, codes = launches(log, value, (last, FIRE), flags=DEVICE)
        found.append(codes)
    parent, codes = launches(log, 1, (last, FIRE))
    return finished(order(parent, log, *found[:1], codes))


@program("tail launches that make one another, 40 in a row", expect=lambda v: {"log": list(range(1, 41))})
def long_row():
    loaded()
    log = new_log()
    last, codes = appends(log, 40), None
    for value in range(39, 0, -1):
        last, codes = launches(log, value, (last, TAIL), flags=DEVICE)
    return finished(order(last, log, codes))


@program("kernels on two branches of a graph launch others; a tail waits for both")
def two_branches():
    loaded()
    log, made = new_log(), new_graph()
    first, one = launch_node(made, [], log, 1, (appends(log, 2, slowly=True), FIRE), (appends(log, 9), TAIL))
    launch_node(made, [first], log, 3, (appends(log, 4, slowly=True), FIRE))
    last, two = launch_node(made, [first], log, 5, (appends(log, 6, slowly=True), FIRE))
    del last
    ran = went(executable_of(made, 0))
    found = logged(log)
    result = {
        "went": ran,
        "codes": codes_of(one) + codes_of(two),
        "sorted": sorted(found),
        "ends": found[:1] + found[-1:],
    }
    return finished(result)


@program("a diamond launched by a kernel", expect=lambda v: {"ends": [1, 2, 5], "sorted": [1, 2, 3, 4, 5]})
def diamond():
    loaded()
    log, made = new_log(), new_graph()
    inner = of_driver(made)
    top = append_node(inner, [], log, 2)
    sides = [append_node(inner, [top], log, value, slowly=value == 3) for value in (3, 4)]
    append_node(inner, sides, log, 5)
    parent, codes = launches(log, 1, (executable_of(made), FIRE))
    ran = went(parent)
    found = logged(log)
    ends = found[:2] + found[-1:]
    return finished({"went": ran, "codes": codes_of(codes), "sorted": sorted(found), "ends": ends})


@program("a child graph node in a graph that a kernel launches", expect=lambda v: {"log": [1, 2, 3, 4]})
def child_node():
    loaded()
    log, made, inner = new_log(), new_graph(), new_graph()
    append_node(of_driver(inner), [], log, 3, slowly=True)
    first = append_node(of_driver(made), [], log, 2)
    answer = cudart.cudaGraphAddChildGraphNode(made, [cudart.cudaGraphNode_t(int(first))], 1, inner)
    append_node(of_driver(made), [driver.CUgraphNode(int(answer[1]))], log, 4)
    parent, codes = launches(log, 1, (executable_of(made), TAIL))
    return finished({"added": code(answer), **order(parent, log, codes)})


@program("what comes behind the host's launch in its stream waits for all that kernels launch")
def behind_in_the_stream():
    loaded()
    log = new_log()
    slow = [appends(log, value, slowly=True) for value in (2, 3)]
    parent, _ = launches(log, 1, (slow[0], FIRE), (slow[1], TAIL))
    with streams(1) as (stream,):
        launch = code(cudart.cudaGraphLaunch(parent, stream))
        append(stream, log, 9)
        sync = code(cudart.cudaStreamSynchronize(stream))
    return finished({"codes": [launch, sync], "log": logged(log)})


@program("an event behind the host's launch, and another stream that waits for it")
def behind_an_event():
    loaded()
    log = new_log()
    parent, _ = launches(log, 1, (appends(log, 2, slowly=True), TAIL))
    event = cudart.cudaEventCreateWithFlags(2)[1]
    with streams(1, 1) as (one, two):
        cudart.cudaGraphLaunch(parent, one)
        cudart.cudaEventRecord(event, one)
        cudart.cudaStreamWaitEvent(two, event, 0)
        append(two, log, 9)
        result = {"went": code(cudart.cudaStreamSynchronize(two)), "log": logged(log)}
    cudart.cudaEventDestroy(event)
    return finished(result)
