"""Scanner for the headers that a source includes, without a preprocessor.

Two things need to know. The cache: when a header of the learner's own changes, what was compiled with
it is stale. And grading: NVRTC's preprocessor opens any file it is told to, and quotes its lines in
errors, so ``#include "/etc/passwd"`` would print that file. There, only CUDA's own headers are allowed.

The scan over-approximates: an ``#include`` in a disabled ``#if`` branch or in a raw string counts. The helper process
of a grader is jailed besides (``jail.py``); this comes first because it works on every system and gives the better
message.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from msgspec import Struct

_SPLICE = re.compile(r"(?:\\|\?\?/)\r?\n")
_HASH = r"(?:\#|%:|\?\?=)"
# Each pattern takes time linear in the source, whatever the source: a comment matches in one way only, and one that
# never ends matches to the end of the text.
_BLANK = r"[ \t\f\v\r\x1f]"  # \x1f stands for a line break within a comment
_GAP = rf"(?:{_BLANK}|/\*(?:[^*]|\*(?!/)){{0,1000}}\*/)*"
_DIRECTIVE = re.compile(  # first on its line, or on the line where a comment ends
    rf"(?:\A|(?<=[\n\x1f])|(?<=\*/))[ \t\f\v\r]*{_HASH}{_GAP}(include_next|include|import|embed)\b{_GAP}"
    r"(?:\"([^\"\n]*)\"|<([^>\n]*)>|([^\n]*))",
    re.DOTALL,
)
_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL)
_QUERY = re.compile(
    rf"\b(__has_include(?:_next)?|__has_embed){_GAP}\(?{_GAP}(?:\"([^\"\n]*)\"|<([^>\n]*)>|([^\n)]*))", re.S
)
_LARGEST = 16 << 20  # bytes of one header that is read for the cache's sake


class Include(Struct, frozen=True):
    """One directive. ``target`` is empty when a macro computes it."""

    directive: str
    target: str
    quoted: bool
    line: int
    text: str

    @property
    def written(self) -> str:
        if not self.target:
            return self.text
        return f'"{self.target}"' if self.quoted else f"<{self.target}>"


class IncludeError(ValueError):
    """An include that is not allowed. ``line`` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def find_includes(source: str, *, queries: bool = False) -> list[Include]:
    """The include directives of ``source``; with ``queries``, the ``__has_include`` questions too."""
    if not any(word in source for word in ("clude", "\\", "??/", "import", "embed")):
        return []
    text, breaks = _spliced(source)
    if 'R"' not in text:  # in a raw string, what looks like a comment may be none
        text = _COMMENT.sub(lambda match: match[1] or _blank(match[0]), text)
    found = []
    for pattern in (_DIRECTIVE, _QUERY) if queries else (_DIRECTIVE,):
        for match in pattern.finditer(text):
            directive, quoted, angled, other = match.groups()
            before = text.count("\n", 0, match.start(1)) + text.count("\x1f", 0, match.start(1))
            line = before + 1 + sum(1 for at in breaks if at < match.start(1))
            target = quoted if quoted is not None else angled if angled is not None else ""
            words = target or " ".join((other or "").split())
            found.append(Include(directive, target, quoted is not None, line, words))
    return found


def _blank(comment: str) -> str:
    return "".join("\x1f" if character == "\n" else " " for character in comment)


def _spliced(source: str) -> tuple[str, list[int]]:
    """``source`` with continued lines joined, and where in the result a line break was dropped."""
    parts: list[str] = []
    breaks: list[int] = []
    position = length = 0
    for match in _SPLICE.finditer(source):
        part = source[position : match.start()]
        parts.append(part)
        length += len(part)
        breaks.append(length)
        position = match.end()
    parts.append(source[position:])
    return "".join(parts), breaks


def check_bundled(source: str, folders: Sequence[str]) -> None:
    """Refuse every include of ``source`` that is not a header in one of ``folders``.

    Raises:
        IncludeError: an absolute path, a path with ``..``, a computed name, or an unknown header.
    """
    for entry in find_includes(source, queries=True):
        question = entry.directive.startswith("__has")
        if entry.directive in ("embed", "import", "__has_embed"):
            raise IncludeError(f"{entry.directive} is not allowed here", entry.line)
        if not entry.target:
            raise IncludeError(
                f"{entry.directive} {entry.written}: a header name made by a macro is not allowed here; "
                "write it out, as #include <cuda_fp16.h>",
                entry.line,
            )
        if not _plain(entry.target):
            raise IncludeError(
                f"{entry.directive} {entry.written}: only CUDA's own headers can be included here; "
                "absolute paths and .. are not allowed",
                entry.line,
            )
        if not question and not any(_inside(folder, entry.target) for folder in folders):
            raise IncludeError(
                f"{entry.directive} {entry.written}: only CUDA's own headers can be included here, and it is none of "
                "them; a plain kernel needs no header",
                entry.line,
            )


def _plain(target: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_+-][\w+.-]*(?:/[A-Za-z0-9_+-][\w+.-]*)*", target) is not None


def _inside(folder: str, target: str) -> bool:
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, target))
    return os.path.isfile(path) and os.path.commonpath([root, path]) == root


def dependencies(source: str, folders: Sequence[str], first: Sequence[str] = ()) -> list[tuple[str, str]] | None:
    """The learner's own headers that ``source`` reaches in ``folders``: (path, digest), sorted.

    ``first`` are headers included ahead of it by an option. None when that cannot be told: a macro
    computes a name, or a header is outside ``folders`` or too large. Such a compile must not be cached.
    """
    found: dict[str, str] = {}
    waiting: list[tuple[str, str]] = [("", source)]
    if first:
        waiting.append(("", "".join(f'#include "{name}"\n' for name in first)))
    while waiting:
        folder, text = waiting.pop()
        for entry in find_includes(text):
            if not entry.target:
                return None
            if os.path.isabs(entry.target):
                places = [entry.target]
            else:
                own = [folder] if folder and entry.quoted else []
                places = [os.path.join(place, entry.target) for place in (*own, *folders)]
            for path in places:
                if path in found:
                    break
                if os.path.isfile(path):
                    if os.path.getsize(path) > _LARGEST:
                        return None
                    with open(path, "rb") as file:
                        data = file.read()
                    found[path] = hashlib.blake2b(data, digest_size=16).hexdigest()
                    waiting.append((os.path.dirname(path), data.decode("utf-8", "replace")))
                    break
    return sorted(found.items())
