"""Which cells of a notebook led to the output of another, by the names that they bind and read (``cell_names.py``).

A cell depends, for each name that it reads, on the cell that bound it last, and on those behind that one that may have
bound it; on the cells in between that had the same object in hand and so may have changed it; and on what those depend
on in turn. Functions bring along the names that their bodies read, as they stand where the function is called. Objects
that are not changed (imported modules, functions, kernels, streams, constants), and names that are only put into a text
(``f"{label}"``), tie cells to the one that bound them and to none in between. A cell that is opaque depends on all
before it, and all after it depend on it.

What cannot be seen: what a cell did to the device (its queue, its caches, its allocators) or to a module by way of
imported names alone, as ``cudalab.reset()`` does; a change of an object by another of its names (``row = x[0]``,
then ``row[:] = 1``); and what is new to a function that was put into an object before (``f = partial(g)``, ``g`` of an
earlier cell).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from cudalab.dev.cell_names import names_of


class Dataflow:
    """The dependencies between the cells of one notebook."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.cells = [names_of(source) for source in sources]
        self._touched = cache(self._names_touched)

    def led_to(self, at: int) -> list[int]:
        """The cells that cell ``at`` depends on, in order."""
        if self.cells[at].opaque:
            return list(range(at))
        found = {cell for cell in range(at) if self.cells[cell].opaque}
        waiting = [(at, name) for name in self.cells[at].reads]
        seen = set(waiting)
        while waiting:
            before, name = waiting.pop()
            for cell in self._history(before, name):
                found.add(cell)
                needed = {(cell, each) for each in self.cells[cell].reads} | {
                    (before, each) for each in self._later(cell, name)
                }
                waiting += needed - seen
                seen |= needed
        return sorted(found)

    def _history(self, before: int, name: str) -> set[int]:
        """The cells that may have bound the name that cell ``before`` reads, and those that may have changed its
        object since."""
        binders = set(self._binders(before, name))
        changing = [cell for cell in binders if name not in self.cells[cell].fixed]
        since = range(min(changing) + 1, before) if changing else ()
        return binders | {cell for cell in since if name in self._touched(cell)}

    def _binders(self, before: int, name: str) -> Iterator[int]:
        """From cell ``before`` back to the first that binds the name on every path."""
        for cell in reversed(range(before)):
            if name in self.cells[cell].binds:
                yield cell
            if name in self.cells[cell].always:
                return

    def _later(self, cell: int, name: str) -> set[str]:
        """What functions read when they are called, if the cell binds them to ``name``."""
        return self.cells[cell].later.get(name, set())

    def _names_touched(self, at: int) -> set[str]:
        """The names whose objects a cell may change, by way of the functions that it calls included."""
        found: set[str] = set()
        waiting = list(self.cells[at].handles)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                for binder in self._binders(at, name):
                    waiting += self._later(binder, name)
        return found
