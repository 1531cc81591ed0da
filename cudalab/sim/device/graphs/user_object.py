"""User objects: something of the program that a graph needs, kept until nobody holds a reference any more.

The program holds references, and so do graphs and executable graphs: a clone and a child graph hold as many as the
graph that they were copied from, an executable graph as many as all graphs that it was made from, until it is destroyed
and its last launch has ended. With the last reference the destructor is called (CUDA Programming Guide, "CUDA User
Objects"), in the thread that released it; the guide promises a thread of the driver's, an H200 does it like this. A GPU
does not notice that more references are released than there are; here that is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class UserObject:
    """One object: who holds it does not matter, only how often."""

    def __init__(self, handle: int, count: int, destroy: Callable[[UserObject], None]) -> None:
        self.handle = handle
        self.count = count
        self._destroy = destroy

    def retain(self, count: int) -> None:
        self.count += count

    def release(self, count: int) -> None:
        self.count -= count
        if not self.count:
            self._destroy(self)


class References(Counter[UserObject]):
    """The references that one graph, or executable graph, holds."""

    def copy_of(self, other: References) -> None:
        """Hold as many more as another one."""
        for held, count in other.items():
            held.retain(count)
            self[held] += count

    def give_back(self, held: UserObject, count: int) -> None:
        self[held] -= count
        if not self[held]:
            del self[held]
        held.release(count)

    def give_all_back(self) -> None:
        for held, count in list(self.items()):
            self.give_back(held, count)
