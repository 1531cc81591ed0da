"""Opcodes that the simulated device does not support, with advice on alternatives.

Every opcode that NVIDIA's assembler accepts for the simulated device's architecture is in a table of ``lowering`` or
refused here by name; ``tests/sim/compiler/opcodes/grammar`` checks all of them against both.
"""

from __future__ import annotations

import re

TENSOR = "tensor cores are out of scope of the simulated device; write the product with scalar code"
MAPS = (
    "tensor maps are out of scope of the simulated device; copy rows with cp.async.bulk, cuda::memcpy_async or a loop"
)
LAUNCHES = (
    "a kernel that launches kernels (<<<…>>> in device code, dynamic parallelism) or calls the runtime is out of scope "
    "of the simulated device; launch from Python, or put the code in a __device__ function"
)
_LATER = "it exists on later GPUs than the simulated device only, and is not simulated; round with .rn or .rz"

#: Opcode patterns and advice; the first pattern that matches a prefix applies.
_REFUSED = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"(w|wg)?mma\.|tcgen05\.|(ld|st|mov)matrix\.", TENSOR),
        (
            r"cp\.(reduce\.)?async\.bulk\.(prefetch\.)?tensor\.|tensormap\.|prefetch\..*tensormap|fence\..*tensormap",
            MAPS,
        ),
        (r"fma\..*oob", MAPS),
        (
            r"madc\..*[us]16$",
            "the PTX ISA has madc of 32 and 64 bits; an H200 computes something else with 16. Use 32",
        ),
        (
            r"fma\.r[zmp]\..*bf16",
            "the PTX ISA rounds fma of bf16 to nearest only; an H200 computes something else in other modes. Use .rn",
        ),
        (r"multimem\.", "memory of several GPUs behind one address is out of scope: there is one simulated device"),
        (
            r"(cp\.async|cp\.reduce|mbarrier|st\.async|red\.async|st\.bulk)\b",
            "this form of an asynchronous copy or barrier is not simulated; see the PTX ISA for those of sm_90, or use "
            "cuda::barrier and cuda::memcpy_async",
        ),
        (
            r"(tex|tld4|txq|suld|sust|sured|suq|istypep)\b",
            "this form of a texture or surface access is not simulated; use the functions of the CUDA C++ Programming "
            'Guide, "Texture Object API" and "Surface Object API"',
        ),
        (
            r"(shfl|vote)\b(?!\.sync)",
            "the forms without .sync were withdrawn with compute capability 7.0; use __shfl_sync and its like",
        ),
        (r"redux\..*f32", "redux of floats exists on later GPUs only; reduce with __shfl_xor_sync"),
        (r"(mapa|getctarank)\.u32$", "generic addresses have 64 bits; write .u64, or .shared::cluster.u32"),
        (r"cvt\.rs\.", _LATER),
        (r"(add|sub|min|max)\..*[us]8x4", _LATER),
        (r"clusterlaunchcontrol\.", "cancelling clusters exists on later GPUs only, and is not simulated"),
    )
)
GENERAL = "it is outside the part of PTX that is simulated; write it with other operations"


def refusal(opcode: str) -> str:
    """Why an opcode is out of scope and what to use instead; ``""`` if it is not refused by name."""
    return next((advice for pattern, advice in _REFUSED if pattern.match(opcode)), "")
