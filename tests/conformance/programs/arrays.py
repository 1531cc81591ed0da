"""CuPy arrays: what they share with NumPy and where they differ."""

import numpy as np

from cudalab import cp

from ..program import near, program, raised


def facts(a):
    return [str(a.dtype), list(a.shape), list(a.strides), bool(a.flags.c_contiguous), bool(a.flags.f_contiguous)]


@program(
    "creation: defaults of type, order and values",
    expect=lambda v: {
        "facts": [
            [str(a.dtype), list(a.shape), list(a.strides), a.flags.c_contiguous, a.flags.f_contiguous]
            for a in (
                np.zeros(3), np.ones((2, 3), np.int8), np.full((2, 2), 7), np.full(2, 1.5), np.arange(5), np.arange(0,
                1, 0.25),
                np.linspace(0, 1, 5), np.eye(3), np.empty((2, 3), order="F"), np.array([1, 2]), np.array([1.0]),
                np.array([True]), np.array([[1, 2], [3, 4]], np.float32), np.zeros_like(np.ones((2, 3), np.int16)),
                np.array(5),
            )
        ]
    },
)  # fmt: skip
def creation():
    arrays = [
        cp.zeros(3), cp.ones((2, 3), cp.int8), cp.full((2, 2), 7), cp.full(2, 1.5), cp.arange(5), cp.arange(0, 1, 0.25),
        cp.linspace(0, 1, 5), cp.eye(3), cp.empty((2, 3), order="F"), cp.array([1, 2]), cp.array([1.0]),
        cp.array([True]), cp.array([[1, 2], [3, 4]], cp.float32), cp.zeros_like(cp.ones((2, 3), cp.int16)), cp.array(5),
    ]  # fmt: skip
    return {"facts": [facts(a) for a in arrays], "values": [a for i, a in enumerate(arrays) if i != 8]}


@program("reductions give arrays of no dimension, which convert on request")
def zero_dimensional_results():
    x = cp.arange(6, dtype=cp.float32).reshape(2, 3)
    results = [x.sum(), x.max(), x.mean(), x.argmin(), cp.any(x), cp.allclose(x, x), cp.dot(x[0], x[1]), x[1, 2]]
    total = x.sum()
    return {
        "types": [type(r).__name__ for r in results],
        "facts": [[str(r.dtype), list(r.shape)] for r in results],
        "values": [r.item() for r in results],
        "converted": [float(total), int(total), bool(total), f"{float(total):.1f}"],
        "keepdims": list(x.sum(axis=0, keepdims=True).shape),
        "item of many": raised(lambda: x.item()),
        "bool of many": raised(lambda: bool(x)),
        "float of many": raised(lambda: float(x)),
        "index": [10, 20, 30][int(cp.asarray(1))],
    }


@program("nothing converts silently between device and host")
def no_silent_conversion():
    x, h = cp.arange(3), np.arange(3)
    return {
        "np.asarray": raised(lambda: np.asarray(x)),
        "np.array": raised(lambda: np.array(x)),
        "list of it": [type(item).__name__ for item in x],
        "added to NumPy's": raised(lambda: x + h),
        "NumPy's added to it": raised(lambda: h + x),
        "ufunc on a list": raised(lambda: cp.sqrt([1.0, 4.0])),
        "ufunc on NumPy's": raised(lambda: cp.sqrt(h)),
        "sum of NumPy's": raised(lambda: cp.sum(h)),
        "concatenate mixed": raised(lambda: cp.concatenate([x, h])),
        "store NumPy's": raised(lambda: x.__setitem__(slice(None), h)),
        "np.copyto": raised(lambda: np.copyto(h, x)),
        "asnumpy": type(cp.asnumpy(x)).__name__,
        "get": type(x.get()).__name__,
        "asnumpy of NumPy's": cp.asnumpy(h) is h,
        "math with NumPy scalar": type(x * np.int64(2)).__name__,
        "NumPy scalar first": type(np.int64(2) * x).__name__,
    }


@program(
    "NumPy's functions called on device arrays run on the device",
    expect=lambda v: {"values": [np.sqrt(np.arange(4.0)), np.float64(6.0), np.arange(4.0)[::-1]]},
)
def numpy_dispatch():
    x = cp.arange(4.0)
    results = [np.sqrt(x), np.sum(x), np.flip(x)]
    return {"types": [type(r).__name__ for r in results], "values": results}


