"""From LLVM IR to object code for this machine.

LLVM runs a short list of passes: the whole of ``-O1`` takes twice the learner's time and gains nothing measurable on
kernels. Traced code, which runs for a few blocks, is hardly optimised: that is made seven times faster, and most of its
time goes into the records anyway. Code is made for the processor at hand, with all its features.

LLVM's time grows with the square of a function's length where every access has a check of its own: a loop of 2048
accesses that NVRTC unrolls (in 10 s) takes another 6 s for each variant. Functions beyond ``LONGEST`` get instructions
selected the fast way, in 0.3 s; such a kernel runs slower than it could.
"""

from __future__ import annotations

import platform
import threading
from functools import cache

import llvmlite.binding as llvm

#: Characters of LLVM IR of a function that is still optimised in full: about 1100 checked accesses.
LONGEST = 800_000

_lock = threading.Lock()


class InvalidCode(RuntimeError):
    """LLVM does not accept the IR: a mistake in the compiler."""


@cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@cache
def host_features() -> dict[str, bool]:
    """The instruction sets that code is made for: this host's."""
    return dict(llvm.get_host_cpu_features())


@cache
def _machine(level: int) -> llvm.TargetMachine:
    features = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(host_features().items()))
    return _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=level, reloc="pic", codemodel="small"
    )


@cache
def has_half() -> bool:
    """Does this host's processor convert between ``half`` and ``float``? Without that LLVM would call a library."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    return host_features().get("f16c", False)


@cache
def lanes_of_host() -> int:
    """How many threads wide code takes at once on this processor (``codegen.wide``); 0: its vectors are too short."""
    features = host_features()
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512bw"):
        return 16
    return 8 if features.get("avx2") else 0


def compile_object(text: str, *, optimise: str = "kernel", verify: bool = False) -> bytes:
    """Compile the text of an LLVM module.

    Args:
        text: LLVM IR without target triple or data layout.
        optimise: ``kernel`` (the usual passes, for functions up to ``LONGEST``), ``long`` (the same, without loops
            turned round, and instructions selected the fast way), ``runtime`` (all of ``-O2``) or ``little`` (fast to
            compile).
        verify: also look whether each value is defined before it is used.

    Returns:
        A relocatable object file.

    Raises:
        InvalidCode: the IR is not valid.
    """
    if optimise == "kernel" and _longest_function(text) > LONGEST:
        optimise = "long"
    with _lock:
        machine = _machine({"kernel": 1, "runtime": 2}.get(optimise, 0))
        head = f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n'
        try:
            module = llvm.parse_assembly(head + text)
            if verify:
                module.verify()
        except RuntimeError as error:
            raise InvalidCode(str(error)) from None
        _optimise(module, machine, optimise)
        return bytes(machine.emit_object(module))


def _longest_function(text: str) -> int:
    """Characters from one ``define`` to the next, at most."""
    if len(text) <= LONGEST:
        return len(text)
    return max(map(len, text.split("\ndefine ")))


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, level: str) -> None:
    options = llvm.create_pipeline_tuning_options(2 if level == "runtime" else 1)
    builder = llvm.create_pass_builder(machine, options)
    if level == "runtime":
        options.loop_vectorization = True
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        if level in ("kernel", "long"):
            passes.add_simplify_cfg_pass()
            passes.add_instruction_combine_pass()
            if level == "kernel":
                passes.add_loop_rotate_pass()
                passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
    passes.run(module, builder)
