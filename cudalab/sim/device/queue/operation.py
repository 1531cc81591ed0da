"""Streams, work, and operations: what is to be done, where it queues, and one run of it.

**Work** (a launch, a copy, a memset, an event record …) says what is done and which memory is touched. It knows no
stream and no time, and can be issued any number of times, as a node of a CUDA graph is. ``Scheduler.issue`` makes an
**operation** of it: one run in one stream.

An operation becomes *ready* when what it depends on has ended, *starts* when its engine takes it, and *ends* after its
modelled duration. It keeps all of these times and the reason why it waited, for the timeline.

When the effect on memory comes is apart from that: :meth:`Operation.begin` is called at the modelled start and takes
what must be taken then (a copy reads its source), :meth:`Operation.run` does the work. ``effect.py`` decides when.

Classes of work are structs, and nothing changes them. An operation of work that
keeps nothing while it runs is a plain :class:`Operation`; launches, copies and array functions have classes of their
own. A queue may hold 100,000 of them (``bench/queue.py``): no class of operations sets more than 30 attributes, because
Python keeps larger objects in three times the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cudalab.sim.device.caller import UNKNOWN, Place
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.byte_ranges import NOTHING, Reach, Touched
from cudalab.sim.device.queue.publication import Publication
from cudalab.sim.device.timing.cost import KernelTime
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.device.timing.l2_ranges import Window

if TYPE_CHECKING:
    from cudalab.sim.device.graphs.capture import CaptureSequence
    from cudalab.sim.device.queue.kernel_launch import KernelOperation

NO_TERMS: Mapping[str, float] = MappingProxyType({})
NON_BLOCKING = 1
"""``cudaStreamNonBlocking``"""


class Stream:
    """One queue of operations, which run in the order in which they were issued (stream.py has the rules)."""

    def __init__(self, handle: int, *, number: int = 0, flags: int = 0, priority: int = 0, device: int = 0) -> None:
        self.handle = handle
        self.device = device
        """The device that its work runs on."""
        self.number = number
        """What ``cudaStreamGetId`` gives."""
        self.flags = flags
        self.priority = priority
        self.window: Window | None = None
        """The access policy window of later launches."""
        self.last: Operation | None = None
        """Issued last."""
        self.leading: Operation | None = None
        """Issued last but for what lets a dependent launch through: what such a launch depends on,"""
        self.let_through: list[tuple[Operation, str]] = []
        """and what of other streams has been waited for since."""
        self.capture: CaptureSequence | None = None
        """The capture that makes nodes of its work, instead of running it."""

    @property
    def blocking(self) -> bool:
        """Do the rules of the legacy default stream hold for it?"""
        return not self.flags & NON_BLOCKING

    @property
    def seen_as(self) -> Stream:
        """The stream that a program knows of: for a part of a graph, the one that it was launched in."""
        return self

    @property
    def launched_at(self) -> Place:
        """For a part of a graph: the line that launched it last."""
        return UNKNOWN

    def node_label(self, number: int) -> str:
        """What the ``number``-th operation, counted from 1, is called as a node of a graph; empty when it is none."""
        return ""

    @property
    def busy(self) -> bool:
        return self.last is not None and not self.last.done


class Operation:
    """One run of some work in a stream; times are modelled ns, ``-1`` until known."""

    # Most of what follows keeps its first value in most operations, so it stands in the class.
    sequence = -1
    enqueued = -1
    earliest = -1
    ready = -1
    start = -1
    end = -1
    waiting = 0
    """How many others it waits for."""
    wait_reason = ""
    """What it waited for last: ``host`` (nothing but its call), ``stream order``, ``event``, ``default stream``; an
    engine (``copy engine H2D``, ``SM resources``, ``resident grids``, ``no copy engine``); the blocks of another kernel
    (``programmatic launch``, ``launch completion``); on devices of compute
    capability 3.0 and below ``dependency check``, ``implicit synchronization``."""
    wait_cause: Operation | None = None
    """The operation that it waited for last; ``None`` when that was the host, and once it has ended and all observers
    have been told."""
    place: Place = UNKNOWN
    """The line of the learner's program that issued it."""
    lane = ""
    """The engine, or that of the work before it in the stream when it takes none."""
    delay = 0
    """ns from the end of what it waits for to the earliest start: nodes of a graph that are due together start in
    turn."""
    saved = 0
    """ns that it takes less, because as a node of a graph it was made ready while the node before ran."""
    done = False
    exclusive = False
    """Does it keep everything else off the SMs? A copy on a device without copy engines does."""
    priority = 0
    """Of its stream when it was issued, for work of the SMs; copies over the bus have none."""

    time: KernelTime | None = None
    """What bounds the duration of a launch, once it has started."""

    # its effect on memory (effect.py)
    decided_late = False
    """Is what it does decided when all before it has ended (:meth:`decide`)?"""
    visible_at_once = False
    """May its stores be visible before it ends?"""
    starts_at_once = False
    """Must it run at its modelled start (with its stores held back), because the host could change what it reads
    without a call?"""
    polling = False
    """Has it run as far as it can, and waits for memory to change (polling.py)? It does not end before."""
    waits_in_vain = False
    """Do its threads wait for nothing but the kernel before it, which has not completed (dependent_launch.py)?"""
    updates_memory = False
    """Does it change memory by atomics, which kernels that run at the same time see?"""
    publications: Sequence[Publication] = ()
    """What it lets others see while it runs (publication.py)."""
    prerequisite: Operation | None = None
    """The kernel that it may overlap with, if it is a dependent launch (dependent_launch.py)."""
    overlapping: Sequence[KernelOperation] = ()
    """Dependent launches whose prerequisite it is."""
    tells_start = False
    """Does somebody want to know when all of its blocks have started?"""
    executed = False
    _apply: Callable[[], None] | None = None
    _failure: CudaError | None = None

    stamp: Any = None
    """Its place in the order of operations (hazards/clocks.py)."""

    def __init__(self, work: Work[Any], stream: Stream) -> None:
        self.work = work
        self.engine = work.engine
        self.stream = stream
        self.dependents: list[tuple[Operation, str]] = []
        """Who waits for it, and by which rule."""
        if stream.priority and work.engine == "sm":
            self.priority = stream.priority

    @property
    def kind(self) -> str:
        """What a timeline calls it: ``kernel``, ``copy``, ``memset``, ``array``, ``host``, ``record`` …"""
        return self.work.kind

    @property
    def name(self) -> str:
        return self.work.name

    @property
    def bytes(self) -> int:
        """Bytes moved, as the work says."""
        return self.work.bytes

    @property
    def terms(self) -> Mapping[str, float]:
        """What bounds its duration: ns by name."""
        return self.time.terms if self.time is not None else NO_TERMS

    @property
    def bound(self) -> str:
        return self.time.bound if self.time is not None else ""

    @property
    def extrapolated(self) -> str:
        """What of a launch was not counted for its duration, as a sentence; empty when nothing was left out."""
        return self.time.extrapolated if self.time is not None else ""

    @property
    def peak_fraction(self) -> float:
        return self.time.peak_fraction if self.time is not None else 0.0

    # -- what the work does, and what classes of operations with a state of their own override ----------------------

    def decide(self) -> None:
        """Called when all before it has ended, if it is decided late."""

    def take(self) -> None:
        """Called at the modelled start, before anything else: take what only the host could still change."""

    @property
    def decides_its_time(self) -> bool:
        """Does its duration depend on what it does, which nobody knows before it has run?"""
        return False

    def begin(self) -> int:
        """Called at the modelled start: take what must be taken now, and return the duration (ns)."""
        return self.work.begin(self)

    def run(self) -> None:
        """Do the work on memory as it is now. Raises ``CudaError`` when it fails."""
        self.work.run(self)

    def run_held(self) -> Callable[[], None]:
        """Do the work on memory as it is now, take its stores back, and return what makes them again."""
        return self.work.run_held(self)

    def reads(self) -> Reach:
        """What :meth:`run` may read; what :meth:`begin` took is not part of it."""
        return self.work.reads()

    def writes(self) -> Reach:
        """What :meth:`run` may change."""
        return self.work.writes()

    def touched(self) -> Touched | None:
        """The very bytes that it reads and writes, as far as they are known by now."""
        return self.work.touched()

    # -- what effect.py calls ------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Run now; the effect comes with :meth:`commit`. What fails does so at the modelled end."""
        self.executed = True
        try:
            self._apply = self.run_held()
        except CudaError as error:
            self._failure = error

    def fail(self, error: CudaError) -> None:
        """It cannot run; that comes up at its modelled end."""
        self.executed, self._failure = True, error

    def show_updates(self) -> None:
        """What is held back becomes visible as far as its atomics reach."""

    def commit(self) -> None:
        """The modelled end: make the effect visible, running first if that is still to do."""
        if not self.executed:
            self.executed = True
            self.run()
        elif self._failure is not None:
            raise self._failure
        elif self._apply is not None:
            self._apply()
            self._apply = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r} #{self.sequence} stream {self.stream.handle:#x} {self.start}-{self.end} ns>"