@program(
    "integer indices outside an array wrap around in fancy indexing, and raise in basic indexing",
    expect=lambda v: {"read": np.array([10, 13, 11, 13, 12, 10])},
)
def indices_out_of_range():
    x = cp.arange(10, 14)
    written = cp.zeros(4, cp.int64)
    written[cp.asarray([1, 6, -1])] = cp.asarray([7, 8, 9])
    return {
        "read": x[cp.asarray([0, 3, 5, -1, -6, 8])],
        "written": written,
        "take wrap": cp.take(x, cp.asarray([5, -5])),
        "basic": raised(lambda: x[4]),
        "negative": raised(lambda: x[-5]),
        "too many": raised(lambda: x[0, 0]),
        "slice beyond": x[2:100],
    }


@program(
    "boolean masks, fancy indices in several dimensions, newaxis, ellipsis",
    expect=lambda v: {
        "mask": v["x"][v["x"] % 2 == 0],
        "rows": v["x"][[2, 0]],
        "points": v["x"][[0, 1, 2], [3, 2, 1]],
        "grid": v["x"][[[0], [2]], [1, 3]],
        "expanded": v["x"][:, None, ::2],
        "ellipsis": v["x"][..., -1],
        "assigned": np.where(v["x"] > 6, -1, v["x"]),
    },
)
def indexing():
    h = np.arange(12).reshape(3, 4)
    x = cp.asarray(h)
    assigned = x.copy()
    assigned[assigned > 6] = -1
    return {
        "x": h,
        "mask": x[x % 2 == 0],
        "rows": x[cp.asarray([2, 0])],
        "points": x[cp.asarray([0, 1, 2]), cp.asarray([3, 2, 1])],
        "grid": x[cp.asarray([[0], [2]]), cp.asarray([1, 3])],
        "expanded": x[:, None, ::2],
        "ellipsis": x[..., -1],
        "assigned": assigned,
        "list index": raised(lambda: x[[0, 1]]),
    }


DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
]


@program("the type of a sum of any two types, and of a scalar with an array")
def promotion():
    one = {name: cp.ones(1, name) for name in DTYPES}
    pairs = [[str((one[a] + one[b]).dtype) for b in DTYPES] for a in DTYPES]
    scalars = [True, 3, 2.5, 1j, np.int8(1), np.int64(1), np.float32(1), np.float64(1)]
    with_scalars = [[str((one[a] * s).dtype) for s in scalars] for a in DTYPES]
    divided = [str((one[a] / one[a]).dtype) for a in DTYPES]
    functions = [str(cp.sqrt(one[a]).dtype) for a in DTYPES]
    return {"pairs": pairs, "scalars": with_scalars, "divided": divided, "sqrt": functions}


@program("types of sums, products, means and cumulative sums")
def reduction_types():
    kinds = DTYPES[:-1]
    arrays = [cp.ones(3, k) for k in kinds]
    return {
        name: [str(getattr(a, name)().dtype) for a in arrays]
        for name in ("sum", "prod", "mean", "cumsum", "max", "argmax", "std", "all")
    }


@program("a Python integer that does not fit, in-place operations that would lose, unsafe assignment")
def casting_rules():
    x, f = cp.arange(3, dtype=cp.uint8), cp.ones(3, cp.float32)
    i = cp.arange(3)

    def add_float():
        nonlocal i
        i += 0.5

    def add_wide():
        nonlocal f
        f += cp.ones(3, cp.float64)

    stored = cp.zeros(3, cp.int32)
    stored[:] = 2.9
    stored[1] = cp.asarray(-7.5)
    return {
        "too large": raised(lambda: x + 300),
        "negative": raised(lambda: x + (-1)),
        "wraps": x + cp.asarray(255, cp.uint8),
        "int += float": raised(add_float),
        "float32 += float64": raised(add_wide),
        "kept": str(f.dtype),
        "stored": stored,
        "astype": cp.asarray([1.9, -1.9, 200.7]).astype(cp.int16),
        "bool": cp.asarray([0.0, 0.1, -2]).astype(bool),
    }


