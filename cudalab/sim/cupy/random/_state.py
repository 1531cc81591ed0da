"""Random numbers on the device.

The numbers are NumPy's (PCG64), drawn when the function is called and stored by an operation on the device. So a seed
gives the same numbers in every run here, and other numbers than on a GPU, where cuRAND draws them: do not compare
random values between devices, compare what you compute from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.creation import array
from cudalab.sim.cupy._core.operation import Work, enqueue


def drawn(name: str, size: Any, dtype: Any, draw: Callable[[layout.Shape], Any]) -> ndarray:
    """An array of ``draw(shape)``; without axes for ``size=None``."""
    shape = () if size is None else layout.shape_of(size)
    values = np.asarray(draw(shape))
    result = ndarray(shape, dtype)
    work = Work(lambda: values, (), {}, (result._operand(),))
    enqueue(name, work, (), flops=20.0 * result.size)
    return result


def _plain(value: Any) -> Any:
    """A parameter of a distribution as NumPy takes it; one that is on the device comes to the host."""
    return value.get() if isinstance(value, ndarray) else value


def _float_type(dtype: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(dtype)
    if found.char not in "fd":
        raise TypeError("cupy.random only supports float32 and float64")
    return found


def _wide(size: Any, *parameters: Any) -> Any:
    """``size``, or the parameters' common shape when it is None."""
    if size is not None:
        return size
    shape = np.broadcast_shapes(*(np.shape(_plain(p)) for p in parameters))
    return shape or None


# distribution: its parameters, and the kind of its numbers
_DISTRIBUTIONS = {
    "beta": "f", "binomial": "i", "chisquare": "f", "exponential": "f", "f": "f", "gamma": "f", "geometric": "i",
    "gumbel": "f", "hypergeometric": "i", "laplace": "f", "logistic": "f", "lognormal": "f", "logseries": "i",
    "negative_binomial": "i", "noncentral_chisquare": "f", "noncentral_f": "f", "normal": "f", "pareto": "f",
    "poisson": "i", "power": "f", "rayleigh": "f", "standard_cauchy": "f", "standard_exponential": "f",
    "standard_gamma": "f", "standard_normal": "f", "standard_t": "f", "triangular": "f", "uniform": "f",
    "vonmises": "f", "wald": "f", "weibull": "f", "zipf": "i",
}  # fmt: skip