O_co = TypeVar("O_co", bound=Operation, covariant=True)


class Work(Generic[O_co]):
    """What is to be done. The parameter is the class of the operations that run it.

    The class attributes are the properties that the scheduler, the hazard report and the timeline ask for.
    """

    __slots__ = ()

    kind: ClassVar[str] = "operation"
    """What a timeline calls it."""
    works_on_memory: ClassVar[bool] = True
    """May memory change by it? Events, waits and frees only order others, or end a lifetime."""
    acquires_event: ClassVar[bool] = False
    """Does later work of its stream come after what an event has recorded?"""
    waits_for_value: ClassVar[bool] = False
    """Does its stream wait for memory to change, and not for an operation?"""
    lets_dependents_through: ClassVar[bool] = False
    """May a dependent launch behind it still overlap with the kernel before it?"""
    frees_memory: ClassVar[bool] = False
    """Does the memory that it touches exist no longer afterwards?"""
    is_array_function: ClassVar[bool] = False
    """Is it a kernel of the array library? Those take room on the SMs even when they move few bytes."""

    is_reissued: ClassVar[bool] = False
    """Is the same work issued by many calls? What follows from it is kept with it then:"""
    placement: Any = None
    """where the bytes lie that it touches (hazards/footprints.py)."""
    operation_class: type[O_co] = Operation  # type: ignore[assignment]  # what the parameter is bound to
    """What runs it; called with the work and a stream."""
    name: str
    engine: str = "none"
    """``h2d``, ``d2h``, ``sm``, ``peer`` for copies to another device, or ``none`` for what takes no engine."""

    @property
    def title(self) -> str:
        """What a report calls it."""
        return self.name

    @property
    def comes_with_commands(self) -> bool:
        """Is it so short a copy that the commands of its stream bring it along, and no engine has to be told of it?"""
        return False

    @property
    def separator(self) -> str:
        """What kind of separator it is on devices that have such (implicit_synchronization.py)."""
        return ""

    @property
    def bytes(self) -> int:
        """Bytes moved over the bus or in device memory, where that is what the work does."""
        return 0

    @property
    def device_bytes(self) -> int:
        """Bytes that it reads and writes in device memory, where that takes it to the SMs and it is no launch."""
        return 0

    @property
    def blocks(self) -> int:
        """Blocks of its grid; 0: it is no launch."""
        return 0

    @property
    def block_shape(self) -> tuple[int, int, int]:
        """Of one block: threads, registers a thread, bytes of shared memory."""
        return 0, 0, 0

    @property
    def cluster_blocks(self) -> int:
        """Blocks that start together."""
        return 1

    def pass_l2(self, l2: L2Cache) -> None:
        """It starts: tell the L2 what of device memory it goes over, where it is no launch."""

    carveout: int = -1
    """Percent of the L1 that its kernel prefers as shared memory; -1: no preference."""

    def begin(self, operation: Operation) -> int:
        """Called at the modelled start; returns the duration (ns)."""
        return 0

    def run(self, operation: Operation) -> None:
        """Do the work on memory as it is now. Raises ``CudaError`` when it fails."""

    def run_held(self, operation: Operation) -> Callable[[], None]:
        """Do the work on memory as it is now, take its stores back, and return what makes them again."""
        raise NotImplementedError(f"a {self.kind} reads nothing that could change while it runs")

    def reads(self) -> Reach:
        """What :meth:`run` may read; what :meth:`begin` took is not part of it."""
        return ()

    def writes(self) -> Reach:
        """What :meth:`run` may change."""
        return ()

    def touched(self) -> Touched | None:
        """The very bytes that it reads and writes, those that :meth:`begin` takes included; ``None`` where that is not
        known before it has run."""
        return NOTHING
