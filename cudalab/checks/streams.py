"""Where a Python answer is tried: one that puts work into streams, records events, waits, or measures.

The answer is the cell that defines the function, as text: it is run in a namespace of its own, where ``cp``,
``cudart``, ``driver`` and ``cudalab`` are the simulated device's, also on a machine with a GPU. Each case gets a fresh
simulated device, which is watched while the function runs: every runtime call with the learner's line, every piece of
work with its modelled begin and end, every wait of the host, every hazard. Nothing of the learner's session is touched.

An exercise describes its cases like this::

    def examine(bench: StreamBench) -> None:
        with bench.case("4 pieces") as trial:                   # a fresh device; profile=… takes another
            kernel = trial.kernel(SOURCE, "scale")              # a cp.RawKernel
            x, y = trial.array(bench.random(1000)), trial.empty((1000,), np.float32)
            launch = trial.launcher(kernel, (4,), (256,), (x, y))   # launch(stream)
            trial.call(launch, trial.stream("main"))                # calls the learner's function
            trial.expect("y", y, expected)                      # whole arrays; waits for the device
            bench.measure(WAITS, len(trial.waits) + len(trial.polls))   # a Gate of the exercise
            bench.measure(OVERLAP, trial.order.unordered(*trial.kernels()))

When the function raises, or a kernel fails, that is a finding and the rest of the case is left out. Arrays made before
``call`` are complete on the device when the function starts, and its clock is not part of what is counted.

``trial.calls`` are the calls that the function made; ``trial.waits`` those that kept the host until work had ended;
``trial.polls`` those that only asked; ``trial.operations`` the work it enqueued, in that order, with ``kind``
(``kernel``, ``copy``, ``memset``, ``array``, ``host``, ``record``, ``wait``), ``name``, ``stream.handle``, ``start``,
``end`` (ns); ``trial.hazards`` what was unordered by mistake; ``trial.order`` which work comes before which (order.py).
What may overlap is judged by that order, never by modelled times: the same answer earns the same on every profile.

How the answer is run is the bench's ``program``. A check runs it in this process, and one that takes too long is ended
as by the notebook's stop button (deadline.py); the grader runs it in another (``grading/worker``), and all else is the
same.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.checks.bench import CHECK_TIME, Bench, Known, Stop, counted
from cudalab.checks.comparison import poison
from cudalab.checks.gate import Gate
from cudalab.checks.order import Order
from cudalab.checks.program import LocalProgram, Program
from cudalab.checks.provenance import GRADED, Origin, Provenance
from cudalab.checks.session import answering, simulated
from cudalab.checks.value import compare_value
from cudalab.checks.watch import QUERIES, Call, Watch
from cudalab.sim import cupy
from cudalab.sim import device as sim_device
from cudalab.sim.cupy.cuda.pinned_memory import release_done
from cudalab.sim.device.declaration import CALLS, Waits
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.observer import Observer
from cudalab.sim.names import FILE

if TYPE_CHECKING:
    from cudalab.checks.answer import Answer
    from cudalab.checks.exercise import Exercise
    from cudalab.sim.device.hazards import Hazard
    from cudalab.sim.device.profile import Profile
    from cudalab.sim.device.queue.operation import Operation

HOST = Gate(
    "waits and queries of the host",
    most=0,
    look="calls that keep the host until work is done, or ask again and again: let a stream wait for an event instead",
)
_BUSY = r"""
extern "C" __global__ void busy(float* x, int steps) {
    float v = *x;
    for (int s = 0; s < steps; s++) v = 0.5f * v + 1.0f;
    *x = v;
}
"""
_ERROR_NAME = re.compile(r"\b(?:cudaError[A-Z]\w+|CUDA_ERROR_\w+)")


class StreamBench(Bench):
    """Tries one Python answer. See the module's text."""

    file = FILE
    endless = f"{Bench.endless}; one that watches memory is no wait: the host has to call what waits"

    def __init__(
        self,
        exercise: Exercise,
        answer: Answer,
        *,
        seed: int | None = None,
        time_limit: float = CHECK_TIME,
        profile: str | Profile = "h200",
        program: Callable[[str], Program] = LocalProgram,
    ) -> None:
        super().__init__(exercise, answer, seed=seed, time_limit=time_limit)
        self._profile = profile
        self._make_program = program
        self._program: Program
        self._device: sim_device.Device

    def _run(self) -> None:
        """Read the answer and take it through the exercise."""
        source = self.answer.source
        linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
        try:
            with self.limited():
                self._program = self._make_program(source)
        except SyntaxError as error:
            text = f"line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
            self.find("correctness", "not Python", text, look="that line, and brackets left open above it")
            raise Stop from None
        except Exception as error:
            self.failed(error, "the cell cannot be read")
            raise Stop from None
        self.exercise.examine(self)

    @contextlib.contextmanager
    def case(self, text: str, *, profile: Profile | None = None) -> Iterator[Trial]:
        """A fresh simulated device on which one case runs; ``text`` says which, in words. ``profile`` is for a case
        that is about what a device says of itself; all others run on the bench's."""
        self._case = text
        with simulated(profile or self._profile) as device:
            self._device = device
            trial = Trial(self, device)
            try:
                yield trial
            except Stop:
                pass
            finally:
                trial.close()

    def function(self) -> Callable[..., Any]:
        """The learner's function, in a namespace of its own."""
        try:
            found = self._program.load(self.exercise.kernel, self._device)
        except (Exception, SystemExit) as error:
            self.failed(error, "the cell stops before its function is called")
            raise Stop from None
        if not callable(found):
            self.find(
                "correctness",
                "no such function",
                f"the answer defines no function {self.exercise.kernel!r}",
                look=f"the line def {self.exercise.kernel}(…): the cell that has it is the answer",
            )
            raise Stop
        answer: Callable[..., Any] = found
        return answer

    def restore(self, *objects: object) -> list[str]:
        """Put back what the answer has replaced of its check, and say what that was."""
        return self._program.restore(self, *objects)

    def failed(self, error: BaseException, what: str, look: str = "") -> None:
        """A finding for an exception, with what to look at: its rule is the CUDA error's name, or the exception's."""
        name = _ERROR_NAME.search(str(error))
        rule = name[0] if name else type(error).__name__
        lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
        where = f", line {lines[-1].lineno}: {lines[-1].line}" if lines else ""
        notes = " ".join(getattr(error, "__notes__", ()))
        if isinstance(error, NameError):
            look = f"the check runs this cell alone: define {error.name} in it"
        kind = "" if rule == type(error).__name__ else f"{type(error).__name__}: "
        self.find("soundness", rule, f"{kind}{error}{where}. {notes}".rstrip(), look=look)
        self.find("correctness", "no result", f"{what}: {rule}")


