"""Which cells led to the output of another."""

from __future__ import annotations

import pytest

from cudalab.dev.dataflow import Dataflow

SETUP = "import numpy as np\nfrom cudalab import cp, cudart"


def led_to(*sources: str) -> list[int]:
    """What the last of the cells depends on."""
    return Dataflow(sources).led_to(len(sources) - 1)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (("x = 1", "y = 2", "print(x)"), [0]),
        (("x = 1", "x = 2", "print(x)"), [1]),
        (("x = 1", "y = x + 1", "print(y)"), [0, 1]),
        ((SETUP, "x = np.zeros(3)", "np.ones(4)", "print(x)"), [0, 1]),
        (("x = [1]", "x.append(2)", "print(x)"), [0, 1]),
        (("x = [1]", "x[:] = [2]", "y = [x]", "print(x)"), [0, 1, 2]),
        (("x = [1]", "x += [2]", "print(x)"), [0, 1]),
        (("import numpy as np", "np.seterr(all='ignore')", "np.ones(1)"), [0]),
        (("n = 1 << 20", "print(n, f(n))", "print(n)"), [0]),
        (("label = name()", "print(f'in {label}')", "print(label)"), [0]),
        (("s = cp.cuda.Stream()", "s.synchronize()", "s.record()"), [0]),
        # what a cell binds before it reads is its own
        (("code = 'a'\na = f(code)", "code = 'b'\nb = f(code)", "print(b)"), [1]),
        (("for i in a: print(i)", "for i in b: print(i)"), []),
        (("x = 1", "if c:\n    x = 2", "print(x)"), [0, 1]),
        (("x = 1", "if c:\n    x = 2", "x = 3", "print(x)"), [2]),
        (("x = [1]", "x.append(2)", "if c:\n    x = 2", "print(x)"), [0, 1, 2]),
        (("x = [1]", "x = [2]\nx.append(3)", "print(x)"), [1]),
        (("x = [1]", "del x", "print(x)"), [0, 1]),
    ],
    ids=str,
)
def test_names_tie_cells(cells: tuple[str, ...], wanted: list[int]) -> None:
    assert led_to(*cells) == wanted


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        # the body of a function reads what stands where it is called
        (("x = 1", "def f():\n    return x", "x = 2", "f()"), [1, 2]),
        (("x = 1", "def f(y):\n    return x\nn = 1", "print(n)"), [1]),
        (("def f():\n    return g()", "def g():\n    return 1", "f()"), [0, 1]),
        # a cell that calls it may change what it reads
        (("x = [0]", "def add():\n    x.append(1)", "add()", "print(x)"), [0, 1, 2]),
        (("def f(x):\n    y = x\n    return y", "x = 1", "y = 2", "f(3)"), [0]),
        (("def f(a=n):\n    return a", "n = 3", "f()"), [0]),
        (("f = lambda: x", "x = 1", "f()"), [0, 1]),
        (("i = 1", "print([i for i in range(3)])"), []),
        (("x = 0", "def f():\n    global x\n    x = 1", "f()", "print(x)"), [0, 1, 2]),
        (("x = [0]", "def f():\n    x.append(1)", "print(x)"), [0]),
    ],
    ids=str,
)
def test_functions_bring_along_what_they_read(cells: tuple[str, ...], wanted: list[int]) -> None:
    assert led_to(*cells) == wanted


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (("%%cuda scale --std c++20\ncode", "scale((1,), (1,), ())", "scale((2,), (1,), ())"), [0]),
        (("%%cuda scale --module m\ncode", "m.get_global('g')", "print(m)"), [0, 1]),
        (("x = 1", "%%isolated sim\nprint(x)"), []),
        (("x = 1", "y = 2", "%%isolated --with x\nprint(x)"), [0]),
        (("x = 1", "%config thing", "y = 2"), [1]),
        (("x = 1", "y = 2", "%config thing"), [0, 1]),
    ],
    ids=str,
)
def test_magics(cells: tuple[str, ...], wanted: list[int]) -> None:
    assert led_to(*cells) == wanted
