"""What is found out about a kernel: remembered for the last few, and on disk for the next process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from cudalab.sim.compiler import cache
from cudalab.sim.compiler.program import Kernel, Program

T = TypeVar("T")
_Finds = Callable[[Program, Kernel], T]
_KEPT = 32


def of_each_kernel(stored: Any = None) -> Callable[[_Finds[T]], _Finds[T]]:
    """A function of a program and one of its kernels that remembers what it returned, but of programs without a key.
    ``stored``: the type of that, where it is worth an entry on disk."""

    def remembering(find: _Finds[T]) -> _Finds[T]:
        known: OrderedDict[tuple[str, str], T] = OrderedDict()

        def from_disk(program: Program, kernel: Kernel) -> T:
            if stored is None:
                return find(program, kernel)
            key = cache.key(find.__name__, program.key, kernel.name, cache.compiler_identity())
            found: T | None = cache.load(key, stored)
            if found is None:
                found = find(program, kernel)
                cache.store(key, found)
            return found

        @wraps(find)
        def remembered(program: Program, kernel: Kernel) -> T:
            if not program.key:
                return find(program, kernel)
            key = program.key, kernel.name
            if key not in known:
                known[key] = from_disk(program, kernel)
                if len(known) > _KEPT:
                    known.popitem(last=False)
            known.move_to_end(key)
            return known[key]

        return remembered

    return remembering