class Trial:
    """One case: its device, the arrays on it, and what the learner's function did."""

    def __init__(self, bench: StreamBench, device: sim_device.Device) -> None:
        self.bench = bench
        self.device = device
        self.value: Any = None
        """What the function returned."""
        self.set_up: list[int] = []
        """The devices that had their primary contexts when the function returned."""
        self.current: int | None = None
        """The device whose context was current then, in the thread that called it."""
        self._watch = Watch()
        self.order = Order()
        """Which work comes before which, and which the host knows to be done."""
        self.provenance = Provenance(device)
        """Where the bytes of the outputs come from."""
        self._entered = self._returned = 0
        self.hazards: list[Hazard] = []
        """What the function left unordered."""
        self._streams: dict[int, str] = {}
        self._inputs: list[tuple[str, Any, np.ndarray]] = []
        self._observers: list[Observer] = [self._watch, self.order, self.provenance]
        device.observers += self._observers

    # -- making ------------------------------------------------------------------------------------------------------

    def array(self, values: np.ndarray, name: str = "") -> Any:
        """A device array with these values; one with a ``name`` must not be changed."""
        made = cupy.asarray(values)
        if name:
            self._inputs.append((name, made, np.array(values)))
        return made

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A device array poisoned with NaN (integers: a pattern), for the answer to fill."""
        wanted = np.dtype(dtype)
        content = poison(int(np.prod(shape)) * wanted.itemsize, wanted)
        return cupy.asarray(np.frombuffer(content, wanted).reshape(shape))

    def pinned(self, values: np.ndarray) -> np.ndarray:
        """A NumPy array with these values in page-locked memory."""
        flat = np.ascontiguousarray(values).reshape(-1)
        memory: Any = cupy.cuda.alloc_pinned_memory(flat.nbytes)
        made: np.ndarray = np.frombuffer(memory, flat.dtype, flat.size)
        made[:] = flat
        return made.reshape(values.shape)

    def kernel(self, source: str, name: str) -> Any:
        """A ``cp.RawKernel`` of the exercise's own, compiled and loaded."""
        kernel = cupy.RawKernel(source, name)
        kernel.compile()
        return kernel

    def busy_kernel(self) -> Any:
        """``busy(x, steps)``: one thread that takes its time, ``steps`` dependent multiply-adds of a few cycles."""
        return self.kernel(_BUSY, "busy")

    def launcher(self, kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[Any]) -> Any:
        """``launch(stream)`` for the learner's function. Findings name the line that calls it."""

        def launch(stream: Any) -> None:
            kernel(grid, block, tuple(arguments), stream=stream)

        return launch

    def stream(self, name: str = "", *, non_blocking: bool = True, priority: int = 0) -> Any:
        """A ``cp.cuda.Stream``; findings call it ``name``."""
        made = cupy.cuda.Stream(non_blocking=non_blocking, priority=priority)
        if name:
            self._streams[self.device.stream_get_id(made.ptr)] = name
        return made

    # -- the learner's function --------------------------------------------------------------------------------------

    def call(
        self,
        *arguments: Any,
        times: int = 1,
        before: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
        mistakes: Callable[[Trial], str] = lambda trial: "",
        faults: bool = False,
        fresh: bool = False,
        around: Callable[[Callable[..., Any]], Any] | None = None,
        look: str = "",
    ) -> Any:
        """Call the learner's function ``times`` times, watched, and return what it returned last. Then wait for the
        device, unwatched.

        ``before`` and ``after`` enqueue work of the caller's program around it, which has to be ordered as the exercise
        promises; it is not counted. ``mistakes`` says what a hazard comes from, where the exercise knows. ``faults``:
        the work that is handed to the function may end the device. ``around`` makes the call itself: it gets the
        function (in a thread, say, or to catch what it should raise). ``fresh``: a device that nobody has used is
        handed over as it is; ``set_up`` says whether the function has used it. ``look``: what to look at where it ends
        with an exception.
        """
        expected: tuple[type[Exception], ...] = (CudaError,) if faults else ()
        with contextlib.suppress(*expected):
            self._settle(fresh)
        release_done()  # CuPy asks for what it keeps at its next allocation, and the answer's queries are counted
        try:
            with self.bench.limited():
                with self._answering():
                    function = self.bench.function()
                    self.provenance.enter(arguments)
                    if before is not None:
                        before()
                    self._entered = len(self.device.log.entries)
                    self._watch.on = True
                    for _ in range(times):
                        self.value = function(*arguments) if around is None else around(function)
                    self._watch.on = False
                    self._returned = len(self.device.log.entries)
                contexts = self.device.contexts
                self.set_up = [one.number for one in contexts.all if one.active]
                self.current = next((one.number for one in contexts.all if one.handle == contexts.current), None)
                if after is not None:
                    after()
                with contextlib.suppress(*expected):
                    self._settle(fresh)
                self.provenance.leave()
            self.hazards = list(self.device.hazards)
        except Stop:
            raise
        except (Exception, SystemExit) as error:
            self.bench.failed(error, "the function stops", look)
            raise Stop from None
        finally:
            self._watch.on = False
        if any(call.name == "reset" for call in self.calls):
            look = "what the function has made can be given back by itself: cudaFree, cudaStreamDestroy"
            text = "the function resets the device, and so ends all that its caller has there"
            self.bench.find("soundness", "device reset", text, look=look)
            self.bench.find("correctness", "no result", "the device was reset, and what its caller has there is lost")
            raise Stop
        for raised in self._watch.raised[:1]:
            look = "what is handed over: the function itself, not what it returns; it is called with one argument"
            what = "a function of the host that stands in a stream stops"
            self.bench.failed(raised, what, look if isinstance(raised, TypeError) else "")
            raise Stop
        for hazard in self.hazards:
            self.bench.find(
                "soundness",
                "hazard",
                self._named(
                    f"{hazard.kind.value}: {hazard.first} {hazard.first.verb} and {hazard.second} "
                    f"{hazard.second.verb} the same {counted(hazard.bytes, 'byte')}, and nothing orders the two"
                ),
                look=self._named(f"the wait that is missing: {hazard.missing_wait}"),
                mistake=self._named(" ".join(hazard.notes)) or mistakes(self),
            )
        self._check_inputs()
        return self.value

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Within it the answer runs; what it replaces of the check is put back then."""
        try:
            with answering():
                yield
        finally:
            if changed := self.bench.restore(self, self.device):
                self.bench.find(
                    "correctness",
                    "replaced names",
                    f"the answer replaces {', '.join(changed[:3])}{', …' * (len(changed) > 3)}, which its check calls",
                    look="names of its own: what cudalab, cp, cudart and np have stays as it is",
                )

    @property
    def calls(self) -> list[Call]:
        """Every runtime call of the function, in order."""
        return self._watch.calls

    @property
    def waits(self) -> list[Call]:
        """The calls that kept the host until work had ended."""
        return [call for call in self.calls if call.waited]

    @property
    def polls(self) -> list[Call]:
        """The calls that asked whether work had ended."""
        return [call for call in self.calls if call.name in QUERIES]

    @property
    def set_up_meanwhile(self) -> list[int]:
        """The devices whose primary contexts the function made, in order, whether they are still there or not."""
        return self._watch.made

    @property
    def runtime_calls(self) -> list[str]:
        """The calls that the function made through ``cudart``, by their names in C, in order."""
        entries = self.device.log.entries[self._entered : self._returned]
        return [CALLS[entry.name].title for entry in entries if not entry.by_driver]

    @property
    def allocations(self) -> list[Call]:
        """The calls that took memory of the device."""
        return [call for call in self.calls if CALLS[call.name].takes_device_memory]

    @property
    def left(self) -> tuple[int, int]:
        """Allocations of device memory, and streams, that were made since the function began and never given back."""
        memory: set[int] = set()
        streams: set[int] = set()
        for entry in self.device.log.entries[self._entered :]:
            if entry.error:
                continue
            if CALLS[entry.name].takes_device_memory:
                memory.add(entry.result[0] if isinstance(entry.result, tuple | list) else entry.result)
            elif entry.name in ("free", "free_async"):
                memory.discard(entry.arguments["pointer"])
            elif entry.name == "stream_create":
                streams.add(entry.result)
            elif entry.name == "stream_destroy":
                streams.discard(entry.arguments["stream"])
        return len(memory), len(streams)

    @property
    def refused(self) -> list[str]:
        """The errors that the function's calls returned, in order, without the answers of queries."""
        entries = self.device.log.entries[self._entered :]
        return [cudaError_t(one.error).name for one in entries if one.error and one.name not in QUERIES]

    @property
    def synchronizes(self) -> bool:
        """Is there a call that waits for a stream, an event or the device, were there work or not?"""
        waits = (Waits.STREAM, Waits.EVENT, Waits.DEVICE)
        return any(CALLS[call.name].waits in waits for call in self.calls)

    @property
    def operations(self) -> list[Operation]:
        """All work that the function enqueued, in order."""
        return self._watch.operations

    @property
    def callers(self) -> list[Operation]:
        """All work that ``before`` and ``after`` enqueued, and the check itself, in order."""
        return self._watch.callers

    @property
    def elapsed(self) -> list[tuple[Operation, Operation, float]]:
        """Every time between two events that the function asked for: the two records, and the milliseconds."""
        records = iter([one for one in self.operations if one.kind == "record"])
        last: dict[int, Operation] = {}
        found = []
        for entry in self.device.log.entries[self._entered :]:
            if entry.name == "event_record" and not entry.error:
                last[entry.arguments["event"]] = next(records)
            elif entry.name == "event_elapsed" and not entry.error:
                found.append((last[entry.arguments["start"]], last[entry.arguments["end"]], float(entry.result)))
        return found

    def kernels(self, name: str = "") -> list[Operation]:
        """Its launches, of one kernel or of all."""
        return [one for one in self.operations if one.kind == "kernel" and name in ("", one.name)]

    # -- judging -----------------------------------------------------------------------------------------------------

    def expect(
        self,
        name: str,
        array: Any,
        expected: np.ndarray,
        *,
        tolerance: float = 0.0,
        known: Sequence[Known] = (),
        look: str = "",
        by: frozenset[Origin] = GRADED,
        behind: Any = None,
        made_look: str = "the exercise asks for what its own kernels write: let them make the values, and copies move "
        "them",
    ) -> None:
        """Compare a whole array (on the device or in host memory) with the oracle: equal, or within ``tolerance``.

        In an exercise with points its bytes also have to come from what it asks for (``provenance.py``): from its own
        kernels, or from ``by``. ``behind`` is the output itself, where ``array`` is what a kernel of the exercise's has
        kept of it. ``made_look``: what to look at where something else has made them.
        """
        got = array.get() if hasattr(array, "get") else np.asarray(array)
        self.bench.compare(name, got, expected, tolerance, known, look or "which work has to wait for which")
        if not (self.bench.exercise.maximum and self.bench.fine):
            return
        output = array if behind is None else behind
        for maker, count, first in self.provenance.others(output, by):
            self.bench.find(
                "correctness",
                f"made {maker.origin.value}",
                f"{count} of {output.size} elements of {name}, the first of them element {first}, were made "
                f"{maker.origin.value} ({maker})",
                look=made_look,
            )

    def expect_value(
        self, expected: Any, *, tolerance: float = 0.0, known: Sequence[Known] = (), look: str = ""
    ) -> None:
        """Compare what the function returned with what it should: equal, or within ``tolerance``."""
        what = f"{self.bench.exercise.kernel} returned"
        compare_value(self.bench, what, self.value, expected, tolerance, known, look, tells=True)

    def _settle(self, fresh: bool) -> None:
        """Wait for the device; one that is ``fresh`` only if anybody has used it."""
        if self.device.contexts[0].active or not fresh:
            self.device.synchronize()

    def close(self) -> None:
        """The case is over: the device is no longer watched."""
        self._watch.on = False
        self.device.observers[:] = [one for one in self.device.observers if one not in self._observers]

    def _named(self, text: str) -> str:
        """The text with the streams' names in place of their numbers."""
        for number, name in self._streams.items():
            text = re.sub(rf"\b[Ss]tream {number}\b", name, text)
        return text

    def _check_inputs(self) -> None:
        for name, made, before in self._inputs:
            if not np.array_equal(made.get(), before):
                self.bench.find("correctness", "input changed", f"{name} is an input and was changed")
