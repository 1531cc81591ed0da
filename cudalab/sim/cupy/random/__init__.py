"""``cupy.random``: random numbers on the device. See ``_state.py`` for where they come from."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy.random._state import _DISTRIBUTIONS, Generator, RandomState

_global: list[RandomState] = []


def __getattr__(name: str) -> Any:
    if name in _DISTRIBUTIONS:
        return lambda *args, **kwargs: get_random_state()._draw(name, *args, **kwargs)
    raise catalogue.missing("cupy.random", name)


def __dir__() -> list[str]:
    return sorted({*catalogue.offered("cupy.random", globals()), *_DISTRIBUTIONS})


def get_random_state() -> RandomState:
    """The source that the functions of this module use."""
    if not _global:
        _global.append(RandomState())
    return _global[0]


def set_random_state(rs: RandomState) -> None:
    """Use another source."""
    if not isinstance(rs, RandomState):
        raise TypeError(f"Random state must be an instance of RandomState. Actual: {type(rs)}")
    _global[:] = [rs]


def reset_states() -> None:
    """Forget the source; the next call makes a new one."""
    _global.clear()


def seed(seed: Any = None) -> None:
    """Start again from ``seed``."""
    get_random_state().seed(seed)


def default_rng(seed: Any = None) -> Generator:
    """A generator with a seed of its own; any for None."""
    return Generator(np.random.PCG64(seed))


def rand(*size: int, **kwarg: Any) -> ndarray:
    """Uniform numbers in [0, 1), of the shape given by the arguments."""
    return get_random_state().rand(*size, **kwarg)


def randn(*size: int, **kwarg: Any) -> ndarray:
    """Normal numbers, of the shape given by the arguments."""
    return get_random_state().randn(*size, **kwarg)


def random_sample(size: Any = None, dtype: Any = float) -> ndarray:
    """Uniform numbers in [0, 1)."""
    return get_random_state().random_sample(size, dtype)


random = ranf = sample = random_sample


def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = "l") -> ndarray:
    """Integers from ``low`` up to, and without, ``high``."""
    return get_random_state().randint(low, high, size, dtype)


def random_integers(low: int, high: int | None = None, size: Any = None) -> ndarray:
    """Integers from ``low`` to ``high``; from 1 when ``high`` is left out."""
    if high is None:
        low, high = 1, low
    return randint(low, high + 1, size)


def permutation(a: Any) -> ndarray:
    """The numbers below ``a``, or the rows of the array ``a``, in random order."""
    return get_random_state().permutation(a)


def shuffle(a: ndarray) -> None:
    """Put the rows of ``a`` in random order, in place."""
    get_random_state().shuffle(a)


def choice(a: Any, size: Any = None, replace: bool = True, p: Any = None) -> ndarray:
    """Random elements of ``a``, or numbers below ``a``."""
    return get_random_state().choice(a, size, replace, p)


def dirichlet(alpha: Any, size: Any = None, dtype: Any = float) -> ndarray:
    """Numbers of the Dirichlet distribution."""
    return get_random_state().dirichlet(alpha, size, dtype)


def multivariate_normal(mean: Any, cov: Any, size: Any = None, *args: Any, **kwargs: Any) -> ndarray:
    """Normal vectors with given mean and covariance."""
    return get_random_state().multivariate_normal(mean, cov, size, *args, **kwargs)


def bytes(length: int) -> Any:
    """Random bytes, on the host."""
    return get_random_state().randint(0, 256, length, np.uint8).tobytes()
