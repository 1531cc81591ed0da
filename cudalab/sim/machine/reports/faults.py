"""Why a launch stopped: the CUDA error, and what the error does not say.

A GPU reports an illegal access as one error code for the whole launch, and the process's CUDA context is lost. The
simulated device knows the thread, the line, the address and the allocation that was missed. The error code is the same,
as measured on an H200 (driver 580, 2026-11-21):

- out of bounds in global, shared or local memory, null pointers and endless recursion: 700
- misaligned accesses, global or shared: 716
- ``__trap()``, ``brkpt`` and a store to constant memory: 719; ``assert``: 710
- a call through a wrong function pointer: 718
- an address outside the 16 MiB window of shared memory: 715

A barrier that can never complete hangs an H200; here it ends with the code of the time limit, 702. A barrier after some
threads have exited, and two barriers taken for one, run on both; synccheck reports them.
"""

from __future__ import annotations

import ctypes
import html
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, Context, FaultKind, SiteKind, Space
from cudalab.sim.compiler.program import Location, Site
from cudalab.sim.compiler.semantics import Operation
from cudalab.sim.machine.launch.printf import read_string
from cudalab.sim.machine.reports import barrier_faults, cluster_faults, heap_faults
from cudalab.sim.machine.reports.finding import Finding, Place, Problem, place_of, triple
from cudalab.sim.machine.reports.mbarrier_faults import barrier_problem, copy_problem, describe_phases
from cudalab.sim.machine.reports.nearest_allocation import BELOW, FailedAccess, explain_access
from cudalab.sim.machine.reports.texture_faults import image_problem, surface_problem

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.configuration import Dim3
    from cudalab.sim.machine.launch.module import Launch, LoadedKernel


class Code(Struct, frozen=True):
    """A CUDA error as the runtime numbers, names and describes it."""

    number: int
    name: str
    text: str


RAISE_TIME_LIMIT = "cudalab.time_limit(60), or with CUDALAB_TIME_LIMIT=60 in the environment (seconds)"
"""How a learner raises the time limit, for the end of a sentence."""

