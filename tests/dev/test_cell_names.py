"""What a cell binds, and what it reads of the cells before it."""

from __future__ import annotations

import pytest

from cudalab.dev.cell_names import names_of


def test_names_of_a_cell() -> None:
    names = names_of("import os.path\nfrom a import b as c\nwith open(f) as g:\n    h, (i, *j) = g\nfor k in h: l = k")
    assert names.binds == {"os", "c", "g", "h", "i", "j", "k", "l"}
    assert names.always == {"os", "c", "g", "h", "i", "j"}
    assert names.reads == {"open", "f"}
    assert names.fixed == {"os", "c"}


@pytest.mark.parametrize(
    ("source", "reads", "always"),
    [
        ("code = 'a'\nprint(code)", "print", "code"),
        ("print(code)\ncode = 'a'", "print code", "code"),
        ("x = x + 1", "x", "x"),
        ("x += 1", "x", "x"),
        ("x = 0\nx += 1", "", "x"),
        ("x[0] = y", "x y", ""),
        ("x.a = 1", "x", ""),
        ("x: int = 1\nx", "int", "x"),
        ("x: int\nx", "int x", ""),
        ("del x", "x", "x"),
        ("x = 1\ndel x", "", "x"),
        ("x = y = z", "z", "x y"),
        ("(x := 1) + x", "", "x"),
        ("import a.b, c as d\na, d", "", "a d"),
    ],
)
def test_statements_bind_in_their_order(source: str, reads: str, always: str) -> None:
    names = names_of(source)
    assert (names.reads, names.always) == (set(reads.split()), set(always.split()))


@pytest.mark.parametrize(
    ("source", "reads", "always"),
    [
        # branches
        ("if c:\n    x = 1\nx", "c x", ""),
        ("if c:\n    x = 1\nelse:\n    x = 2\nx", "c", "x"),
        ("if c:\n    x = 1\nelse:\n    raise E\nx", "c E", "x"),
        ("y = (x := 1) if c else 2\nx", "c x", "y"),
        ("c and (x := 1)\nx", "c x", ""),
        ("(x := 1) and c\nx", "c", "x"),
        ("a < b < (x := 1)\nx", "a b x", ""),
        ("assert c, (x := 1)\nx", "c x", ""),
        # loops
        ("for i in a:\n    i", "a", ""),
        ("for i in a:\n    x = 1\nx, i", "a x i", ""),
        ("for i in (1, 2):\n    x = 1\nx, i", "", "i x"),
        ("for i in (*a,):\n    x = 1\nx", "a x", ""),
        ("for i in (1, 2):\n    if i:\n        continue\n    x = 1\nx", "x", "i"),
        ("for i in (1, 2):\n    if i:\n        break\n    x = 1\nx", "x", "i"),
        ("for i in a:\n    break\nelse:\n    x = 1\nx", "a x", ""),
        ("for i in a:\n    pass\nelse:\n    x = 1\nx", "a", "x"),
        ("for i in a:\n    x\n    x = 1", "a x", ""),
        ("while c:\n    x = 1\nx", "c x", ""),
        ("while True:\n    x = 1\n    if c:\n        break\nx", "c", "x"),
        ("while True:\n    if c:\n        break\n    x = 1\nx", "c x", ""),
        # exceptions
        ("try:\n    x = f()\nexcept E as e:\n    e\nx", "f E x", ""),
        ("try:\n    x = f()\nexcept E:\n    x = 1\nx", "f E", "x"),
        ("try:\n    x = f()\nexcept E:\n    raise\nx", "f E", "x"),
        ("try:\n    f()\nexcept E:\n    pass\nelse:\n    x = 1\nx", "f E x", ""),
        ("try:\n    x = f()\nfinally:\n    y = x\nx, y", "f x", "x y"),
        ("try:\n    f()\nexcept E as e:\n    x = 1\ne", "f E e", ""),
        ("with a as x:\n    y = x\nx, y", "a", "x y"),
        ("with contextlib.suppress(E):\n    x = f()\nx", "contextlib E f x", ""),
        ("raise E\nx", "E", ""),
        # patterns
        ("match a:\n    case [x, *y]:\n        x, y\nx", "a x", ""),
        ("match a:\n    case {'k': x, **y}:\n        pass\n    case x:\n        pass\nx", "a", "x"),
    ],
)
def test_bound_is_what_is_bound_on_every_path(source: str, reads: str, always: str) -> None:
    names = names_of(source)
    assert (names.reads, names.always) == (set(reads.split()), set(always.split()))


