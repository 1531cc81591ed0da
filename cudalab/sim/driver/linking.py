"""Linking PTX: ``cuLink…``.

The pieces are checked when they are added and become one module of PTX when the link is complete; what
``cuLinkComplete`` returns is that text, which ``cuModuleLoadData`` takes, where a GPU has a cubin. Options have no
effect. Codes are an H200's (driver 580); a mistake in a piece that needs others shows when the link is completed.
"""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from typing import Any

from cuda.bindings.driver import CUjit_option, CUjitInputType, CUlinkState, CUresult

from cudalab.sim.binding import enumerator, handle, size_t, unsigned, void_pointer
from cudalab.sim.compiler import CompileError, compile_ptx
from cudalab.sim.compiler.ptx import PtxSyntaxError
from cudalab.sim.compiler.ptx.linking import DefinedTwice, is_complete, link
from cudalab.sim.device import host_address
from cudalab.sim.driver.answer import api, failed

_Options = tuple[CUjit_option] | list[CUjit_option] | None
_Values = tuple[Any] | list[Any] | None


class _Link:
    """One link under way."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.wrong = ""
        """Why it cannot be completed."""
        self.image: ctypes.Array[ctypes.c_char] | None = None
        """What it came to, with a NUL behind it."""


_links: dict[int, _Link] = {}
_handles = itertools.count(0x3000_0000, 0x40)


def _find(state: Any, name: str) -> _Link:
    found = _links.get(handle(state))
    if found is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_HANDLE, f"{name}: the link was destroyed, or never created")
    return found


@api(1)
def cuLinkCreate(numOptions: Any, options: _Options, optionValues: _Values) -> CUlinkState:
    unsigned(numOptions)
    number = next(_handles)
    _links[number] = _Link()
    return CUlinkState(number)


@api()
def cuLinkAddData(
    state: Any,
    typename: CUjitInputType,
    data: Any,
    size: Any,
    name: Any,
    numOptions: Any,
    options: _Options,
    optionValues: _Values,
) -> None:
    unsigned(numOptions)
    if isinstance(data, (bytes, bytearray, memoryview)):
        image = bytes(data)[: size_t(size)]
    else:
        try:
            image = host_address.read(void_pointer(data), size_t(size)).tobytes()
        except host_address.UnmappedAddress as error:
            raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"cuLinkAddData: {error}") from None
    _add("cuLinkAddData", state, typename, image)


@api()
def cuLinkAddFile(
    state: Any,
    typename: CUjitInputType,
    path: Any,
    numOptions: Any,
    options: _Options,
    optionValues: _Values,
) -> None:
    unsigned(numOptions)
    try:
        image = Path(bytes(path).decode()).read_bytes()
    except OSError as error:
        raise failed(CUresult.CUDA_ERROR_FILE_NOT_FOUND, f"cuLinkAddFile: {error}") from None
    _add("cuLinkAddFile", state, typename, image)


def _add(name: str, state: Any, kind: CUjitInputType, image: bytes) -> None:
    found = _find(state, name)
    if found.image is not None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{name}: the link is complete")
    if enumerator(kind, "typename") != int(CUjitInputType.CU_JIT_INPUT_PTX):
        raise failed(
            CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,
            f"{name}: the simulated device links PTX (CU_JIT_INPUT_PTX), not machine code of a real GPU: compile to "
            "PTX, nvrtcGetPTX with --gpu-architecture=compute_90 and -rdc=true, or nvcc -ptx -rdc=true",
        )
    text = image.split(b"\0")[0].decode("utf-8", "replace")
    if ".version" not in text or ".target" not in text:
        raise failed(CUresult.CUDA_ERROR_INVALID_IMAGE, f"{name}: this is no PTX: it has no .version and .target")
    try:
        if is_complete(text):
            compile_ptx(text)
        link([*found.pieces, text])
    except (PtxSyntaxError, CompileError) as error:
        raise failed(CUresult.CUDA_ERROR_INVALID_PTX, f"{name}: {error}") from None
    except DefinedTwice as error:
        found.wrong = str(error)
        raise failed(CUresult.CUDA_ERROR_INVALID_SOURCE, f"{name}: {error}") from None
    found.pieces.append(text)


@api(2)
def cuLinkComplete(state: Any) -> tuple[int, int]:
    found = _find(state, "cuLinkComplete")
    if found.image is not None:
        raise failed(CUresult.CUDA_ERROR_INVALID_HANDLE, "cuLinkComplete: the link is complete already")
    text = link(found.pieces)
    try:
        if found.pieces:
            compile_ptx(text)
    except CompileError as error:
        found.wrong = found.wrong or str(error)
    if found.wrong:
        raise failed(CUresult.CUDA_ERROR_INVALID_SOURCE, f"cuLinkComplete: {found.wrong}")
    found.image = ctypes.create_string_buffer(text.encode())
    return ctypes.addressof(found.image), len(found.image)


@api()
def cuLinkDestroy(state: Any) -> None:
    _find(state, "cuLinkDestroy")
    del _links[handle(state)]
