"""Small CuPy programs, one behaviour each, that both the real and the simulated CuPy run.

`facts.json` beside this file holds what the real one answered (`record.py` writes it on a machine with a GPU). A program
is a few statements; the value of its last line is what is compared. `cp` and `np` are there already.

Families named `kernels…` launch `RawKernel`s; families named `differs…` are places where CuPy is not NumPy.
"""

from __future__ import annotations

PROGRAMS: dict[str, str] = {}


def _family(name: str, text: str) -> None:
    for number, program in enumerate(part.strip("\n") for part in text.split("\n\n") if part.strip()):
        PROGRAMS[f"{name}.{number:03d}"] = program


_family(
    "creation",
    """
cp.arange(10)

cp.arange(2, 11, 3)

cp.arange(0, 1, 0.25)

cp.arange(5, dtype=np.float32)

cp.arange(5, 0)

cp.zeros((2, 3))

cp.zeros(4, np.int32)

cp.ones((2, 2), dtype='f4')

cp.full((2, 2), 7)

cp.full(3, 1.5, np.float32)

cp.full((2,), np.float32(2))

cp.eye(3)

cp.identity(2, np.float32)

cp.linspace(0, 1, 5)

cp.linspace(0, 10, 4, endpoint=False, dtype=np.float32)

cp.linspace(0, 1, 3, retstep=True)

cp.logspace(0, 2, 3)

cp.zeros_like(cp.arange(6, dtype=np.int16).reshape(2, 3))

cp.ones_like(cp.zeros((2, 2), np.float32), dtype=np.int8)

cp.full_like(cp.zeros(3, np.int32), 2.7)

cp.empty((2, 5), np.float64).shape

cp.empty_like(cp.zeros((2, 3), order='F')).flags.f_contiguous

cp.array([1, 2, 3])

cp.array([1.0, 2])

cp.array([[1, 2], [3, 4]], dtype=np.float32)

cp.array(3.5)

cp.array([True, False])

cp.array([1 + 2j])

cp.array([cp.arange(3), cp.arange(3) * 2])

cp.array([np.arange(3), np.arange(3) * 2])

cp.array(['a'])

cp.array([object()])

cp.array([None])

cp.array([[1, 2], [3]])

cp.asarray(np.arange(4, dtype=np.float16))

cp.asarray(np.arange(6).reshape(2, 3).T).flags.f_contiguous

cp.asarray(np.arange(6).reshape(2, 3)[:, ::2])

a = cp.arange(3)
cp.asarray(a) is a

a = cp.arange(3)
cp.array(a) is a

cp.asarray([1, 2], dtype=np.uint8)

cp.ascontiguousarray(cp.arange(6).reshape(2, 3).T)

cp.asfortranarray(cp.arange(6).reshape(2, 3)).strides

cp.diag(cp.arange(3))

cp.tri(3)

cp.tril(cp.ones((3, 3)))

cp.triu(cp.ones((3, 3)), 1)

cp.meshgrid(cp.arange(2), cp.arange(3))

cp.mgrid[0:2, 0:3]

cp.ogrid[0:2, 0:3]

cp.indices((2, 2))

cp.array([1, 2, 3], ndmin=2)

cp.zeros(-1)

cp.zeros((2, 0)).sum()

cp.zeros(3, dtype='U4')

cp.zeros(3, dtype=object)

cp.ndarray((2, 3), np.float32).nbytes

a = cp.arange(8, dtype=np.int32)
cp.ndarray((4,), np.int32, memptr=a.data + 8)

a = cp.arange(8, dtype=np.int32)
cp.ndarray((4,), np.int32, memptr=a.data, strides=(8,))

cp.frombuffer(b'abcd', np.uint8)

cp.fromfunction(lambda i, j: i + j, (2, 2))

cp.vander(cp.arange(3))

cp.copy(cp.arange(3))

cp.asnumpy(cp.arange(3))

cp.asnumpy([1, 2])

cp.asarray(np.float32(3))

cp.array(cp.float32(3))

cp.hamming(4)
""",
)

_family(
    "attributes",
    """
a = cp.arange(24, dtype=np.float32).reshape(2, 3, 4)
(a.shape, a.strides, a.dtype, a.size, a.nbytes, a.itemsize, a.ndim)

a = cp.arange(6).reshape(2, 3)
(a.T.shape, a.T.strides, a.T.flags.f_contiguous, a.T.flags.c_contiguous, a.T.flags.owndata)

str(cp.arange(6).flags)

cp.arange(6).flags['C_CONTIGUOUS']

a = cp.arange(6)
(a.base is None, a[1:].base is a, a[1:].data.ptr - a.data.ptr)

a = cp.arange(6).reshape(2, 3)
a.base is None

len(cp.zeros((4, 2)))

len(cp.array(1))

iter(cp.array(1))

[int(x) for x in cp.arange(3)]

[type(x).__name__ for x in cp.arange(2)]

bool(cp.array([1]))

bool(cp.array([0, 1]))

float(cp.array(2.5))

int(cp.array([7]))

float(cp.arange(2))

complex(cp.array(1.0))

cp.arange(3).item()

cp.array([4]).item()

cp.array([4], np.float32).item()

cp.arange(4).reshape(2, 2).tolist()

cp.arange(3).tobytes()

repr(cp.arange(3))

repr(cp.arange(3, dtype=np.float32))

repr(cp.array(1.5))

repr(cp.zeros((2, 2)))

repr(cp.array([]))

repr(cp.arange(2000))

str(cp.arange(3))

f'{cp.array(1.25):.1f}'

f'{cp.arange(3)}'

repr(cp.float32(1))

hash(cp.arange(2))

a = cp.arange(3)
a.device

a = cp.arange(3)
repr(a.device)

a = cp.arange(3, dtype=np.float32)
i = a.__cuda_array_interface__
(i['shape'], i['typestr'], i['strides'], i['version'], i['data'][0] == a.data.ptr, i['stream'], i['descr'])

cp.arange(6).reshape(2, 3).T.__cuda_array_interface__['strides']

cp.zeros(0).__cuda_array_interface__['data']

a = cp.arange(6)
a.shape = (2, 3)
a

a = cp.arange(6)
a.shape = (4, 2)

a = cp.arange(6).reshape(2, 3).T
a.shape = (6,)

a = cp.arange(3)
a.foo = 1
a.foo

a = cp.arange(3)
a.dtype = np.int32

cp.arange(4).view(np.int32)

cp.arange(4, dtype=np.float32).view(np.int32)

cp.arange(3, dtype=np.int8).view(np.int32)

cp.array(1).view(np.int32)

cp.arange(6).reshape(2, 3).T.view(np.int32)

a = cp.arange(4)
b = a.view()
b[0] = 9
a

cp.array([1 + 2j, 3 - 1j]).real

cp.array([1 + 2j, 3 - 1j]).imag

a = cp.zeros(2, complex)
a.real = 3
a

a = cp.arange(3)
a.imag

a = cp.arange(3, dtype=np.int8)
a.mT

a = cp.arange(6).reshape(2, 3)
a.mT

cp.ndarray.__module__ + '.' + cp.ndarray.__name__

type(cp.arange(2)).__mro__[0].__name__

isinstance(cp.float32(1), np.float32)

cp.float32 is np.float32

cp.dtype is np.dtype

(cp.pi, cp.e, cp.inf, cp.newaxis)

cp.nan

cp.arange(3) in [1]

cp.isscalar(cp.array(1))

cp.isscalar(1)

cp.ndim(cp.zeros((2, 3)))

cp.shape(cp.zeros((2, 3)))

cp.size(cp.zeros((2, 3)))

import pickle
pickle.loads(pickle.dumps(cp.arange(3)))

import copy
copy.copy(cp.arange(3))

import copy
copy.deepcopy(cp.arange(3))
""",
)

_family(
    "transfer",
    """
cp.arange(3).get()

cp.arange(6).reshape(2, 3).T.get().flags.f_contiguous

cp.arange(6).reshape(2, 3).T.get(order='A').flags.f_contiguous

out = np.empty(3, np.int64)
r = cp.arange(3).get(out=out)
(r is out, out)

out = np.empty(4, np.int64)
cp.arange(3).get(out=out)

out = np.empty(3, np.float32)
cp.arange(3).get(out=out)

cp.arange(3).get(out=[1, 2, 3])

a = cp.zeros(3, np.float32)
a.set(np.array([1, 2, 3], np.float32))
a

a = cp.zeros(3, np.float32)
a.set(np.array([1, 2, 3]))

a = cp.zeros(3)
a.set(np.zeros(4))

a = cp.zeros(3)
a.set([1.0, 2.0, 3.0])

a = cp.zeros((2, 3)).T
a.set(np.arange(6.0).reshape(3, 2))
a

a = cp.zeros((4, 3))[::2]
a.set(np.arange(6.0).reshape(2, 3))

s = cp.cuda.Stream(non_blocking=True)
a = cp.arange(4)
cp.cuda.Device().synchronize()
a.get(stream=s)

cp.asarray(np.arange(4)[::-1])

a = cp.zeros(4)
a[:] = np.arange(4.0)
a

a = cp.zeros(4)
a[1:3] = np.array([5.0, 6.0])

a = cp.zeros((2, 2))
a[...] = np.ones((2, 2))

a = cp.zeros(2)
a[0] = np.float32(3)
a

a = cp.zeros(2)
a[0] = np.array(3.0)
a

np.asarray(cp.arange(3))

np.array(cp.arange(3))

cp.arange(3) + np.arange(3)

np.arange(3) + cp.arange(3)

cp.arange(3) + np.float32(1)

cp.arange(3) * np.array(2)

np.array(2) * cp.arange(3)

np.float32(2) * cp.arange(3)

cp.add(cp.arange(3), np.arange(3))

cp.add(np.arange(3), 1)

cp.sum(np.arange(3))

cp.sum([1, 2, 3])

cp.sqrt(4.0)

cp.sqrt([1.0, 4.0])

cp.add(1, 2)

a = np.zeros(3)
a[:] = cp.arange(3)

a = np.zeros(3)
a += cp.arange(3)

a = cp.arange(3)
a += np.arange(3)

float(np.float64(2) + cp.array(1.0))

cp.arange(3) == None

cp.arange(3) == 'a'

cp.arange(3) + 'a'

cp.arange(3) + [1, 2, 3]

[1, 2, 3] + cp.arange(3)

cp.arange(3) + None

cp.array([1, cp.array(2)])

cp.array([cp.array(1), cp.array(2)])

np.array([cp.array(1), cp.array(2)])

sum(cp.arange(4))

max(cp.arange(4))

cp.get_array_module(cp.arange(2)).__name__.split('.')[-1]

cp.get_array_module(np.arange(2)).__name__

import math
math.sqrt(cp.array(4.0))

range(cp.array(3))

[10, 20, 30][cp.array(1)]

np.arange(5)[cp.array([1])]

x = np.ones(3)
x[cp.array([0])] = 2
""",
)

