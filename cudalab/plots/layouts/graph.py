"""A CUDA graph: its nodes by kind, its edges as arrows, from left to right.

Each node stands one column behind the last of the nodes that it depends on, so what shares a column may run side by
side (CUDA C++ Programming Guide, "CUDA Graphs").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from cudalab.plots.drawing import WIDTH, Drawing, group, label, rect, shorten
from cudalab.plots.style import BLACK, BLUE, GREEN, INK, PURPLE, QUIET, VERMILLION, tint

KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "kernel": ("K", VERMILLION),
        "copy": ("C", BLUE),
        "memset": ("S", GREEN),
        "host": ("H", QUIET),
        "memory": ("M", GREEN),
        "event": ("E", BLACK),
        "graph": ("G", PURPLE),
        "empty": ("·", QUIET),
    }
)
"""By kind of node: its letter and its colour. ``memory``: allocated or freed; ``graph``: a child or conditional."""
_ARROW = re.compile(r"\s*->\s*")
_ROW, _HIGH, _MARGIN, _TOP = 46.0, 28.0, 16.0, 16.0
_WIDEST, _GAP = 150.0, 34.0
"""Pixels of a box, and between two columns."""
_LEGIBLE = 34.0
"""Pixels below which a box has no name, but shows it to the pointer."""


@dataclass(frozen=True)
class _Place:
    column: int
    row: float


def graph(
    edges: Sequence[str],
    *,
    kinds: Mapping[str, str] = MappingProxyType({}),
    names: Mapping[str, str] = MappingProxyType({}),
    changed: Iterable[str] = (),
) -> Drawing:
    """Draw the nodes and edges of a graph.

    Args:
        edges: ``"prepare -> left"``: ``left`` depends on ``prepare``; ``"a -> b -> c"`` is two edges, ``"alone"`` is
            a node without any. Nodes of a column stand in the order in which they are named.
        kinds: of the nodes that are no kernels: ``copy``, ``memset``, ``host``, ``memory``, ``event``, ``graph`` or
            ``empty``.
        names: what to write on a node, where it is not the node's own name.
        changed: nodes that an update has changed, drawn with a heavy border.

    Raises:
        ValueError: no node, a cycle, a kind that there is not, or a name of no node.
    """
    nodes, pairs = _read(edges)
    marked = set(changed)
    for name in (*kinds, *names, *marked):
        if name not in nodes:
            raise ValueError(f"graph: there is no node {name!r} (there are {', '.join(nodes)})")
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise ValueError(f"graph: node {name!r} cannot be a {kind!r} (choose from {', '.join(KINDS)})")
    columns = _columns(nodes, pairs)
    places, bends = _places(nodes, pairs, columns)
    picture = _Picture(max(columns.values()) + 1)
    parts = [picture.arrow(places[a], bends.get((a, b), ()), places[b]) for a, b in pairs]
    parts += [
        picture.box(places[name], names.get(name, name), kinds.get(name, "kernel"), name in marked) for name in nodes
    ]
    rows = max(place.row for place in (*places.values(), *(bend for each in bends.values() for bend in each)))
    used = dict.fromkeys(kinds.get(name, "kernel") for name in nodes)
    height = _TOP + _ROW * (rows + 1)
    if list(used) != ["kernel"]:
        parts.append(_legend(list(used), height))
        height += 26
    alt = f"Nodes as boxes, edges as arrows: {', '.join(names.get(name, name) for name in nodes)}."
    return Drawing("\n".join(parts), WIDTH, height, _sentence(nodes, pairs, columns, names, marked), alt)


def _read(edges: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    nodes: dict[str, None] = {}
    pairs: dict[tuple[str, str], None] = {}
    for text in edges:
        chain = _ARROW.split(text.strip())
        if not all(chain):
            raise ValueError(f'graph: an edge is "NODE -> NODE" (got {text!r})')
        nodes |= dict.fromkeys(chain)
        pairs |= dict.fromkeys(zip(chain, chain[1:], strict=False))
    if not nodes:
        raise ValueError("graph: there is no node to draw")
    return list(nodes), list(pairs)


def _columns(nodes: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Each node's column: one behind the last that it depends on."""
    needs = {name: [a for a, b in pairs if b == name] for name in nodes}
    columns: dict[str, int] = {}
    try:
        for name in TopologicalSorter(needs).static_order():
            columns[name] = max((columns[a] + 1 for a in needs[name]), default=0)
    except CycleError as error:
        raise ValueError(f"graph: a graph has no cycle (got {' -> '.join(error.args[1])})") from None
    return columns


