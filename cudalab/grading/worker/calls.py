"""Which runtime calls and questions a worker may send, and with which arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.declaration import CALLS, Role
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.graphs.content import Content
from cudalab.sim.device.log.log import has_role

if TYPE_CHECKING:
    from cudalab.grading.worker.host_memory import Inward
    from cudalab.sim.device.declaration import Call
    from cudalab.sim.device.device import Device


class OwnKernels:
    """The modules and kernels that the answer has loaded itself. Those of the exercise it gets as functions that launch
    them, and can reach in no other way. ``allowed`` are the calls that the exercise is open to."""

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = allowed
        self._modules: set[int] = set()
        self._functions: set[int] = set()

    def clear(self) -> None:
        """A new device."""
        self._modules.clear()
        self._functions.clear()

    def check(self, call: Call, arguments: Mapping[str, Any]) -> None:
        """Raise ``CudaError`` for a call that is not open here, and for a module or a kernel that is another's."""
        if call.name not in self._allowed:
            families = sorted({CALLS[name].family for name in self._allowed})
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"{call.title} is not available to answers to this exercise where they are graded. It needs none of "
                f"the family {call.family}; open are {', '.join(families)}",
            )
        content = arguments.get("content")
        kernels = []
        if call.name == "graph_add_node" and isinstance(content, Content) and content.kernel is not None:
            kernels.append(content.kernel.function)
        if "function" in call.parameters and has_role(call.parameters["function"], Role.HANDLE):
            kernels.append(arguments.get("function", 0))
        modules = [arguments[name] for name in ("module",) if name in arguments]
        if not (self._functions.issuperset(kernels) and self._modules.issuperset(modules)):
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                f"{call.title}: a module or a kernel that this answer has not loaded",
            )

    def note(self, call: Call, result: Any) -> None:
        """A call has succeeded."""
        if call.name == "load_module":
            self._modules.add(result)
        elif call.name == "get_function":
            self._functions.add(result)


def _fail(device: Device, here: Inward, code: int, note: str) -> None:
    device.fail(cudaError_t(code), note)


def _context(device: Device, here: Inward) -> tuple[int, int, bool]:
    contexts = device.contexts
    return contexts.number, contexts.current, contexts.ready


def _context_of(device: Device, here: Inward, number: int) -> tuple[int, bool]:
    context = device.contexts[number]
    return context.handle, context.active


QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "fail": _fail,
    "context": _context,
    "context_of": _context_of,
    "number_of": lambda device, here, handle: device.contexts.number_of(handle),
    "use": lambda device, here, number: device.contexts.use(number),
    "check_thread": lambda device, here, name: device.check_thread(name),
    "capturing": lambda device, here: device.capturing,
    "clock": lambda device, here: device.clock_ns,
    "buffer_id": lambda device, here, address: device.buffer_id(here.address(address)),
    "address_range": lambda device, here, address: device.address_range(here.address(address)),
    "pool_of": lambda device, here, address: device.pool_of(address),
    "function_info": lambda device, here, function: device.function_info(function),
    "function_names": lambda device, here, module: device.function_names(module),
    "graph_update_result": lambda device, here: device.graph_update_result(),
}
"""What the facades ask the device without a call."""