_family(
    "numpy_protocol",
    """
np.sin(cp.zeros(2))

type(np.sin(cp.zeros(2))).__module__

np.add(cp.arange(3), 1)

np.sum(cp.arange(4))

np.mean(cp.arange(4))

np.concatenate([cp.arange(2), cp.arange(2)])

np.dot(cp.arange(3.0), cp.arange(3.0))

np.where(cp.arange(3) > 1, 1, 0)

np.linalg.norm(cp.array([3.0, 4.0]))

np.add.reduce(cp.arange(4))

np.multiply.outer(cp.arange(2), cp.arange(3))

a = cp.zeros(3)
np.add(cp.arange(3.0), 1, out=a)
a

a = np.zeros(3)
np.add(cp.arange(3.0), 1, out=a)

np.add(cp.arange(3.0), np.arange(3.0))

np.matmul(cp.eye(2), cp.ones((2, 2)))

np.zeros_like(cp.arange(3))

np.allclose(cp.arange(3), cp.arange(3))

np.median(cp.arange(5))

np.save

np.shape(cp.zeros((2, 3)))

np.ndim(cp.zeros((2, 3)))

np.clip(cp.arange(4), 1, 2)

np.vander(cp.arange(3))

np.divmod(cp.arange(4), 3)

np.modf(cp.array([1.5]))

np.busday_count(cp.arange(3), cp.arange(3))

np.array_equal(cp.arange(3), cp.arange(3))

np.isclose(cp.arange(3.0), 1.0)

np.maximum(cp.arange(3), 1)

np.stack([cp.arange(2), cp.arange(2)])

np.array_repr(cp.arange(3))

np.result_type(cp.arange(3), np.float32)

np.may_share_memory(cp.arange(3), cp.arange(3))

np.iinfo(cp.arange(3).dtype).max
""",
)

_family(
    "arithmetic",
    """
cp.arange(4) + 1

cp.arange(4) - cp.arange(4) * 2

cp.arange(4) / 2

cp.arange(4) // 3

cp.arange(4) % 3

cp.arange(4) ** 2

cp.arange(4.0) ** 0.5

2 ** cp.arange(4)

-cp.arange(3)

+cp.arange(3)

abs(cp.array([-1.5, 2]))

~cp.array([True, False])

~cp.arange(3)

cp.arange(4) & 1

cp.arange(4) | 4

cp.arange(4) ^ 1

cp.arange(4) << 2

cp.arange(8) >> 1

divmod(cp.arange(5), 2)

1 - cp.arange(3)

1 / cp.array([1.0, 2.0, 4.0])

cp.arange(3) < 1

cp.arange(3) == cp.array([0, 5, 2])

cp.arange(3) != 1

1 >= cp.arange(3)

cp.arange(3, dtype=np.float32) + 1.5

cp.arange(3, dtype=np.float32) + np.float64(1.5)

cp.arange(3, dtype=np.int32) + 1

cp.arange(3, dtype=np.int8) + 1000

cp.arange(3, dtype=np.uint8) - 1

cp.arange(3, dtype=np.uint8) + np.int16(5)

cp.arange(3, dtype=np.int32) + 1.0

cp.arange(3, dtype=np.int32) * np.float32(2)

cp.arange(3, dtype=np.float16) * 2.0

cp.arange(3, dtype=np.int64) + cp.arange(3, dtype=np.float32)

cp.arange(3, dtype=np.int32) + cp.arange(3, dtype=np.float32)

cp.arange(3, dtype=np.int32) / cp.arange(1, 4, dtype=np.int32)

cp.arange(3, dtype=np.int8) / np.int8(2)

cp.arange(3) + True

cp.array([True]) + cp.array([True])

cp.array([True, False]) * 2

cp.array([True]) - cp.array([True])

-cp.array([True])

cp.arange(3, dtype=np.float32) * 1j

cp.arange(3, dtype=np.float32) ** 2

cp.arange(3, dtype=np.int32) ** 2

cp.arange(3, dtype=np.int32) ** 0.5

cp.arange(3, dtype=np.int32) ** 2.0

cp.arange(1, 4) ** -1

cp.arange(1, 4) ** cp.array([-1, -2, 0])

cp.arange(1, 4) // 0

cp.arange(1, 4) % 0

cp.arange(-3, 4) // 2

cp.arange(-3, 4) % 3

cp.array([1.0, -1.0, 0.0]) / 0

cp.array([5.5, -5.5]) % 3

cp.array([5.5, -5.5]) // 2

cp.arange(3).reshape(3, 1) + cp.arange(2)

cp.arange(3) + cp.arange(4)

a = cp.arange(3)
a += 1
a

a = cp.arange(3)
a += 1.5

a = cp.arange(3)
a /= 2

a = cp.arange(3.0)
a /= 2
a

a = cp.arange(4)
a //= 2
a

a = cp.arange(4)
a **= 2
a

a = cp.arange(4)
a %= 3
a

a = cp.arange(4)
a <<= 1
a

a = cp.arange(4)
a &= 1
a

a = cp.arange(3, dtype=np.float32)
a += cp.arange(3, dtype=np.float64)
a

a = cp.arange(3, dtype=np.int32)
a += cp.arange(3, dtype=np.int64)
a

a = cp.arange(3)
a += cp.arange(6).reshape(2, 3)

a = cp.arange(6).reshape(2, 3)
a += cp.arange(3)
a

a = cp.arange(6)
a[1:] += a[:-1]
a.shape

a = cp.arange(4)
b = a
b -= 1
a

a = cp.arange(4)
a[::2] *= 10
a

a = cp.arange(4)
a @ a

cp.arange(4.0).reshape(2, 2) @ cp.arange(2.0)

cp.ones((2, 3)) @ cp.ones((3, 4))

cp.ones((2, 3)) @ cp.ones((2, 3))

cp.ones((5, 2, 3), np.float32) @ cp.ones((3, 4), np.float32)

cp.array(2) @ cp.array(3)

2 @ cp.arange(2)

cp.matmul(cp.ones((2, 2), np.int32), cp.ones((2, 2), np.int32))
""",
)

_family(
    "ufuncs",
    """
cp.sin(cp.arange(3, dtype=np.float32))

cp.sin(cp.arange(3))

cp.sin(cp.arange(3, dtype=np.int8))

cp.sin(cp.arange(3, dtype=np.int16))

cp.exp(cp.array([0.0, 1.0]))

cp.log(cp.array([1.0, 0.0, -1.0]))

cp.log2(cp.array([8.0]))

cp.log10(cp.array([100.0]))

cp.log1p(cp.array([0.5]))

cp.expm1(cp.array([0.5]))

cp.sqrt(cp.array([4.0, -1.0]))

cp.cbrt(cp.array([27.0]))

cp.square(cp.arange(3))

cp.reciprocal(cp.array([2.0]))

cp.tanh(cp.array([0.5]))

cp.arctan2(cp.array([1.0]), cp.array([1.0]))

cp.hypot(cp.array([3.0]), cp.array([4.0]))

cp.floor(cp.array([1.5, -1.5]))

cp.ceil(cp.array([1.5, -1.5]))

cp.trunc(cp.array([1.5, -1.5]))

cp.rint(cp.array([0.5, 1.5]))

cp.around(cp.array([1.234, 5.678]), 1)

cp.round(cp.array([1.5, 2.5]))

cp.fix(cp.array([1.5, -1.5]))

cp.floor(cp.arange(3))

cp.sign(cp.array([-2, 0, 3]))

cp.abs(cp.arange(-2, 2))

cp.absolute(cp.array([3 + 4j]))

cp.fabs(cp.array([-1.5]))

cp.maximum(cp.array([1.0, np.nan]), 2.0)

cp.fmax(cp.array([1.0, np.nan]), 2.0)

cp.minimum(cp.arange(4), 2)

cp.isnan(cp.array([1.0, np.nan]))

cp.isinf(cp.array([1.0, np.inf]))

cp.isfinite(cp.array([1.0, np.inf]))

cp.logical_and(cp.array([0, 1]), cp.array([1, 1]))

cp.logical_not(cp.arange(2))

cp.bitwise_and(cp.arange(4), 1)

cp.invert(cp.arange(2, dtype=np.uint8))

cp.left_shift(cp.arange(3), 1)

cp.equal(cp.arange(3), 1)

cp.greater(cp.arange(3), 1)

cp.power(cp.arange(4), 3)

cp.power(cp.arange(4, dtype=np.float32), 2)

cp.float_power(cp.arange(3), 2)

cp.mod(cp.arange(5), 3)

cp.fmod(cp.array([-5.0]), 3)

cp.divmod(cp.arange(5), 3)

cp.modf(cp.array([1.5, -2.25]))

cp.frexp(cp.array([8.0]))

cp.ldexp(cp.array([1.0]), 3)

cp.copysign(cp.array([1.0]), -1)

cp.nextafter(cp.array([1.0]), 2.0)

cp.signbit(cp.array([-1.0, 1.0]))

cp.deg2rad(cp.array([180.0]))

cp.conj(cp.array([1 + 2j]))

cp.angle(cp.array([1j]))

cp.gcd(cp.arange(6), 4)

cp.heaviside(cp.array([-1.0, 0.0, 1.0]), 0.5)

cp.add(cp.arange(3), 1, dtype=np.float32)

cp.add(cp.arange(3), 1, out=cp.empty(3, np.float32))

a = cp.empty(3, np.int8)
cp.add(cp.arange(3), 1.5, out=a)

a = cp.empty(3)
r = cp.add(cp.arange(3), 1, out=a)
r is a

cp.add(cp.arange(3), 1, where=cp.array([True, False, True])).shape

cp.add(cp.arange(3), cp.arange(3), cp.zeros(3))

cp.add.reduce(cp.arange(6).reshape(2, 3))

cp.add.reduce(cp.arange(6).reshape(2, 3), axis=1, keepdims=True)

cp.add.accumulate(cp.arange(4))

cp.multiply.accumulate(cp.arange(1, 4))

cp.add.outer(cp.arange(2), cp.arange(3))

a = cp.zeros(3)
cp.add.at(a, cp.array([0, 0, 2]), 1)
a

cp.add.reduceat(cp.arange(8), cp.array([0, 4]))

repr(cp.add)

(cp.add.nin, cp.add.nout, cp.add.name)

type(cp.add).__name__

cp.add.__name__

cp.add.types[:3]

cp.sin('a')

cp.sin(None)

cp.sin()

cp.add(cp.arange(2))

cp.sinc(cp.array([0.0, 0.5]))

cp.clip(cp.arange(6), 1, 4)

cp.arange(6.0).clip(1.5, None)

cp.clip(cp.arange(6), None, None)

cp.nan_to_num(cp.array([np.nan, np.inf, 1.0]))

cp.real(cp.array([1 + 2j]))

cp.interp(cp.array([0.5, 1.5]), cp.arange(3.0), cp.array([0.0, 10.0, 20.0]))

cp.convolve(cp.arange(3.0), cp.ones(2))

cp.i0(cp.array([1.0]))

cp.where(cp.arange(4) > 1, cp.arange(4), -1)

cp.where(cp.array([True, False]), 1.5, 2)

cp.where(cp.array([0, 1, 1]))

cp.isclose(cp.array([1.0, 2.0]), cp.array([1.0, 2.1]))

cp.lcm(cp.arange(1, 4), 6)

cp.exp2(cp.arange(3.0))

cp.logaddexp(cp.array([0.0]), cp.array([0.0]))

cp.positive(cp.arange(2))

cp.negative(cp.arange(2, dtype=np.uint8))

cp.degrees(cp.array([np.pi]))

cp.unwrap(cp.array([0.0, 6.3]))
""",
)