def _places(
    nodes: Sequence[str], pairs: Sequence[tuple[str, str]], columns: Mapping[str, int]
) -> tuple[dict[str, _Place], dict[tuple[str, str], list[_Place]]]:
    """Where each node stands, and the bends of edges that pass columns: these have a row of their own there."""
    passing = {(a, b): [(a, b, c) for c in range(columns[a] + 1, columns[b])] for a, b in pairs}
    layers: list[list[object]] = [[] for _ in range(max(columns.values()) + 1)]
    for name in nodes:
        layers[columns[name]].append(name)
    before: dict[object, list[object]] = {name: [] for name in nodes}
    for (a, b), bends in passing.items():
        for bend in bends:
            layers[bend[2]].append(bend)
        for first, second in zip((a, *bends), (*bends, b), strict=True):
            before.setdefault(second, []).append(first)
    rows: dict[object, float] = {}
    most = max(len(layer) for layer in layers)
    for layer in layers:
        # behind the middle of what it depends on; roots, and ties, in the order in which they were named
        layer.sort(key=lambda each: sum(rows[a] for a in before[each]) / len(before[each]) if before[each] else 0.0)
        top = (most - len(layer)) / 2
        rows |= {each: top + at for at, each in enumerate(layer)}
    places = {name: _Place(columns[name], rows[name]) for name in nodes}
    return places, {pair: [_Place(bend[2], rows[bend]) for bend in bends] for pair, bends in passing.items() if bends}


class _Picture:
    def __init__(self, columns: int) -> None:
        room = (WIDTH - 2 * _MARGIN) / columns
        self.gap = min(_GAP, room / 2)
        self.width = min(_WIDEST, room - self.gap)
        self.step = self.width + self.gap if self.width < _WIDEST else min(room, _WIDEST + 3 * _GAP)

    def _left(self, place: _Place) -> float:
        return _MARGIN + self.step * place.column

    def _middle(self, place: _Place) -> float:
        return _TOP + _ROW * place.row + _HIGH / 2

    def box(self, place: _Place, name: str, kind: str, changed: bool) -> str:
        letter, colour = KINDS[kind]
        x, y = self._left(place), self._middle(place) - _HIGH / 2
        box = rect(x, y, self.width, _HIGH, tint(colour, 0.25), stroke=colour, radius=4)
        parts = [box.replace("/>", ' stroke-width="3"/>') if changed else box]
        if self.width >= _LEGIBLE:
            parts.append(label(x + 8, y + 8, letter, size=9, anchor="middle", fill=colour, bold=True))
            text = shorten(name, self.width - 22, 12)
            parts.append(label(x + self.width / 2 + 4, y + _HIGH / 2 + 1, text, size=12, anchor="middle"))
        return group(parts, f"{name}: {kind}{', changed' if changed else ''}")

    def arrow(self, first: _Place, bends: Sequence[_Place], second: _Place) -> str:
        x, y = self._left(first) + self.width, self._middle(first)
        path = [f"M{x:.1f} {y:.1f}"]
        for stop in (*bends, second):
            left, middle = self._left(stop), self._middle(stop)
            end = left - 5 if stop is second else left
            path.append(f"C{x + self.gap / 2:.1f} {y:.1f} {end - self.gap / 2:.1f} {middle:.1f} {end:.1f} {middle:.1f}")
            x, y = left + self.width, middle
            if stop is not second:
                path.append(f"H{x:.1f}")
        tip, middle = self._left(second) - 1, self._middle(second)
        head = f'<path d="M{tip:.1f} {middle:.1f}l-7 -4v8z" fill="{INK}"/>'
        return f'<path d="{"".join(path)}" fill="none" stroke="{INK}" stroke-width="1.2"/>{head}'


def _legend(kinds: Sequence[str], y: float) -> str:
    parts, x = [], _MARGIN
    for kind in kinds:
        letter, colour = KINDS[kind]
        parts.append(rect(x, y, 16, 16, tint(colour, 0.25), stroke=colour, radius=3))
        parts.append(label(x + 8, y + 8, letter, size=9, anchor="middle", fill=colour, bold=True))
        parts.append(label(x + 22, y + 8, kind, size=11))
        x += 96
    return "".join(parts)


def _sentence(
    nodes: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    columns: Mapping[str, int],
    names: Mapping[str, str],
    changed: set[str],
) -> str:
    def several(count: int, noun: str) -> str:
        return f"{count} {noun}" + ("" if count == 1 else "s")

    def listed(some: Iterable[str]) -> str:
        return ", ".join(names.get(name, name) for name in some)

    deepest = max(columns.values()) + 1
    widest = max(list(columns.values()).count(column) for column in range(deepest))
    text = f"{several(len(nodes), 'node')} and {several(len(pairs), 'edge')}"
    text += f"; {several(deepest, 'node')} on the longest path"
    text += f", {widest} side by side" if widest > 1 else ", one after another" if deepest > 1 else ""
    if changed:
        text += f"; changed: {listed(name for name in nodes if name in changed)}"
    return text + "."
