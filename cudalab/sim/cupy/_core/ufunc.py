"""Universal functions: element by element, with CuPy's own table of types.

Which types a function takes and gives stands in `catalogue.json` (CuPy's ``ufunc.types``). The first entry whose inputs
the arguments can be cast to is taken; Python numbers adapt to the arrays' kind (NEP 50). The values are NumPy's, except
where CUDA C++ gives another result than NumPy (:data:`_DIFFERENT`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.creation import asarray
from cudalab.sim.cupy._core.derivation import shaped
from cudalab.sim.cupy._core.indexing import update_at
from cudalab.sim.cupy._core.operation import Operand, Work, enqueue

_BOOLEAN_SUBTRACT = (
    "cupy boolean subtract, the `-` operator, is deprecated, use the bitwise_xor, the `^` operator, or the logical_xor "
    "function instead."
)
_BOOLEAN_NEGATIVE = (
    "The cupy boolean negative, the `-` operator, is not supported, use the `~` operator or the logical_not function "
    "instead."
)
_NO_BOOLEANS = "cupy {} does not take booleans; convert them with .astype(int)."
_REFUSED = {
    "subtract": ("??->?", _BOOLEAN_SUBTRACT),
    "negative": ("?->?", _BOOLEAN_NEGATIVE),
    "positive": ("?->?", _NO_BOOLEANS.format("positive")),
    "gcd": ("??->?", _NO_BOOLEANS.format("gcd")),
    "lcm": ("??->?", _NO_BOOLEANS.format("lcm")),
}
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 2}


def _integer_power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Powers of integers; a negative exponent gives 0 but for 1 and -1, as the loop in CuPy's kernel does."""
    if base.dtype.kind not in "iu":
        result: np.ndarray = np.power(base, exponent)
        return result
    negative = exponent < 0
    powers = np.power(base, np.where(negative, exponent.dtype.type(0), exponent))
    inverse = np.where(base == 1, 1, 0)
    if base.dtype.kind == "i":
        inverse = np.where(base == -1, np.where(exponent % 2 == 0, 1, -1), inverse)
    return np.where(negative, inverse, powers)


