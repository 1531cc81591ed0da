"""Answers to exercises 05.1 to 05.3."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_C, _E = "correctness", "efficiency"
_PERSISTING = "hitProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting"
_STREAMING = "missProp = cudart.cudaAccessProperty.cudaAccessPropertyStreaming"
_PROPERTY = "cudart.cudaAccessProperty.cudaAccessProperty"
_HOST = "waits and queries of the host"

# --- 05.1 ---

_ASIDE = "bytes set aside, over what the array needs and the device allows"
_PART = "the part of the window that persists, over the part that fits"
_MOST = "min(array.nbytes, properties.persistingL2CacheMaxSize)"
_RATIO = "min(1.0, aside / size)"

ANSWERS_05_1 = table(
    "05.1",
    Wrong("the set-aside not bounded", ((_MOST, "array.nbytes"),), _E, _ASIDE),
    Wrong("the guide's fraction alone", ((_MOST, "int(0.75 * properties.l2CacheSize)"),), _E, _ASIDE),
    Wrong("always ratio 1", ((_RATIO, "1.0"),), _E, _PART),  # passes where the array fits, as the first in the try cell
    Wrong("over the array, not the window", ((_RATIO, "min(1.0, aside / array.nbytes)"),), _E, _PART),
    Wrong("more than 1: refused", ((_RATIO, "aside / size"),), _C, "no window"),
    Wrong("turned round", ((_RATIO, "min(1.0, size / aside)"),), _E, _PART),
    Wrong(
        "the window not cut",
        (("min(array.nbytes, properties.accessPolicyMaxWindowSize)", "array.nbytes"),),
        _C,
        "no window",
    ),
    Wrong("elements", (("size = min(array.nbytes,", "size = min(array.size,"),), _C, "wrong range", mistake="elements"),
    Wrong("streaming", ((_PERSISTING, f"hitProp = {_PROPERTY}Streaming"),), _C, "wrong property"),
    Wrong(
        "only as much as is set aside",
        (("size = min(array.nbytes, properties.accessPolicyMaxWindowSize)", "size = min(array.nbytes, aside)"),),
        _C,
        "wrong range",
    ),
    Right(
        "what is set aside worked out",
        (
            (
                "    _, aside = cudart.cudaDeviceGetLimit(kind)",
                f"    unit = properties.l2CacheSize // 16\n    aside = -(-{_MOST} // unit) * unit",
            ),
        ),
    ),
    Right("misses normal", ((_STREAMING, f"missProp = {_PROPERTY}Normal"),)),
    Right(
        "device attributes",
        (
            (
                "_, properties = cudart.cudaGetDeviceProperties(0)",
                "properties = cp.cuda.runtime.getDeviceProperties(0)",
            ),
            ("properties.persistingL2CacheMaxSize", 'properties["persistingL2CacheMaxSize"]'),
            ("properties.accessPolicyMaxWindowSize", 'properties["accessPolicyMaxWindowSize"]'),
        ),
    ),
    Wrong(
        "nothing",
        (("def fit(stream, array):\n", "def fit(stream, array):\n    return\n"),),
        _C,
        "no window",
        cheat=True,
    ),
    Wrong("all there is, always", ((_MOST, "properties.persistingL2CacheMaxSize"),), _E, _ASIDE, cheat=True),
    Wrong("nothing persists", ((_RATIO, "0.0"),), _E, _PART, cheat=True),
    Wrong("nothing set aside", ((_MOST, "0"),), _E, _ASIDE, cheat=True),
)

# --- 05.2 ---

_WITH = "launches of first with a window over the table (%)"
_WITHOUT = "launches of second without a window (%)"
_LEFT = "windows that are left"
_RESET = "resets behind the last launch"
_ON, _OFF = "        set_window(table.nbytes)\n", "        set_window(0)\n"
_EARLY = "resets between the launches"
_GIVEN_BACK = "    cudart.cudaCtxResetPersistingL2Cache()\n"

ANSWERS_05_2 = table(
    "05.2",
    Wrong(
        "switched on once",
        ((_ON, ""), ("    for _ in range(rounds):\n", "    set_window(table.nbytes)\n    for _ in range(rounds):\n")),
        _E,
        _WITH,
    ),  # right for one round, as in the try cell with rounds=1
    Wrong("never off", ((_OFF, ""),), _E, _WITHOUT),
    Wrong("off only at the end", ((_OFF, ""), (_GIVEN_BACK, "    set_window(0)\n" + _GIVEN_BACK)), _E, _WITHOUT),
    Wrong("no reset", ((_GIVEN_BACK, ""),), _E, _RESET),
    Wrong("reset before the last launch", ((_GIVEN_BACK, ""), (_OFF, _OFF + "    " + _GIVEN_BACK)), _E, _RESET),
    Wrong(
        "off behind second",
        (("        set_window(0)\n        second(stream)\n", "        second(stream)\n        set_window(0)\n"),),
        _E,
        _WITHOUT,
    ),
    Wrong("half of the table", (("set_window(table.nbytes)", "set_window(table.nbytes // 2)"),), _E, _WITH),
    Wrong("elements", (("set_window(table.nbytes)", "set_window(table.size)"),), _E, _WITH),
    Wrong(
        "on again at the end",
        (("    cudart.cudaCtxReset", "    set_window(table.nbytes)\n    cudart.cudaCtxReset"),),
        _E,
        _LEFT,
    ),
    Wrong("hits normal", ((_PERSISTING, f"hitProp = {_PROPERTY}Normal"),), _E, _WITH),
    Wrong(
        "second before first",
        (
            ("        first(stream)\n", ""),
            (
                "        second(stream)\n",
                "        second(stream)\n" + _ON + "        first(stream)\n" + _OFF,
            ),
        ),
        _C,
        "wrong values",
    ),
    Right(
        "an empty value",
        (
            (
                _OFF,
                "        name = cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow\n"
                "        cudart.cudaStreamSetAttribute(stream.ptr, name, cudart.cudaStreamAttrValue())\n",
            ),
        ),
    ),
    Wrong(
        "reset in each round",
        (("        second(stream)\n", "        second(stream)\n        cudart.cudaCtxResetPersistingL2Cache()\n"),),
        _E,
        _EARLY,
    ),  # nothing would persist in the next round
    Right("reset before all", (("    for _ in range(rounds):\n", _GIVEN_BACK + "    for _ in range(rounds):\n"),)),
    Right("off twice, reset twice", ((_GIVEN_BACK, "    set_window(0)\n" + 2 * _GIVEN_BACK),)),
    Wrong(
        "nothing",
        (("    for _ in range(rounds):\n", "    return\n    for _ in range(rounds):\n"),),
        _C,
        "wrong values",
        cheat=True,
    ),
    Wrong("first alone", (("        second(stream)\n", ""),), _C, "wrong values", cheat=True),
    Wrong("one round", (("range(rounds)", "range(1)"),), _C, "wrong values", cheat=True),
    Wrong(
        "waits",
        (("        second(stream)\n", "        second(stream)\n        stream.synchronize()\n"),),
        _E,
        _HOST,
        cheat=True,
    ),
    Wrong(
        "polls",
        (("        second(stream)\n", "        second(stream)\n        while not stream.done:\n            pass\n"),),
        _E,
        _HOST,
        cheat=True,
    ),
)

# --- 05.3 ---

_SUM = "what persists in all windows, over what fits"
_EVEN = "the largest hit ratio over the smallest"
_ALL = "[min(1.0, aside / together) for table in tables]"

ANSWERS_05_3 = table(
    "05.3",
    Wrong(
        "divided by the number, whatever the size",
        ((_ALL, "[min(1.0, aside / len(tables) / table.nbytes) for table in tables]"),),
        _E,
        _EVEN,
    ),
    Wrong(
        "divided by the largest",
        ((_ALL, "[min(1.0, aside / max(each.nbytes for each in tables)) for table in tables]"),),
        _E,
        _SUM,
    ),
    Wrong("half for each", ((_ALL, "[0.5 for table in tables]"),), _E, _SUM),  # near enough to right in the try cell
    Wrong("elements", (("sum(table.nbytes", "sum(table.size"),), _E, _SUM),
    Wrong("the first gets all", ((_ALL, "[1.0] + [0.0 for table in tables[1:]]"),), _E, _EVEN),
    Wrong("not bounded by 1", ((_ALL, "[aside / together for table in tables]"),), _C, "no window"),
    Wrong("turned round", ((_ALL, "[min(1.0, together / aside) for table in tables]"),), _E, _SUM),
    Wrong(
        "all windows over the first table",
        (("table.data.ptr, table.nbytes", "tables[0].data.ptr, table.nbytes"),),
        _C,
        "wrong range",
    ),
    Wrong("hits stream", ((_PERSISTING, f"hitProp = {_PROPERTY}Streaming"),), _C, "wrong property"),
    Right("misses normal", ((_STREAMING, f"missProp = {_PROPERTY}Normal"),)),
    Right("with NumPy", ((_ALL, "list(np.minimum(1.0, np.full(len(tables), aside) / together))"),)),
    Right(
        "a touch below",
        ((_ALL, "[min(1.0, 0.99 * aside / together) if aside < together else 1.0 for table in tables]"),),
    ),
    Wrong("nothing", (("    for stream, table", "    return\n    for stream, table"),), _C, "no window", cheat=True),
    Wrong("nothing persists", ((_ALL, "[0.0 for table in tables]"),), _E, _SUM, cheat=True),
    Wrong(
        "more is set aside",
        (
            (
                "    together =",
                "    kind = cudart.cudaLimit.cudaLimitPersistingL2CacheSize\n"
                "    cudart.cudaDeviceSetLimit(kind, 30 << 20)\n    together =",
            ),
        ),
        _C,
        "set-aside changed",
        cheat=True,
    ),
    Wrong(
        "one stream alone",
        (("zip(streams, tables, ratios, strict=True)", "[(streams[0], tables[0], ratios[0])]"),),
        _C,
        "no window",
        cheat=True,
    ),
)