class RandomState:
    """A source of random numbers.

    Args:
        seed: the same seed gives the same numbers; any for None.
        method: kept for compatibility.
    """

    def __init__(self, seed: Any = None, method: int = 100) -> None:
        self._generator = np.random.default_rng(_plain(seed))

    def seed(self, seed: Any = None) -> None:
        """Start again from ``seed``."""
        self._generator = np.random.default_rng(_plain(seed))

    def __getattr__(self, name: str) -> Any:
        if name in _DISTRIBUTIONS:
            return lambda *args, **kwargs: self._draw(name, *args, **kwargs)
        raise catalogue.missing_member("cupy.random.RandomState", name)

    def _draw(self, name: str, *parameters: Any, size: Any = None, dtype: Any = None, **named: Any) -> ndarray:
        """Numbers of the distribution ``name``."""
        signature = catalogue.signature("cupy.random", name)
        entries = [p for p in signature.parameters if p not in ("size", "dtype")]
        bound = dict(zip(entries, parameters, strict=False))
        extra = parameters[len(entries) :]
        size = extra[0] if extra else size
        dtype = extra[1] if len(extra) > 1 else dtype
        for key in named:
            if key not in entries:
                raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")
        bound.update(named)
        for entry in entries:
            default = signature.parameters[entry].default
            if entry not in bound:
                if default is signature.empty:
                    raise TypeError(f"{name}() missing 1 required positional argument: {entry!r}")
                bound[entry] = default
        values = [_plain(bound[entry]) for entry in entries]
        if dtype is None:
            dtype = np.float64 if _DISTRIBUTIONS[name] == "f" else np.int64
        found = _float_type(dtype) if _DISTRIBUTIONS[name] == "f" else types.checked(dtype)
        draw = getattr(self._generator, name)
        return drawn(f"cupy_{name}", _wide(size, *values), found, lambda shape: draw(*values, size=shape))

    def rand(self, *size: int, dtype: Any = float) -> ndarray:
        """Uniform numbers in [0, 1), of the shape given by the arguments."""
        return self.random_sample(size or None, dtype)

    def randn(self, *size: int, dtype: Any = float) -> ndarray:
        """Normal numbers, of the shape given by the arguments."""
        return self._draw("standard_normal", size=size or None, dtype=dtype)

    def random_sample(self, size: Any = None, dtype: Any = float) -> ndarray:
        """Uniform numbers in [0, 1)."""
        found = _float_type(dtype)
        return drawn("cupy_random", size, found, lambda shape: self._generator.random(shape, found.type))

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = "l") -> ndarray:
        """Integers from ``low`` up to, and without, ``high``; from 0 when ``high`` is left out."""
        low, high = _plain(low), _plain(high)
        if high is None:
            low, high = 0, low
        if np.any(np.asarray(low) >= np.asarray(high)):
            raise ValueError("low >= high")
        found = types.checked(dtype)
        limits = np.iinfo(found)
        if np.any(np.asarray(low) < limits.min):
            raise ValueError(f"low is out of bounds for {found.name}")
        if np.any(np.asarray(high) > limits.max + 1):
            raise ValueError(f"high is out of bounds for {found.name}")
        return drawn(
            "cupy_randint",
            _wide(size, low, high),
            found,
            lambda shape: self._generator.integers(low, high, shape, found),
        )

    def tomaxint(self, size: Any = None) -> ndarray:
        """Integers from 0 to the largest one of C's int."""
        return self.randint(0, np.iinfo(np.int32).max, size)

    def permutation(self, a: Any) -> ndarray:
        """The numbers below ``a``, or the rows of the array ``a``, in random order."""
        if isinstance(a, ndarray):
            return a[array(self._generator.permutation(a.shape[0]))]
        return array(self._generator.permutation(int(a)))

    def shuffle(self, a: ndarray) -> None:
        """Put the rows of ``a`` in random order, in place."""
        if not isinstance(a, ndarray):
            raise TypeError("The array must be cupy.ndarray")
        if not a.ndim:
            raise TypeError("An array whose ndim is 0 is not supported")
        a[:] = self.permutation(a)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> ndarray:
        """Random elements of ``a``, or numbers below ``a``."""
        if isinstance(a, (list, tuple, np.ndarray)):
            a = array(a)
        count = a.shape[0] if isinstance(a, ndarray) else int(a)
        wanted = int(np.prod(size)) if size is not None else 1
        if not replace and wanted > count:
            raise ValueError("Cannot take a larger sample than population when 'replace=False'")
        index = np.asarray(self._generator.choice(count, size, replace, _plain(p)))
        found = array(index)
        return a[found] if isinstance(a, ndarray) else found

    def dirichlet(self, alpha: Any, size: Any = None, dtype: Any = float) -> ndarray:
        """Numbers of the Dirichlet distribution."""
        values = np.asarray(self._generator.dirichlet(_plain(alpha), size))
        return drawn("cupy_dirichlet", values.shape, _float_type(dtype), lambda shape: values)

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Any = None, check_valid: Any = "ignore", tol: float = 1e-8,
        method: Any = "cholesky", dtype: Any = float,
    ) -> ndarray:  # fmt: skip
        """Normal vectors with given mean and covariance."""
        values = self._generator.multivariate_normal(
            _plain(mean),
            _plain(cov),
            size,
            check_valid=check_valid,
            tol=tol,
            method=method,
        )
        return drawn("cupy_multivariate_normal", values.shape, _float_type(dtype), lambda shape: values)


class Generator:
    """What ``cp.random.default_rng`` gives."""

    def __init__(self, bit_generator: Any) -> None:
        self.bit_generator = bit_generator
        self._state = RandomState()
        self._state._generator = np.random.Generator(bit_generator)

    def __getattr__(self, name: str) -> Any:
        if name in _DISTRIBUTIONS and name in catalogue.members("cupy.random.Generator"):
            return lambda *args, **kwargs: self._distribution(name, *args, **kwargs)
        raise catalogue.missing_member("cupy.random.Generator", name)

    def _distribution(self, name: str, *parameters: Any, size: Any = None, dtype: Any = None, **named: Any) -> ndarray:
        return self._state._draw(name, *parameters, size=size, dtype=dtype, **named)

    def random(self, size: Any = None, dtype: Any = float, out: Any = None) -> ndarray:
        """Uniform numbers in [0, 1)."""
        result = self._state.random_sample(size if out is None else out.shape, dtype if out is None else out.dtype)
        return result if out is None else _into(out, result)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> ndarray:
        """Integers from ``low`` up to, and without, ``high`` (with it for ``endpoint=True``)."""
        if high is None:
            low, high = 0, low
        return self._state.randint(low, high + 1 if endpoint else high, size, dtype)

    def standard_normal(self, size: Any = None, dtype: Any = float, out: Any = None) -> ndarray:
        """Normal numbers."""
        if out is not None:
            return _into(out, self._state._draw("standard_normal", size=out.shape, dtype=out.dtype))
        return self._state._draw("standard_normal", size=size, dtype=dtype)


def _into(out: ndarray, values: ndarray) -> ndarray:
    out[...] = values
    return out
