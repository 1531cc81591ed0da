"""``cp.cuda.texture``: arrays, texture and surface objects, and passing them to kernels."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import cudalab.sim.cupy as cp
import cudalab.sim.device as sim_device

texture, runtime = cp.cuda.texture, cp.cuda.runtime
FLOAT = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
SCALE = """
extern "C" __global__ void scale(cudaTextureObject_t t, cudaSurfaceObject_t s, int width, float by) {
    int x = threadIdx.x, y = blockIdx.x;
    if (x < width) surf2Dwrite(by * tex2D<float>(t, x + 0.5f, y + 0.5f), s, x * 4, y);
}
"""


def array(host: np.ndarray, flags: int = 0) -> texture.CUDAarray:
    made = texture.CUDAarray(FLOAT, *[*host.shape[::-1], 0, 0][:3], flags)
    made.copy_from(host)
    return made


def resource(of: texture.CUDAarray) -> texture.ResourceDescriptor:
    return texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=of)


def test_a_kernel_takes_texture_and_surface_objects() -> None:
    host = np.arange(60, dtype=np.float32).reshape(6, 10)
    source, target = array(host), array(np.zeros_like(host), runtime.cudaArraySurfaceLoadStore)
    kernel = cp.RawKernel(SCALE, "scale")
    read = texture.TextureObject(resource(source), texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2))
    kernel((6,), (32,), (read, texture.SurfaceObject(resource(target)), np.int32(10), np.float32(3)))
    out = cp.empty((6, 10), cp.float32)
    target.copy_to(out)
    assert np.array_equal(cp.asnumpy(out), 3 * host)


@pytest.mark.parametrize("shape", [(10,), (6, 10), (3, 6, 10)])
def test_arrays_keep_what_is_copied_to_them(shape: tuple[int, ...]) -> None:
    host = np.random.default_rng(1).random(shape, np.float32)
    made = array(host)
    assert (made.ndim, made.width) == (len(shape), 10)
    out, on_host = cp.zeros(shape, cp.float32), np.zeros(shape, np.float32)
    made.copy_to(out)
    made.copy_to(on_host, cp.cuda.Stream.null)
    cp.cuda.Device().synchronize()
    assert np.array_equal(cp.asnumpy(out), host) and np.array_equal(on_host, host)


def test_an_array_that_is_not_contiguous_is_copied_as_it_reads() -> None:
    host = np.arange(60, dtype=np.float32).reshape(10, 6)
    made = array(np.zeros((6, 10), np.float32))
    for turned in (host.T, cp.asarray(host).T):
        made.copy_from(turned)
        out = np.zeros((6, 10), np.float32)
        made.copy_to(out)
        assert np.array_equal(out, host.T)
    with pytest.raises(ValueError, match="C-contiguous"):
        made.copy_to(host.T)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (np.zeros((10, 6), np.float32), ValueError, r"takes \(6, 10\) \(got \(10, 6\)\)"),
        (np.zeros((6, 10)), ValueError, "texels are float32"),
        ([1.0], AttributeError, "no attribute 'shape'"),
    ],
)
def test_what_does_not_fit_an_array_is_refused(given: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        array(np.zeros((6, 10), np.float32)).copy_from(given)


def test_an_object_where_the_kernel_wants_a_number_is_a_type_error() -> None:
    made = array(np.zeros((6, 10), np.float32))
    read = texture.TextureObject(resource(made), texture.TextureDescriptor())
    with pytest.raises(TypeError, match="got a TextureObject"):
        cp.RawKernel(SCALE, "scale")((1,), (1,), (read, read, read, np.float32(1)))


def test_objects_and_arrays_go_with_their_last_reference() -> None:
    device = sim_device.current_device()
    gc.collect()
    cp.cuda.Device().synchronize()
    before = (len(device.memory.images.live), device.memory.in_use)
    made = array(np.zeros((6, 10), np.float32))
    read = texture.TextureObject(resource(made), texture.TextureDescriptor())
    assert (len(device.memory.images.live), device.memory.in_use) == (before[0] + 1, before[1] + 64 * 6)
    del made, read
    gc.collect()
    assert (len(device.memory.images.live), device.memory.in_use) == before


def test_descriptors_tell_what_they_were_given() -> None:
    described = texture.TextureDescriptor((0, 3), 1, 1, borderColors=(0.5,), normalizedCoords=1).get_texture_desc()
    assert described == {
        "addressMode": (0, 3, 0),
        "filterMode": 1,
        "readMode": 1,
        "sRGB": 0,
        "borderColor": (0.5, 0.0, 0.0, 0.0),
        "normalizedCoords": 1,
        "maxAnisotropy": 0,
    }
    assert FLOAT.get_channel_format() == {"x": 32, "y": 0, "z": 0, "w": 0, "f": 2}