ILLEGAL_ADDRESS = Code(700, "cudaErrorIllegalAddress", "an illegal memory access was encountered")
LAUNCH_TIMEOUT = Code(702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated")
ASSERT = Code(710, "cudaErrorAssert", "device-side assert triggered")
STACK_ERROR = Code(714, "cudaErrorHardwareStackError", "hardware stack error")
ILLEGAL_INSTRUCTION = Code(715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered")
MISALIGNED = Code(716, "cudaErrorMisalignedAddress", "misaligned address")
INVALID_PC = Code(718, "cudaErrorInvalidPc", "invalid program counter")
LAUNCH_FAILURE = Code(719, "cudaErrorLaunchFailure", "unspecified launch failure")

CODES: dict[FaultKind, Code] = {
    FaultKind.OUT_OF_BOUNDS: ILLEGAL_ADDRESS,
    FaultKind.MISALIGNED: MISALIGNED,
    FaultKind.TRAP: LAUNCH_FAILURE,
    FaultKind.ASSERT: ASSERT,
    FaultKind.DEADLOCK: LAUNCH_TIMEOUT,
    FaultKind.STACK_OVERFLOW: ILLEGAL_ADDRESS,
    FaultKind.BAD_CALL: INVALID_PC,
    FaultKind.READ_ONLY: LAUNCH_FAILURE,
    FaultKind.ILLEGAL_INSTRUCTION: ILLEGAL_INSTRUCTION,
    FaultKind.BAD_IMAGE: ILLEGAL_ADDRESS,
    FaultKind.OUTSIDE_SURFACE: ILLEGAL_ADDRESS,
    FaultKind.BLOCK_LEFT: LAUNCH_FAILURE,
    FaultKind.NO_SUCH_RANK: LAUNCH_FAILURE,
    FaultKind.ARRIVED_TWICE: LAUNCH_TIMEOUT,
    FaultKind.BARRIER_COUNT: ILLEGAL_INSTRUCTION,
    FaultKind.BARRIER_MIXED: ILLEGAL_INSTRUCTION,
    FaultKind.BAD_FREE: LAUNCH_FAILURE,
    FaultKind.BAD_BARRIER: LAUNCH_FAILURE,
    FaultKind.BAD_COPY: ILLEGAL_INSTRUCTION,
}


class Fault(Struct, frozen=True):
    """A launch that could not go on: the CUDA error and the explanation."""

    code: int
    """``cudaError_t`` number."""
    error: str
    """Its name, ``cudaErrorIllegalAddress`` …"""
    text: str
    """What ``cudaGetErrorString`` says."""
    finding: Finding
    kind: FaultKind
    assertion: str = ""
    """For an assert: the line that CUDA prints to stderr."""

    @classmethod
    def of(cls, code: Code, finding: Finding, kind: FaultKind = FaultKind.NONE, assertion: str = "") -> Fault:
        return cls(code.number, code.name, code.text, finding, kind, assertion)

    @property
    def rule(self) -> str:
        return self.finding.rule

    @property
    def kernel(self) -> str:
        return self.finding.kernel

    @property
    def line(self) -> int:
        return self.finding.line

    @property
    def source(self) -> str:
        return self.finding.source

    @property
    def block(self) -> Dim3 | None:
        return self.finding.block

    @property
    def thread(self) -> Dim3 | None:
        return self.finding.thread

    @property
    def address(self) -> int | None:
        return self.finding.address

    def __str__(self) -> str:
        return "\n".join([f"{self.error} ({self.code}): {self.text}", *self.finding.lines()])

    def _repr_html_(self) -> str:
        return (
            f"<div><b>{html.escape(f'{self.error} ({self.code}): {self.text}')}</b>{self.finding._repr_html_()}</div>"
        )


def from_context(context: Context, launch: Launch, raw: ctypes.Structure | None = None) -> Fault:
    """Explain the fault that native code left in its context, or ``raw``, an ``abi.Fault``."""
    kernel, grid, block = launch.kernel, launch.config.grid, launch.config.block
    raw = context.fault if raw is None else raw
    kind = FaultKind(raw.kind)
    site = _site(kernel, raw.site)
    where = _Where(
        kernel.name, place_of(site.location, kernel.module.program), triple(raw.block, grid), triple(raw.thread, block)
    )
    code = CODES.get(kind, LAUNCH_FAILURE)
    if kind == FaultKind.OUT_OF_BOUNDS and site.space == Space.SHARED:
        # as on an H200: an address outside the 16 MiB window of shared memory is an illegal instruction
        if (raw.address - SHARED_WINDOW) % (1 << 32) >= WINDOW_SIZE:
            code = ILLEGAL_INSTRUCTION
    elif kind == FaultKind.OUT_OF_BOUNDS and cluster_faults.is_distributed(raw.address):
        code = ILLEGAL_ADDRESS if cluster_faults.is_far_outside(raw.address) else LAUNCH_FAILURE
    assertion = ""
    if kind in (FaultKind.OUT_OF_BOUNDS, FaultKind.MISALIGNED, FaultKind.READ_ONLY):
        finding = _access_finding(kind, raw, context, kernel, site, where, launch.args)
    elif kind == FaultKind.ASSERT:
        finding, assertion = _assert_finding(raw, kernel, where)
    elif kind in (FaultKind.BAD_IMAGE, FaultKind.OUTSIDE_SURFACE):
        finding = where.finding(_image_problem(kind, raw, kernel, site))
    elif kind in cluster_faults.KINDS:
        finding = where.finding(cluster_faults.problem(raw, context, site))
    elif kind == FaultKind.TRAP and kernel.kernel.synchronises_grid and not context.grid_workspace:
        finding = where.finding(cluster_faults.not_cooperative(grid))
    elif kind == FaultKind.BAD_BARRIER:
        finding = where.finding(barrier_problem(raw.extra[0], raw.extra[1], raw.extra[2], raw.address))
    elif kind == FaultKind.BAD_COPY:
        finding = where.finding(copy_problem(raw.extra[0], raw.address))
    elif kind == FaultKind.BAD_FREE:
        if heap_faults.is_wild(kernel.module.memory, raw.address):
            code = ILLEGAL_ADDRESS
        finding = where.finding(heap_faults.invalid_free(kernel.module.memory, raw.address))
    elif kind == FaultKind.DEADLOCK:
        finding = _deadlock_finding(raw.detail, context, kernel, where, block)
    else:
        finding = where.finding(_other_problem(kind, context, site))
    return Fault.of(code, finding, kind, assertion)


def time_limit_fault(context: Context, launch: Launch, limit: float) -> Fault:
    """The launch was stopped because no block had finished for `limit` seconds."""
    kernel, config = launch.kernel, launch.config
    raw = context.fault
    known = raw.site < len(kernel.kernel.sites)  # where the loop was when it was stopped
    place = place_of(_site(kernel, raw.site).location, kernel.module.program) if known else None
    if place is None:  # stopped between two passes of a loop through a barrier
        waiting = barrier_faults.waiting_sites(0, context, kernel.kernel)
        place = place_of((waiting[0] if waiting else kernel.kernel).location, kernel.module.program)
    thread = triple(raw.thread, config.block) if known else None
    running = raw.block if known else context.blocks_done
    finding = Finding(
        rule="endless loop",
        headline=f"No block finished for {limit:g} seconds",
        kernel=kernel.name,
        place=place,
        block=triple(running, config.grid),
        thread=thread,
        detail=(
            "The launch was stopped. A GPU that drives no display has no such limit: there the call that waits for the "
            "kernel would wait for ever."
        ),
        advice="look for a loop whose condition never becomes false, or that waits for a thread that runs later. "
        f"A kernel that needs longer gets it with {RAISE_TIME_LIMIT}.",
    )
    return Fault.of(LAUNCH_TIMEOUT, finding)


class _Where(Struct, frozen=True):
    kernel: str
    place: Place | None
    block: Dim3
    thread: Dim3 | None

    def finding(self, problem: Problem, address: int | None = None, size: int = 0) -> Finding:
        return Finding(
            rule=problem.rule,
            headline=problem.headline,
            kernel=self.kernel,
            place=self.place,
            block=self.block,
            thread=self.thread,
            address=address,
            size=size,
            detail=problem.detail,
            advice=problem.advice,
        )


def _site(kernel: LoadedKernel, index: int) -> Site:
    sites = kernel.kernel.sites
    if index < len(sites):
        return sites[index]
    return Site(SiteKind.BLOCK, "", Space.GENERIC, 0, Location("", 0))


_SPACE_NAMES = {
    Space.GENERIC: "__global__",
    Space.GLOBAL: "__global__",
    Space.SHARED: "__shared__",
    Space.LOCAL: "__local__",
    Space.CONSTANT: "__constant__",
    Space.PARAM: "parameter",
    Space.TEXTURE: "texture or surface",
    Space.CLUSTER: "distributed __shared__",
}
_ACCESS_NAMES = {SiteKind.LOAD: "read", SiteKind.STORE: "write", SiteKind.ATOMIC: "atomic"}


def access_headline(site: Site, address: int, size: int) -> str:
    """``Invalid __global__ read of size 4 bytes``."""
    space = site.space
    if space == Space.GENERIC:
        if SHARED_WINDOW - BELOW <= address < SHARED_WINDOW + WINDOW_SIZE:
            space = Space.SHARED
        elif LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE:
            space = Space.LOCAL
        elif cluster_faults.is_distributed(address):
            space = Space.CLUSTER
    return f"Invalid {_SPACE_NAMES[space]} {_ACCESS_NAMES.get(site.kind, 'access')} of size {size} bytes"


def _access_finding(
    kind: FaultKind,
    raw: ctypes.Structure,
    context: Context,
    kernel: LoadedKernel,
    site: Site,
    where: _Where,
    args: bytes,
) -> Finding:
    address, size = raw.address, raw.size
    headline = access_headline(site, address, size)
    if kind == FaultKind.MISALIGNED:
        problem = Problem(
            headline,
            "misaligned address",
            f"Address {address:#x} is not a multiple of {size}, the size of the access.",
            "reach wider types (float4, double) only at offsets that are multiples of their size; "
            "a pointer that was cast or moved by a byte count has lost its alignment.",
        )
    elif kind == FaultKind.READ_ONLY:
        problem = Problem(
            headline,
            "write to constant memory",
            f"Address {address:#x} is in constant memory, which kernels can only read.",
            "write it from the host between launches, or use a __device__ variable.",
        )
    else:
        extent = (raw.extra[0], raw.extra[1])
        sizes = context.shared_size, context.local_size
        access = FailedAccess(address, size, site, raw.root, kernel, args, *sizes, extent)
        problem = Problem(headline, *explain_access(access))
    return where.finding(problem, address, size)


def _image_problem(kind: FaultKind, raw: ctypes.Structure, kernel: LoadedKernel, site: Site) -> Problem:
    images = kernel.module.memory.images
    if kind == FaultKind.BAD_IMAGE:
        return image_problem(images, raw.address, site.semantics)
    x, y, z = (ctypes.c_int64(word).value for word in raw.extra[:3])
    detail, advice = surface_problem(images, raw.address, (x, y, z), raw.size)
    access = _ACCESS_NAMES.get(site.kind, "access")
    headline = f"Invalid surface {access} of size {raw.size} bytes"
    return Problem(headline, "surface access out of bounds", detail, advice)


_WRONG_ORDER = (
    "the memory order of an operation of cuda::atomic: a store takes relaxed, release or seq_cst, a load relaxed, "
    "acquire or seq_cst."
)


def _assert_finding(raw: ctypes.Structure, kernel: LoadedKernel, where: _Where) -> tuple[Finding, str]:
    memory = kernel.module.memory
    words = (ctypes.c_uint64 * 5).from_address(raw.detail) if raw.detail else raw.extra
    message, file, function = (read_string(memory, words[index]).decode("utf-8", "replace") for index in (0, 1, 3))
    line = int(words[2]) & 0xFFFF_FFFF
    assert where.thread is not None
    block, thread = (",".join(map(str, index)) for index in (where.block, where.thread))
    text = f"{file}:{line}: {function}: block: [{block}], thread: [{thread}] Assertion `{message}` failed."
    place = where.place
    if place is None or place.line != line:
        place = place_of(Location(file, line), kernel.module.program) or place
    problem = Problem(
        f"Assertion `{message}` failed",
        "assertion failed",
        text,
        _WRONG_ORDER
        if "memory_order_dispatch" in function
        else "print the values that the condition looks at, or check the input that leads to this thread.",
    )
    return replace(where, place=place).finding(problem), text


def _deadlock_finding(states: int, context: Context, kernel: LoadedKernel, where: _Where, block: Dim3) -> Finding:
    # Where a warp operation waits for lanes that are elsewhere, its mask is to blame, not the barrier they wait at.
    waiting = barrier_faults.waiting_sites(states, context, kernel.kernel)
    first = next((site for site in waiting if site.kind == SiteKind.WARP), None)
    at_mbarrier = next((site for site in waiting if site.semantics.operation is Operation.MBARRIER), None)
    if at_mbarrier is not None:
        return _endless_phase(states, context, kernel, where, block, first or at_mbarrier)
    problem = Problem(
        "No thread of the block can go on",
        "deadlock",
        barrier_faults.describe_waits(states, context, kernel, block),
        "let every thread of the block reach the same __syncthreads(), outside conditions that only some threads "
        "fulfil; name in the mask of a warp operation exactly the lanes that reach it.",
    )
    place = place_of(first.location, kernel.module.program) if first else where.place
    return replace(where, place=place, thread=None).finding(problem)


def _endless_phase(
    states: int, context: Context, kernel: LoadedKernel, where: _Where, block: Dim3, site: Site
) -> Finding:
    """A deadlock in which threads wait for a phase of an mbarrier."""
    values = (ctypes.c_uint32 * context.threads).from_address(states or context.states)
    sites = [barrier_faults.site_of_state(value, kernel.kernel) for value in values]
    at = [thread for thread, found in enumerate(sites) if found and found.semantics.operation is Operation.MBARRIER]
    detail = [barrier_faults.describe_waits(states, context, kernel, block), describe_phases(context, at)]
    problem = Problem(
        "A phase of an mbarrier never ends, and no other thread of the block can go on",
        "deadlock",
        "\n".join(line for line in detail if line),
        "let as many threads arrive in each phase as init() was given; give back each stage of a pipeline "
        "(consumer_release); announce exactly the bytes that are copied (expect_tx); and wait for the phase that comes "
        "next, not for one after it.",
    )
    return replace(where, place=place_of(site.location, kernel.module.program), thread=None).finding(problem)


def _other_problem(kind: FaultKind, context: Context, site: Site) -> Problem:
    if kind == FaultKind.TRAP:
        return Problem(
            "The kernel executed a trap",
            "trap",
            "__trap() ends the launch; code after an assumption that did not hold often calls it.",
            "look at the condition that leads to this line.",
        )
    if kind == FaultKind.STACK_OVERFLOW:
        return Problem(
            "A thread's stack overflowed",
            "stack overflow",
            f"A thread has {context.local_size} bytes for local arrays and the frames of the functions it calls.",
            "end the recursion earlier, or use a loop.",
        )
    if kind == FaultKind.BAD_CALL:
        return Problem(
            "Call through a pointer that is no device function",
            "bad call",
            "",
            "take addresses of __device__ functions in device code; a host function's address means nothing there.",
        )
    return Problem(f"Illegal instruction {site.opcode}".rstrip(), "illegal instruction")