_family(
    "reductions",
    """
cp.arange(5).sum()

type(cp.arange(5).sum()).__name__

cp.arange(5).sum().shape

cp.arange(6, dtype=np.int32).sum()

cp.arange(6, dtype=np.uint8).sum()

cp.arange(6, dtype=np.float32).sum()

cp.arange(6, dtype=np.float16).sum()

cp.ones(5, bool).sum()

cp.arange(6).reshape(2, 3).sum(axis=0)

cp.arange(6).reshape(2, 3).sum(axis=-1, keepdims=True)

cp.arange(24).reshape(2, 3, 4).sum(axis=(0, 2))

cp.arange(6).reshape(2, 3).sum(axis=2)

cp.arange(6).reshape(2, 3).sum(axis=(0, 0))

cp.arange(6).sum(dtype=np.float32)

cp.sum(cp.arange(6), out=cp.zeros((), np.int64))

cp.sum(cp.arange(6), initial=10)

cp.sum(cp.arange(4), where=cp.array([True, False, True, True]))

cp.arange(1, 5).prod()

cp.arange(5).mean()

cp.arange(5, dtype=np.float32).mean()

cp.arange(5, dtype=np.int32).mean()

cp.arange(6).reshape(2, 3).mean(axis=1)

cp.arange(5).var()

cp.arange(5).std(ddof=1)

cp.arange(5, dtype=np.float32).std()

cp.arange(5).min()

cp.arange(6).reshape(2, 3).max(axis=0)

cp.array([1.0, np.nan]).max()

cp.nanmax(cp.array([1.0, np.nan]))

cp.nansum(cp.array([1.0, np.nan]))

cp.nanmean(cp.array([1.0, np.nan, 3.0]))

cp.arange(6).argmax()

cp.arange(6).reshape(2, 3).argmin(axis=1)

type(cp.arange(6).argmax()).__name__

cp.array([]).max()

cp.array([]).sum()

cp.array([]).mean()

cp.array([]).argmax()

cp.arange(4).any()

cp.arange(4).all()

cp.any(cp.zeros((2, 3)), axis=1)

cp.all(cp.ones((2, 3)), axis=0, keepdims=True)

cp.arange(4).cumsum()

cp.arange(4, dtype=np.int32).cumsum()

cp.arange(6).reshape(2, 3).cumsum(axis=1)

cp.arange(6).reshape(2, 3).cumsum()

cp.arange(1, 4).cumprod()

cp.cumsum(cp.arange(4), dtype=np.float32)

cp.ptp(cp.array([3, 9, 1]))

cp.count_nonzero(cp.arange(4))

cp.count_nonzero(cp.eye(3), axis=0)

cp.median(cp.array([3.0, 1.0, 2.0]))

cp.percentile(cp.arange(11.0), 25)

cp.quantile(cp.arange(11.0), [0.25, 0.5])

cp.average(cp.arange(4.0), weights=cp.arange(4.0))

cp.histogram(cp.array([1.0, 2.0, 2.5, 4.0]), bins=3)

cp.bincount(cp.array([0, 1, 1, 3]))

cp.bincount(cp.array([0, 1, 1]), minlength=5)

cp.bincount(cp.array([0, 1]), weights=cp.array([0.5, 1.5]))

cp.digitize(cp.array([0.5, 2.5]), cp.arange(4.0))

cp.corrcoef(cp.arange(3.0), cp.array([1.0, 2.0, 4.0]))

cp.cov(cp.arange(3.0), cp.array([1.0, 2.0, 4.0]))

cp.allclose(cp.arange(3), cp.arange(3))

type(cp.allclose(cp.arange(3), cp.arange(3))).__name__

cp.array_equal(cp.arange(3), cp.arange(3))

cp.array_equal(cp.arange(3), cp.arange(4))

cp.diff(cp.array([1, 4, 9]))

cp.gradient(cp.array([1.0, 4.0, 9.0]))

cp.trapezoid(cp.array([1.0, 2.0, 3.0]))

cp.trace(cp.eye(3))

cp.amax(cp.arange(4))

cp.max(cp.arange(4), axis=0)

cp.max(cp.arange(4), initial=9)

cp.sum(cp.arange(6).reshape(2, 3), 0)

cp.mean(cp.array([True, False]))

cp.arange(4).ptp()

cp.argwhere(cp.arange(4) > 1)

cp.nonzero(cp.array([0, 3, 0, 4]))

cp.flatnonzero(cp.array([0, 3, 0, 4]))

cp.unique(cp.array([3, 1, 3]))

cp.unique(cp.array([3, 1, 3]), return_counts=True)
""",
)

