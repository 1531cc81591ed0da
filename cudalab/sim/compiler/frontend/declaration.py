"""Finds kernel declarations in CUDA C++ text: their names, and the names of their parameters.

A compiler's output no longer knows what a parameter was called, and an error such as "parameter 3
(`n`): expected an int" needs to. So the source is read, as far as that goes without a C++ front end:
comments, strings, balanced brackets, default values, templates and attributes are understood; a
declaration that a macro makes up is not, and its parameters stay nameless.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_IGNORED = re.compile(
    r"""R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)   # raw string
      | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'          # string, character
      | //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z)            # comments
      | ^[ \t]*\#(?:\\\r?\n|[^\n])*                        # preprocessor lines
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DIGIT_SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*|::|\.\.\.|\S")
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_ATTRIBUTES = {"__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__", "__attribute__", "__declspec"}
_TYPE_WORDS = frozenset(
    "const volatile __restrict__ __restrict restrict __grid_constant__ unsigned signed short long int char bool "
    "float double void auto struct class enum union typename wchar_t char8_t char16_t char32_t __int128 "
    "size_t half __half".split()
)
_NOT_A_DECLARATOR = frozenset(
    "if for while switch return sizeof alignof alignas decltype noexcept static_assert defined".split()
)


@dataclass(frozen=True)
class DeclaredParameter:
    """One parameter as written: its name (``""`` when it has none) and the text of its type."""

    name: str
    text: str


@dataclass(frozen=True)
class Declaration:
    """One ``__global__`` function as written."""

    name: str
    line: int
    """Where the name stands, counted from 1."""
    c_linkage: bool
    """Declared ``extern "C"``, alone or in a block."""
    template: bool
    scope: str
    """The namespaces around it, ``a::b``."""
    parameters: tuple[DeclaredParameter, ...]


def blank(source: str, *, keep_strings: bool = False) -> str:
    """``source`` with comments, preprocessor lines and (unless kept) the inside of strings turned to
    spaces. Length and line breaks stay, so positions still hold."""

    def fill(match: re.Match[str]) -> str:
        text = match[0]
        if keep_strings and text[0] in "\"'R":
            return text
        return "".join(character if character == "\n" else " " for character in text)

    return _IGNORED.sub(fill, _DIGIT_SEPARATOR.sub("_", source))


@functools.lru_cache(maxsize=8)
def find_kernels(source: str) -> tuple[Declaration, ...]:
    """All ``__global__`` functions that stand in ``source`` as such, in order."""
    text = blank(source)
    with_strings = blank(source, keep_strings=True)
    c_blocks, namespaces = _blocks(source, text)
    found = []
    for match in re.finditer(r"\b__global__\b", text):
        declarator = _declarator(text, match.end())
        if declarator is None:
            continue
        name, start, opening = declarator
        closing = _closing(text, opening)
        if closing < 0:
            continue
        begin = max(text.rfind(mark, 0, match.start()) for mark in ";}{") + 1
        head = with_strings[begin:start]
        linked = re.search(r'\bextern\s*"C"', head) is not None
        found.append(
            Declaration(
                name=name,
                line=text.count("\n", 0, start) + 1,
                c_linkage=linked or any(low < start < high for low, high in c_blocks),
                template=re.search(r"\btemplate\s*<", head) is not None,
                scope="::".join(label for label, low, high in namespaces if label and low < start < high),
                parameters=tuple(_parameters(text, opening + 1, closing)),
            )
        )
    return tuple(found)


def parameter_names(source: str, name: str, count: int) -> tuple[str, ...]:
    """The names of the ``count`` parameters of kernel ``name`` (unqualified); each ``""`` where unknown."""
    return tuple(parameter.name for parameter in declared_parameters(source, name, count))


def declared_parameters(source: str, name: str, count: int) -> tuple[DeclaredParameter, ...]:
    """As ``parameter_names``, with the type texts. Of several declarations the one with the right
    count and the most names wins: a definition over a declaration ahead of it."""
    empty = (DeclaredParameter("", ""),) * count
    fitting = [entry.parameters for entry in find_kernels(source) if entry.name == name]
    packs = [entry for entry in fitting if entry and "..." in entry[-1].text and len(entry) <= count + 1]
    exact = [entry for entry in fitting if len(entry) == count and entry not in packs]
    if exact:
        return max(exact, key=lambda entry: sum(bool(parameter.name) for parameter in entry))
    if packs:
        fixed, pack = packs[0][:-1], packs[0][-1]
        rest = [DeclaredParameter(f"{pack.name}[{i}]" if pack.name else "", "") for i in range(count - len(fixed))]
        return (*fixed, *rest)
    return empty


