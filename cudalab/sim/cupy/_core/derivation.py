"""How an array function is derived from NumPy's.

CuPy's functions take a few forms, and each needs one rule that says, before anything is computed, what the result will
be. The tables below name the functions of each form; the signature is CuPy's own (`catalogue.json`).

=============  ======================================================================================================
``SHAPED``     shape and type follow from the arguments' shapes and types: NumPy is asked on stand-ins of the same
               shapes that take no memory
``SAME``       the result has the first argument's shape and type
``POSITIONS``  the first argument's shape, elements are positions (``int64``)
``TESTS``      the arguments' common shape, elements are booleans
``MATRICES``   as ``SHAPED``, on stand-ins that are unit matrices
``WAITS``      the shape depends on the values: the device computes it and the host waits, as in CuPy
``PLAIN``      asks about shapes and types only: NumPy is called at once
=============  ======================================================================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import runtime_call
from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.creation import array
from cudalab.sim.cupy._core.operation import Work, enqueue, operands_in
from cudalab.sim.cupy.cuda.stream import get_current_stream

# name: number of leading arguments that must be arrays on the device
SHAPED = {
    "angle": 1, "array_equal": 2, "array_equiv": 2, "convolve": 2, "corrcoef": 1,
    "correlate": 2, "count_nonzero": 1, "cov": 1, "cross": 2, "cumulative_prod": 1, "cumulative_sum": 1, "diag": 1,
    "diagflat": 1, "diff": 1, "digitize": 2, "ediff1d": 1, "gradient": 1, "histogram": 1, "interp": 3, "kron": 2,
    "lexsort": 1, "median": 1, "nanmedian": 1, "packbits": 1, "percentile": 1, "polyadd": 2, "polyfit": 2,
    "polymul": 2, "polysub": 2, "polyval": 2, "quantile": 1, "ravel_multi_index": 0, "resize": 1,
    "searchsorted": 1, "select": 0, "take_along_axis": 2, "tile": 1, "trace": 1, "trapezoid": 1, "tril": 1, "triu": 1,
    "unpackbits": 1, "unravel_index": 1, "vander": 1,
}  # fmt: skip
SAME = ("msort", "partition", "sort_complex")
POSITIONS = ("argpartition", "argsort")
TESTS = ("in1d", "isclose", "iscomplex", "isin", "isneginf", "isposinf", "isreal")
WAITS = (
    "argwhere", "delete", "extract", "intersect1d", "setdiff1d", "real_if_close", "setxor1d", "trim_zeros",
    "union1d", "unique",
)  # fmt: skip
MATRICES = {
    "cholesky": 1, "cond": 1, "det": 1, "eig": 1, "eigh": 1, "eigvals": 1, "eigvalsh": 1, "inv": 1, "lstsq": 2,
    "matrix_power": 1, "matrix_rank": 1, "norm": 1, "pinv": 1, "qr": 1, "slogdet": 1, "solve": 2, "svd": 1,
    "tensorinv": 1, "tensorsolve": 2,
}  # fmt: skip
PLAIN = (
    "base_repr", "binary_repr", "broadcast_shapes", "can_cast", "format_float_positional", "format_float_scientific",
    "get_printoptions", "isdtype", "issubdtype", "iterable", "mintypecode", "printoptions", "promote_types",
    "set_printoptions", "typename",
)  # fmt: skip
_NUMPY_NAMES = {"msort": "sort", "in1d": "isin", "round_": "round"}
_INVERTED = (np.linalg.LinAlgError,)


def derived(module: str, name: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """``implementation`` with the signature that ``module.name`` has in CuPy; wrong arguments are a ``TypeError``."""
    signature = catalogue.signature(module, name)

    def function(*arguments: Any, **keywords: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        return implementation(*_required(signature, bound), **_optional(signature, bound))

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__doc__ = f"CuPy's ``{name}``: as NumPy's ``{name}``, on arrays on the device."
    return function


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _required(signature: inspect.Signature, bound: inspect.BoundArguments) -> list[Any]:
    """Arguments without a default, and those of ``*args``: passed by position."""
    result: list[Any] = []
    for name, parameter in signature.parameters.items():
        if name in bound.arguments:
            if parameter.kind is parameter.VAR_POSITIONAL:
                result += bound.arguments[name]
            elif parameter.kind in _POSITIONAL and parameter.default is parameter.empty:
                result.append(bound.arguments[name])
    return result


def _optional(signature: inspect.Signature, bound: inspect.BoundArguments) -> dict[str, Any]:
    """Arguments that have a default and were given, by name."""
    result: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            result.update(value)
        elif parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY:
            result[name] = value
    return result


# -- shapes from stand-ins ---------------------------------------------------------------------------------------------


class _Stand:
    """What a result looks like: shape and type."""

    def __init__(self, array: Any) -> None:
        found = np.asarray(array)
        self.shape, self.dtype = found.shape, found.dtype


def shaped(
    name: str,
    function: Callable[..., Any],
    arguments: Any,
    keywords: dict[str, Any],
    *,
    unit: bool = False,
    order: str = "C",
) -> Any:
    """``function(*arguments, **keywords)`` on the device; see ``SHAPED``. Wrong arguments raise here, as in NumPy."""
    out = keywords.pop("out", None)
    keywords = {key: value for key, value in keywords.items() if value is not None or key == "axis"}
    looks, container = _looks(name, function, arguments, keywords, unit)
    targets = (
        [_target(out, look) for look in looks]
        if out is not None
        else [ndarray(x.shape, x.dtype, order=order) for x in looks]
    )
    work_arguments = _replaced(list(arguments), lambda a: a._operand())
    work_keywords = {key: _replaced(value, lambda a: a._operand()) for key, value in keywords.items()}
    inputs = operands_in([*work_arguments, *work_keywords.values()])
    work = Work(function, work_arguments, work_keywords, [target._operand() for target in targets])
    enqueue(name, work, inputs, flops=float(sum(operand.size for operand in inputs)))
    return targets[0] if container is None else container(targets)


def _target(out: Any, look: _Stand) -> ndarray:
    if not isinstance(out, ndarray):
        raise types.unsupported(out)
    if out.shape != look.shape:
        raise ValueError(f"Output array shape mismatch: {out.shape}, expected {look.shape}")
    return out


def _replaced(value: Any, change: Callable[[ndarray], Any]) -> Any:
    if isinstance(value, ndarray):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(entry, change) for entry in value)
    return value


def _looks(
    name: str, function: Callable[..., Any], arguments: Any, keywords: dict[str, Any], unit: bool
) -> tuple[list[_Stand], Callable[[list[ndarray]], Any] | None]:
    result: tuple[list[_Stand], Callable[[list[ndarray]], Any] | None]
    try:
        key = (name, unit, _key(list(arguments)), _key(sorted(keywords.items())))
        result = _asked(key, function, _Arguments(key, list(arguments), keywords))
        return result
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
    result = _ask(function, arguments, keywords, unit)
    return result


class _Arguments:
    """Arguments that count as equal when their keys are, for the cache."""

    def __init__(self, key: Any, positional: list[Any], keywords: dict[str, Any]) -> None:
        self.key, self.positional, self.keywords = key, positional, keywords

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Arguments) and self.key == other.key


def _key(value: Any) -> Any:
    if isinstance(value, ndarray):
        return "array", value.shape, value.dtype.str
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(_key(entry) for entry in value)
    if isinstance(value, np.ndarray):
        return "host", value.shape, value.dtype.str, value.tobytes()
    hash(value)
    return type(value).__name__, value


@lru_cache(maxsize=512)
def _asked(key: Any, function: Callable[..., Any], arguments: _Arguments) -> Any:
    return _ask(function, arguments.positional, arguments.keywords, key[1])


def _ask(function: Callable[..., Any], arguments: Any, keywords: dict[str, Any], unit: bool) -> Any:
    """What NumPy gives for stand-ins: zeros for integers (they may be positions), ones for the rest; else ones."""
    import warnings

    stand_ins = (_unit_matrix,) if unit else (_zeros_or_ones, _ones)
    for last, make in enumerate(stand_ins, 1 - len(stand_ins)):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                stood = {key: _replaced(value, make) for key, value in keywords.items()}
                found = function(*_replaced(list(arguments), make), **stood)
            break
        except Exception:
            if last == 0:
                raise
    if isinstance(found, (tuple, list)):
        kind: Any = type(found)
        make_container = kind._make if hasattr(kind, "_make") else kind
        return [_Stand(entry) for entry in found], make_container
    return [_Stand(found)], None


def _zeros_or_ones(a: ndarray) -> np.ndarray:
    return np.broadcast_to(np.asarray(0 if a.dtype.kind in "iu" else 1, a.dtype), a.shape)


def _ones(a: ndarray) -> np.ndarray:
    return np.broadcast_to(np.ones((), a.dtype), a.shape)


def _unit_matrix(a: ndarray) -> np.ndarray:
    if a.ndim < 2:
        return _ones(a)
    return np.broadcast_to(np.eye(a.shape[-2], a.shape[-1], dtype=a.dtype), a.shape)


# -- the forms ---------------------------------------------------------------------------------------------------------


def numpy_function(name: str, home: Any = np) -> Callable[..., Any]:
    """NumPy's function for CuPy's ``name``."""
    found: Callable[..., Any] = getattr(home, _NUMPY_NAMES.get(name, name))
    return found


def require_arrays(arguments: Any, count: int) -> None:
    """The first ``count`` arguments, and all of those in lists of arrays, must be on the device."""
    for value in arguments[:count]:
        if isinstance(value, (list, tuple)) and any(isinstance(entry, ndarray) for entry in value):
            continue
        if not isinstance(value, ndarray):
            raise types.unsupported(value)
    for value in arguments[count:]:
        if isinstance(value, np.ndarray) and value.size > 1:
            raise types.unsupported(value)


def _shaped_form(name: str, count: int) -> Callable[..., Any]:
    function = numpy_function(name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        require_arrays(arguments, count)
        if name == "histogram" and arguments[0].dtype.kind == "c":
            raise NotImplementedError("complex number is not supported")
        return shaped(f"cupy_{name}", function, arguments, keywords)

    return call


def same(
    name: str, function: Callable[..., Any], a: Any, dtype: Any, *arguments: Any, order: str = "C", **keywords: Any
) -> ndarray:
    """``function(a, …)``: the result has ``a``'s shape, and type ``dtype`` (``a``'s for None); for order ``K`` also its
    layout."""
    if not isinstance(a, ndarray):
        raise types.unsupported(a)
    axis = keywords.get("axis", -1)
    if axis is None:
        a = a.ravel()
        keywords["axis"] = -1
    elif "axis" in keywords and not isinstance(axis, (tuple, list)):
        layout.normal_axis(axis, a.ndim)
    result: ndarray = a._like(a.dtype if dtype is None else np.dtype(dtype), order)
    work = Work(
        function, [a._operand(), *_replaced(list(arguments), lambda x: x._operand())], keywords, (result._operand(),)
    )
    enqueue(name, work, [a._operand(), *operands_in(work.arguments[1:])], flops=float(a.size))
    return result


def _same_form(name: str, dtype: Any) -> Callable[..., Any]:
    function = numpy_function(name)

    def call(a: Any, *arguments: Any, **keywords: Any) -> ndarray:
        if name == "msort":
            keywords["axis"] = 0
        return same(f"cupy_{name}", function, a, dtype, *arguments, **keywords)

    return call


def _test_form(name: str) -> Callable[..., Any]:
    function = numpy_function(name)

    def call(*arguments: Any, **keywords: Any) -> ndarray:
        lifted = [a if isinstance(a, ndarray) else array(_number(a)) for a in arguments]
        if name in ("isneginf", "isposinf") and lifted[0].dtype.kind == "c":
            raise TypeError(
                f"This operation is not supported for {lifted[0].dtype} values because it would be ambiguous."
            )
        first_only = name in ("isin", "in1d")
        shape = lifted[0].shape if first_only else layout.broadcast(*(a.shape for a in lifted))
        result = ndarray(shape if name != "in1d" else (lifted[0].size,), bool)
        inputs = [a._operand() for a in lifted]
        enqueue(
            f"cupy_{name}", Work(function, inputs, keywords, (result._operand(),)), inputs, flops=float(result.size)
        )
        return result

    return call


def _number(value: Any) -> Any:
    if not types.is_scalar(value):
        raise types.unsupported(value)
    return value


def waits(name: str, function: Callable[..., Any], arguments: Any, keywords: dict[str, Any]) -> Any:
    """``function(*arguments, **keywords)`` whose result's shape depends on values: computes, waits, then stores."""
    found: list[Any] = []

    def compute(*resolved: Any, **named: Any) -> None:
        try:
            found.append(function(*resolved, **named))
        except Exception as error:
            found.append(error)

    inputs_of = _replaced(list(arguments), lambda a: a._operand())
    named = {key: _replaced(value, lambda a: a._operand()) for key, value in keywords.items()}
    inputs = operands_in([*inputs_of, *named.values()])
    work = Work(compute, inputs_of, named, (), in_place=True)
    if any(operand.size for operand in inputs):
        enqueue(name, work, inputs, flops=float(sum(operand.size for operand in inputs)))
        get_current_stream().synchronize()
    else:
        runtime_call(work)
    if isinstance(found[0], Exception):  # the host waits here, so values that NumPy refuses can raise
        raise found[0]
    return _stored(name, found[0])