_family(
    "manipulation",
    """
cp.arange(6).reshape(2, 3)

cp.arange(6).reshape((3, -1))

cp.arange(6).reshape(4, 2)

cp.arange(6).reshape(-1, -1)

cp.arange(6).reshape(2, 3, order='F')

a = cp.arange(6)
a.reshape(2, 3).base is a

a = cp.arange(6).reshape(2, 3)
a.T.reshape(6).base is None

cp.arange(6).reshape(2, 3).ravel()

cp.arange(6).reshape(2, 3).T.ravel()

cp.arange(6).reshape(2, 3).flatten()

cp.arange(6).reshape(2, 3).transpose()

cp.arange(24).reshape(2, 3, 4).transpose(2, 0, 1).shape

cp.swapaxes(cp.zeros((2, 3, 4)), 0, 2).shape

cp.moveaxis(cp.zeros((2, 3, 4)), 0, -1).shape

cp.rollaxis(cp.zeros((2, 3, 4)), 2).shape

cp.squeeze(cp.zeros((1, 2, 1))).shape

cp.zeros((1, 2)).squeeze(axis=1)

cp.expand_dims(cp.arange(3), 1).shape

cp.broadcast_to(cp.arange(3), (2, 3))

cp.broadcast_to(cp.arange(3), (2, 3)).strides

cp.broadcast_arrays(cp.arange(3), cp.zeros((2, 1)))

cp.broadcast_to(cp.arange(3), (3, 2))

cp.concatenate([cp.arange(2), cp.arange(3)])

cp.concatenate([cp.ones((2, 2), np.float32), cp.zeros((1, 2), np.int32)])

cp.concatenate([cp.ones((2, 2)), cp.zeros((1, 3))])

cp.concatenate([cp.arange(2), np.arange(2)])

cp.concatenate([])

cp.concatenate([cp.arange(4).reshape(2, 2), cp.arange(2).reshape(2, 1)], axis=1)

cp.stack([cp.arange(2), cp.arange(2)], axis=1)

cp.vstack([cp.arange(2), cp.arange(2)])

cp.hstack([cp.arange(2), cp.arange(2)])

cp.dstack([cp.arange(2), cp.arange(2)])

cp.column_stack([cp.arange(2), cp.arange(2)])

cp.split(cp.arange(6), 3)

cp.split(cp.arange(5), 2)

cp.array_split(cp.arange(5), 2)

cp.hsplit(cp.arange(4).reshape(2, 2), 2)

cp.tile(cp.arange(2), 3)

cp.tile(cp.arange(2), (2, 2))

cp.repeat(cp.arange(3), 2)

cp.repeat(cp.arange(4).reshape(2, 2), 2, axis=0)

cp.repeat(cp.arange(3), [1, 0, 2])

cp.flip(cp.arange(3))

cp.fliplr(cp.arange(4).reshape(2, 2))

cp.flipud(cp.arange(4).reshape(2, 2))

cp.rot90(cp.arange(4).reshape(2, 2))

cp.roll(cp.arange(5), 2)

cp.roll(cp.arange(6).reshape(2, 3), 1, axis=1)

cp.pad(cp.arange(3), 1)

cp.pad(cp.arange(3), (1, 2), mode='edge')

cp.pad(cp.arange(4).reshape(2, 2), ((1, 0), (0, 1)), constant_values=9)

cp.sort(cp.array([3, 1, 2]))

a = cp.array([3, 1, 2])
a.sort()
a

cp.argsort(cp.array([3, 1, 2]))

cp.sort(cp.array([[3, 1], [2, 5]]), axis=0)

cp.partition(cp.array([3, 1, 2, 0]), 1).shape

cp.lexsort(cp.array([[1, 0, 1], [0, 1, 1]]))

cp.searchsorted(cp.arange(5), cp.array([1, 3]))

cp.take(cp.arange(10), cp.array([1, 3]))

cp.take(cp.arange(6).reshape(2, 3), [0, 2], axis=1)

cp.take(cp.arange(3), 5)

cp.compress(cp.array([True, False, True]), cp.arange(3))

cp.choose(cp.array([0, 1]), [cp.array([1, 2]), cp.array([3, 4])])

cp.diagonal(cp.arange(9).reshape(3, 3))

cp.atleast_2d(cp.arange(3)).shape

cp.append(cp.arange(2), cp.arange(2))

cp.delete(cp.arange(4), 1)

cp.insert(cp.arange(3), 1, 9)

cp.isin(cp.arange(4), cp.array([1, 2]))

cp.intersect1d(cp.arange(4), cp.array([1, 2]))

cp.kron(cp.arange(2), cp.ones(2))

cp.outer(cp.arange(3), cp.arange(2))

cp.cross(cp.array([1, 0, 0]), cp.array([0, 1, 0]))

cp.resize(cp.arange(3), (2, 3))

cp.packbits(cp.array([1, 0, 1], np.uint8))

cp.trim_zeros(cp.array([0, 1, 2, 0]))

cp.copyto(cp.zeros(3), cp.arange(3))

a = cp.zeros(3)
cp.copyto(a, 5)
a

a = cp.zeros(4)
cp.put(a, cp.array([1, 2]), 5)
a

a = cp.zeros((2, 2))
cp.fill_diagonal(a, 3)
a

a = cp.arange(4)
cp.putmask(a, a > 1, 0)
a

cp.arange(6).astype(np.float32)

cp.array([1.7, -1.7]).astype(np.int32)

cp.array([300.0]).astype(np.int32)

cp.arange(3).astype(np.int64) is None

a = cp.arange(3)
a.astype(np.int64, copy=False) is a

cp.array([1 + 2j]).astype(np.complex64)

a = cp.arange(6).reshape(2, 3).T
a.astype(np.float32).flags.f_contiguous

a = cp.arange(6).reshape(2, 3).T
a.copy().flags.c_contiguous

cp.arange(3).astype('S1')

a = cp.empty(3, np.float32)
a.fill(2)
a

a = cp.empty(3)
a.fill(cp.array(3))
a

a = cp.empty(3)
a.fill([1, 2])

cp.may_share_memory(cp.arange(3), cp.arange(3))

a = cp.arange(3)
cp.shares_memory(a, a[1:])

cp.result_type(np.int32, np.float32)

cp.can_cast(np.int64, np.int32)

cp.promote_types(np.int8, np.uint8)

cp.common_type(cp.arange(2), cp.arange(2.0))

cp.finfo(np.float32).eps

cp.einsum('ij,jk->ik', cp.ones((2, 3)), cp.ones((3, 2)))

cp.tensordot(cp.ones((2, 3)), cp.ones((3, 2)), 1)

cp.inner(cp.arange(3), cp.arange(3))

cp.vdot(cp.arange(3), cp.arange(3))

cp.dot(cp.arange(3), cp.arange(3))

cp.dot(cp.ones((2, 3)), cp.ones(3))

cp.dot(cp.ones((2, 3)), cp.ones(2))

cp.arange(3).dot(cp.arange(3))

cp.linalg.norm(cp.array([3.0, 4.0]))

cp.linalg.norm(cp.arange(4.0).reshape(2, 2), axis=1)

cp.linalg.norm(cp.arange(4.0).reshape(2, 2), ord=1)

cp.linalg.det(cp.array([[1.0, 2.0], [3.0, 4.0]]))

cp.linalg.inv(cp.array([[1.0, 2.0], [3.0, 4.0]]))

cp.linalg.solve(cp.array([[2.0, 0.0], [0.0, 4.0]]), cp.array([2.0, 4.0]))

cp.linalg.inv(cp.zeros((2, 2)))

cp.linalg.matrix_power(cp.array([[1.0, 1.0], [0.0, 1.0]]), 3)

cp.linalg.eigvalsh(cp.array([[2.0, 0.0], [0.0, 1.0]]))

cp.linalg.svd(cp.array([[2.0, 0.0], [0.0, 1.0]]), compute_uv=False)

cp.fft.fft(cp.arange(4.0))

cp.fft.rfft(cp.arange(4.0, dtype=np.float32)).dtype

cp.cumsum(cp.arange(6).reshape(2, 3), axis=5)

cp.transpose(cp.arange(6).reshape(2, 3), (0, 0))

cp.r_[cp.arange(2), 5]

cp.c_[cp.arange(2), cp.arange(2)]

cp.apply_along_axis(lambda v: v.sum(), 1, cp.ones((2, 3)))

cp.vectorize(lambda x: x + 1)(cp.arange(3))

cp.polyval(cp.array([1.0, 2.0]), cp.array([3.0]))

cp.polyfit(cp.arange(4.0), cp.arange(4.0) * 2 + 1, 1)

cp.ravel_multi_index((cp.array([1]), cp.array([2])), (3, 4))

cp.unravel_index(cp.array([5]), (2, 3))

cp.nanargmax(cp.array([1.0, np.nan, 3.0]))

cp.msort

cp.byte_bounds

cp.ediff1d(cp.array([1, 4, 9]))
""",
)

_family(
    "indexing",
    """
cp.arange(5)[2]

type(cp.arange(5)[2]).__name__

cp.arange(5)[-1]

cp.arange(5)[5]

cp.arange(6).reshape(2, 3)[2]

cp.arange(6).reshape(2, 3)[0, 5]

cp.arange(6).reshape(2, 3)[1]

cp.arange(6).reshape(2, 3)[:, 1]

cp.arange(6).reshape(2, 3)[1, 2]

cp.arange(10)[2:8:2]

cp.arange(5)[::-1]

cp.arange(5)[10:20]

cp.arange(6).reshape(2, 3)[..., 0]

cp.arange(3)[None].shape

cp.arange(3)[:, None].shape

cp.arange(6).reshape(2, 3)[0, 0, 0]

cp.arange(5)['a']

cp.arange(5)[1.5]

cp.arange(5)[[0, 2]]

cp.arange(5)[cp.array([0, 2])]

cp.arange(5)[np.array([0, 2])]

cp.arange(5)[cp.array([0, -1])]

cp.arange(6).reshape(2, 3)[[0, 1], [1, 2]]

cp.arange(6).reshape(2, 3)[:, [0, 2]]

cp.arange(6).reshape(2, 3)[[1, 0]]

cp.arange(6).reshape(2, 3)[cp.array([[0], [1]]), cp.array([0, 2])]

cp.arange(24).reshape(2, 3, 4)[[0, 1], :, [1, 2]].shape

cp.arange(24).reshape(2, 3, 4)[:, [0, 1], [1, 2]].shape

cp.arange(5)[cp.arange(5) > 2]

cp.arange(5)[np.arange(5) > 2]

cp.arange(5)[[True, False, True, False, True]]

cp.arange(6).reshape(2, 3)[cp.arange(6).reshape(2, 3) % 2 == 0]

cp.arange(6).reshape(2, 3)[cp.array([True, False])]

cp.arange(5)[cp.array([True, False])]

cp.arange(5)[cp.array(2)]

cp.arange(5)[True].shape

cp.arange(5)[cp.array([], int)]

a = cp.arange(5)
a[1] = 9
a

a = cp.arange(5)
a[1:3] = 0
a

a = cp.arange(5)
a[[0, 4]] = 7
a

a = cp.arange(5)
a[a > 2] = -1
a

a = cp.arange(5)
a[a > 2] = cp.array([10, 20])
a

a = cp.arange(6).reshape(2, 3)
a[:, 1] = cp.array([7, 8])
a

a = cp.arange(6).reshape(2, 3)
a[0] = cp.arange(3) * 10
a

a = cp.arange(5)
a[1:3] = cp.arange(3)

a = cp.arange(5)
a[5] = 1

a = cp.arange(5)
a[1] = 2.9
a

a = cp.arange(5)
a[...] = 3
a

a = cp.arange(5)
a[:] = cp.arange(5.0) + 0.5
a

a = cp.arange(5)
a[0] = 'x'

a = cp.arange(5)
a[0] = [1]
a

a = cp.arange(5)
a[:2] = [7, 8]
a

a = cp.arange(5, dtype=np.int8)
a[0] = 300
a

a = cp.arange(5, dtype=np.uint8)
a[0] = -1
a

a = cp.arange(5, dtype=np.float32)
a[0] = 1j

a = cp.zeros((2, 2))
a[0, cp.array([0, 1])] = cp.array([1, 2])
a

a = cp.zeros((2, 3))
a[cp.array([True, False])] = 5
a

a = cp.arange(5)
b = a[1:4]
b[0] = 100
a

a = cp.arange(5)
b = a[[1, 2]]
b[0] = 100
a

del cp.arange(5)[0]

cp.arange(12).reshape(3, 4)[1:, ::2]

cp.arange(12).reshape(3, 4)[::-1, ::-1]

cp.arange(12).reshape(3, 4)[(1, 2)]

cp.arange(12).reshape(3, 4)[1:2, [1, 2], None].shape

cp.ix_(cp.array([0, 1]), cp.array([1, 2]))

cp.arange(6).reshape(2, 3).flat[4]

cp.arange(5)[slice(1, 3)]

cp.arange(5)[np.int64(2)]

cp.arange(4).take(cp.array([0, 1]))

cp.take_along_axis(cp.array([[3, 1], [2, 5]]), cp.array([[1], [0]]), axis=1)

a = cp.arange(4)
a.put([0, 1], [9, 8])
a

cp.arange(3)[cp.array([True, True, False])] + 1

cp.array(5)[()]

cp.array(5)[0]

cp.array(5)[...]

list(cp.arange(4).reshape(2, 2))
""",
)

