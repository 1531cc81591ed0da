"""Answers to 04.6."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table
from tests.checks.answers.cheats import kernel_cheats

_E, _C = "efficiency", "correctness"
_SECTORS = "sectors for each 128 bytes loaded"
_LOAD = "        float4 p = reinterpret_cast<const float4*>(particles)[i];\n"
_HEAD = """%%cuda to_arrays
extern "C" __global__ void to_arrays(const float* particles, float* x, float* y, float* z, float* mass, int n) {
"""
_TILE = (
    _HEAD
    + """    __shared__ float tile[4 * 256];
    int first = 4 * blockIdx.x * blockDim.x, t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    for (int k = t; k < 4 * blockDim.x; k += blockDim.x)
        if (first + k < 4 * n) tile[k] = particles[first + k];
    __syncthreads();
    if (i < n) x[i] = tile[4 * t], y[i] = tile[4 * t + 1], z[i] = tile[4 * t + 2], mass[i] = tile[4 * t + 3];
}
"""
)
ANSWERS_04_6 = table(
    "04.6",
    Right("a tile in shared memory", source=_TILE),
    Right(
        "a thread for each float",
        source=_HEAD
        + """    float* arrays[4] = {x, y, z, mass};
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < 4 * n; k += gridDim.x * blockDim.x)
        arrays[k % 4][k / 4] = particles[k];
}
""",
    ),
    Right(
        "a structure with its alignment",
        source="%%cuda to_arrays\nstruct __align__(16) Particle { float x, y, z, mass; };\n"
        + _HEAD.partition("\n")[2]
        + """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Particle p = ((const Particle*)particles)[i];
    x[i] = p.x; y[i] = p.y; z[i] = p.z; mass[i] = p.mass;
}
""",
    ),
    Right("from the last particle", ((_LOAD, "        i = n - 1 - i;\n" + _LOAD),)),
    Wrong("no guard", (("if (i < n)", "if (true)"),), "soundness", "out of bounds"),
    Wrong("n counts floats", (("if (i < n)", "if (4 * i < n)"),), _C, "wrong values"),
    Wrong("one particle too many", (("if (i < n)", "if (i <= n)"),), "soundness", "out of bounds"),
    Wrong("mass forgotten", (("mass[i] = p.w", "(void)mass"),), _C, "wrong values"),
    Wrong(
        "y and z swapped", (("y[i] = p.y; z[i] = p.z", "y[i] = p.z; z[i] = p.y"),), _C, "wrong values", mistake="y gets"
    ),
    Wrong("a structure is four times as long", (("[i];", "[4 * i];"),), "soundness", "out of bounds"),
    Wrong(
        "as if they were arrays already",
        (
            (_LOAD, ""),
            ("p.x", "particles[i]"),
            ("p.y", "particles[n + i]"),
            ("p.z", "particles[2 * n + i]"),
            ("p.w", "particles[3 * n + i]"),
        ),
        _C,
        "wrong values",
        mistake="as if its arrays already",
    ),
    Wrong(
        "in two halves",
        (
            (
                _LOAD,
                "        const float2* half = reinterpret_cast<const float2*>(particles);\n"
                "        float2 one = half[2 * i], two = half[2 * i + 1];\n"
                "        float4 p = make_float4(one.x, one.y, two.x, two.y);\n",
            ),
        ),
        _E,
        _SECTORS,
    ),
    Wrong(
        "a structure without its alignment",
        (
            ("%%cuda to_arrays\n", "%%cuda to_arrays\nstruct Particle { float x, y, z, w; };\n"),
            (_LOAD, "        Particle p = reinterpret_cast<const Particle*>(particles)[i];\n"),
        ),
        _E,
        _SECTORS,
    ),
    Wrong("no barrier behind the tile", (), "soundness", "race", source=_TILE.replace("    __syncthreads();\n", "")),
    Wrong("an index of 16 bits", (("int i =", "unsigned short i ="),), _C, "wrong values", cheat=True),
    *kernel_cheats("04.6"),
)
