"""The drawing of a CUDA graph: what stands where, which boxes there are, and what cannot be drawn."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from cudalab.plots import plot

DIAMOND = ("prepare -> left", "prepare -> right", "left -> combine", "right -> combine")


def boxes(drawing: plot.Illustration) -> dict[str, tuple[float, float, float]]:
    """By hover text: left edge, top edge and width."""
    root = ElementTree.fromstring(drawing.svg())
    found = {}
    for each in root.iter("{http://www.w3.org/2000/svg}g"):
        rect = each.find("{http://www.w3.org/2000/svg}rect")
        assert rect is not None
        found[str(each[0].text)] = tuple(float(rect.attrib[name]) for name in ("x", "y", "width"))
    return found  # type: ignore[return-value]


def test_a_node_stands_behind_all_that_it_depends_on() -> None:
    drawing = plot.graph([*DIAMOND, "prepare -> combine"])
    found = boxes(drawing)
    x = {name.split(":")[0]: place[0] for name, place in found.items()}
    assert x["prepare"] < x["left"] == x["right"] < x["combine"]
    assert found["left: kernel"][1] != found["right: kernel"][1]
    assert drawing.summary == "4 nodes and 5 edges; 3 nodes on the longest path, 2 side by side."


def test_an_edge_passes_no_box_of_the_columns_between() -> None:
    drawing = plot.graph(["a -> b -> c", "a -> c"])
    (middle,) = (place for name, place in boxes(drawing).items() if name.startswith("b"))
    long = max((path for path in re.findall(r'd="(M[^"]*C[^"]*)"', drawing.svg())), key=len)
    passes = float(re.findall(r"([\d.]+)H", long)[0])
    assert not middle[1] <= passes <= middle[1] + 28


def test_kinds_names_and_changes_are_said() -> None:
    drawing = plot.graph(["n0 -> n1"], kinds={"n0": "copy"}, names={"n0": "copy in", "n1": "filter"}, changed=["n1"])
    assert {*boxes(drawing)} == {"copy in: copy", "filter: kernel, changed"}
    assert drawing.summary.endswith("; changed: filter.")
    assert "memset" not in drawing.svg()


def test_a_long_chain_stays_within_the_page() -> None:
    drawing = plot.graph([" -> ".join(f"n{i}" for i in range(60))])
    assert all(0 <= x and x + width <= drawing.width for x, _, width in boxes(drawing).values())
    assert "one after another" in drawing.summary


@pytest.mark.parametrize(
    ("edges", "more", "match"),
    [
        ([], {}, "no node to draw"),
        (["a ->"], {}, '"NODE -> NODE"'),
        (["a -> b -> a"], {}, "no cycle"),
        (["a"], {"kinds": {"a": "texture"}}, "cannot be a 'texture'"),
        (["a"], {"changed": ["b"]}, "no node 'b'"),
    ],
)
def test_what_cannot_be_drawn_is_said(edges: list[str], more: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        plot.graph(edges, **more)  # type: ignore[arg-type]