def _kept_integer(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """``floor`` and its like leave integers and booleans as they are."""
    return lambda x: x if x.dtype.kind in "biu" else function(x)


_DIFFERENT: dict[str, Callable[..., Any]] = {
    "cupyx.rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "power": _integer_power,
    "pow": _integer_power,
    "floor": _kept_integer(np.floor),
    "ceil": _kept_integer(np.ceil),
    "trunc": _kept_integer(np.trunc),
    "fix": _kept_integer(np.trunc),
}
_OPERATIONS = {  # floating-point operations an element, roughly, for the cost of functions that are no plain arithmetic
    "sin": 20, "cos": 20, "tan": 30, "exp": 15, "log": 20, "power": 40, "pow": 40, "sqrt": 8, "tanh": 30,
}  # fmt: skip


class ufunc:
    """A universal function. ``name``, ``nin``, ``nout`` and ``types`` are CuPy's."""

    __module__ = "cupy"

    def __init__(self, name: str) -> None:
        entry = catalogue.data()["ufuncs"][name]
        self.name: str = entry["name"]
        self.__name__ = self.name
        self._key = name
        self.types: list[str] = entry["types"]
        inputs, _, outputs = self.types[0].partition("->")
        self.nin, self.nout = len(inputs), len(outputs)
        self.nargs = self.nin + self.nout
        self._function: Callable[..., Any] = _DIFFERENT.get(name) or getattr(np, name)
        self._loops = [
            (tuple(np.dtype(c) for c in entry.partition("->")[0]), tuple(np.dtype(c) for c in entry.partition("->")[2]))
            for entry in self.types
        ]
        self._found = lru_cache(maxsize=256)(self._find)
        self.__doc__ = f"CuPy's ``{name}``: NumPy's ``{name}`` on the device, element by element."

    def __repr__(self) -> str:
        return f"<ufunc {self.name!r}>"

    def __getattr__(self, name: str) -> Any:
        raise catalogue.missing_member("cupy.ufunc", name)

    # -- the call ------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind", **wrong: Any) -> Any:
        if wrong:
            raise TypeError(f"Wrong arguments {wrong}")
        if not self.nin <= len(args) <= self.nargs:
            expected = f"either {self.nin} or {self.nargs} (with outputs)"
            raise TypeError(
                f"Wrong number of arguments for {self.name!r}. It must be {expected}, but given {len(args)}."
            )
        given = args[self.nin :] or (out if isinstance(out, tuple) else () if out is None else (out,))
        inputs = [self._input(argument) for argument in args[: self.nin]]
        for target in given:
            if not isinstance(target, ndarray):
                raise types.unsupported(target)
        loop_in, loop_out = self._loop(inputs, None if dtype is None else types.checked(dtype))
        shape = layout.broadcast(*(x.shape for x in inputs if isinstance(x, ndarray)))
        targets = self._targets(given, shape, loop_out, casting)
        self._enqueue(inputs, loop_in, loop_out, targets)
        return targets[0] if self.nout == 1 else tuple(targets)

    @staticmethod
    def _input(value: Any) -> Any:
        if isinstance(value, ndarray) or types.is_scalar(value):
            return value
        if hasattr(value, "__cupy_get_ndarray__") or hasattr(value, "__cuda_array_interface__"):
            return asarray(value)
        raise types.unsupported(value)

    def _targets(self, given: Any, shape: layout.Shape, loop_out: Any, casting: str) -> list[ndarray]:
        if not given:
            return [ndarray(shape, dtype) for dtype in loop_out]
        for target, dtype in zip(given, loop_out, strict=True):
            if layout.broadcast(shape, target.shape) != target.shape:
                raise ValueError("Out shape is mismatched")
            if not np.can_cast(dtype, target.dtype, casting):  # type: ignore[arg-type]
                raise TypeError(
                    f"Cannot cast output operand from dtype({str(dtype)!r}) to dtype({str(target.dtype)!r}) according "
                    f"to the rule {casting!r}"
                )
        return list(given)

    def _enqueue(self, inputs: list[Any], loop_in: Any, loop_out: Any, targets: list[ndarray]) -> None:
        arguments: list[Any] = []
        for value, dtype in zip(inputs, loop_in, strict=True):
            arguments.append(value._operand() if isinstance(value, ndarray) else _constant(value, dtype))
        reads = [argument for argument in arguments if isinstance(argument, Operand)]
        work = Work(self._run, [loop_in, *arguments], {}, [target._operand() for target in targets], in_place=True)
        size = max((target.size for target in targets), default=0)
        enqueue(self.name, work, reads, flops=float(size * _OPERATIONS.get(self._key, 1)))

    def _run(self, *arrays: Any) -> None:
        targets, loop_in, inputs = arrays[: self.nout], arrays[self.nout], arrays[self.nout + 1 :]
        inputs = tuple(types.converted(np.asarray(x), dtype) for x, dtype in zip(inputs, loop_in, strict=True))
        function = self._function
        if isinstance(function, np.ufunc):
            function(*inputs, out=targets, casting="unsafe")
            return
        values = function(*inputs)
        for target, value in zip(targets, values if self.nout > 1 else (values,), strict=True):
            np.copyto(target, value, casting="unsafe")

    # -- types ---------------------------------------------------------------------------------------------------------

    def _loop(self, inputs: list[Any], dtype: np.dtype[Any] | None) -> Any:
        """Types of inputs and outputs of the entry that fits."""
        if dtype is not None:
            loop = next((entry for entry in self._loops if all(t == dtype for t in entry[1])), None)
            if loop is None:
                raise TypeError(f"Wrong type ({dtype}) of arguments for {self.name}")
            return loop
        found = [_kind_of(value) for value in inputs]
        strong = max((_KINDS[t.kind] for t, weak in found if weak is None), default=-1)
        scalar = max((_KINDS[t.kind] for t, weak in found if weak is not None), default=-1)
        adapt = scalar != -1 and strong != -1 and strong >= scalar
        key = tuple((t, weak if adapt else None) for t, weak in found)
        loop = self._found(key)
        if loop is None:
            raise TypeError(f"Wrong type ({tuple(t.type for t, _ in found)}) of arguments for {self.name}")
        refused = _REFUSED.get(self._key)
        if refused is not None and self.types[self._loops.index(loop)] == refused[0]:
            raise TypeError(refused[1])
        return loop

    def _find(self, key: Any) -> Any:
        for loop in self._loops:
            if not self._computable(loop):
                continue
            if all(_fits(t, weak, wanted) for (t, weak), wanted in zip(key, loop[0], strict=True)):
                return loop
        return None

    def _computable(self, loop: Any) -> bool:
        """CuPy lists some types, complex ones for ``arctan2`` say, for which its kernel does not even compile."""
        complex_input = any(t.kind == "c" for t in loop[0])
        if not complex_input:
            return True
        if not isinstance(self._function, np.ufunc):
            return self._key != "i0"
        try:
            self._function.resolve_dtypes((*loop[0], *(None for _ in loop[1])))
        except TypeError:
            return False
        return True

    # -- methods -------------------------------------------------------------------------------------------------------

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """``sum`` or ``prod`` along an axis; CuPy has it for ``add`` and ``multiply``."""
        method = {"add": "sum", "multiply": "prod"}.get(self._key)
        if method is None:
            raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")
        return getattr(array, method)(axis, dtype, out, keepdims)

    def accumulate(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        """``cumsum`` or ``cumprod``; CuPy has it for ``add`` and ``multiply``."""
        method = {"add": "cumsum", "multiply": "cumprod"}.get(self._key)
        if method is None:
            raise NotImplementedError(f"`{self.name}.accumulate` is not supported yet")
        return getattr(array, method)(axis, dtype, out)

    def outer(self, A: Any, B: Any, **kwargs: Any) -> Any:
        """The function of every pair of elements."""
        if isinstance(A, ndarray) and isinstance(B, ndarray):
            A = A.reshape((*A.shape, *(1 for _ in B.shape)))
        return self(A, B, **kwargs)

    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        """Apply in place at ``indices``; an element named twice is changed twice."""
        if self._key not in ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"):
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        update_at(self._function, self.name, a, indices, b)

    def reduceat(self, array: ndarray, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Sums of slices that begin at ``indices``; CuPy has it for ``add``."""
        if self._key != "add":
            raise NotImplementedError(f"`{self.name}.reduceat` is not supported yet")
        return shaped("cupy_add_reduceat", np.add.reduceat, (array, indices), {"axis": axis, "dtype": dtype})


def _kind_of(value: Any) -> tuple[np.dtype[Any], type | None]:
    """Type of an argument, and the Python type of a number that adapts."""
    if type(value) in (int, float, complex):
        if type(value) is int:
            return np.dtype(np.uint64 if value >= 1 << 63 else np.int64), int
        return np.dtype(type(value)), type(value)
    return (value.dtype if isinstance(value, (ndarray, np.generic)) else np.dtype(bool)), None


@lru_cache(maxsize=4096)
def _fits(t: np.dtype[Any], weak: type | None, wanted: np.dtype[Any]) -> bool:
    if np.can_cast(t, wanted):
        return True
    if weak is None:
        return False
    try:
        return np.result_type(weak(0), wanted) == wanted
    except TypeError:
        return False


def _constant(value: Any, dtype: np.dtype[Any]) -> Any:
    """A number as an element of the loop's type; ``OverflowError`` when it does not fit (NEP 50)."""
    return np.array(value, dtype) if isinstance(value, (bool, int, float, complex)) else value


UFUNCS: dict[str, ufunc] = {}


def get(name: str) -> ufunc:
    """The universal function called ``name``. Raises ``KeyError`` when CuPy has none."""
    if name not in UFUNCS:
        UFUNCS[name] = ufunc(name)
    return UFUNCS[name]
