"""Translation of the learner's compile options to NVRTC arguments.

CuPy hands the options of ``RawKernel`` to NVRTC as they are, behind ``--std=c++17`` and in front of
``-ftz=true`` and ``--device-as-default-execution-space``. The same is done here, so that arithmetic
agrees bit for bit (``-ftz=true``: results too small to be normal float32 numbers become zero) and
unmarked functions are device functions. As under CuPy, the architecture is the device's own, ``sm_90``, whatever
``-arch`` asks for: CuPy puts its own option behind the learner's, and the last one counts; NVRTC still refuses one that
it does not know. Simplified: device-debug options are taken, noted in the log and not passed on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import Struct

ARCHITECTURE = "sm_90"

# Options whose value may stand in the next string: ("-I", "folder").
_SEPARATE = {"-I", "--include-path", "-D", "--define-macro", "-U", "--undefine-macro", "-std", "--std", "-arch"} | {
    "--gpu-architecture", "-maxrregcount", "--maxrregcount", "-default-stream", "--pre-include", "-include",
}  # fmt: skip
_ARCHITECTURE = {"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code"}
_IGNORED = {
    "-G": "code for a debugger", "--device-debug": "code for a debugger", "-dlto": "link-time optimisation",
    "--dlink-time-opt": "link-time optimisation", "-dw": "code for a debugger",
}  # fmt: skip
_ALWAYS = {"-lineinfo", "--generate-line-info", "-default-device", "--device-as-default-execution-space"}

# While grading, only options that cannot name a file get through.
_HARMLESS = re.compile(
    r"(?:-D|--define-macro=)[A-Za-z_]\w*(?:\([\w,\s.]*\))?(?:=[^\x00-\x1f]*)?"
    r"|(?:-U|--undefine-macro=)[A-Za-z_]\w*|-{1,2}std=(?:c|gnu)\+\+\d\d|-{1,2}use_fast_math|-{1,2}(?:ftz|prec-div|prec-sqrt|fmad)"
    r"=(?:true|false)|-{1,2}maxrregcount=\d+|-w|--disable-warnings|-{1,2}restrict|-{1,2}extra-device-vectorization"
    r"|-{1,2}diag-(?:suppress|error|warn)=[\d,]+|-{1,2}(?:rdc|relocatable-device-code)=false"
)


class OptionError(ValueError):
    """An option that cannot be used; the text says which, why, and what to try."""


class Options(Struct, frozen=True):
    """Normalised compile options: equal objects give equal code."""

    flags: tuple[str, ...]
    """For NVRTC, without the fixed ones."""
    folders: tuple[str, ...]
    """The learner's own include folders, absolute."""
    notes: tuple[str, ...]
    """Notes on options that were accepted but not passed on."""
    pre_includes: tuple[str, ...] = ()
    """Headers named by ``--pre-include``."""
    architecture: str = ARCHITECTURE
    """What is compiled for: ``sm_90``, or ``compute_90`` for PTX alone."""
    asked: tuple[str, ...] = ()
    """Architectures that the learner asked for in vain; NVRTC says when there is no such one."""

    def arguments(self, bundled: Sequence[str], *, working_folder: str = "") -> list[str]:
        """The whole argument list for NVRTC. ``bundled`` are the folders of CUDA's own headers."""
        arguments = [f"--gpu-architecture={name}" for name in (*self.asked, self.architecture)]
        arguments.append("-lineinfo")
        if self.architecture.startswith("sm_"):
            arguments.append("--ptxas-options=-v")
        if not any(_name(flag) in ("--std", "-std") for flag in self.flags):
            arguments.append("--std=c++17")
        arguments += self.flags
        arguments += [f"--pre-include={header}" for header in self.pre_includes]
        arguments += [f"-I{folder}" for folder in (*self.folders, *bundled)]
        arguments += ["-ftz=true", "--device-as-default-execution-space"]
        return arguments


def parse_options(
    options: Sequence[str], *, restricted: bool = False, folder: str | None = None, architecture: str = ARCHITECTURE
) -> Options:
    """Check and normalise ``options``.

    Args:
        options: strings as for CuPy's ``RawKernel``.
        restricted: grading; refuse whatever could name a file.
        folder: what relative include folders are relative to; default the current one.
        architecture: what to compile for.

    Raises:
        OptionError: not a sequence of strings, an option without its value, or one that is refused.
    """
    if isinstance(options, str | bytes):
        raise OptionError(f"options must be a tuple of strings, got the single string {options!r}; try ({options!r},)")
    flags: list[str] = []
    folders: list[str] = []
    notes: list[str] = []
    headers: list[str] = []
    asked: list[str] = []
    for flag in _joined(options):
        if restricted and not _HARMLESS.fullmatch(flag) and not _without_effect(flag):
            raise OptionError(f"option {flag!r} is not allowed here: answers are compiled with CUDA's own headers only")
        name, value = _name(flag), flag.partition("=")[2]
        if name in _ARCHITECTURE:
            if value.replace("compute_", "sm_") != architecture.replace("compute_", "sm_"):
                notes.append(f"option {flag} is not used: the code is compiled for the device, {architecture}")
                if name in ("-arch", "--gpu-architecture"):
                    asked.append(value)
        elif name in _IGNORED:
            notes.append(f"option {flag} is not used: the simulated device has no {_IGNORED[name]}")
        elif name in _ALWAYS or name in ("-ftz", "--ftz"):
            pass  # given anyway; CuPy's own -ftz=true overrides a learner's
        elif name in ("-I", "--include-path"):
            path = value if name == "--include-path" else flag[2:].strip()
            folders.append(os.path.abspath(os.path.join(folder or os.getcwd(), path)))
        elif name in ("--pre-include", "-include"):
            headers.append(value)
        else:
            flags.append(flag)
    return Options(
        tuple(flags), tuple(dict.fromkeys(folders)), tuple(notes), tuple(headers), architecture, tuple(asked)
    )


def _joined(options: Sequence[str]) -> list[str]:
    """One string an option: ``("-I", "x")`` and ``("-I x",)`` become ``-Ix``."""
    joined: list[str] = []
    pending = ""
    for option in options:
        if not isinstance(option, str):
            raise OptionError(f"options must be strings, got {option!r} of type {type(option).__name__}")
        if "\0" in option:
            raise OptionError(f"option {option!r} contains a null character")
        option = option.strip()
        if pending:
            joined.append(_join(pending, option))
            pending = ""
        elif option in _SEPARATE:
            pending = option
        elif option:
            head, space, tail = option.partition(" ")
            joined.append(_join(head, tail.strip()) if space and head in _SEPARATE else option)
    if pending:
        raise OptionError(f"option {pending!r} has no value; try for example {_join(pending, 'VALUE')!r}")
    return joined


def _join(name: str, value: str) -> str:
    return name + value if name in ("-I", "-D", "-U") else f"{name}={value}"


def _name(flag: str) -> str:
    if flag[:2] in ("-I", "-D", "-U") and not flag.startswith("--"):
        return flag[:2]
    return flag.partition("=")[0]


def _without_effect(flag: str) -> bool:
    return _name(flag) in _ARCHITECTURE or flag in _IGNORED or flag in _ALWAYS or _name(flag) in ("-ftz", "--ftz")
