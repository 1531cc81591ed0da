"""Answers to exercises 05.4 and 05.5."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_C, _E, _S = "correctness", "efficiency", "soundness"

# --- 05.4 ---

_VALUES = "wrong values"
_PART = 'ratio if hit == "persisting" else 0'
_EACH = "range(0, min(size, covered), 128)"
_KEEP = "persists[array, place] = 128 * part"
_POP = "windows.pop(rest[0], None)"
_RESET = "            persists.clear()\n"
_SET = "windows[stream] = (array, size, "
_GET = 'windows.get(stream, ("", 0, 0))'
_FOUND = "found.append(sum(persists.values()))"

ANSWERS_05_4 = table(
    "05.4",
    Wrong(
        "the ratio left out", ((_PART, "hit == 'persisting'"),), _C, _VALUES, mistake="only that part"
    ),  # right in the try cell
    Wrong("the property left out", ((_PART, "ratio"),), _C, _VALUES, mistake="makes no line persist"),
    Wrong("all of the window", ((_EACH, "range(0, covered, 128)"),), _C, _VALUES, mistake="that it touches"),
    Wrong("all that is read", ((_EACH, "range(0, size, 128)"),), _C, _VALUES, mistake="that the window covers"),
    Wrong("whatever the array", (("over == array", "over"),), _C, _VALUES),
    Wrong(
        "gone with the window",
        ((_POP, f"{_POP}\n            persists.clear()"),),
        _C,
        _VALUES,
        mistake="go on doing so",
    ),
    Wrong(
        "windows reset as well",
        ((_RESET, _RESET + "            windows.clear()\n"),),
        _C,
        _VALUES,
        mistake="a reset changes lines",
    ),
    Wrong("no reset", ((_RESET, "            pass\n"),), _C, _VALUES),
    Wrong(
        "one window for both streams",
        ((_SET, _SET.replace("[stream]", "[0]")), (_GET, _GET.replace("stream", "0")), (_POP, "windows.pop(0, None)")),
        _C,
        _VALUES,
        mistake="its own stream's",
    ),
    Wrong(
        "any read makes normal",
        (
            (
                _KEEP,
                f"{_KEEP}\n            for place in range(covered if over == array else 0, size, 128):\n"
                "                persists[array, place] = 0",
            ),
        ),
        _C,
        _VALUES,
        mistake="leaves persisting ones as they are",
    ),
    Wrong(
        "never less",
        ((_KEEP, "persists[array, place] = max(persists.get((array, place), 0), 128 * part)"),),
        _C,
        _VALUES,
        mistake="the newest kernel decides",
    ),
    Wrong("added up", ((_KEEP, "persists[array, place] = persists.get((array, place), 0) + 128 * part"),), _C, _VALUES),
    Wrong("bytes", ((_FOUND, "found.append(1024 * sum(persists.values()))"),), _C, _VALUES, mistake="these are bytes"),
    Wrong("only the last", (("    return found", "    return found[-1:]"),), _C, "wrong shape"),
    Right(
        "in arrays",
        source="""def persisting(steps):
    held = {name: np.zeros(64) for name in "abc"}
    windows = [None, None]
    out = []
    for step in steps:
        if step[0] == "window":
            windows[step[1]] = step[2:]
        if step[0] == "no window":
            windows[step[1]] = None
        if step[0] == "reset":
            for each in held.values():
                each[:] = 0
        if step[0] == "read" and windows[step[1]]:
            array, size, ratio, hit = windows[step[1]]
            if array == step[2]:
                held[array][: min(size, step[3]) // 128] = {"persisting": ratio}.get(hit, 0)
        out.append(float(128 * sum(each.sum() for each in held.values())))
    return np.array(out)
""",
    ),
    Right(
        "from the beginning each time",
        source="""def persisting(steps):
    def at(step, array, place):
        for number in range(step, -1, -1):
            what, *rest = steps[number]
            if what == "reset":
                return 0
            if what == "read" and rest[1] == array and place < rest[2]:
                for earlier in range(number, -1, -1):
                    name, *of = steps[earlier]
                    if name in ("window", "no window") and of[0] == rest[0]:
                        if name == "window" and of[1] == array and place < of[2]:
                            return 128 * of[3] * (of[4] == "persisting")
                        break
        return 0
    places = [(array, place) for array in "abc" for place in range(0, 4096, 128)]
    return tuple(sum(at(step, *place) for place in places) for step in range(len(steps)))
""",
    ),
    Right("a list of floats", ((_FOUND, "found.append(float(sum(persists.values())))"),)),
    Wrong(
        "the try cell's numbers",
        (("    return found", "    return ([0, 256, 256, 0] * 9)[: len(steps)]"),),
        _C,
        _VALUES,
        cheat=True,
    ),
    Wrong("zeros", (("    return found", "    return [0 for _ in steps]"),), _C, _VALUES, cheat=True),
    Wrong("nothing", (("    return found", "    return None"),), _C, "wrong shape", cheat=True),
    Wrong(
        "asks no one, and resets",
        ((_FOUND, f"{_FOUND}\n        cudart.cudaCtxResetPersistingL2Cache()"),),
        _E,
        "runtime calls of the function",
        cheat=True,
    ),
    Wrong(
        "numbers that equal all",
        (
            (
                "    return found",
                """
    class Same(float):
        def __eq__(self, other):
            return True
    return [Same(0) for _ in steps]""",
            ),
        ),
        _C,
        _VALUES,
        cheat=True,
    ),
)

# --- 05.5 ---

_HITS = "look-ups that hit, over those that could, from the third launch of a phase on (%)"
_PERSISTS = "what persists when a phase begins without the table before it, or all is done (% of the L2)"
_TABLE = "the part of a table that persists, from its third launch on, to the end of the last of its phases (%)"
_RESETS = "resets beyond one for each time that a table is done with"
_WAITS = "waits of the host, beyond one for each time that a table is done with"
_IF = "if which is not None and which != following:"
_CALL = "cudart.cudaCtxResetPersistingL2Cache()"
_GIVE_BACK = f"        {_IF}\n            {_CALL}\n"
_ON, _OFF = "        set_window(None if which is None else tables[which])\n", "        set_window(None)\n"
_LAUNCH = "            launch(stream)\n"

ANSWERS_05_5 = table(
    "05.5",
    Wrong("behind every phase", ((_IF, "if True:"),), _E, _RESETS),
    Wrong("behind every phase with a table", ((_IF, "if which is not None:"),), _E, _TABLE),  # right in the try cell
    Wrong("where no table follows", ((_IF, "if following is None:"),), _E, _PERSISTS),
    Wrong("where another table follows", ((_IF, "if following not in (None, which):"),), _E, _PERSISTS),
    Wrong("not behind the last phase", ((_IF, f"{_IF[:-1]} and place + 1 < len(phases):"),), _E, _PERSISTS),
    Wrong("behind the first phase alone", ((_IF, "if place == 0:"),), _E, _PERSISTS),
    Wrong("no reset", ((_GIVE_BACK, ""),), _E, _PERSISTS),
    Wrong("once, at the end", ((_GIVE_BACK, f"    {_CALL}\n"),), _E, _HITS),
    Wrong(
        "the set-aside instead",
        (
            (
                f"            {_CALL}",
                """
            kind = cudart.cudaLimit.cudaLimitPersistingL2CacheSize
            _, aside = cudart.cudaDeviceGetLimit(kind)
            cudart.cudaDeviceSetLimit(kind, 0)
            cudart.cudaDeviceSetLimit(kind, aside)""",
            ),
        ),
        _E,
        _PERSISTS,
    ),
    Wrong("before the launches", ((_GIVE_BACK, ""), (_LAUNCH, f"            {_CALL}\n{_LAUNCH}")), _E, _TABLE),
    Wrong("waits behind every launch", ((_LAUNCH, _LAUNCH + "            stream.synchronize()\n"),), _E, _WAITS),
    Wrong("waits behind every phase", ((_OFF, _OFF + "        stream.synchronize()\n"),), _E, _WAITS),
    Wrong("the window off before the launches", ((_OFF, ""), (_ON, _ON + _OFF)), _E, _HITS),
    Wrong(
        "the window left",
        ((_OFF, ""), (_ON, "        if which is not None:\n            set_window(tables[which])\n")),
        _E,
        "windows that are left",
    ),
    Wrong("the first table's window", (("tables[which]", "tables[0]"),), _E, _HITS),
    Wrong("a window that streams", (("PropertyPersisting", "PropertyStreaming"),), _E, _TABLE),
    Wrong("a ratio of one half", (("array.nbytes, 1.0", "array.nbytes, 0.5"),), _E, _TABLE),
    Wrong("half of the table", (("array.nbytes", "array.nbytes // 2"),), _E, _HITS),
    Wrong("elements", (("array.nbytes", "array.size"),), _E, _HITS),
    Wrong("one round less", (("range(rounds)", "range(rounds - 1)"),), _C, _VALUES),
    Right("behind the kernels", ((_CALL, f"stream.synchronize()\n            {_CALL}"),)),
    Right("behind an event", ((_CALL, f"stream.record().synchronize()\n            {_CALL}"),)),
    Right(
        "the last round normal",
        (
            (
                "    def set_window(array):",
                "    def set_window(array, hit=cudart.cudaAccessProperty.cudaAccessPropertyPersisting):",
            ),
            ("window.hitProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting", "window.hitProp = hit"),
            (
                "        for _ in range(rounds):\n",
                "        following = ([phase[0] for phase in phases] + [None])[place + 1]\n"
                "        for number in range(rounds):\n"
                "            if number == rounds - 1 and which not in (None, following):\n"
                "                set_window(tables[which], cudart.cudaAccessProperty.cudaAccessPropertyNormal)\n",
            ),
            (_GIVE_BACK, ""),
        ),
    ),
    Right(
        "in front of the next phase, and at the end",
        (
            (_ON, f"        if place and phases[place - 1][0] not in (None, which):\n            {_CALL}\n{_ON}"),
            (_GIVE_BACK, f"    if which is not None:\n        {_CALL}\n"),
        ),
    ),
    Wrong("nothing", (("    for place,", "    return\n    for place,"),), _C, _VALUES, cheat=True),
    Wrong("no window", ((_ON, ""), (_GIVE_BACK, "")), _E, _HITS, cheat=True),
    Wrong("launches twice", ((_LAUNCH, 2 * _LAUNCH),), _C, _VALUES, cheat=True),
    Wrong(
        "polls",
        ((_CALL, f"while not stream.done:\n                pass\n            {_CALL}"),),
        _E,
        "queries of the host",
        cheat=True,
    ),
    Wrong(
        "nothing set aside",
        ((_CALL, "cudart.cudaDeviceSetLimit(cudart.cudaLimit.cudaLimitPersistingL2CacheSize, 0)"),),
        _C,
        "set-aside changed",
        cheat=True,
    ),
)
