"""``cudalab.graph``: the drawing of a graph that exists says what the graph consists of."""

from __future__ import annotations

from typing import Any

import pytest

import cudalab
from cudalab import cp, cudart


def ok(result: tuple[Any, ...]) -> Any:
    error, *values = result
    assert not int(error), error
    return values[0] if len(values) == 1 else values


@pytest.fixture(scope="module")
def arrays() -> tuple[Any, Any]:
    return cp.zeros(2, dtype=cp.float32), cp.zeros(2, dtype=cp.float32)


def captured(arrays: tuple[Any, Any], blocks: int = 1) -> Any:
    """A memset, two kernels side by side, and a copy behind both."""
    kernels = cp.RawModule(
        code=r"""
        extern "C" __global__ void left(float* x) { x[0] += 1.0f; }
        extern "C" __global__ void right(float* x) { x[1] += 2.0f; }
        """
    )
    left, right = (kernels.get_function(name) for name in ("left", "right"))
    x, y = arrays
    a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
    ok(cudart.cudaStreamBeginCapture(a.ptr, mode))
    ok(cudart.cudaMemsetAsync(x.data.ptr, 0, x.nbytes, a.ptr))
    fork = a.record()
    b.wait_event(fork)
    left((1,), (1,), (x,), stream=a)
    right((blocks,), (1,), (x,), stream=b)
    join = b.record()
    a.wait_event(join)
    ok(cudart.cudaMemcpyAsync(y.data.ptr, x.data.ptr, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, a.ptr))
    return ok(cudart.cudaStreamEndCapture(a.ptr))


def test_nodes_have_their_kinds_and_names_and_stand_behind_what_they_depend_on(arrays: tuple[Any, Any]) -> None:
    drawing = cudalab.graph(captured(arrays))
    assert drawing.summary == "4 nodes and 4 edges; 3 nodes on the longest path, 2 side by side."
    for text in ("memset: memset", "left: kernel", "right: kernel", "copy: copy"):
        assert f"<title>{text}</title>" in drawing.svg()


def test_nodes_that_changed_are_marked(arrays: tuple[Any, Any]) -> None:
    before = captured(arrays)
    assert "changed" not in cudalab.graph(before, before=before).summary
    assert cudalab.graph(captured(arrays, blocks=2), before=before).summary.endswith("; changed: right.")


def test_several_nodes_of_one_name_are_numbered() -> None:
    graph = ok(cudart.cudaGraphCreate(0))
    nodes = [ok(cudart.cudaGraphAddEmptyNode(graph, None, 0)) for _ in range(3)]
    ok(cudart.cudaGraphAddDependencies(graph, nodes[:1], nodes[1:2], None, 1))
    drawing = cudalab.graph(graph)
    assert all(f"<title>empty {number}: empty</title>" in drawing.svg() for number in (1, 2, 3))
    assert drawing.summary.startswith("3 nodes and 1 edge;")


def test_what_cannot_be_drawn_is_said(arrays: tuple[Any, Any]) -> None:
    empty = ok(cudart.cudaGraphCreate(0))
    with pytest.raises(ValueError, match="no node to draw"):
        cudalab.graph(empty)
    with pytest.raises(ValueError, match="4 nodes, and 0 before"):
        cudalab.graph(captured(arrays), before=empty)
    ok(cudart.cudaGraphDestroy(empty))
    with pytest.raises(RuntimeError, match="cudaErrorInvalidValue"):
        cudalab.graph(empty)


def test_nothing_is_launched(arrays: tuple[Any, Any]) -> None:
    with cudalab.trace() as timeline:
        cudalab.graph(captured(arrays))
    assert not [span for span in timeline.spans if span.name in ("left", "right")]


def test_cupys_graph_is_drawn_as_it_is(arrays: tuple[Any, Any]) -> None:
    stream = cp.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    for _ in range(2):
        cp.cuda.runtime.memsetAsync(arrays[0].data.ptr, 0, 4, stream.ptr)
    assert cudalab.graph(stream.end_capture()).summary.startswith("2 nodes and 1 edge")


def test_garbage_of_an_earlier_test_does_not_invalidate_a_capture(arrays: tuple[Any, Any]) -> None:
    owner: list[Any] = [cp.cuda.Memory(1024)]
    owner.append(owner)
    del owner
    stream = cp.cuda.Stream(non_blocking=True)
    ok(cudart.cudaStreamBeginCapture(stream.ptr, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal))
    lists: list[list[Any]] = []
    for _ in range(100_000):  # enough for a collection of all generations
        lists.append([lists])
    graph = ok(cudart.cudaStreamEndCapture(stream.ptr))
    ok(cudart.cudaGraphDestroy(graph))