@program(
    "integer arithmetic: floor division, remainder, shifts, powers, wrap-around",
    expect=lambda v: {
        "floor": v["a"] // v["b"],
        "mod": v["a"] % v["b"],
        "power": np.abs(v["a"]) ** 3,
        "shift": v["a"] << 2,
        "and": v["a"] & v["b"],
        "int8": np.array([-126, 44], np.int8),
        "true": v["a"] / v["b"],
    },
)
def integer_arrays():
    a, b = np.array([7, -7, 7, -7, 0, 12]), np.array([2, 2, -2, -2, 5, 4])
    x, y = cp.asarray(a), cp.asarray(b)
    return {
        "a": a, "b": b, "floor": x // y, "mod": x % y, "power": abs(x) ** 3, "shift": x << 2, "and": x & y,
        "int8": cp.asarray([127, 22], cp.int8) + cp.asarray([3, 22], cp.int8), "true": x / y,
    }  # fmt: skip


@program("integer division by zero gives zero and no error; float division gives infinity and NaN without warning")
def division_by_zero():
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x, zero = cp.asarray([5, 0, -3]), cp.zeros(3, cp.int64)
        result = {
            "floor": x // zero,
            "mod": x % zero,
            "true": x / zero,
            "log": cp.isneginf(cp.log(cp.zeros(1))),
            "sqrt": cp.isnan(cp.sqrt(cp.asarray([-1.0]))),
        }
    return {**result, "warnings": len(caught)}


@program("converting floats out of range to integers saturates on the device")
def float_to_integer_cast():
    x = cp.asarray([3e9, -3e9, 1e20, -1e20, 1.7, -1.7])
    with np.errstate(all="ignore"):
        return {
            "int32": x.astype(cp.int32), "uint32": x.astype(cp.uint32)[::2],
            "int64": x.astype(cp.int64), "float32 to int32": x.astype(cp.float32).astype(cp.int32),
        }  # fmt: skip


@program(
    "slices, transposes and reshapes are views; what they share and where they begin",
    expect=lambda v: {"after": np.array([[0, 1, 2, 3], [4, -5, 6, -7], [8, 9, 10, 11]])},
)
def views():
    x = cp.arange(12).reshape(3, 4)
    part = x[1:, 1::2]
    part[0] *= -1
    flat, turned = x.reshape(-1), x.T.reshape(-1)
    start = x.data.ptr
    return {
        "after": x,
        "part": facts(part),
        "offsets": [int(v.data.ptr - start) for v in (x, part, x[::-1], x.T, flat, x[:, 2], x.ravel())],
        "copied": [
            turned.base is None,
            x.T.ravel().data.ptr != start,
            x.copy().data.ptr != start,
            x.flatten().data.ptr != start,
        ],
        "bases": [part.base is x or part.base is x.base, x.base is not None, x.copy().base is None],
        "reversed": facts(x[::-1, ::-1]),
        "transposed": facts(x.T),
        "swapped": facts(cp.swapaxes(x.reshape(3, 2, 2), 0, 2)),
        "broadcast": facts(cp.broadcast_to(x[0], (2, 4))),
        "as bytes": facts(x.view(cp.int32)),
        "contiguous": [cp.ascontiguousarray(x) is x, facts(cp.ascontiguousarray(x.T)), facts(cp.asfortranarray(x))],
    }


@program("shapes that do not fit: reshape, broadcast, view, concatenate, matmul")
def shape_errors():
    x = cp.arange(6)
    return {
        "reshape": raised(lambda: x.reshape(4, 2)),
        "broadcast": raised(lambda: x + cp.arange(4)),
        "assign": raised(lambda: x.__setitem__(slice(0, 2), cp.arange(3))),
        "view": raised(lambda: x[::2].view(cp.int32)),
        "concatenate": raised(lambda: cp.concatenate([cp.ones((2, 2)), cp.ones((3, 3))])),
        "matmul": raised(lambda: cp.ones((2, 3)) @ cp.ones((2, 3))),
        "axis": raised(lambda: x.sum(axis=1)),
        "negative size": raised(lambda: cp.zeros(-1)),
        "shape set": raised(lambda: setattr(x, "shape", (7,))),
        "set wrong shape": raised(lambda: x.set(np.arange(5))),
        "set wrong type": raised(lambda: x.set(np.arange(6.0))),
        "get into wrong": raised(lambda: x.get(out=np.zeros(6, np.float32))),
        "missing type": raised(lambda: cp.zeros(3, "no such type")),
        "strings": raised(lambda: cp.array(["a", "b"])),
        "argmax of nothing": raised(lambda: cp.zeros(0).argmax()),
        "max of nothing": raised(lambda: cp.zeros(0).max()),
    }


