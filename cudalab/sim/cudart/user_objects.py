"""User objects."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import cudaUserObject_t

from cudalab.sim.binding import handle, host_call, unsigned
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import current_device


@api(1)
def cudaUserObjectCreate(ptr: Any, destroy: Any, initialRefcount: Any, flags: Any) -> cudaUserObject_t:
    function = host_call("cudaUserObjectCreate", destroy, ptr)
    return cudaUserObject_t(current_device().user_object_create(function, unsigned(initialRefcount), unsigned(flags)))


@api()
def cudaUserObjectRetain(object: Any, count: Any) -> None:
    current_device().user_object_retain(handle(object), unsigned(count))


@api()
def cudaUserObjectRelease(object: Any, count: Any) -> None:
    current_device().user_object_release(handle(object), unsigned(count))


@api()
def cudaGraphRetainUserObject(graph: Any, object: Any, count: Any, flags: Any) -> None:
    current_device().graph_retain_object(handle(graph), handle(object), unsigned(count), unsigned(flags))


@api()
def cudaGraphReleaseUserObject(graph: Any, object: Any, count: Any) -> None:
    current_device().graph_release_object(handle(graph), handle(object), unsigned(count))
