"""User objects (``cudart/user_objects.py``)."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import CUuserObject

from cudalab.sim.binding import handle, host_call, unsigned
from cudalab.sim.device import current_device
from cudalab.sim.driver.answer import api


@api(1)
def cuUserObjectCreate(ptr: Any, destroy: Any, initialRefcount: Any, flags: Any) -> CUuserObject:
    function = host_call("cuUserObjectCreate", destroy, ptr)
    return CUuserObject(current_device().user_object_create(function, unsigned(initialRefcount), unsigned(flags)))


@api()
def cuUserObjectRetain(object: Any, count: Any) -> None:
    current_device().user_object_retain(handle(object), unsigned(count))


@api()
def cuUserObjectRelease(object: Any, count: Any) -> None:
    current_device().user_object_release(handle(object), unsigned(count))


@api()
def cuGraphRetainUserObject(graph: Any, object: Any, count: Any, flags: Any) -> None:
    current_device().graph_retain_object(handle(graph), handle(object), unsigned(count), unsigned(flags))


@api()
def cuGraphReleaseUserObject(graph: Any, object: Any, count: Any) -> None:
    current_device().graph_release_object(handle(graph), handle(object), unsigned(count))
