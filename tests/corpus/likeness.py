"""How alike two sources are, when types, constants and names are left out.

Two kernels of a corpus that differ only in a type or a constant show the same thing twice. So each source is read as
tokens; types become ``T``, numbers and strings ``N``, names that the source chooses itself ``I``. What stays are
keywords, operators, brackets and the names CUDA gives (``threadIdx``, ``__syncthreads``, ``atomicAdd``). No two of
these normal forms are equal, and the pairs of neighbouring tokens of two sources, counted, overlap less than a bound.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlL]*'
    r"|\w+|<<=|>>=|<<|>>|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|::|->|\S"
)
_TYPE = re.compile(
    r"(?:unsigned|signed|int|long|short|char|float|double|bool|size_t|void|__half2?|__nv_bfloat16"
    r"|u?(?:char|short|int|long|longlong)[1-4]|float[1-4]|double[1-4]|u?int\d+_t|__int128)$"
)
_KEYWORD = set(
    "if else for while do return break continue switch case default goto struct union class enum template typename "
    "using namespace const volatile static constexpr extern sizeof operator new delete this virtual override friend "
    "auto inline true false nullptr asm typedef public private static_assert decltype "
    "threadIdx blockIdx blockDim gridDim warpSize min max abs sqrt sqrtf fabs fabsf exp expf log logf malloc free "
    "printf assert sin sinf cos cosf fma fmaf fmin fmax fminf fmaxf init cub cuda cooperative_groups cg".split()
)
_GIVEN = re.compile(r"__\w+|atomic[A-Z]\w*|tex[123]D\w*|surf[123]D\w*|make_\w+")


def tokens(source: str) -> list[str]:
    """The normal form of a source: neighbouring type words count once."""
    found: list[str] = []
    for text in _TOKEN.findall(_COMMENT.sub(" ", source)):
        if text[0] in "\"'" or text[0].isdigit() or text[0] == "." and len(text) > 1:
            kind = "N"
        elif _TYPE.match(text):
            kind = "T"
        elif text[0].isalpha() or text[0] == "_":
            kind = text if text in _KEYWORD or _GIVEN.fullmatch(text) else "I"
        else:
            kind = text
        if kind == "T" and found and found[-1] == "T":
            continue
        found.append(kind)
    return found


def likeness(forms: list[list[str]]) -> np.ndarray:
    """For each two sources: shared pairs of neighbouring tokens over all of them, both counted as often as they occur.

    Returns a symmetric ``(n, n)`` array of numbers from 0 to 1; 1 on the diagonal.
    """
    counts = [Counter(zip(form, form[1:], strict=False)) for form in forms]
    column = {pair: k for k, pair in enumerate({pair for count in counts for pair in count})}
    table = np.zeros((len(forms), len(column)), np.int16)
    for row, count in enumerate(counts):
        for pair, times in count.items():
            table[row, column[pair]] = times
    shared = np.array([np.minimum(row, table).sum(axis=1) for row in table])
    total = table.sum(axis=1)
    return shared / (total[:, None] + total - shared)