def _stored(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        entries = [_stored(name, entry) for entry in value]
        return type(value)._make(entries) if hasattr(value, "_make") else tuple(entries)
    host = np.asarray(value)
    result = ndarray(host.shape, host.dtype)
    if host.size:
        enqueue(name, Work(_constant(host), (), {}, (result._operand(),)), ())
    return result


def _constant(host: np.ndarray) -> Callable[[], np.ndarray]:
    return lambda: host


def _waiting_form(name: str) -> Callable[..., Any]:
    function = numpy_function(name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        require_arrays(arguments, 1)
        return waits(f"cupy_{name}", function, arguments, {k: v for k, v in keywords.items() if v is not None})

    return call


def matrix_function(name: str) -> Callable[..., Any]:
    """``cp.linalg.NAME``. A singular matrix gives NaN and infinity, as cuSOLVER's result does, and no error."""
    count = MATRICES[name]
    numpys = getattr(np.linalg, name)

    def function(*arguments: Any, **keywords: Any) -> Any:
        try:
            return numpys(*arguments, **keywords)
        except _INVERTED:
            looks = numpys(*(np.eye(*a.shape[-2:]) if getattr(a, "ndim", 0) > 1 else a for a in arguments), **keywords)
            return (
                np.full(np.shape(looks), np.nan) if not isinstance(looks, tuple) else tuple(x * np.nan for x in looks)
            )

    def call(*arguments: Any, **keywords: Any) -> Any:
        require_arrays(arguments, count)
        found = shaped(f"cupy_{name}", function, arguments, keywords, unit=name != "norm")
        return tuple(found) if isinstance(found, tuple) else found  # NumPy's are named tuples, CuPy's are plain

    return derived("cupy.linalg", name, call)


@cache
def table_function(name: str) -> Callable[..., Any]:
    """``cp.NAME`` of a name that one of the tables has."""
    made = make(name)
    assert made is not None
    return made


def make(name: str) -> Callable[..., Any] | None:
    """``cp.NAME`` when one of the tables has it."""
    implementation: Callable[..., Any] | None = None
    if name in SHAPED:
        implementation = _shaped_form(name, SHAPED[name])
    elif name in SAME:
        implementation = _same_form(name, None)
    elif name in POSITIONS:
        implementation = _same_form(name, np.int64)
    elif name in TESTS:
        implementation = _test_form(name)
    elif name in WAITS:
        implementation = _waiting_form(name)
    elif name in PLAIN:
        implementation = numpy_function(name)
    return None if implementation is None else derived("cupy", name, implementation)
