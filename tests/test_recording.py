"""CuPy's subclasses that remember a kernel's source. CuPy imports without a GPU, so most is checked everywhere."""

import cupy
import numpy as np
import pytest

from cudalab.recording import RawKernel, RawModule, cp, pointed_element, same_elements
from cudalab.sim.compiler.frontend.headers import STANDARD_HEADERS

CODE = 'extern "C" __global__ void add(const float *a, float *b, int n) { }'


def test_only_two_names_differ_from_cupy():
    assert (cp.RawKernel, cp.RawModule) == (RawKernel, RawModule)
    assert cp.arange is cupy.arange and cp.cuda is cupy.cuda and cp.float32 is cupy.float32
    assert cp.__version__ == cupy.__version__ and dir(cp) == dir(cupy)
    with pytest.raises(AttributeError, match="nothing_like_this"):
        cp.nothing_like_this  # noqa: B018


def test_kernel_is_cupys_own_and_knows_its_source():
    kernel = cp.RawKernel(CODE, "add", ("-DN=4",))
    assert isinstance(kernel, cupy.RawKernel)
    assert (kernel.code, kernel.name, kernel.options, kernel.name_expressions) == (CODE, "add", ("-DN=4",), ())


def compiled_with(made) -> tuple[str, ...]:
    """The options that CuPy itself hands to NVRTC."""
    return type(made).__mro__[1].options.__get__(made)


def test_headers_of_c_are_found_as_on_the_simulated_device():
    folder = f"-I{STANDARD_HEADERS}"
    assert compiled_with(cp.RawKernel(CODE, "add", ("-DN=4",))) == ("-DN=4", folder)
    assert compiled_with(cp.RawModule(code=CODE)) == (folder,)
    assert compiled_with(cp.RawKernel(CODE, "add", backend="nvcc")) == (), "nvcc has its own"


def test_module_is_cupys_own_and_knows_its_source():
    module = cp.RawModule(code=CODE, options=("-DN=4",))
    assert isinstance(module, cupy.RawModule)
    assert (module.code, module.options) == (CODE, ("-DN=4",))


@pytest.mark.parametrize(
    "text, dtype",
    [
        ("const float *", np.float32),
        ("float* __restrict__", np.float32),
        ("const double * const", np.float64),
        ("unsigned long long*", np.uint64),
        ("std::uint8_t *", np.uint8),
        ("volatile int *", np.int32),
    ],
)
def test_plain_element_types_are_read_from_the_declaration(text, dtype):
    assert pointed_element(text) == np.dtype(dtype)


@pytest.mark.parametrize("text", ["int", "T *", "float4 *", "float **", "void *", "half *", "Vec<float> *", ""])
def test_what_the_text_does_not_tell_is_left_alone(text):
    assert pointed_element(text) is None


@pytest.mark.parametrize(
    "array, wanted, same",
    [
        (np.float32, np.float32, True),
        (np.float64, np.float32, False),
        (np.int32, np.float32, False),
        (np.int32, np.uint32, True),
        (np.int64, np.int32, False),
    ],
)
def test_signed_and_unsigned_of_one_size_are_the_same_bytes(array, wanted, same):
    assert same_elements(np.dtype(array), np.dtype(wanted)) is same