_family(
    "differs",
    """
cp.arange(3)[cp.array([1, 3])]

cp.arange(3)[cp.array([-4, 7])]

cp.arange(3)[[1, 3]]

cp.arange(6).reshape(2, 3)[cp.array([0, 2])]

a = cp.arange(3)
a[cp.array([1, 3])] = 10
a

a = cp.arange(3)
a[[5]] = 10
a

cp.take(cp.arange(3), cp.array([3]))

cp.take(cp.arange(3), cp.array([3]), mode='clip')

cp.array([-1.0]).astype(np.uint8)

cp.array([-1]).astype(np.uint8)

cp.array([-1.5]).astype(np.uint32)

cp.array([-1.5]).astype(np.uint64)

cp.array([300.7]).astype(np.int8)

cp.array([300.7]).astype(np.uint8)

cp.array([1e20]).astype(np.int32)

cp.array([1e20]).astype(np.int64)

cp.array([-1e20]).astype(np.int64)

cp.array([1e20]).astype(np.uint64)

cp.array([np.inf]).astype(np.int32)

cp.array([-np.inf]).astype(np.int32)

cp.array([np.nan]).astype(np.int32)

cp.array([np.nan]).astype(np.int64)

cp.array([np.nan], np.float32).astype(np.int8)

cp.array([np.nan]).astype(bool)

cp.array([np.inf]).astype(np.uint8)

cp.array([1e10], np.float32).astype(np.int16)

cp.array([70000.0]).astype(np.int16)

cp.array([1e6]).astype(np.float16)

cp.arange(3).sum() is None

isinstance(cp.arange(3).sum(), cp.ndarray)

isinstance(cp.arange(3)[0], cp.ndarray)

cp.arange(2).max().get()

{cp.array(1): 2}

cp.array([3, 1]) if cp.array(1) else 0

cp.random.seed(0)
np.random.seed(0)
bool(cp.random.rand() == np.random.rand())

type(cp.random.rand()).__name__

cp.random.rand().shape

a = cp.arange(3)
a.sum().item()

cp.zeros(3)[1:2] == 0

cp.matmul(cp.ones((2, 2)), 2)

a = cp.zeros(2)
a[cp.array([0, 0])] += 1
a

cp.array([[1, 2], [3, 4]]).max(axis=1).tolist()

cp.ones(3).std(ddof=5)

cp.clip(cp.arange(3), 2, 1)

cp.array([1, 2]).__array_priority__

cp.arange(3).flags.writeable

cp.arange(3).itemset

cp.arange(3).ctypes

cp.arange(3).setflags

cp.arange(3).newbyteorder

cp.arange(3).resize

cp.arange(3).searchsorted(2)

cp.matrix

cp.nditer

cp.chararray

cp.notanumpyname

cp.cuda.notaname

cp.random.notaname

cp.array([2.5, 3.5]).astype(np.int64)

cp.power(cp.array([2, 3]), -1)

cp.left_shift(cp.array([1], np.int32), 40)

cp.right_shift(cp.array([-1], np.int32), 40)

cp.floor_divide(cp.array([1.0]), 0.0)

cp.remainder(cp.array([1.0]), 0.0)

cp.array([5], np.uint8) // cp.array([0], np.uint8)

cp.log(cp.array([0], np.int32))
""",
)

_family(
    "random",
    """
cp.random.seed(3)
a = cp.random.rand(4)
cp.random.seed(3)
bool((a == cp.random.rand(4)).all())

(cp.random.rand(2, 3).shape, cp.random.rand(2, 3).dtype)

cp.random.randn(4).dtype

cp.random.randn(4, dtype=np.float32).dtype

cp.random.rand(4, dtype=np.float32).dtype

cp.random.random(3).shape

cp.random.random((2, 3), dtype=np.float32).dtype

cp.random.random().shape

cp.random.random_sample((2,)).dtype

a = cp.random.randint(0, 10, 1000)
(a.dtype, int(a.min()), int(a.max()), a.shape)

cp.random.randint(5).shape

cp.random.randint(0, 256, (4, 4), dtype=np.uint8).dtype

cp.random.randint(5, 5)

cp.random.randint(0, 10, 5, dtype=np.int32).dtype

a = cp.random.uniform(-1, 1, 1000)
(a.dtype, bool(a.min() >= -1), bool(a.max() < 1))

cp.random.uniform(0, 1, 3, dtype=np.float32).dtype

cp.random.normal(0, 1, (2, 2)).shape

cp.random.standard_normal(3).dtype

cp.random.standard_normal(3, dtype=np.float32).dtype

sorted(cp.random.permutation(5).tolist())

sorted(cp.random.permutation(cp.arange(4)).tolist())

a = cp.arange(5)
cp.random.shuffle(a)
sorted(a.tolist())

cp.random.choice(5, 3).shape

cp.random.choice(cp.arange(5), 3, replace=False).shape

g = cp.random.default_rng(1)
(type(g).__name__, g.random(3).dtype, g.random(3, dtype=np.float32).dtype)

g = cp.random.default_rng(1)
a = g.integers(0, 10, 100)
(a.dtype, int(a.min()) >= 0, int(a.max()) < 10)

g = cp.random.default_rng(1)
g.standard_normal(3).dtype

g = cp.random.default_rng(1)
g.uniform(0, 2, 3).dtype

g = cp.random.default_rng(1)
g.normal(0, 2, 3).dtype

g = cp.random.default_rng(1)
a = g.random(3)
b = cp.random.default_rng(1).random(3)
bool((a == b).all())

r = cp.random.RandomState(7)
(r.rand(3).shape, r.randn(2).dtype, r.randint(0, 5, 3).dtype, r.uniform(0, 1, 2).dtype, r.normal(size=2).dtype)

cp.random.bytes(3)

cp.random.exponential(1.0, 3).dtype

cp.random.poisson(3.0, 3).dtype

cp.random.binomial(10, 0.5, 3).dtype

cp.random.lognormal(0, 1, 3).dtype

cp.random.multivariate_normal

cp.random.integers

cp.random.get_random_state().__class__.__name__
""",
)

