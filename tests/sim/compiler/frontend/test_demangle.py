"""Mangled names against what the C++ ABI says they spell."""

from __future__ import annotations

import pytest

from cudalab.sim.compiler.frontend.demangle import DemangleError, demangle

SYMBOLS = {
    "_Z3addPKfPfi": ("add", ["float const*", "float*", "int"]),
    "_Z1kv": ("k", []),
    "_Z1kbcahstijlmxyfd": (
        "k",
        "bool,char,signed char,unsigned char,short,unsigned short,int,unsigned int,long,unsigned long,"
        "long long,unsigned long long,float,double".split(","),
    ),
    "_Z1kPPfPA4_iPFviE": ("k", ["float**", "int (*) [4]", "void (*)(int)"]),
    "_Z1kPA4_A5_d": ("k", ["double (*) [4][5]"]),
    "_Z1kPVKiPrKf": ("k", ["int const volatile*", "float const __restrict__*"]),
    "_ZN4math3vec5scaleEPNS0_4PairES2_": ("math::vec::scale", ["math::vec::Pair*", "math::vec::Pair*"]),
    "_Z2tkIfLi3EEvPKT_S0_y": ("tk<float, 3>", ["float const*", "float", "unsigned long long"]),
    "_Z1kILb1ELm5ELin2ELj7EEvv": ("k<true, 5ul, -2, 7u>", []),
    "_Z1kIJifEEvDpT_": ("k<int, float>", ["int", "float"]),
    "_Z1kIJEEvPiDpT_": ("k<>", ["int*"]),
    "_Z1kIJifEEvDpPT_": ("k<int, float>", ["int*", "float*"]),
    "_Z1kIJifEEv5TupleIJDpT_EE": ("k<int, float>", ["Tuple<int, float>"]),
    "_ZN2ns3addIfEEvPNS_1SIT_EE": ("ns::add<float>", ["ns::S<float>*"]),
    "_Z1kSt5arrayIiLm3EES0_": ("k", ["std::array<int, 3ul>", "std::array<int, 3ul>"]),
    "_Z1k6__halfP7double2S1_": ("k", ["__half", "double2*", "double2*"]),
    "_ZN12_GLOBAL__N_11kEi": ("(anonymous namespace)::k", ["int"]),
    "_Z1k4PairIS_IifEdE": ("k", ["Pair<Pair<int, float>, double>"]),
}


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbol_spells_its_types(symbol: str) -> None:
    name, parameters = SYMBOLS[symbol]
    function = demangle(symbol)
    assert function.name == name
    assert [str(parameter) for parameter in function.parameters] == parameters


def test_pointee_of_a_pointer() -> None:
    (parameter,) = demangle("_Z1kPKPVd").parameters
    assert str(parameter.pointee) == "double volatile* const"
    assert parameter.pointee is not None and parameter.pointee.unqualified == "double volatile*"


@pytest.mark.parametrize(
    "symbol", ["add", "", "_Z", "_Z3ad", "_Z1kS9_", "_Z1kT_", "_Z1kP", "_Z1kIXadL_Z1fvEEEvv", "_Z1k!"]
)
def test_what_is_no_symbol_is_refused(symbol: str) -> None:
    with pytest.raises(DemangleError):
        demangle(symbol)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DemangleError, match="too deep"):
        demangle("_Z1k" + "P" * 100_000 + "i")