@program(
    "copies to and from the host: set, get, out=, asarray makes a copy",
    expect=lambda v: {"got": np.arange(6.0).reshape(2, 3), "out": np.arange(6.0).reshape(2, 3), "kept": np.float64(0)},
)
def host_copies():
    h = np.arange(6.0).reshape(2, 3)
    x = cp.empty((2, 3))
    x.set(h)
    out = np.zeros((2, 3))
    same = x.get(out=out)
    y = cp.asarray(h)
    h[0, 0] = 99
    turned = cp.asarray(np.arange(6).reshape(2, 3).T)
    return {
        "got": x.get(),
        "out": out,
        "same": same is out,
        "kept": y[0, 0],
        "asarray of device": cp.asarray(x) is x,
        "array copies": cp.array(x).data.ptr != x.data.ptr,
        "turned": [facts(turned), turned],
        "of a view": x[:, ::2].get(),
        "order": x.get(order="F").flags.f_contiguous,
    }


@program(
    "reductions along axes",
    expect=lambda v: {
        "sum": v["x"].sum(axis=(0, 2)), "max": v["x"].max(axis=1), "argmax": v["x"].argmax(axis=2), "prod": v["x"][0,
        :2, :2].prod(axis=0),
        "cumsum": v["x"].cumsum(axis=1), "any": (v["x"] > 20).any(axis=0), "count": np.count_nonzero(v["x"] % 3),
        "ptp": np.ptp(v["x"], axis=0), "mean": v["x"].mean(axis=2), "var": near(v["x"].var(axis=0, ddof=1), 1e-14),
    },
    tolerance={"var": (1e-14, 0)},
)  # fmt: skip
def reductions():
    h = np.random.default_rng(50).integers(-30, 30, (3, 4, 5))
    x = cp.asarray(h)
    return {
        "x": h, "sum": x.sum(axis=(0, 2)), "max": x.max(axis=1), "argmax": x.argmax(axis=2), "prod": x[0, :2,
        :2].prod(axis=0),
        "cumsum": x.cumsum(axis=1), "any": (x > 20).any(axis=0), "count": int(cp.count_nonzero(x % 3)),
        "ptp": cp.ptp(x, axis=0), "mean": x.mean(axis=2), "var": x.var(axis=0, ddof=1),
    }  # fmt: skip


@program(
    "NaN in minimum, maximum, sorting and comparisons",
    expect=lambda v: {"fmax": np.array([2.0, 3.0, 5.0]), "nansum": 4.0, "sorted": np.array([1.0, 3.0, np.nan])},
)
def nan_behaviour():
    x, y = cp.asarray([1.0, float("nan"), 3.0]), cp.asarray([2.0, 3.0, 5.0])
    return {
        "max is nan": bool(cp.isnan(x.max())),
        "argmax": int(x.argmax()),
        "fmax": cp.fmax(x, y),
        "maximum": cp.isnan(cp.maximum(x, y)),
        "nansum": float(cp.nansum(x)),
        "nanmax": float(cp.nanmax(x)),
        "sorted": cp.sort(x),
        "equal": x == x,
        "allclose": bool(cp.allclose(x, x)),
        "equal_nan": bool(cp.allclose(x, x, equal_nan=True)),
    }


@program(
    "sums of floats and matrix products within rounding",
    expect=lambda v: {
        "sum": near(v["x"].astype(np.float64).sum(), 1e-5, 1e-3),
        "matmul": near(v["x"].astype(np.float64) @ v["y"], 1e-4, 1e-4),
        "double": near(v["x"].astype(np.float64) @ v["y"].astype(np.float64), 1e-12, 1e-12),
        "integers": np.arange(12).reshape(3, 4) @ np.arange(12).reshape(4, 3),
        "norm": near(np.linalg.norm(v["x"].astype(np.float64)), 1e-5),
    },
    tolerance=dict.fromkeys(("sum", "matmul", "norm", "batched", "einsum"), (0.0001, 0.001))
    | {"double": (1e-12, 1e-12)},
)
def products():
    rng = np.random.default_rng(51)
    h, k = rng.standard_normal((40, 30)).astype(np.float32), rng.standard_normal((30, 20)).astype(np.float32)
    x, y = cp.asarray(h), cp.asarray(k)
    return {
        "x": h, "y": k, "sum": x.sum(), "matmul": x @ y, "double": x.astype(float) @ y.astype(float),
        "integers": cp.arange(12).reshape(3, 4) @ cp.arange(12).reshape(4, 3), "norm": cp.linalg.norm(x),
        "batched": cp.matmul(x.reshape(2, 20, 30), y), "einsum": cp.einsum("ij,jk->ki", x, y),
        "type": str((x @ y).dtype),
    }  # fmt: skip


