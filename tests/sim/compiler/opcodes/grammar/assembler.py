"""NVIDIA's assembler without a GPU: nvJitLink (wheel ``nvidia-nvjitlink``) turns PTX into machine code.

Only ``record`` needs it; its answers are kept.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_PTX = 2  # NVJITLINK_INPUT_PTX
_LINE = re.compile(r"line (\d+); (error|fatal)\s*: (.*)")


class Assembler:
    """The library of the installed wheel.

    Raises:
        RuntimeError: there is none; says what to install.
    """

    def __init__(self) -> None:
        path = _library()
        self._library = ctypes.CDLL(str(path))

    def version(self) -> str:
        """The wheel's version."""
        return distribution("nvidia-nvjitlink").version

    def errors(self, text: str, architecture: str) -> dict[int, str]:
        """Assemble a module: the first complaint of each of its lines (from 1), line 0 for what names none.

        In a process of its own: some forms crash the assembler.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w") as stream:
                json.dump(list(self._errors(text, architecture).items()), stream)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            said = stream.read()
        os.waitpid(child, 0)
        return dict(json.loads(said)) if said else {0: "the assembler crashed"}

    def _errors(self, text: str, architecture: str) -> dict[int, str]:
        handle, library = ctypes.c_void_p(), self._library
        options = (ctypes.c_char_p * 2)(f"-arch={architecture}".encode(), b"-O0")
        if library.nvJitLinkCreate(ctypes.byref(handle), 2, options):
            raise RuntimeError(f"nvJitLink does not know the architecture {architecture}")
        try:
            data = text.encode() + b"\0"
            status = library.nvJitLinkAddData(handle, _PTX, data, ctypes.c_size_t(len(data)), b"forms.ptx")
            status = status or library.nvJitLinkComplete(handle)
            if not status:
                return {}
            size = ctypes.c_size_t()
            library.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            library.nvJitLinkGetErrorLog(handle, log)
        finally:
            library.nvJitLinkDestroy(ctypes.byref(handle))
        found: dict[int, str] = {}
        said = log.value.decode(errors="replace")
        for number, _, message in _LINE.findall(said):
            found.setdefault(int(number), message)
        return found or {0: said}


def _library() -> Path:
    try:
        files = distribution("nvidia-nvjitlink").files or []
    except PackageNotFoundError:
        raise RuntimeError("there is no nvJitLink here: pip install nvidia-nvjitlink") from None
    for file in files:
        if re.search(r"libnvJitLink\.so(\.\d+)?$|nvJitLink_\d+_\d+\.dll$", file.name):
            return Path(str(file.locate()))
    raise RuntimeError("the wheel nvidia-nvjitlink has no library here")


def accepted(assembler: Assembler, head: str, instructions: list[str], architecture: str) -> list[bool]:
    """Which of these instructions the assembler takes, one line each behind ``head``."""
    first = head.count("\n") + 1
    answers = [True] * len(instructions)
    pending = list(range(len(instructions)))
    while pending:
        text = head + "\n".join(instructions[index] for index in pending) + "\nret;\n}\n"
        errors = assembler.errors(text, architecture)
        wrong = {line - first for line in errors if 0 <= line - first < len(pending)}
        if not wrong:
            if errors:  # the complaint names no line: look closer
                if len(pending) == 1:
                    answers[pending[0]] = False
                    return answers
                half = len(pending) // 2
                for part in (pending[:half], pending[half:]):
                    for index, answer in zip(
                        part, accepted(assembler, head, [instructions[i] for i in part], architecture), strict=True
                    ):
                        answers[index] = answer
            return answers
        for position in wrong:
            answers[pending[position]] = False
        pending = [index for position, index in enumerate(pending) if position not in wrong]
    return answers
