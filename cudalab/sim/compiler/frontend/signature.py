"""Signatures of kernels: number, types, sizes and names of parameters.

A GPU driver knows none of this: ``cuLaunchKernel`` copies bytes, and a float64 passed for a ``float``
is silently cut in half. The simulated device checks arguments, so it needs the exact C++ types. They
come from the compiler, not from a reading of the source:

- a C++ kernel's symbol spells its parameter types (``demangle.py``);
- an ``extern "C"`` kernel's symbol does not, so the source gets one more line at its end, a
  ``__global__`` template, and NVRTC is asked for the symbol of its instance for ``decltype(&kernel)``.
  That symbol spells the type of the kernel. The added entry is taken out of PTX and log again;
- where neither works (an overloaded name, PTX without source), the declaration's text or the PTX alone
  is used, and ``kind`` may be ``unknown``.

Sizes and offsets come from the PTX (PTX ISA, section 7.1: parameters are laid out in order, each at
its own alignment). ``__half`` and ``__nv_bfloat16`` count as ``float`` though CUDA makes them structs;
``double2`` and its like are structs.
"""

from __future__ import annotations

import re

from cudalab.sim.compiler.frontend.declaration import DeclaredParameter, declared_parameters, find_kernels
from cudalab.sim.compiler.frontend.demangle import DemangleError, Type, demangle
from cudalab.sim.compiler.program import Parameter

MARK = "cudalab_signature"
_PROBE = f'\n#line 1 "{MARK}"\ntemplate<typename T> __global__ void {MARK}() {{}}\n'

_ENTRY = re.compile(r"^[ \t]*(?:\.visible|\.weak|\.extern)?[ \t]*\.entry[ \t]+([\w$.]+)[ \t]*(?:\(([^)]*)\))?", re.M)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)(?:\s+\.ptr(?:\s+\.\w+)*(?:\s+\.align\s+\d+)?)?(?:\s+\.\w+)*"
    r"\s+([\w$.]+)\s*(?:\[(\d+)\])?"
)
_WIDTH = re.compile(r"[subf](\d+)$")
_INTEGERS = frozenset(
    "char,signed char,unsigned char,short,unsigned short,int,unsigned int,long,unsigned long,long long,"
    "unsigned long long,wchar_t,char8_t,char16_t,char32_t,__int128,unsigned __int128".split(",")
)
_FLOATS = frozenset(("float", "double", "long double", "_Float16", "__bf16", "__half", "__nv_bfloat16"))
_ALIASES = {
    "half": "__half", "unsigned": "unsigned int", "size_t": "unsigned long", "uint8_t": "unsigned char",
    "int8_t": "signed char", "uint16_t": "unsigned short", "int16_t": "short", "uint32_t": "unsigned int",
    "int32_t": "int", "uint64_t": "unsigned long", "int64_t": "long", "long int": "long", "short int": "short",
    "unsigned long int": "unsigned long", "long long int": "long long", "unsigned short int": "unsigned short",
    "unsigned long long int": "unsigned long long", "signed": "int", "signed int": "int",
}  # fmt: skip
_CV = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")


# ------------------------------------------------------------------------- asking the compiler


def probe_names(source: str) -> tuple[str, ...]:
    """Kernels whose type must be queried from NVRTC: those that ``source`` declares ``extern "C"``."""
    names = []
    for kernel in find_kernels(source):
        if kernel.c_linkage and not kernel.template:
            names.append(f"{kernel.scope}::{kernel.name}" if kernel.scope else kernel.name)
    return tuple(dict.fromkeys(names))


def probe_source(source: str) -> str:
    """``source`` with the probe behind its last line, in a file of its own, so that no line moves."""
    return source + _PROBE


def probe_expression(name: str) -> str:
    """The name expression whose lowered name spells the type of kernel ``name``."""
    return f"{MARK}<decltype(&{name})>"


def broken_by_probe(log: str) -> bool:
    """Whether a failed compile's log mentions the probe, so that it has to be done without."""
    return any(MARK in line for line in log.splitlines() if not line.startswith("ptxas"))


def without_probe(ptx: str) -> str:
    """``ptx`` without the probe's entries and their file."""
    position = 0
    kept = []
    for match in _ENTRY.finditer(ptx):
        if MARK not in match[1]:
            continue
        start, end = match.start(), ptx.find("\n}", match.end())
        if end < 0:
            break
        comment = ptx.rfind("\n", 0, max(start - 1, 0)) + 1  # "// .weak NAME" on the line above
        if MARK in ptx[comment:start]:
            start = comment
        kept.append(ptx[position:start])
        position = end + 3
    kept.append(ptx[position:])
    return re.sub(rf'(?m)^[ \t]*\.file[ \t]+\d+[ \t]+"[^"\n]*{MARK}".*\n?', "", "".join(kept))


# ------------------------------------------------------------------------- reading the answers


