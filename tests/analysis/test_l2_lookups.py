"""What a profile says of the L2, by access property."""

from __future__ import annotations

import cudalab
from cudalab import cp, cudart

MB = 1 << 20
SOURCE = r"""
extern "C" __global__ void sum(const float4* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i].x + x[i].w == 12345.f) *out = 1;
}"""


def test_lookups_of_a_window_are_told_by_property() -> None:
    kernel = cp.RawKernel(SOURCE, "sum")
    x, out = cp.zeros(2 * MB, cp.float32), cp.zeros(1, cp.float32)
    stream = cp.cuda.Stream(non_blocking=True)
    value = cudart.cudaStreamAttrValue()
    window = value.accessPolicyWindow
    window.base_ptr, window.num_bytes, window.hitRatio = x.data.ptr, 4 * MB, 1.0
    window.hitProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting
    value.accessPolicyWindow = window
    name = cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
    assert cudart.cudaStreamSetAttribute(stream.ptr, name, value) == (0,)
    cudart.cudaDeviceSynchronize()
    with stream:
        found = cudalab.profile(kernel, (2048,), (256,), (x, out, 512 * 1024)).l2
    sectors = 4 * MB / 32
    assert found.metrics["lts__t_sectors_srcunit_tex_evict_last_lookup_hit.sum"] == sectors
    assert found.metrics["lts__t_sectors_srcunit_tex_evict_normal.sum"] == sectors
    assert found.hit_rate == 1.0
    assert repr(found) == (
        "L2 hits of a repeated launch (modelled): normal 100% of 131,072 sectors; persisting 100% of 131,072 sectors"
    )
