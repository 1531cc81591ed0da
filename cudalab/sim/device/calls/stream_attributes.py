"""Attributes of streams (``cudaStreamSetAttribute``), and copying them from one stream to another.

An attribute is set for later work of the stream. The priority takes effect; the synchronisation policy says how a host
thread waits, which takes the same modelled time either way; access policy windows say what later launches leave in the
L2 (access_windows.py); memory synchronisation domains are kept and given back, and do not change the time of kernels.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from cuda.bindings.runtime import cudaStreamAttrID

from cudalab.sim.device.calls.access_windows import WindowFields, access_window
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.queue.operation import Stream
from cudalab.sim.device.timing.l2_ranges import Window

WINDOW = int(cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow)
POLICY = int(cudaStreamAttrID.cudaLaunchAttributeSynchronizationPolicy)
PRIORITY = int(cudaStreamAttrID.cudaLaunchAttributePriority)
DOMAIN_MAP = int(cudaStreamAttrID.cudaLaunchAttributeMemSyncDomainMap)
DOMAIN = int(cudaStreamAttrID.cudaLaunchAttributeMemSyncDomain)
_DOMAINS = 4
Value = WindowFields | tuple[int] | tuple[int, int] | tuple[int, int, int]
"""The fields of an attribute in the order of its structure: those of an access policy window, one, two domains, or the
blocks of a cluster, which only launches have."""
_FIRST: dict[int, Value] = {WINDOW: (0, 0, 0.0, 0, 0), POLICY: (1,), DOMAIN_MAP: (0, 1), DOMAIN: (0,)}


def pair(value: Value) -> tuple[int, int]:
    """The two domains of a map."""
    numbers = list(value)
    return int(numbers[0]), int(numbers[1])


class StreamAttributeCalls(CallGroup):
    """Attributes of streams."""

    def clear(self) -> None:
        self._attributes: WeakKeyDictionary[Stream, dict[int, Value]] = WeakKeyDictionary()

    @call("cudaStreamGetAttribute", "cuStreamGetAttribute")
    def stream_get_attribute(self, stream: Handle, attribute: int) -> Value:
        """The fields of the attribute with that ``cudaStreamAttrID``."""
        return self._attribute(self.state.scheduler.streams.find(stream), attribute)

    @call("cudaStreamSetAttribute", "cuStreamSetAttribute")
    def stream_set_attribute(self, stream: Handle, attribute: int, value: Value) -> None:
        """Set the attribute with that ``cudaStreamAttrID`` for later work of the stream."""
        self._set_attribute(self.state.scheduler.streams.find(stream), attribute, value)

    @call("cudaStreamCopyAttributes", "cuStreamCopyAttributes")
    def stream_copy_attributes(self, destination: Handle, source: Handle) -> None:
        """Give one stream all attributes of another."""
        to, of = (self.state.scheduler.streams.find(handle) for handle in (destination, source))
        for attribute in (*_FIRST, PRIORITY):
            self._set_attribute(to, attribute, self._attribute(of, attribute))

    def _attribute(self, stream: Stream, attribute: int) -> Value:
        if attribute == PRIORITY:
            return (stream.priority,)
        if attribute not in _FIRST:
            raise invalid_value(f"{attribute} is an attribute of launches, not of streams")
        return self._attributes.get(stream, _FIRST).get(attribute, _FIRST[attribute])

    def _set_attribute(self, stream: Stream, attribute: int, value: Value) -> None:
        if attribute == PRIORITY:
            least, greatest = self.state.profile.priorities["least"], self.state.profile.priorities["greatest"]
            stream.priority = min(max(int(value[0]), greatest), least)
            return
        if attribute not in _FIRST:
            raise invalid_value(f"{attribute} is an attribute of launches, not of streams")
        self.check(attribute, value)
        if attribute == WINDOW:
            stream.window = self._window(value)
        self._attributes.setdefault(stream, {})[attribute] = value

    def domains(self, stream: Stream) -> tuple[int, tuple[int, int]]:
        """The memory synchronisation domain of a stream, and its map. No call."""
        return int(self._attribute(stream, DOMAIN)[0]), pair(self._attribute(stream, DOMAIN_MAP))

    def check(self, attribute: int, value: Value) -> None:
        """Raise ``cudaErrorInvalidValue`` when a stream, or a launch, may not have this value."""
        if attribute == WINDOW:
            self._window(value)
        elif attribute == POLICY and value[0] not in (1, 2, 3, 4):
            raise invalid_value(f"{value[0]} is no cudaSynchronizationPolicy")
        elif attribute == DOMAIN and value[0] not in (0, 1):
            raise invalid_value(f"{value[0]} is no cudaLaunchMemSyncDomain")
        elif attribute == DOMAIN_MAP and not all(0 <= domain < _DOMAINS for domain in value):
            raise invalid_value(f"memory synchronisation domains are 0 to {_DOMAINS - 1} (got {value})")

    def _window(self, value: Value) -> Window | None:
        if len(value) != 5:
            raise invalid_value(f"an access policy window has five fields (got {len(value)})")
        return access_window(self.state.profile, value)