_family(
    "pool",
    """
p = cp.cuda.MemoryPool()
with cp.cuda.using_allocator(p.malloc):
    a = cp.zeros(100, np.float32)
    b = cp.zeros(1000, np.float32)
    c = cp.zeros(1, np.int8)
r = [(p.used_bytes(), p.total_bytes(), p.free_bytes(), p.n_free_blocks())]
del b
r.append((p.used_bytes(), p.total_bytes(), p.free_bytes(), p.n_free_blocks()))
with cp.cuda.using_allocator(p.malloc):
    d = cp.empty(100, np.float64)
r.append((p.used_bytes(), p.total_bytes(), p.free_bytes(), p.n_free_blocks()))
del a
p.free_all_blocks()
r.append((p.used_bytes(), p.total_bytes(), p.free_bytes(), p.n_free_blocks()))
del c, d
p.free_all_blocks()
r.append((p.used_bytes(), p.total_bytes(), p.free_bytes(), p.n_free_blocks()))
r

p = cp.cuda.MemoryPool()
m = p.malloc(1000)
(m.mem.size, type(m.mem).__name__, type(m).__name__, m.ptr == m.mem.ptr, m.device_id, m.ptr % 512)

p = cp.cuda.MemoryPool()
m = p.malloc(4096)
x = m.ptr
del m
m = p.malloc(4000)
(m.ptr == x, m.mem.size)

p = cp.cuda.MemoryPool()
m = p.malloc(4096)
x = m.ptr
del m
m = p.malloc(1024)
n = p.malloc(1024)
(m.ptr - x, n.ptr - x, p.used_bytes(), p.total_bytes(), p.n_free_blocks())

p = cp.cuda.MemoryPool()
m = p.malloc(4096)
del m
m = p.malloc(8192)
(p.used_bytes(), p.total_bytes(), p.n_free_blocks())

p = cp.cuda.MemoryPool()
m = p.malloc(4096)
x = m.ptr
del m
m = p.malloc(1024)
n = p.malloc(1024)
del m, n
m = p.malloc(4096)
(m.ptr - x, p.n_free_blocks(), p.total_bytes())

p = cp.cuda.MemoryPool()
m = p.malloc(2048)
n = p.malloc(6144)
x, y = m.ptr, n.ptr
del m, n
m = p.malloc(1024)
(m.ptr == x, p.n_free_blocks())

p = cp.cuda.MemoryPool()
(p.get_limit(), p.set_limit(size=1 << 20), p.get_limit())

p = cp.cuda.MemoryPool()
p.set_limit(size=1 << 20)
p.malloc(1 << 21)

p = cp.cuda.MemoryPool()
p.set_limit(size=1 << 20)
m = p.malloc(1 << 19)
n = p.malloc((1 << 19) + 1)

p = cp.cuda.MemoryPool()
p.set_limit(size=-1)

p = cp.cuda.MemoryPool()
p.set_limit(fraction=2.0)

p = cp.cuda.MemoryPool()
p.set_limit(size=1, fraction=0.5)

p = cp.cuda.MemoryPool()
m = p.malloc(0)
(m.ptr, p.used_bytes(), type(m.mem).__name__)

class Counter(cp.cuda.MemoryHook):
    name = 'counter'
    calls = []
    def alloc_preprocess(self, **k): self.calls.append(('alloc', sorted(k), k['mem_size']))
    def alloc_postprocess(self, **k): self.calls.append(('alloced', sorted(k)))
    def malloc_preprocess(self, **k): self.calls.append(('malloc', sorted(k), k['size'], k['mem_size']))
    def malloc_postprocess(self, **k): self.calls.append(('malloced', sorted(k)))
    def free_preprocess(self, **k): self.calls.append(('free', sorted(k), k['mem_size']))
    def free_postprocess(self, **k): self.calls.append(('freed', sorted(k)))
h = Counter()
p = cp.cuda.MemoryPool()
with cp.cuda.using_allocator(p.malloc), h:
    a = cp.empty(1000, np.float32)
    del a
    b = cp.empty(1000, np.float32)
h.calls

h = cp.cuda.MemoryHook()
with h:
    with h:
        pass

import io
f = io.StringIO()
p = cp.cuda.MemoryPool()
with cp.cuda.using_allocator(p.malloc), cp.cuda.memory_hooks.DebugPrintHook(file=f, flush=False):
    a = cp.empty(10)
len(f.getvalue().splitlines())

a = cp.cuda.alloc(100)
(type(a).__name__, type(a.mem).__name__, a.mem.size)

m = cp.cuda.Memory(1000)
(m.size, int(m) == m.ptr, m.device.id)

p = cp.cuda.MemoryPointer(cp.cuda.Memory(1000), 100)
(p.ptr - p.mem.ptr, (p + 4).ptr - p.ptr, (p - 4).ptr - p.ptr, int(p) == p.ptr)

p = cp.cuda.MemoryPointer(cp.cuda.Memory(64), 0)
p.memset(7, 64)
cp.ndarray((64,), np.uint8, p)

import ctypes
p = cp.cuda.MemoryPointer(cp.cuda.Memory(64), 0)
x = np.arange(64, dtype=np.uint8)
p.copy_from_host(x.ctypes.data, 64)
y = np.zeros_like(x)
p.copy_to_host(ctypes.c_void_p(y.ctypes.data), 64)
y

p = cp.cuda.MemoryPointer(cp.cuda.Memory(8), 0)
q = cp.cuda.MemoryPointer(cp.cuda.Memory(8), 0)
q.memset_async(3, 8)
p.copy_from(q, 8)
p.copy_from_device_async(q, 8)
cp.ndarray((8,), np.uint8, p)

a = cp.arange(4)
m = cp.cuda.UnownedMemory(a.data.ptr, a.nbytes, a)
cp.ndarray((4,), np.int64, cp.cuda.MemoryPointer(m, 0))

cp.cuda.UnownedMemory(0, 0, None)

m = cp.cuda.malloc_managed(64)
(type(m).__name__, type(m.mem).__name__, m.mem.size)

with cp.cuda.using_allocator(cp.cuda.malloc_managed):
    a = cp.arange(4)
(type(a.data.mem).__name__, a + 1)

with cp.cuda.using_allocator(None):
    a = cp.arange(4)
type(a.data.mem).__name__

with cp.cuda.using_allocator(None):
    cp.cuda.set_allocator(None)

cp.cuda.get_allocator() == cp.get_default_memory_pool().malloc

type(cp.get_default_memory_pool()).__name__

type(cp.get_default_pinned_memory_pool()).__name__

cp.zeros(1 << 50, np.uint8)

cp.cuda.Memory(1 << 50)

cp.cuda.runtime.malloc(1 << 50)

cp.zeros(1 << 65, np.uint8)

str(cp.cuda.memory.OutOfMemoryError(1024, 2048))

str(cp.cuda.memory.OutOfMemoryError(1024, 2048, 4096))

cp.cuda.memory.OutOfMemoryError.__mro__[1].__name__

p = cp.cuda.PinnedMemoryPool()
m = p.malloc(1000)
(m.size(), m.mem.size, type(m).__name__, type(m.mem).__name__, p.n_free_blocks())

p = cp.cuda.PinnedMemoryPool()
m = p.malloc(3000)
s = m.mem.size
del m
(s, p.n_free_blocks(), p.free_all_blocks(), p.n_free_blocks())

m = cp.cuda.alloc_pinned_memory(16)
a = np.frombuffer(m, np.float32, 4)
a[...] = 2
(a, memoryview(m).format, memoryview(m).readonly)

m = cp.cuda.alloc_pinned_memory(16)
a = np.frombuffer(m, np.float32, 4)
a[...] = [1, 2, 3, 4]
d = cp.empty(4, np.float32)
d.set(a)
d

cp.cuda.PinnedMemory(64).size

cp.cuda.pinned_memory.is_memory_pinned(np.zeros(3).ctypes.data)

m = cp.cuda.alloc_pinned_memory(16)
cp.cuda.pinned_memory.is_memory_pinned(m.ptr)

repr(cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(4096, 8, None, 0), 0))[:36]

p = cp.cuda.MemoryPool()
s = cp.cuda.Stream()
with s, cp.cuda.using_allocator(p.malloc):
    a = cp.empty(1024, np.uint8)
x = a.data.ptr
del a
with cp.cuda.using_allocator(p.malloc):
    b = cp.empty(1024, np.uint8)
r = (b.data.ptr == x, p.total_bytes())
with s, cp.cuda.using_allocator(p.malloc):
    c = cp.empty(1024, np.uint8)
r + (c.data.ptr == x, p.total_bytes(), p.free_all_blocks(stream=s))

p = cp.cuda.MemoryPool()
with cp.cuda.using_allocator(p.malloc):
    x = cp.ones(1000, np.float32)
    y = cp.ones(1000, np.float32)
    z = x * y + x
(p.used_bytes(), p.total_bytes(), p.n_free_blocks())

p = cp.cuda.MemoryPool()
with cp.cuda.using_allocator(p.malloc):
    x = cp.arange(1000)
    s = x.sum()
    t = x.astype(np.float32)
    u = x[::2]
    v = x[[0, 1, 2]]
(p.used_bytes(), p.total_bytes())

f, t = cp.cuda.Device().mem_info
(type(f).__name__, f <= t, t == cp.cuda.runtime.memGetInfo()[1])

cp.cuda.memory.SingleDeviceMemoryPool.__name__

cp.cuda.MemoryAsyncPool.__name__

cp.disable_experimental_feature_warning

cp.cuda.malloc_async(64).mem.size

cp.fuse.__name__
""",
)

_family(
    "streams",
    """
s = cp.cuda.Stream()
(type(s).__name__, s.ptr != 0, s.device_id, s.done, s.is_non_blocking, s.priority)

s = cp.cuda.Stream(non_blocking=True, priority=-3)
(s.is_non_blocking, s.priority)

cp.cuda.Stream(priority=-100).priority

cp.cuda.Stream(priority=5).priority

(cp.cuda.Stream.null.ptr, cp.cuda.Stream.ptds.ptr, cp.cuda.Stream(null=True).ptr)

repr(cp.cuda.Stream.null)

repr(cp.cuda.Stream.ptds)

cp.cuda.Stream(null=True) == cp.cuda.Stream.null

cp.cuda.Stream.null == 0

hash(cp.cuda.Stream.null)

cp.cuda.get_current_stream() == cp.cuda.Stream.null

s = cp.cuda.Stream()
with s as t:
    r = cp.cuda.get_current_stream() is s
(r, t is s, cp.cuda.get_current_stream().ptr)

s = cp.cuda.Stream()
u = s.use()
r = (u is s, cp.cuda.get_current_stream() == s)
cp.cuda.Stream.null.use()
r + (cp.cuda.get_current_stream().ptr,)

s = cp.cuda.Stream()
t = cp.cuda.Stream()
r = []
with s:
    with t:
        r.append(cp.cuda.get_current_stream() == t)
    r.append(cp.cuda.get_current_stream() == s)
r

e = cp.cuda.Event()
(type(e).__name__, e.done, e.ptr != 0)

e = cp.cuda.Event(disable_timing=True)
f = cp.cuda.Event()
e.record()
f.record()
f.synchronize()
cp.cuda.get_elapsed_time(e, f)

e = cp.cuda.Event()
f = cp.cuda.Event()
cp.cuda.get_elapsed_time(e, f)

e = cp.cuda.Event()
f = cp.cuda.Event()
e.record()
a = cp.ones(1 << 20)
f.record()
f.synchronize()
t = cp.cuda.get_elapsed_time(e, f)
(type(t).__name__, t > 0, t < 1000)

cp.cuda.Event(interprocess=True)

s = cp.cuda.Stream()
e = s.record()
(type(e).__name__, s.wait_event(e), e.synchronize())

s = cp.cuda.Stream()
e = cp.cuda.Event()
r = s.record(e)
r is e

out = []
s = cp.cuda.Stream()
s.launch_host_func(out.append, 5)
s.synchronize()
out

out = []
s = cp.cuda.Stream()
s.add_callback(lambda stream, status, arg: out.append((stream is s, status, arg)), 7)
s.synchronize()
out

import warnings
s = cp.cuda.Stream()
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter('always')
    e = cp.cuda.ExternalStream(s.ptr)
(e == s, e.device_id, [x.category.__name__ for x in w])

s = cp.cuda.Stream()
s.__cuda_stream__()[0]

s = cp.cuda.Stream()
t = cp.cuda.Stream.from_external(s)
t == s

s = cp.cuda.Stream()
with s:
    a = cp.arange(5)
    b = a * 2
s.synchronize()
b

cp.cuda.Stream(1, 2, 3, 4, 5)

s = cp.cuda.Stream.null
s.begin_capture()

s = cp.cuda.Stream()
s.is_capturing()

d = cp.cuda.Device()
(d.id, int(d), repr(d), d == cp.cuda.Device(0), d != cp.cuda.Device(0), d.use() is d)

cp.cuda.Device(0).compute_capability

d = cp.cuda.Device(99)
d.id

cp.cuda.Device(99).use()

cp.cuda.Device('a')

with cp.cuda.Device(0) as d:
    r = d.id
(r, d.synchronize())

a = cp.cuda.Device().attributes
(type(a).__name__, a['MaxThreadsPerBlock'], a['WarpSize'], a['MultiProcessorCount'], a['MaxSharedMemoryPerBlock'])

sorted(cp.cuda.Device().attributes)[:200]

cp.cuda.Device().pci_bus_id.count(':')

cp.cuda.is_available()

cp.is_available()

cp.cuda.get_device_id()

cp.cuda.runtime.getDeviceCount() >= 1

cp.cuda.device.get_compute_capability()

cp.show_config.__name__

hash(cp.cuda.Device(0))

cp.cuda.Device(0) < cp.cuda.Device(1)

with cp.cuda.profile.__wrapped__.__globals__['contextlib'].suppress():
    pass

cp.cuda.Stream.null.synchronize()

cp.cuda.Stream.null.done

cp.cuda.Device().synchronize()
""",
)