@program(
    "sorting, searching, sets, joining and rearranging",
    expect=lambda v: {
        "sort": np.sort(v["x"]), "argsort": np.argsort(v["x"], kind="stable"), "unique": np.unique(v["x"] // 10),
        "where": np.where(v["x"] > 50, v["x"], 0), "nonzero": np.nonzero(v["x"] > 50)[0], "clip": v["x"].clip(20, 60),
        "search": np.searchsorted(np.arange(0, 100, 10), v["x"]), "stack": np.stack([v["x"], -v["x"]]),
        "roll": np.roll(v["x"], 3), "tile": np.tile(v["x"][:3], 2), "repeat": np.repeat(v["x"][:3], 2),
        "diff": np.diff(v["x"]),
        "bincount": np.bincount(v["x"] // 10, minlength=12), "pad": np.pad(v["x"][:3], 2), "flip": v["x"][::-1],
        "triu": np.triu(np.ones((3, 3))), "outer": np.outer(v["x"][:3], v["x"][:2]),
    },
)  # fmt: skip
def rearranging():
    h = np.random.default_rng(52).permutation(100)[:40]
    x = cp.asarray(h)
    return {
        "x": h, "sort": cp.sort(x), "argsort": cp.argsort(x), "unique": cp.unique(x // 10),
        "where": cp.where(x > 50, x, 0), "nonzero": cp.nonzero(x > 50)[0], "clip": x.clip(20, 60),
        "search": cp.searchsorted(cp.arange(0, 100, 10), x), "stack": cp.stack([x, -x]),
        "roll": cp.roll(x, 3), "tile": cp.tile(x[:3], 2), "repeat": cp.repeat(x[:3], 2), "diff": cp.diff(x),
        "bincount": cp.bincount(x // 10, minlength=12), "pad": cp.pad(x[:3], 2), "flip": cp.flip(x),
        "triu": cp.triu(cp.ones((3, 3))), "outer": cp.outer(x[:3], x[:2]),
    }  # fmt: skip


@program("random numbers: seeds repeat, ranges and types; the values themselves are the device's own")
def random_numbers():
    cp.random.seed(7)
    a = cp.random.random(1000)
    cp.random.seed(7)
    b = cp.random.random(1000)
    c = cp.random.random(1000)
    g = cp.random.default_rng(3)
    normal, whole = cp.random.standard_normal(20000), cp.random.randint(3, 9, 2000)
    drawn = g.random(500)
    shuffled = cp.arange(50)
    cp.random.shuffle(shuffled)
    return {
        "repeat": bool((a == b).all()),
        "go on": bool((b != c).any()),
        "range": bool((a >= 0).all()) and bool((a < 1).all()),
        "types": [
            str(x.dtype) for x in (a, normal, whole, drawn, cp.random.random(2, dtype=cp.float32), cp.random.rand(2, 2))
        ],
        "shapes": [
            list(cp.random.rand(2, 3).shape),
            list(cp.random.randn(4).shape),
            list(cp.random.random((2, 2)).shape),
        ],
        "mean": bool(abs(float(normal.mean())) < 0.05) and bool(abs(float(normal.std()) - 1) < 0.05),
        "integers": sorted({int(x) for x in whole.get()}),
        "permutation": cp.sort(cp.random.permutation(20)),
        "shuffled": cp.sort(shuffled),
        "float32": str(cp.random.standard_normal(3, dtype=cp.float32).dtype),
    }


@program("empty arrays and arrays of no dimension")
def empty_and_scalar_arrays():
    e, s = cp.zeros((0, 3)), cp.asarray(5.5)
    return {
        "sum": float(e.sum()),
        "shape": [list(e.shape), e.size, e.nbytes, list((e + 1).shape), list(e.sum(axis=0).shape)],
        "scalar": [s.ndim, list(s.shape), s.size, float(s[()])],
        "index scalar": raised(lambda: s[0]),
        "len": [len(e), raised(lambda: len(s))],
        "iterate": raised(lambda: list(s)),
        "concatenate": list(cp.concatenate([e, cp.ones((2, 3))]).shape),
        "mean is nan": bool(cp.isnan(cp.zeros(0).mean())),
        "fill": raised(lambda: s.fill(3.0)),
    }


@program("attributes: item size, bytes, device, memory, the array interface")
def array_attributes():
    x = cp.arange(12, dtype=cp.float32).reshape(3, 4)
    part = x[:, 1]
    interface, strided = x.__cuda_array_interface__, part.__cuda_array_interface__
    return {
        "sizes": [x.itemsize, x.nbytes, x.size, x.ndim, x.data.mem.size, part.nbytes],
        "device": x.device.id,
        "types": [type(x).__name__, type(x.data).__name__, cp.float32 is np.float32, cp.ndarray is type(x)],
        "shape": [list(interface["shape"]), interface["typestr"], interface["strides"], interface["version"] >= 2],
        "strided": [list(strided["strides"]), strided["data"][0] - interface["data"][0], strided["data"][1]],
        "module": cp.get_array_module(x) is cp,
        "module of NumPy's": cp.get_array_module(np.ones(1)) is np,
        "printed": [str(x[0]), repr(x[0, :2])],
        "dtype": x.dtype == np.dtype("float32"),
        "round trip": cp.asarray(cp.ndarray(12, cp.float32, memptr=x.data)),
    }


@program(
    "add.at accumulates over repeated indices, plain assignment does not",
    expect=lambda v: {"added": np.array([3.0, 0, 4.0, 0])},
)
def repeated_indices():
    x = cp.zeros(4)
    cp.add.at(x, cp.asarray([0, 2, 0, 2]), cp.asarray([1.0, 1.0, 2.0, 3.0]))
    y = cp.zeros(4)
    y[cp.asarray([1, 1, 3])] += 1
    return {"added": x, "plain": y}


@program(
    "ufuncs with out=, comparisons, where, and functions of two results",
    expect=lambda v: {
        "out": v["x"] * 2,
        "less": v["x"] < 1,
        "both": [np.array([0.5, -0.25]), np.array([1.0, -2.0])],
        "divmod": [np.array([2, -4]), np.array([1, 1])],
        "rounded": np.array([2.0, -2.0]),
    },
)
def ufunc_features():
    h = np.array([-1.5, 0.0, 2.25])
    x = cp.asarray(h)
    out = cp.empty(3)
    returned = cp.multiply(x, 2, out=out)
    fraction, whole = cp.modf(cp.asarray([1.5, -2.25]))
    quotient, rest = cp.divmod(cp.asarray([7, -7]), cp.asarray([3, 2]))
    return {
        "x": h, "out": out, "same": returned is out, "less": x < 1, "both": [fraction, whole], "divmod": [quotient,
        rest],
        "rounded": cp.around(cp.asarray([1.5, -2.5]), 0),
        "half to even": cp.rint(cp.asarray([0.5, 1.5, 2.5])), "is ufunc": type(cp.add).__name__,
        "logical": cp.logical_and(x, x > 0), "sign": cp.sign(x), "isclose": cp.isclose(x, x + 1e-12),
        "wrong out": raised(lambda: cp.multiply(x, 2, out=cp.empty(4))),
        "out of NumPy": raised(lambda: cp.multiply(x, 2, out=np.empty(3))),
    }  # fmt: skip


@program(
    "elementwise math of arrays within rounding of NumPy's",
    tolerance={"double": (1e-15, 1e-300), "single": (1e-6, 1e-12)},
)
def elementwise_math():
    h = np.linspace(0.1, 5, 50)
    functions = ("exp", "log", "sin", "cos", "tanh", "arctan", "log1p", "expm1", "cbrt", "sinh")
    double = [getattr(cp, f)(cp.asarray(h)) for f in functions]
    single = [getattr(cp, f)(cp.asarray(h.astype(np.float32))) for f in functions]
    return {
        "double": cp.stack(double),
        "single": cp.stack(single),
        "sqrt": cp.sqrt(cp.asarray(h)),
        "power": str((double[0] ** 2).dtype),
    }


@program("comparison of arrays as a condition, equality with other things, hashing")
def comparisons():
    x = cp.arange(3)
    return {
        "equal": x == cp.arange(3),
        "array_equal": bool(cp.array_equal(x, cp.arange(3))),
        "with scalar": x >= 1,
        "with None": raised(lambda: x == None),  # noqa: E711
        "if": raised(lambda: 1 if x == 1 else 0),
        "one element": bool(cp.ones(1) == 1),
        "hash": raised(lambda: hash(x)),
        "in": raised(lambda: 1 in x),
    }
