"""Programs and messages survive the way through plain data; damage is noticed."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.processes import codec
from cudalab.sim.compiler.program import (
    GlobalVariable,
    Kernel,
    Location,
    Parameter,
    Program,
    Resources,
    RootSource,
    Site,
)


def _program() -> Program:
    location = Location("kernel.cu", 7, 3, Location("kernel.cu", 2))
    kernel = Kernel(
        name="k",
        parameters=(Parameter(0, "x", "float*", "pointer", 8, 8, 0, "float"),),
        resources=Resources(16, 1024, 0),
        parameter_bytes=8,
        static_shared=1024,
        local_bytes=0,
        frame_bytes=32,
        scratch_bytes=0,
        roots=(RootSource(parameter_offset=0), RootSource(symbol="table")),
        sites=(Site(SiteKind.STORE, "st.global.f32", Space.GLOBAL, 4, location, ptx_line=40),),
        uses_dynamic_shared=True,
        location=location,
    )
    variable = GlobalVariable("table", 8, 8, Space.CONSTANT, b"\x00\xff" * 4, ((0, "table", 4),))
    return Program(
        "source é", "ptx", "log", {"k": kernel}, {"table": variable}, {"k": "k"}, "key", {"plain": b"\x7fELF"}
    )


def _through(program: Program) -> Program:
    blobs: list[bytes] = []
    document, received = codec.unpack(codec.pack(codec.encode(program, blobs), blobs))
    return codec.decode(Program, document, received)


def test_program_round_trip() -> None:
    assert _through(_program()) == _program()


def test_kernel_without_resources() -> None:
    kernel = Kernel("k", (), None, 0, 0, 0, 0, 0, (), ())
    assert _through(Program("", "", "", {"k": kernel}, {}, {}, "")).kernels["k"].resources is None


@pytest.mark.parametrize("data", [None, 3, "x", {}, [], [1] * 8, [[]] * 8])
def test_other_shapes_are_refused(data: object) -> None:
    with pytest.raises(codec.CodecError):
        codec.decode(Program, data, [])


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.__setitem__(0, 5),  # source is no text
        lambda data: data[3]["k"].__setitem__(3, True),  # a count is a bool
        lambda data: data[3]["k"][9][0].__setitem__(0, 99),  # no such SiteKind
        lambda data: data[7].__setitem__("plain", 12),  # no such blob
        lambda data: data[3]["k"].pop(),
        lambda data: data.append(1),
    ],
)
def test_wrong_fields_are_refused(damage) -> None:  # type: ignore[no-untyped-def]
    blobs: list[bytes] = []
    document = codec.encode(_program(), blobs)
    damage(document)
    with pytest.raises(codec.CodecError):
        codec.decode(Program, document, blobs)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.lists(st.binary()))
def test_message_round_trip(document: dict[str, object], blobs: list[bytes]) -> None:
    data = codec.pack(document, blobs)
    assert codec.unpack(data) == (document, blobs)
    stream = io.BytesIO(data + data)
    assert codec.read(stream) == (document, blobs)
    assert codec.read(stream) == (document, blobs)
    assert codec.read(stream) is None


@given(st.data())
def test_cut_message_is_refused(data: st.DataObject) -> None:
    message = codec.pack({"a": [1, "b"]}, [b"abc", b""])
    cut = message[: data.draw(st.integers(1, len(message) - 1))]
    with pytest.raises(codec.CodecError):
        codec.unpack(cut)
    with pytest.raises(codec.CodecError):
        codec.read(io.BytesIO(cut))


@given(st.binary(min_size=1, max_size=64))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    try:
        codec.unpack(noise)
    except codec.CodecError:
        pass


def test_a_header_that_claims_too_much() -> None:
    with pytest.raises(codec.CodecError):
        codec.read(io.BytesIO(b"\xff" * 64))