def _declarator(text: str, at: int) -> tuple[str, int, int] | None:
    """(name, its position, position of the parameters' bracket) of the function declared at ``at``."""
    limit = min((position for mark in ";{}" if (position := text.find(mark, at)) >= 0), default=len(text))
    while match := _CALL.search(text, at, limit):
        name, opening = match[1], match.end() - 1
        if name not in _ATTRIBUTES and name not in _NOT_A_DECLARATOR:
            return name, match.start(), opening
        at = _closing(text, opening) + 1
        if not at:
            return None
        limit = min((position for mark in ";{}" if (position := text.find(mark, at)) >= 0), default=len(text))
    return None


def _closing(text: str, opening: int) -> int:
    """The position of the bracket that closes the one at ``opening``; -1 when there is none."""
    closing = _PAIRS[text[opening]]
    depth = 0
    for position in range(opening, len(text)):
        if text[position] == text[opening]:
            depth += 1
        elif text[position] == closing:
            depth -= 1
            if depth == 0:
                return position
    return -1


def _blocks(source: str, text: str) -> tuple[list[tuple[int, int]], list[tuple[str, int, int]]]:
    """The extents of ``extern "C" { }`` blocks, and of namespaces with their names."""
    linkage = []
    for match in re.finditer(r'\bextern\s*"C"\s*\{', blank(source, keep_strings=True)):
        closing = _closing(text, match.end() - 1)
        linkage.append((match.end(), closing if closing >= 0 else len(text)))
    spaces = []
    for match in re.finditer(r"\bnamespace\s+([A-Za-z_][\w:]*)?\s*\{", text):
        closing = _closing(text, match.end() - 1)
        spaces.append((match[1] or "", match.end(), closing if closing >= 0 else len(text)))
    return linkage, spaces


def _parameters(text: str, start: int, end: int) -> Iterator[DeclaredParameter]:
    for low, high in _split(text, start, end):
        piece = text[low:high]
        default = _top_level(piece, "=")
        if default >= 0:
            piece = piece[:default]
        words = _WORD.findall(piece)
        if words and words != ["void"]:
            yield DeclaredParameter(_parameter_name(words), " ".join(piece.split()))


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Extents between commas that stand in no bracket."""
    depth, low = 0, start
    for position in range(start, end):
        character = text[position]
        if character in "([{<":
            depth += 1
        elif character in ")]}" or (character == ">" and depth > 0 and text[position - 1] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            yield low, position
            low = position + 1
    yield low, end


def _top_level(piece: str, mark: str) -> int:
    depth = 0
    for position, character in enumerate(piece):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == mark and depth <= 0:
            return position
    return -1


def _parameter_name(words: list[str]) -> str:
    """The declared name among the tokens of one parameter."""
    for index, word in enumerate(words):  # int (*name)[4], void (*name)(int)
        if word == "(" and index + 2 < len(words) and words[index + 1] in ("*", "&"):
            inside = words[index + 2 : words.index(")", index)]
            names = [entry for entry in inside if entry.isidentifier() and entry not in _TYPE_WORDS]
            return names[-1] if names else ""
    while words and words[-1] == "]":
        words = words[: len(words) - 1 - words[::-1].index("[")]
    if len(words) < 2 or not words[-1].isidentifier() or words[-1] in _TYPE_WORDS or words[-2] == "::":
        return ""
    # `const Foo` names a type, `Foo x` a parameter: something before the last word must be a type
    before = [word for word in words[:-1] if word not in _TYPE_WORDS or word in _FUNDAMENTAL]
    return words[-1] if before else ""


_FUNDAMENTAL = _TYPE_WORDS - frozenset(
    "const volatile __restrict__ __restrict restrict __grid_constant__ struct class enum union typename".split()
)