def signatures(ptx: str, source: str, lowered: dict[str, str]) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each kernel of ``ptx``, by its name there.

    ``lowered`` maps the name expressions that NVRTC was asked for to symbols; those made by
    ``probe_expression`` are used, others ignored. ``source`` may be empty.
    """
    probed: dict[str, tuple[Type, ...]] = {}
    for expression, symbol in lowered.items():
        if expression.startswith(f"{MARK}<"):
            name = expression.removeprefix(f"{MARK}<decltype(&").removesuffix(")>")
            types = _probed_types(symbol)
            if types is not None:
                probed[name.rpartition("::")[2]] = types
    return {name: _signature(name, layout, source, probed) for name, layout in _entries(ptx).items()}


def _probed_types(symbol: str) -> tuple[Type, ...] | None:
    try:
        function = demangle(symbol)
    except DemangleError:
        return None
    if len(function.arguments) != 1 or function.arguments[0].pointee is None:
        return None
    return function.arguments[0].pointee.parameters


def _entries(ptx: str) -> dict[str, list[tuple[str, int, int]]]:
    """(PTX type, size, alignment) of each parameter of each entry; an array's type is ``b8[]``."""
    entries = {}
    for match in _ENTRY.finditer(ptx):
        layout = []
        for alignment, kind, _, count in _PARAMETER.findall(match[2] or ""):
            width = _WIDTH.match(kind)
            element = int(width[1]) // 8 if width else 8
            size = element * int(count) if count else element
            layout.append((kind + "[]" if count else kind, size, max(int(alignment or 0), element)))
        entries[match[1]] = layout
    return entries


def _signature(
    name: str, layout: list[tuple[str, int, int]], source: str, probed: dict[str, tuple[Type, ...]]
) -> tuple[Parameter, ...]:
    plain = name
    types: tuple[Type, ...] | None = probed.get(name)
    if types is None:
        try:
            function = demangle(name)
            types, plain = function.parameters, _unqualified(function.name)
        except DemangleError:
            types = None
    if types is not None and len(types) != len(layout):
        types = None  # not this kernel's: better unknown than wrong
    declared = declared_parameters(source, plain, len(layout)) if source else ()
    parameters = []
    offset = 0
    for index, (storage, size, alignment) in enumerate(layout):
        offset = -(-offset // alignment) * alignment
        written = declared[index] if declared else DeclaredParameter("", "")
        if types is not None:
            ctype, kind, pointee = _describe(types[index], storage)
        else:
            ctype, kind, pointee = _guess(written, storage)
        parameters.append(Parameter(index, written.name, ctype, kind, size, alignment, offset, pointee))
        offset += size
    return tuple(parameters)


def _unqualified(name: str) -> str:
    """``add`` of ``math::add<float, ns::T>``."""
    return name.partition("<")[0].rpartition("::")[2]


def _describe(type_: Type, storage: str) -> tuple[str, str, str]:
    """(ctype, kind, pointee) of a type that the compiler spelled."""
    ctype = type_.unqualified  # a parameter's own const means nothing to its caller
    if type_.pointee is not None:
        target = type_.pointee
        return ctype, "pointer", str(target) if target.parameters is not None else target.unqualified
    return ctype, _value_kind(ctype, storage), ""


def _value_kind(ctype: str, storage: str) -> str:
    if ctype == "bool":
        return "bool"
    if ctype in _INTEGERS:
        return "integer"
    if ctype in _FLOATS:
        return "float"
    if storage.endswith("[]"):
        return "struct"
    return "integer" if storage[0] in "sub" and ctype else "unknown"  # an enum, which is passed as its integer


def _guess(written: DeclaredParameter, storage: str) -> tuple[str, str, str]:
    """(ctype, kind, pointee) from a declaration's text, as far as the PTX type bears it out."""
    text = written.text
    if written.name and "[" not in written.name:
        text = re.sub(rf"\b{re.escape(written.name)}\b(?!.*\b{re.escape(written.name)}\b)", "", text)
    head, star, _ = text.partition("*")
    base = _plain(head)
    if star and storage in ("u64", "b64", "s64"):
        depth = text.count("*") - 1
        constant = " const" if re.search(r"\bconst\b", head) else ""
        if not base.replace("_", "").replace(" ", "").replace(":", "").isalnum() or "(" in text:
            return "", "pointer", ""
        return f"{base}{constant}*" + "*" * depth, "pointer", base + "*" * depth
    if base in _INTEGERS | _FLOATS | {"bool"}:
        return base, _value_kind(base, storage), ""
    if storage.endswith("[]"):
        return base if re.fullmatch(r"[\w:]+", base) else "", "struct", ""
    if storage[0] == "f":
        return {"f32": "float", "f64": "double"}.get(storage, ""), "float", ""
    return "", "integer" if storage in ("u8", "u16", "u32", "s8", "s16", "s32", "b32") else "unknown", ""


def _plain(text: str) -> str:
    words = " ".join(_CV.sub(" ", text).split())
    return _ALIASES.get(words, words)


def unmangled_entries(ptx: str) -> list[str]:
    """Entries of ``ptx`` whose name does not spell their types."""
    return [match[1] for match in _ENTRY.finditer(ptx) if not match[1].startswith("_Z")]