_family(
    "runtime",
    """
cp.cuda.runtime.getDevice()

cp.cuda.runtime.setDevice(99)

cp.cuda.runtime.setDevice(-1)

try:
    cp.cuda.runtime.setDevice(99)
except cp.cuda.runtime.CUDARuntimeError as e:
    r = (e.status, str(e), e.args, repr(e))
r

cp.cuda.runtime.CUDARuntimeError(2)

str(cp.cuda.runtime.CUDARuntimeError(700))

str(cp.cuda.runtime.CUDARuntimeError(12345))

cp.cuda.runtime.CUDARuntimeError.__mro__[1].__name__

cp.cuda.driver.CUDADriverError(1)

str(cp.cuda.driver.CUDADriverError(701))

str(cp.cuda.driver.CUDADriverError(12345))

str(cp.cuda.driver.CUDADriverError(719))

cp.cuda.runtime.runtimeGetVersion()

cp.cuda.runtime.driverGetVersion() >= 13000

p = cp.cuda.runtime.getDeviceProperties(0)
(type(p['name']).__name__, sorted(p))

p = cp.cuda.runtime.getDeviceProperties(0)
{k: (v.decode() if isinstance(v, bytes) and k == 'name' else (v if not isinstance(v, bytes) else len(v))) for k, v in p.items() if k not in ('pciBusID', 'pciDeviceID', 'pciDomainID', 'uuid', 'totalGlobalMem')}

cp.cuda.runtime.getDeviceProperties(99)

cp.cuda.runtime.deviceGetAttribute(cp.cuda.runtime.cudaDevAttrMaxThreadsPerBlock, 0)

cp.cuda.runtime.deviceGetAttribute(-5, 0)

p = cp.cuda.runtime.malloc(100)
(type(p).__name__, p % 512, cp.cuda.runtime.free(p))

cp.cuda.runtime.malloc(0)

cp.cuda.runtime.free(0)

cp.cuda.runtime.free(12345)

p = cp.cuda.runtime.malloc(100)
cp.cuda.runtime.free(p)
cp.cuda.runtime.free(p)

p = cp.cuda.runtime.malloc(1000)
cp.cuda.runtime.free(p + 8)

cp.cuda.runtime.malloc(-1)

cp.cuda.runtime.malloc('a')

x = np.arange(10, dtype=np.int32)
y = np.zeros_like(x)
p = cp.cuda.runtime.malloc(40)
cp.cuda.runtime.memcpy(p, x.ctypes.data, 40, cp.cuda.runtime.memcpyHostToDevice)
cp.cuda.runtime.memcpy(y.ctypes.data, p, 40, cp.cuda.runtime.memcpyDeviceToHost)
cp.cuda.runtime.free(p)
y

x = np.arange(10, dtype=np.int32)
p = cp.cuda.runtime.malloc(40)
cp.cuda.runtime.memcpy(p, x.ctypes.data, 40, 7)

y = np.zeros(4, np.uint8)
p = cp.cuda.runtime.malloc(4)
cp.cuda.runtime.memset(p, 258, 4)
cp.cuda.runtime.memcpy(y.ctypes.data, p, 4, 4)
y

x = np.arange(12, dtype=np.uint8)
p = cp.cuda.runtime.malloc(64)
cp.cuda.runtime.memset(p, 0, 64)
cp.cuda.runtime.memcpy2D(p, 16, x.ctypes.data, 4, 4, 3, 1)
y = np.zeros(64, np.uint8)
cp.cuda.runtime.memcpy(y.ctypes.data, p, 64, 2)
y.reshape(4, 16)

p = cp.cuda.runtime.hostAlloc(64, 0)
a = cp.cuda.runtime.pointerGetAttributes(p)
(a.type, a.device, a.hostPointer == p, a.devicePointer == p, cp.cuda.runtime.freeHost(p))

p = cp.cuda.runtime.malloc(64)
a = cp.cuda.runtime.pointerGetAttributes(p)
(a.type, a.device, a.hostPointer, a.devicePointer == p)

p = cp.cuda.runtime.mallocManaged(64)
a = cp.cuda.runtime.pointerGetAttributes(p)
(a.type, a.device, a.hostPointer == p, a.devicePointer == p)

x = np.zeros(8)
a = cp.cuda.runtime.pointerGetAttributes(x.ctypes.data)
(a.type, a.device, a.hostPointer, a.devicePointer)

cp.cuda.runtime.freeHost(12345)

s = cp.cuda.runtime.streamCreate()
(cp.cuda.runtime.streamQuery(s), cp.cuda.runtime.streamSynchronize(s), cp.cuda.runtime.streamGetFlags(s), cp.cuda.runtime.streamGetPriority(s), cp.cuda.runtime.streamDestroy(s))

cp.cuda.runtime.streamSynchronize(987654321 * 8) if False else 0

e = cp.cuda.runtime.eventCreate()
(cp.cuda.runtime.eventQuery(e), cp.cuda.runtime.eventRecord(e, 0), cp.cuda.runtime.eventSynchronize(e), cp.cuda.runtime.eventDestroy(e))

cp.cuda.runtime.deviceGetLimit(cp.cuda.runtime.cudaLimitStackSize) if hasattr(cp.cuda.runtime, 'cudaLimitStackSize') else cp.cuda.runtime.deviceGetLimit(0)

(cp.cuda.runtime.deviceGetLimit(0), cp.cuda.runtime.deviceGetLimit(1), cp.cuda.runtime.deviceGetLimit(2))

cp.cuda.runtime.deviceGetPCIBusId(0).count(':')

cp.cuda.runtime.deviceSynchronize()

cp.cuda.runtime.memGetInfo()[1] > 0

cp.cuda.runtime.deviceCanAccessPeer(0, 0)

(cp.cuda.runtime.memcpyHostToHost, cp.cuda.runtime.memcpyHostToDevice, cp.cuda.runtime.memcpyDeviceToHost, cp.cuda.runtime.memcpyDeviceToDevice, cp.cuda.runtime.memcpyDefault)

(cp.cuda.runtime.streamDefault, cp.cuda.runtime.streamNonBlocking, cp.cuda.runtime.eventDefault, cp.cuda.runtime.eventBlockingSync, cp.cuda.runtime.eventDisableTiming)

(cp.cuda.runtime.hostAllocDefault, cp.cuda.runtime.hostAllocPortable, cp.cuda.runtime.hostAllocMapped, cp.cuda.runtime.hostAllocWriteCombined)

cp.cuda.runtime.is_hip

x = np.zeros(4096, np.uint8)
cp.cuda.runtime.hostRegister(x.ctypes.data, 4096, 0)
a = cp.cuda.runtime.pointerGetAttributes(x.ctypes.data).type
(a, cp.cuda.runtime.hostUnregister(x.ctypes.data))

x = np.zeros(4096, np.uint8)
cp.cuda.runtime.hostUnregister(x.ctypes.data)

cp.cuda.runtime.profilerStart()

cp.cuda.runtime.getDeviceProperties('0')

p = cp.cuda.runtime.mallocAsync(100, 0)
(p % 512, cp.cuda.runtime.freeAsync(p, 0))
""",
)

_KERNELS = r'''
src = r"""
extern "C" {
__global__ void i8(signed char x, double* o) { o[0] = x; }
__global__ void u8(unsigned char x, double* o) { o[0] = x; }
__global__ void i16(short x, double* o) { o[0] = x; }
__global__ void i32(int x, double* o) { o[0] = x; }
__global__ void u32(unsigned x, double* o) { o[0] = x; }
__global__ void i64(long long x, double* o) { o[0] = (double)x; }
__global__ void u64(unsigned long long x, double* o) { o[0] = (double)x; }
__global__ void f32(float x, double* o) { o[0] = x; }
__global__ void f64(double x, double* o) { o[0] = x; }
__global__ void b(bool x, double* o) { o[0] = x; }
__global__ void pf(const float* x, double* o) { o[0] = x[0]; }
__global__ void pd(const double* x, double* o) { o[0] = x[0]; }
__global__ void pv(const void* x, double* o) { o[0] = ((const int*)x)[0]; }
__global__ void pc(const char* x, double* o) { o[0] = x[0]; }
__global__ void pi(const int* x, double* o) { o[0] = x[0]; }
__global__ void pf2(const float2* x, double* o) { o[0] = x[0].y; }
struct S { int a; double b; };
__global__ void st(S s, double* o) { o[0] = s.a + s.b; }
__global__ void null(const float* x, double* o) { o[0] = x == nullptr; }
__global__ void f2(float2 v, double* o) { o[0] = v.x + v.y; }
}
"""
m = cp.RawModule(code=src)
o = cp.zeros(1)
def call(name, *values):
    m.get_function(name)((1,), (1,), values + (o,))
    return float(o[0])
'''