@pytest.mark.parametrize(
    ("source", "reads", "binds"),
    [
        ("[i for i in a]", "a", ""),
        ("i = 1\n[i for j in i]", "", "i"),
        ("[i for i in i]", "i", ""),
        ("{i: j + k for i in a if c for j in i}", "a c k", ""),
        ("x = 1\nsum(x * i for i in a)", "sum a", "x"),
        ("any((x := i) for i in a)\nx", "any a x", "x"),
    ],
)
def test_comprehensions_have_names_of_their_own(source: str, reads: str, binds: str) -> None:
    names = names_of(source)
    assert (names.reads, names.binds) == (set(reads.split()), set(binds.split()))


@pytest.mark.parametrize(
    ("source", "reads", "later"),
    [
        ("def f(x, y=a):\n    z = 1\n    return x, z, w", "a", "w"),
        ("def f():\n    return x\nx = 1\nf()", "", "x"),
        ("def f():\n    return x\nf()\nx = 1", "x", "x"),
        ("def f():\n    return g()\ndef g():\n    return x\nf()", "x", "g"),
        ("def f():\n    return f()\nf()", "", "f"),
        ("def f():\n    def g():\n        return x, y\n    y = 1\n    return g", "", "x"),
        ("def f():\n    return [i + x for i in a]", "", "a x"),
        ("@d\ndef f():\n    return x", "d x", "x"),
        ("f = lambda y: x + y", "x", "x"),
        ("x = 1\nf = lambda: x", "", "x"),
        ("class f:\n    a = 1\n    b = a + c\n    def g(self):\n        return x", "c", "x"),
        ("class f:\n    def g(self):\n        return x\nf()", "x", "x"),
    ],
)
def test_functions_read_when_they_are_called(source: str, reads: str, later: str) -> None:
    names = names_of(source)
    assert (names.reads, names.later["f"]) == (set(reads.split()), set(later.split()))


def test_each_function_brings_its_own_names() -> None:
    names = names_of("n = 1\ndef f():\n    return x\ndef g():\n    return y\nh = wrap(f)")
    assert names.later == {"n": set(), "f": {"x"}, "g": {"y"}, "h": {"x", "y"}}
    assert names.uses == {"n", "f", "g", "h", "x", "y", "wrap"}


def test_a_function_may_bind_for_all() -> None:
    names = names_of("x = 1\ndef f():\n    global x, y\n    x = y = 2")
    assert (names.binds, names.always) == ({"f", "x", "y"}, {"f", "x"})
    assert names.later["f"] == {"x", "y"}, "who calls it may change them"
    assert names.fixed == {"f"}


@pytest.mark.parametrize(
    ("source", "binds", "reads"),
    [
        ("%%cuda scale --std c++20\nx", "scale", ""),
        ("%%cuda scale --module m\nx", "scale m", ""),
        ("%%isolated sim\nx", "_isolated", ""),
        ("%%isolated sim --with x,y --time 30\nz", "_isolated", "x y"),
    ],
)
def test_magics_bind_for_certain(source: str, binds: str, reads: str) -> None:
    names = names_of(source)
    assert (names.binds, names.always, names.reads) == (set(binds.split()), set(binds.split()), set(reads.split()))


@pytest.mark.parametrize("source", ["%config thing", "x = !ls", "from a import *"])
def test_what_cannot_be_read_is_opaque(source: str) -> None:
    assert names_of(source).opaque
