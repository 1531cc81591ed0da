"""Answers to 06.7."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_E, _C, _S = "efficiency", "correctness", "soundness"
_LOADS, _ASKED = (
    "elements loaded from x, for each load that is needed",
    "bytes of dynamic shared memory, for each byte that is kept",
)
_OTHERS = "launches of other kernels than that of code"
_LIMIT = (
    "    error, limit = cudart.cudaDeviceGetAttribute("
    "cudart.cudaDeviceAttr.cudaDevAttrMaxSharedMemoryPerBlockOptin, 0)\n"
)
_KEPT = "    kept = min(n, (limit - center.shared_size_bytes) // 4)\n"
_OPT_IN = "    center.max_dynamic_shared_size_bytes = 4 * kept\n"
_SHARED = "shared_mem=4 * kept"
_LAUNCH = "    center((rows,), (256,), (x, y, np.int32(n), np.int32(kept)), shared_mem=4 * kept)\n"
_REFUSED = "CUDA_ERROR_INVALID_VALUE"
_OWN = '''
def center_rows(code, x, y):
    own = cp.RawKernel(r"""
extern "C" __global__ void center(const float* x, float* y, int n) {
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) sum += x[(size_t)blockIdx.x * n + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += 256) {
        size_t at = (size_t)blockIdx.x * n + i;
        y[at] = x[at] - part[0] / n;
    }
}
""", "center")
    own((x.shape[0],), (256,), (x, y, np.int32(x.shape[1])))
'''

ANSWERS_06_7 = table(
    "06.7",
    Right(
        "what the device says as properties",
        ((_LIMIT, '    limit = cp.cuda.runtime.getDeviceProperties(0)["sharedMemPerBlockOptin"]\n'),),
    ),
    Right(
        "CuPy's attributes",
        ((_LIMIT, '    limit = cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]\n'),),
    ),
    Right(
        "as much as there is may be asked for",
        ((_OPT_IN, "    center.max_dynamic_shared_size_bytes = limit - center.shared_size_bytes\n"),),
    ),
    Right(
        "only where it has to ask",
        ((_OPT_IN, "    if 4 * kept + center.shared_size_bytes > 48 * 1024:\n    " + _OPT_IN),),
    ),
    Right(
        "the static array by hand",
        (("center.shared_size_bytes", "1024"),),
    ),
    Right(
        "the driver's names",
        (
            (
                _OPT_IN,
                "    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES\n"
                "    driver.cuFuncSetAttribute(center.kernel.ptr, attribute, 4 * kept)\n",
            ),
        ),
    ),
    Right(
        "rounded up to 16 bytes",
        ((_OPT_IN, _OPT_IN.replace("4 * kept", "-(-kept // 4) * 16")), (_SHARED, "shared_mem=-(-kept // 4) * 16")),
    ),
    Wrong("not asked for", ((_OPT_IN, ""),), _S, _REFUSED),
    Wrong("asked for behind the launch", ((_OPT_IN, ""), (_LAUNCH, _LAUNCH + _OPT_IN)), _S, _REFUSED),
    Wrong("the static array forgotten", ((" - center.shared_size_bytes", ""),), _S, _REFUSED),
    Wrong("elements, not bytes", ((_OPT_IN, _OPT_IN.replace("4 * ", "")),), _S, _REFUSED),
    Wrong("the launch's in elements", ((_SHARED, "shared_mem=kept"),), _S, "cudaErrorIllegalAddress"),
    Wrong("nothing asked for at the launch", ((", " + _SHARED, ""),), _S, "cudaErrorIllegalAddress"),
    Wrong("an H200's limit", ((_LIMIT, "    limit = 227 * 1024\n"),), _S, _REFUSED),
    Wrong("as much as there is unasked", ((_LIMIT, "    limit = 48 * 1024\n"),), _E, _LOADS),
    Wrong("half of it", (("// 4)", "// 8)"),), _E, _LOADS),
    Wrong("the whole row or nothing", ((_KEPT, _KEPT + "    kept = kept if kept == n else 0\n"),), _E, _LOADS),
    Wrong("one element less", (("// 4)", "// 4 - 1)"),), _E, _LOADS),
    Wrong(
        "always all of it",
        ((_OPT_IN, _OPT_IN.replace("4 * kept", "limit - 1024")), (_SHARED, "shared_mem=limit - 1024")),
        _E,
        _ASKED,
    ),
    Wrong("more than fits", ((_KEPT, "    kept = n\n"),), _S, _REFUSED),
    Wrong("kept says less than is there", (("np.int32(kept)", "np.int32(kept // 2)"),), _E, _LOADS),
    Wrong("one row", (("(rows,)", "(1,)"),), _C, "wrong values", mistake="one row only"),
    Wrong("launched twice", ((_LAUNCH, 2 * _LAUNCH),), _E, "launches"),
    Wrong("a kernel of its own", (), _E, _OTHERS, source=_OWN, cheat=True),
    Wrong(
        "NumPy on the host",
        (),
        _C,
        "made on the host",
        source="def center_rows(code, x, y):\n    h = x.get()\n    y.set(h - h.mean(axis=1, keepdims=True))\n",
        cheat=True,
    ),
    Wrong(
        "CuPy's array functions",
        (),
        _C,
        "made by an array function",
        source="def center_rows(code, x, y):\n    y[...] = x - x.mean(axis=1, keepdims=True)\n",
        cheat=True,
    ),
    Wrong(
        "nothing done for long rows",
        ((_KEPT, "    if n > 10_000:\n        return\n" + _KEPT),),
        _C,
        "wrong values",
        mistake="nothing was launched",
        cheat=True,
    ),
    Wrong(
        "says that it keeps all, and another text loads all twice",
        (('cp.RawKernel(code, "center")', 'cp.RawKernel(code.replace("i < kept", "i < 0"), "center")'),),
        _E,
        _OTHERS,
        cheat=True,
    ),
)
