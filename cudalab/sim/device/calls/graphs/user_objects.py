"""User objects as runtime calls (``graphs/user_object.py``)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident

from cudalab.sim.device.calls.graphs.graphs import GraphCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle, HostCallback
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.graphs.user_object import UserObject
from cudalab.sim.device.queue.host_function import ignored
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory import host_watch

NO_DESTRUCTOR_SYNC, MOVE = 1, 1
_FIRST, _STEP = 0x1100_0000, 0x40
_MOST = (1 << 31) - 1


class UserObjectCalls(CallGroup):
    """User objects."""

    def __init__(self, state: DeviceState, graphs: GraphCalls) -> None:
        super().__init__(state)
        self._graphs = graphs

    def clear(self) -> None:
        self._objects: dict[int, UserObject] = {}
        self._next = _FIRST

    @call("cudaUserObjectCreate", "cuUserObjectCreate")
    def user_object_create(
        self, destroy: HostCallback | None, count: int = 1, flags: int = NO_DESTRUCTOR_SYNC
    ) -> Handle:
        """Create an object of which the program holds ``count`` references. ``destroy()`` is called when the last is
        released; it must not call CUDA."""
        name = "cudaUserObjectCreate"
        self._check_count(name, count)
        if flags != NO_DESTRUCTOR_SYNC:
            raise invalid_value(
                f"{name}: flags must be cudaUserObjectNoDestructorSync (1), no call waits for destructors; got {flags}"
            )

        def gone(made: UserObject) -> None:
            del self._objects[made.handle]
            if destroy is not None and not self.state.recorder.replaying:
                self._destroy(destroy)

        made = UserObject(self._next, count, gone)
        self._next += _STEP
        self._objects[made.handle] = made
        return made.handle

    @call("cudaUserObjectRetain", "cuUserObjectRetain")
    def user_object_retain(self, user_object: Handle, count: int = 1) -> None:
        """The program holds ``count`` more references."""
        self._check_count("cudaUserObjectRetain", count)
        self._find("cudaUserObjectRetain", user_object).retain(count)

    @call("cudaUserObjectRelease", "cuUserObjectRelease")
    def user_object_release(self, user_object: Handle, count: int = 1) -> None:
        """The program holds ``count`` references less."""
        name = "cudaUserObjectRelease"
        self._check_count(name, count)
        found = self._find(name, user_object)
        if count > found.count:
            raise invalid_value(f"{name}: {count} references to {user_object:#x}, of which there are {found.count}")
        found.release(count)

    @call("cudaGraphRetainUserObject", "cuGraphRetainUserObject")
    def graph_retain_object(self, graph: Handle, user_object: Handle, count: int = 1, flags: int = 0) -> None:
        """A graph holds ``count`` more references: new ones, or with the flag ``cudaGraphUserObjectMove`` those of the
        program."""
        name = "cudaGraphRetainUserObject"
        self._check_count(name, count)
        found, held = self._graphs.graph(graph, name), self._find(name, user_object)
        if flags & ~MOVE:
            raise invalid_value(f"{name}: flags must be 0 or cudaGraphUserObjectMove (1); got {flags}")
        if not flags & MOVE:
            held.retain(count)
        found.references[held] += count

    @call("cudaGraphReleaseUserObject", "cuGraphReleaseUserObject")
    def graph_release_object(self, graph: Handle, user_object: Handle, count: int = 1) -> None:
        """A graph holds ``count`` references less."""
        name = "cudaGraphReleaseUserObject"
        self._check_count(name, count)
        found, held = self._graphs.graph(graph, name), self._find(name, user_object)
        if count > found.references[held]:
            raise invalid_value(
                f"{name}: {count} references to {user_object:#x}, of which the graph holds {found.references[held]}"
            )
        found.references.give_back(held, count)

    def _destroy(self, destroy: Callable[[], None]) -> None:
        """Call a destructor in this thread, whose calls of CUDA are refused meanwhile (seen on an H200)."""
        refused, ident = self.state.host_thread.idents, get_ident()
        before = ident in refused
        refused.add(ident)
        try:
            with host_watch.listening():
                destroy()
        except Exception as error:
            print(ignored(destroy, error), file=sys.stderr)
        finally:
            if not before:
                refused.discard(ident)

    @staticmethod
    def _check_count(name: str, count: int) -> None:
        if not 0 < count <= _MOST:
            raise invalid_value(f"{name}: at least one reference (got {count})")

    def _find(self, name: str, handle: int) -> UserObject:
        found = self._objects.get(handle)
        if found is None:
            raise invalid_value(f"{name}: {handle:#x} is no user object; its last reference was released")
        return found