_CALLS = """
call('i32', 5)
call('i32', np.int32(-5))
call('i32', -5)
call('i32', np.int64(6))
call('i32', True)
call('i32', 2**40 + 3)
call('i8', -3)
call('i8', np.int8(-3))
call('u8', 200)
call('i16', -300)
call('u32', 4000000000)
call('u32', np.uint32(7))
call('u32', np.int32(7))
call('i64', 2**40)
call('i64', np.int64(-1))
call('i64', np.int32(9))
call('u64', 2**63 + 2048)
call('f64', 2.5)
call('f64', np.float64(2.5))
call('f64', 3)
call('f32', np.float32(2.5))
call('f32', 2.5)
call('f32', 3)
call('f32', np.float64(2.5))
call('f64', np.float32(2.5))
call('b', True)
call('b', np.bool_(False))
call('b', 1)
call('pf', cp.array([1.5], np.float32))
call('pf', cp.array([1.5]))
call('pd', cp.array([1.5]))
call('pv', cp.array([7], np.int32))
call('pv', cp.array([7], np.int32).data)
call('pc', cp.array([7], np.int32))
call('pi', cp.array([7], np.uint32))
call('pf', cp.array([1.5], np.float32).data)
call('pf', cp.array([1.5], np.float32).data.ptr)
call('pf', np.uint64(cp.array([1.5], np.float32).data.ptr))
call('pf2', cp.array([1.5, 2.5], np.float32))
call('pf', np.array([1.5], np.float32).ctypes)
call('pf', np.array([1.5, 2.5], np.float32))
call('f32', np.array(2.5, np.float32))
call('f32', np.array([2.5], np.float32))
call('f32', cp.float32(2.5))
call('st', np.array((3, 4.5), dtype=np.dtype([('a', 'i4'), ('b', 'f8')], align=True)))
call('st', np.array([(3, 4.5)], dtype=np.dtype([('a', 'i4'), ('b', 'f8')], align=True)))
call('st', np.array([(3, 4.5)], dtype=np.dtype([('a', 'i4'), ('b', 'f8')], align=True))[0])
call('f2', np.array((1.5, 2.5), dtype=np.dtype([('x', 'f4'), ('y', 'f4')])))
call('f2', np.complex64(1.5 + 2.5j))
call('f64', '2')
call('f64', [2.0])
call('f64', object())
call('i32', 2**70)
call('null', 0)
call('pf', (cp.array([1.5, 2.5], np.float32))[1:])
call('pf', cp.arange(6, dtype=np.float32).reshape(2, 3).T[1])
call('nosuch', 1)
"""
for _number, _call in enumerate(line for line in _CALLS.splitlines() if line):
    PROGRAMS[f"kernels_arguments.{_number:03d}"] = _KERNELS + _call

_family(
    "kernels",
    '''
k = cp.RawKernel(r"""
extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}""", "add")
a = cp.arange(1000, dtype=np.float32)
b = cp.ones(1000, np.float32)
c = cp.zeros(1000, np.float32)
r = k((8,), (128,), (a, b, c, 1000))
(r, c)

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[threadIdx.x] = threadIdx.x + blockDim.x; }', 'f')
o = cp.zeros(8, np.int32)
k((1, 1, 1), (8, 1, 1), (o,))
o

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[blockIdx.x] = gridDim.y * 100 + blockDim.y; }', 'f')
o = cp.zeros(2, np.int32)
k((2, 3), (4, 5), (o,))
o

k = cp.RawKernel('extern "C" __global__ void f(int* o) { extern __shared__ int s[]; s[threadIdx.x] = threadIdx.x; __syncthreads(); o[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x]; }', 'f')
o = cp.zeros(8, np.int32)
k((1,), (8,), (o,), shared_mem=32)
o

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 1; }', 'f')
(k.name, k.code[:10], k.options, k.backend, k.enable_cooperative_groups, k.__name__)

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 1; }', 'f')
(type(k).__name__, type(k.kernel).__name__, sorted(k.attributes), k.max_threads_per_block, k.shared_size_bytes, k.const_size_bytes, k.local_size_bytes, k.binary_version, k.max_dynamic_shared_size_bytes, k.preferred_shared_memory_carveout, k.cache_mode_ca)

k = cp.RawKernel('extern "C" __global__ void f(int* o) { __shared__ int s[100]; s[threadIdx.x] = o[0]; __syncthreads(); o[0] = s[5]; }', 'f')
k.shared_size_bytes

k = cp.RawKernel('extern "C" __global__ void __launch_bounds__(128) f(int* o) { o[0] = 1; }', 'f')
k.max_threads_per_block

k = cp.RawKernel('extern "C" __global__ void f(int* o) { extern __shared__ int s[]; s[0] = 1; o[0] = s[0]; }', 'f')
k.max_dynamic_shared_size_bytes = 100000
(k.max_dynamic_shared_size_bytes, k((1,), (1,), (cp.zeros(1, np.int32),), shared_mem=100000))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 2; }', 'f')
k.max_dynamic_shared_size_bytes = 1 << 30

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 3; }', 'f')
k((1,), (1,), (cp.zeros(1, np.int32),), shared_mem=50000)

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 4; }', 'f')
k((1,), (2048,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 4; }', 'f')
try:
    k((1,), (2048,), (cp.zeros(1, np.int32),))
except Exception as e:
    r = (type(e).__module__, type(e).__name__, str(e), e.status, e.args)
r

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((0,), (32,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
o = cp.zeros(1, np.int32)
k((1,), (0,), (o,))
o

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((1, 70000), (32,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((1,), (1, 1, 65), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((-1,), (32,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k(1, 32, (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k([1], [32], (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((1.5,), (32,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((1,), (32,), [cp.zeros(1, np.int32)])

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((1,), (32,), cp.zeros(1, np.int32))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((1, 1, 1, 1), (32,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 5; }', 'f')
k((1,), (32,))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 6; }', 'f')
s = cp.cuda.Stream(non_blocking=True)
o = cp.zeros(1, np.int32)
cp.cuda.Device().synchronize()
k((1,), (1,), (o,), stream=s)
s.synchronize()
o

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 6; }', 'g')
k((1,), (1,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 6 }', 'f')
k((1,), (1,), (cp.zeros(1, np.int32),))

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 6 }', 'f')
try:
    k.compile()
except Exception as e:
    r = (type(e).__module__, type(e).__name__, str(e).replace(e.name, 'FILE'), e.source == k.code, e.backend, type(e.options).__name__)
r

k = cp.RawKernel('#include <nosuch.h>', 'f')
try:
    k.compile()
except Exception as e:
    r = (type(e).__name__, 'nosuch.h' in str(e))
r

cp.RawKernel('extern "C" __global__ void f() {}', 'f', options=['-std=c++17'])

cp.RawKernel('extern "C" __global__ void f() {}', 'f', ('-DN=3',)).options

k = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = N; }', 'f', options=('-DN=42',))
o = cp.zeros(1, np.int32)
k((1,), (1,), (o,))
o

k = cp.RawKernel('extern "C" __global__ void f() {}', 'f')
k((1,), (1,), ())

k = cp.RawKernel('extern "C" __global__ void f() {}', 'f')
k.x = 1

cp.RawKernel('x')

cp.RawKernel(1, 'f')

cp.RawModule('extern')

cp.RawModule()

m = cp.RawModule(code='extern "C" __global__ void f(int* o) { o[0] = 1; } __constant__ float w[4]; __device__ int v = 7;')
p = m.get_global('w')
(type(p).__name__, type(p.mem).__name__, p.mem.size, p.device_id)

m = cp.RawModule(code='extern "C" { __constant__ float w[4]; __device__ int v = 7; __global__ void f(float* o) { o[threadIdx.x] = w[threadIdx.x] * v; } }')
w = cp.ndarray((4,), np.float32, m.get_global('w'))
w[...] = cp.arange(4, dtype=np.float32)
o = cp.zeros(4, np.float32)
m.get_function('f')((1,), (4,), (o,))
(o, int(cp.ndarray((), np.int32, m.get_global('v'))))

m = cp.RawModule(code='extern "C" __device__ int v = 7;')
m.get_global('nothere')

m = cp.RawModule(code='extern "C" __device__ int v = 7;')
m.get_function('nothere')

m = cp.RawModule(code='template<typename T> __global__ void f(T* o, T x) { o[0] = x + T(1); }', name_expressions=['f<int>', 'f<float>'])
o = cp.zeros(1, np.float32)
i = cp.zeros(1, np.int32)
m.get_function('f<float>')((1,), (1,), (o, np.float32(2.5)))
m.get_function('f<int>')((1,), (1,), (i, 2))
(o, i, m.get_function('f<int>').name)

m = cp.RawModule(code='template<typename T> __global__ void f(T* o, T x) { o[0] = x + T(1); }', name_expressions=['f<int>'])
m.get_function('f<double>')

m = cp.RawModule(code='__global__ void f(int* o) { o[0] = 1; }')
m.get_function('f')

m = cp.RawModule(code='extern "C" __global__ void f(int* o) { o[0] = 1; }', options=('-DX',))
(m.code[:6], m.options, m.backend, m.name_expressions, m.file_path, m.enable_cooperative_groups, m.compile())

m = cp.RawModule(path='/nosuch/file.cubin')
m.get_function('f')

src = 'extern "C" { __device__ int n = 0; __global__ void f() { n += 1; } __global__ void g(int* o) { o[0] = n; } }  // shared by equal source'
cp.RawKernel(src, 'f')((1,), (1,), ())
cp.RawKernel(src, 'f')((1,), (1,), ())
o = cp.zeros(1, np.int32)
cp.RawKernel(src, 'g')((1,), (1,), (o,))
o

f = cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 9; }', 'f').kernel
o = cp.zeros(1, np.int32)
f((1,), (1,), (o,))
f.linear_launch(1, (o,))
(o, f.ptr != 0)

@cp.fuse()
def f(x): return x + 1
f.__class__.__name__

k = cp.ElementwiseKernel('T x', 'T y', 'y = x * 2', 'twice')
k(cp.arange(3))

k = cp.ReductionKernel('T x', 'T y', 'x', 'a + b', 'y = a', '0', 'total')
k(cp.arange(4))

cp.testing.assert_array_equal(cp.arange(3), cp.arange(3))

try:
    cp.testing.assert_array_equal(cp.arange(3), cp.arange(3) + 1)
except AssertionError as e:
    r = 'Mismatched elements: 3 / 3' in str(e)
r

cp.testing.assert_allclose(cp.arange(3.0), np.arange(3.0) + 1e-9)

import pickle
k = pickle.loads(pickle.dumps(cp.RawKernel('extern "C" __global__ void f(int* o) { o[0] = 9; }', 'f')))
k.name
''',
)
