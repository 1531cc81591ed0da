"""Chapter 08."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_LAUNCH = "    launch(x.ctypes.data, y.ctypes.data, len(x))\n"
_WAIT = "    cp.cuda.Stream.null.synchronize()\n"

WRONG = (
    *table(
        "08.pin",
        Wrong(
            "the caller's array",
            (),
            "correctness",
            "no copy",
            source="def pin(x):\n    cudart.cudaHostRegister(x.ctypes.data, x.nbytes, 0)\n    return x\n",
        ),
        Wrong(
            "a copy that is registered for good",
            (),
            "correctness",
            "registered memory",
            source="""
def pin(x):
    y = x.copy()
    cudart.cudaHostRegister(y.ctypes.data, y.nbytes, 0)
    return y
""",
        ),
        Wrong("copied once more", (("return y", "return y.copy()"),), "correctness", "pageable memory"),
        Wrong("flat", ((".reshape(x.shape)", ""), ("y[...] = x", "y[:] = x.ravel()")), "correctness", "wrong shape"),
        Wrong("without the values", (("    y[...] = x\n", "    y[...] = 0\n"),), "correctness", "wrong values"),
        Wrong("the memory itself", (("return y", "return memory"),), "correctness", "no array"),
    ),
    *table(
        "08.send",
        Wrong(
            "works first",
            (("    work()\n", ""), ("    d.set", "    work()\n    d.set")),
            "efficiency",
            "calls of work() with the copy under way",
        ),
        Wrong(
            "waits first",
            (("    work()\n    stream.synchronize()", "    stream.synchronize()\n    work()"),),
            "efficiency",
            "calls of work() with the copy under way",
        ),
        Wrong("never waits", (("    stream.synchronize()", "    pass"),), "correctness", "not done"),
        Wrong("a copy of x", (("d.set(x", "d.set(x.copy()"),), "correctness", "pageable memory"),
    ),
    *table(
        "08.negate",
        Wrong("no wait", ((_WAIT, ""),), "soundness", "hazard"),
        Wrong("bytes for elements", (("len(x))", "x.nbytes)"),), "correctness", "wrong n"),
        Wrong("the last is left out", (("len(x))", "len(x) - 1)"),), "correctness", "wrong n"),
        Wrong("waits first", ((_LAUNCH + _WAIT, _WAIT + _LAUNCH),), "soundness", "hazard"),
        Wrong(
            "source and target changed",
            (("x.ctypes.data, y.ctypes.data", "y.ctypes.data, x.ctypes.data"),),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "y on the device",
            (
                (_LAUNCH, "    d = cp.empty(len(y), cp.float32)\n    launch(x.ctypes.data, d.data.ptr, len(x))\n"),
                (_WAIT, _WAIT + "    d.get(out=y)\n"),
            ),
            "efficiency",
            "copies",
        ),
    ),
    *table(
        "08.rounds",
        Wrong(
            "waits before the launch",
            (
                (
                    "        launch()\n        cp.cuda.Stream.null.synchronize()\n",
                    "        cp.cuda.Stream.null.synchronize()\n        launch()\n",
                ),
            ),
            "soundness",
            "hazard",
        ),
        Wrong(
            "waits once, at the end",
            (
                ("        cp.cuda.Stream.null.synchronize()\n", ""),
                ("    return", "    cp.cuda.Stream.null.synchronize()\n    return"),
            ),
            "soundness",
            "hazard",
        ),
        Wrong(
            "never waits",
            (("        cp.cuda.Stream.null.synchronize()\n", ""),),
            "correctness",
            "wrong values",
            mistake="y is read before the kernel",
        ),
        Wrong("keeps the input", (("y[0]", "x[0]"),), "correctness", "wrong values"),
        Wrong(
            "without a launch",
            (("        launch()\n", ""), ("float(y[0])", "float(x[0]) + 1")),
            "correctness",
            "wrong values",
        ),
    ),
)
