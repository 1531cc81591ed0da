"""Texture and surface objects: fetches as an H200 made them, faults with their line, footprints, order, replay.

``data/texture_h200.npz`` holds what an H200 gave for some fifty fetches in each of 219 configurations, special
coordinates first.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device, Log
from cudalab.sim.device.replay import replay
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from cudalab.sim.machine.trace.recorder import trace

FLOAT = ((32, 0, 0, 0), 2)
CLAMP = (1, 1, 1)
_KINDS = {"i": 0, "u": 1, "f": 2}
_ARCHIVE = Path(__file__).parent / "data" / "texture_h200.npz"
_READ = {
    "fetch": "tex1Dfetch<V>(t, l[i])",
    "t1": "tex1D<V>(t, x[i])",
    "t2": "tex2D<V>(t, x[i], y[i])",
    "t3": "tex3D<V>(t, x[i], y[i], z[i])",
    "a1": "tex1DLayered<V>(t, x[i], l[i])",
    "a2": "tex2DLayered<V>(t, x[i], y[i], l[i])",
    "cube": "texCubemap<V>(t, x[i], y[i], z[i])",
    "acube": "texCubemapLayered<V>(t, x[i], y[i], z[i], l[i])",
    "lod2": "tex2DLod<V>(t, x[i], y[i], z[i])",
    **{f"g{c}": f"tex2Dgather<V>(t, x[i], y[i], {c})" for c in range(4)},
}
_SOURCE = "".join(
    f'extern "C" __global__ void {name}_{letter}(cudaTextureObject_t t, const float* x, const float* y, '
    f"const float* z, const int* l, int n, {kind}4* o) {{ typedef {kind}4 V; int i = threadIdx.x; "
    f"if (i < n) o[i] = {text}; }}\n"
    for name, text in _READ.items()
    for letter, kind in (("f", "float"), ("i", "int"), ("u", "uint"))
)


@cache
def stored() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with np.load(_ARCHIVE) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return arrays, json.loads(arrays.pop("about").tobytes())


@cache
def bench() -> tuple[Device, int]:
    """A device with the kernels that fetch."""
    device = Device()
    return device, device.load_module(compile(_SOURCE))


def put(device: Device, host: np.ndarray) -> int:
    pointer = device.malloc(max(1, host.nbytes))
    device.memcpy(pointer, host.ctypes.data, host.nbytes, 1)
    return pointer


def take(device: Device, pointer: int, count: int, dtype: Any = np.float32) -> np.ndarray:
    found = np.zeros(count, dtype)
    device.memcpy(found.ctypes.data, pointer, found.nbytes, 2)
    return found


def make_array(device: Device, host: np.ndarray, channels: Any, shape: tuple[int, int, int], flags: int = 0) -> int:
    array = device.malloc_array(channels, shape, flags)
    row = shape[0] * sum(channels[0]) // 8
    extent = (row, max(1, shape[1]), max(1, shape[2]))
    device.memcpy_array((array, 0, 0, 0), (host.ctypes.data, row, row * extent[1]), extent)
    return array


def sampled(name: str) -> np.ndarray:
    """What the simulated device gives for one configuration, as bits."""
    arrays, about = stored()
    case = about["cases"][name]
    device, module = bench()
    bits = tuple(case["bits"] if c < case["ch"] else 0 for c in range(4))
    channels = (bits, _KINDS[case["kind"]])
    texels = np.ascontiguousarray(arrays[f"{name}/texels"])
    modes = case.get("addr", 1)
    how = (
        (modes,) * 3 if isinstance(modes, int) else tuple(modes),
        bool(case.get("filt", 0)),
        bool(case.get("read", 0)),
        bool(case.get("norm", 0)),
        tuple(case.get("border") or (0.0,) * 4),
    )
    shape = (*case["shape"], 0, 0)[:3]
    if case.get("linear"):
        texture = device.create_texture(put(device, texels), *how, channels, (texels.nbytes, 0))
    else:
        flags = case.get("flags", 0)
        texture = device.create_texture(make_array(device, texels, channels, shape, flags), *how)
    count = len(arrays[f"{name}/out"])
    given = [arrays.get(f"{name}/{axis}", np.zeros(count, np.float32)).astype(np.float32) for axis in "xyz"]
    given.append(arrays.get(f"{name}/l", np.zeros(count)).astype(np.int32))
    out = device.malloc(16 * count)
    pointers = [put(device, np.ascontiguousarray(part)) for part in given]
    args = struct.pack("<5QiiQ", texture, *pointers, count, 0, out)
    device.launch(device.get_function(module, case["kernel"]), (1, 1, 1), (64, 1, 1), args)
    found = take(device, out, 4 * count, np.uint32).reshape(count, 4)
    for pointer in (*pointers, out):
        device.free(pointer)
    device.destroy_texture(texture)
    return found


@pytest.mark.parametrize(
    "part", ["t1", "t2", "t3", "a1", "a2", "cube", "acube", "lod2", "fetch", "g0", "g1", "g2", "g3"]
)
def test_every_fetch_is_the_h200s_bit_for_bit(part: str) -> None:
    arrays, about = stored()
    names = [name for name, case in about["cases"].items() if case["kernel"].rpartition("_")[0] == part]
    assert names
    for name in names:
        here, there = sampled(name), arrays[f"{name}/out"]
        unlike = np.flatnonzero((here != there).any(axis=1))
        assert not len(unlike), f"{name}: {len(unlike)} of {len(there)}, first {here[unlike[0]]} not {there[unlike[0]]}"


# -- faults ------------------------------------------------------------------------------------------------------------

USES = """
extern "C" __global__ void look(cudaTextureObject_t t, float* out) {
    out[threadIdx.x] = tex2D<float>(t, threadIdx.x, 1);   // line 3
}
extern "C" __global__ void fetch(cudaTextureObject_t t, float* out) {
    out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); // line 6
}
extern "C" __global__ void deep(cudaTextureObject_t t, float* out) {
    out[threadIdx.x] = tex3D<float>(t, 0, 0, 0);
}
extern "C" __global__ void keep(cudaSurfaceObject_t s, float* out) {
    surf2Dwrite(1.0f, s, threadIdx.x * 4, 1);             // line 12
    out[threadIdx.x] = surf2Dread<float>(s, 0, 0);
}
extern "C" __global__ void stack(cudaSurfaceObject_t s, float* out) {
    surf3Dwrite(1.0f, s, 4, 3, threadIdx.x);
}
extern "C" __global__ void sheet(cudaSurfaceObject_t s, float* out) {
    surf2DLayeredwrite(1.0f, s, 4, 3, threadIdx.x);
}
"""


class Desk:
    """A device with an 8 x 4 array, and objects of it."""

    def __init__(self, **options: Any) -> None:
        self.device = Device(**options)
        self.module = self.device.load_module(compile(USES))
        self.host = np.arange(32, dtype=np.float32)
        self.array = make_array(self.device, self.host, FLOAT, (8, 4, 0), 2)
        self.texture = self.device.create_texture(self.array, CLAMP)
        self.surface = self.device.create_surface(self.array)
        self.out = put(self.device, np.zeros(64, np.float32))

    def function(self, name: str) -> int:
        return self.device.get_function(self.module, name)

    def launch(self, name: str, object: int, threads: int = 8, stream: int = 0) -> None:
        args = struct.pack("<QQ", object, self.out)
        self.device.launch(self.function(name), (1, 1, 1), (threads, 1, 1), args, 0, stream)

    def fault(self, name: str, object: int, threads: int = 8) -> str:
        self.launch(name, object, threads)
        with pytest.raises(CudaError) as caught:
            self.device.synchronize()
        return f"{caught.value.code.name}: {caught.value.note}"


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_handle_that_is_no_object_is_a_fault_with_its_line(desk: Desk) -> None:
    text = desk.fault("look", 12345)
    assert "cudaErrorIllegalAddress" in text and "0x3039 is no texture object" in text and "kernel.cu:3" in text


def test_a_destroyed_object_is_a_fault_that_says_so(desk: Desk) -> None:
    desk.device.destroy_texture(desk.texture)
    text = desk.fault("look", desk.texture)
    assert "destroyed by cudaDestroyTextureObject" in text and "kernel.cu:3" in text


def test_an_object_of_another_shape_is_a_fault_that_names_both(desk: Desk) -> None:
    text = desk.fault("deep", desk.texture)
    assert "reads a 3-D array" in text and "made of a 2-D array" in text and "use tex2D" in text


def test_a_surface_is_no_texture(desk: Desk) -> None:
    assert "surface object where a texture object is needed" in desk.fault("look", desk.surface)


def test_tex1dfetch_is_for_linear_memory(desk: Desk) -> None:
    assert "reads a piece of linear memory" in desk.fault("fetch", desk.texture)


def test_a_surface_write_beyond_the_edge_names_place_and_extent(desk: Desk) -> None:
    text = desk.fault("keep", desk.surface, threads=9)
    assert "bytes 32 to 35 of a row of 32" in text and "thread (8,0,0)" in text and "kernel.cu:12" in text


@pytest.mark.parametrize(("kernel", "flags", "said"), [("stack", 2, "slice 2 of 2"), ("sheet", 3, "layer 2 of 2")])
def test_a_surface_write_beyond_the_last_slice_says_so(desk: Desk, kernel: str, flags: int, said: str) -> None:
    array = make_array(desk.device, np.zeros(64, np.float32), FLOAT, (8, 4, 2), flags)
    surface = desk.device.create_surface(array)
    assert f"outside the surface: {said}. Each texel" in desk.fault(kernel, surface, threads=3)


def test_reading_a_freed_array_is_a_use_after_free(desk: Desk) -> None:
    desk.device.free_array(desk.array)
    text = desk.fault("look", desk.texture)
    assert "freed" in text and "cudaFreeArray" in text and "kernel.cu:3" in text


def test_pitched_memory_may_be_too_short_for_its_texture(desk: Desk) -> None:
    memory = put(desk.device, np.zeros(16, np.float32))
    texture = desk.device.create_texture(memory, CLAMP, channels=FLOAT, extent=(8, 4), pitch=64)
    assert "kernel.cu:3" in desk.fault("look", texture)


def test_work_enqueued_before_finds_an_object_that_is_destroyed_then(desk: Desk) -> None:
    desk.launch("look", desk.texture)
    desk.device.destroy_texture(desk.texture)
    assert take(desk.device, desk.out, 8).tolist() == desk.host[8:16].tolist()
    assert "destroyed" in desk.fault("look", desk.texture)


# -- what a launch touches ---------------------------------------------------------------------------------------------


def grid_of(desk: Desk) -> Any:
    return desk.device.image(desk.texture, "texture").layout


def test_the_footprint_holds_the_texels_read_and_written(desk: Desk) -> None:
    from cudalab.sim.machine.execution import execute

    grid = grid_of(desk)
    kernel = desk.device.loaded_kernel(desk.function("look"))
    read = execute(kernel.launch(1, 5, struct.pack("<QQ", desk.texture, desk.out)), footprint=True).footprint
    assert read is not None
    assert read.reads == ((grid.data + grid.pitch, 20),) and read.writes == ((desk.out, 20),)
    kernel = desk.device.loaded_kernel(desk.function("keep"))
    written = execute(kernel.launch(1, 5, struct.pack("<QQ", desk.surface, desk.out)), footprint=True).footprint
    assert written is not None
    assert set(written.writes) == {(grid.data + grid.pitch, 20), (desk.out, 20)}
    assert written.reads == ((grid.data, 4),)


def test_a_launch_reads_the_array_as_it_was_when_it_started(desk: Desk) -> None:
    """A copy to the array in another stream, enqueued while the kernel is in flight, does not change what it reads."""
    streams = [desk.device.stream_create(1, 0) for _ in range(2)]
    other = np.full(32, -1, np.float32)
    pinned = desk.device.malloc_host(other.nbytes)
    desk.device.view(pinned, other.nbytes)[:] = other.tobytes()
    desk.device.synchronize()
    desk.launch("look", desk.texture, stream=streams[0])
    desk.device.memcpy_array((desk.array, 0, 0, 0), (pinned, 32, 128), (32, 4, 1), 1, streams[1], True)
    desk.device.synchronize()
    assert take(desk.device, desk.out, 8).tolist() == desk.host[8:16].tolist()


def test_an_unordered_copy_to_the_array_is_a_hazard(desk: Desk) -> None:
    streams = [desk.device.stream_create(1, 0) for _ in range(2)]
    pinned = desk.device.malloc_host(128)
    desk.device.synchronize()
    desk.launch("look", desk.texture, stream=streams[0])
    desk.device.memcpy_array((desk.array, 0, 0, 0), (pinned, 32, 128), (32, 4, 1), 1, streams[1], True)
    desk.device.synchronize()
    assert len(desk.device.hazards) == 1
    assert not Desk().device.hazards


def test_the_sanitizer_finds_two_blocks_that_write_one_texel(desk: Desk) -> None:
    kernel = desk.device.loaded_kernel(desk.function("keep"))
    found = check_launch(kernel.launch(2, 8, struct.pack("<QQ", desk.surface, desk.out)))
    assert any(finding.rule == "race" and finding.line == 12 for finding in found.findings)


def test_uninitialised_texels_are_found(desk: Desk) -> None:
    array = desk.device.malloc_array(FLOAT, (8, 4, 0))
    texture = desk.device.create_texture(array, CLAMP)
    kernel = desk.device.loaded_kernel(desk.function("look"))
    found = check_launch(kernel.launch(1, 8, struct.pack("<QQ", texture, desk.out)))
    assert [(finding.rule, finding.line) for finding in found.findings] == [("uninitialised read", 3)]
    assert not check_launch(kernel.launch(1, 8, struct.pack("<QQ", desk.texture, desk.out))).findings


def test_a_sampled_launch_takes_its_surface_writes_back(desk: Desk) -> None:
    kernel = desk.device.loaded_kernel(desk.function("keep"))
    list(trace(kernel.launch((1, 1, 1), (8, 1, 1), struct.pack("<QQ", desk.surface, desk.out))))
    grid = grid_of(desk)
    assert desk.device.memory.array(grid.data, 64, np.float32)[16:24].tolist() == desk.host[8:16].tolist()


# -- record and replay -------------------------------------------------------------------------------------------------


def test_a_replay_makes_the_same_arrays_objects_and_bytes() -> None:
    desk = Desk(record=True)
    memory = put(desk.device, desk.host)
    linear = desk.device.create_texture(memory, CLAMP, channels=FLOAT, extent=(128, 0))
    desk.launch("fetch", linear)
    desk.launch("keep", desk.surface)
    back = np.zeros(32, np.float32)
    desk.device.memcpy_array((back.ctypes.data, 32, 128), (desk.array, 0, 0, 0), (32, 4, 1))
    desk.launch("look", desk.texture)
    take(desk.device, desk.out, 8)
    desk.device.destroy_surface(desk.surface)
    desk.device.free_array(desk.array)
    again = replay(Log.from_bytes(desk.device.log.to_bytes()))
    assert [e.error for e in again.log.entries] == [0] * len(desk.device.log.entries)
    assert again.log.spans == desk.device.log.spans
    ours, theirs = (
        {key: [data for _, data in blocks] for key, blocks in log.delivered.items()}
        for log in (desk.device.log, again.log)
    )
    assert ours == theirs and back[8:16].tolist() == [1.0] * 8


def test_reset_ends_arrays_and_objects(desk: Desk) -> None:
    desk.device.reset()
    with pytest.raises(CudaError, match="no array"):
        desk.device.array_info(desk.array)
    with pytest.raises(CudaError, match="no texture object"):
        desk.device.image(desk.texture, "texture")
