"""Programs and messages survive the way through plain data; damage is noticed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.processes import codec
from cudalab.sim.compiler.processes.messages import (
    Build,
    Compile,
    Compiled,
    Limits,
    MakeRuntime,
    Native,
    ObjectCode,
    Order,
    Ready,
    Refusal,
    Reply,
)
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
    return codec.decode(Program, codec.encode(program))


def test_program_round_trip() -> None:
    assert _through(_program()) == _program()


def test_kernel_without_resources() -> None:
    kernel = Kernel("k", (), None, 0, 0, 0, 0, 0, (), ())
    assert _through(Program("", "", "", {"k": kernel}, {}, {}, "")).kernels["k"].resources is None


@pytest.mark.parametrize("data", [None, 3, "x", {}, [], [1] * 8, {"source": ""}, b"\x00"])
def test_other_shapes_are_refused(data: object) -> None:
    with pytest.raises(codec.CodecError, match="not an encoded Program"):
        codec.decode(Program, codec.encode(data))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.__setitem__("source", 5),
        lambda data: data["kernels"]["k"].__setitem__("parameter_bytes", True),  # a count is a bool
        lambda data: data["kernels"]["k"].__setitem__("parameter_bytes", 8.0),
        lambda data: data["kernels"]["k"]["sites"][0].__setitem__("kind", 99),  # no such SiteKind
        lambda data: data["objects"].__setitem__("plain", 12),
        lambda data: data["globals"]["table"]["pointers"][0].append(1),
        lambda data: data["kernels"]["k"].pop("name"),
    ],
)
def test_wrong_fields_are_refused(damage: Callable[[Any], None]) -> None:
    document = msgspec.msgpack.decode(codec.encode(_program()))
    damage(document)
    with pytest.raises(codec.CodecError):
        codec.decode(Program, codec.encode(document))


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(codec.CodecError, match="trailing"):
        codec.decode(Program, codec.encode(_program()) + b"\x01")


def test_deep_nesting_is_refused() -> None:
    inner = codec.encode(Location("f", 1))
    deep = inner.replace(b"\xc0", b"") * 100_000 + inner
    with pytest.raises(codec.CodecError):
        codec.decode(Location, deep)


@pytest.mark.parametrize("kind", [bytes, str, list[int], dict[str, int], tuple[int, ...], Program])
@pytest.mark.parametrize("head", [b"\xdd", b"\xdf", b"\xdb", b"\xc6"], ids=["array", "map", "text", "bytes"])
def test_a_length_that_claims_too_much(kind: Any, head: bytes) -> None:
    with pytest.raises(codec.CodecError):
        codec.decode(kind, head + b"\xff\xff\xff\xff")


@given(st.dictionaries(st.text(), st.integers(-(2**63), 2**64 - 1) | st.text() | st.none() | st.binary()))
def test_message_round_trip(document: dict[str, object]) -> None:
    stream = io.BytesIO(codec.frame(document) * 2)
    for _ in range(2):
        data = codec.read(stream)
        assert data is not None and codec.decode(dict[str, Any], data) == document
    assert codec.read(stream) is None


@given(st.data())
def test_cut_message_is_refused(data: st.DataObject) -> None:
    message = codec.frame({"a": [1, "b"], "c": b"abc"})
    cut = message[: data.draw(st.integers(1, len(message) - 1))]
    with pytest.raises(codec.CodecError):
        codec.read(io.BytesIO(cut))
    with pytest.raises(codec.CodecError):
        codec.decode(dict[str, Any], message[8 : max(len(cut), 9)][:-1])


@given(st.binary(min_size=1, max_size=64))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    for kind in (Program, Reply, Order, dict[str, Any]):
        with contextlib.suppress(codec.CodecError):
            codec.decode(kind, noise)


def test_a_header_that_claims_too_much() -> None:
    with pytest.raises(codec.CodecError, match="longer than"):
        codec.read(io.BytesIO(b"\xff" * 64))
    with pytest.raises(codec.CodecError, match="cut off"):
        codec.read(io.BytesIO((codec.LARGEST_MESSAGE).to_bytes(8, "little") + b"x"))


REPLIES = [
    Ready(("landlock",)),
    Refusal("ptx", "no", "log", "k.cu", 3),
    Compiled(_program()),
    ObjectCode(b"\x7f", ["k"]),
]


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_replies_keep_their_kind(reply: Any) -> None:
    assert codec.decode(Reply, codec.encode(reply)) == reply  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "request_",
    [Compile("s", "k.cu", ["-lineinfo"], ["f<1>"], True), Build("ptx"), Native("ptx", "plain"), MakeRuntime()],
)
def test_orders_keep_their_kind(request_: Any) -> None:
    order = Order(request_, Limits(seconds=2.0))
    assert codec.decode(Order, codec.encode(order)) == order
