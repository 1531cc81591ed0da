"""Cuts a CUDA source down to what is for the device, so that NVRTC, which compiles no host code, takes it.

The text is split into the declarations of its outermost level (and of namespaces and `extern "C"` blocks). Kernels,
device functions and variables, types, constants and macros stay; host functions, host variables and includes of host
libraries go. Where the compiler then misses a name that was cut out, that declaration comes back, and one that the
compiler refuses and nobody needs goes: `prepare` repeats that until the source compiles or nothing changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cudalab.sim.compiler import CompileError, Program, compile
from tests.corpus.run import toolkit_folders

ROUNDS = 40
OPTIONS = ("-std=c++17", *(toolkit_folders() if os.environ.get("CUDALAB_DEVICE") == "gpu" else ()))
_TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
      | (?P<string>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<directive>^[ \t]*\#(?:\\\r?\n|[^\n])*)
      | (?P<open>[({\[]) | (?P<close>[)}\]]) | (?P<end>;) | (?P<other>\w+|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DEVICE = re.compile(r"\b(__global__|__device__|__constant__|__managed__)\b")
_TYPE = re.compile(r"^\s*(?:template\s*<.*?>\s*)?(?:typedef|using\s+\w+\s*=|struct|class|union|enum)\b", re.DOTALL)
_CONSTANT = re.compile(r"^\s*(?:static\s+|inline\s+)*(?:const|constexpr)\b(?!.*\()", re.DOTALL)
_SCOPE = re.compile(r'^\s*(?:inline\s+)?(?:namespace\b[\w\s:]*|extern\s*"C")\s*$')
_NAMED = re.compile(
    r"\b(?!(?:__attribute__|__align__|__launch_bounds__|decltype|alignas)\b)([A-Za-z_]\w*)\s*(?:\(|=|\[|;|$)"
)
_INCLUDE = re.compile(r'#\s*include\s*(["<])([^">]+)[">]')
_HEADERS = re.compile(
    r"^(cooperative_groups(/.*)?(\.h)?|cuda_(fp16|bf16|fp8|pipeline|awbarrier).*|cuda/(?!.*memory_resource).*|cub/.*"
    r"|mma\.h|crt/.*|cuda/std/.*|vector_types\.h|device_launch_parameters\.h|math_constants\.h|curand_kernel\.h)$"
)
_PRELUDE = """typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t; typedef unsigned long uint64_t;
typedef unsigned long uintptr_t; typedef long intptr_t;
typedef unsigned long long CUtexObject, CUsurfObject;
typedef unsigned char uchar; typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned long ulong;
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295U
#define RAND_MAX 2147483647
#define M_SQRT1_2 0.70710678118654752440
#define register
#define __host__
#define M_PI 3.14159265358979323846
#define M_PI_F 3.14159265358979323846f
#define CUDART_PI_F 3.141592654f
#define CUDART_INF_F __int_as_float(0x7f800000)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
"""


@dataclass
class Item:
    """One declaration, or one preprocessor line."""

    text: str
    kind: str
    """``directive``, ``device``, ``type``, ``constant``, ``scope`` or ``host``."""
    names: frozenset[str]
    kept: bool = True


@dataclass
class Source:
    """What is left of one file for the device."""

    items: list[Item]
    program: Program | None = None
    error: str = ""
    missing: list[str] = field(default_factory=list)

    @property
    def refused_by_simulator(self) -> bool:
        """NVRTC has taken it, and the simulated device has not."""
        return "simulated device" in self.error or self.error.startswith("PTX line")

    @property
    def kernels(self) -> list[str]:
        """Kernels as written, without template arguments."""
        return re.findall(r"__global__[^;{(]*?(?:__launch_bounds__\s*\([^)]*\)[^;{(]*?)?\b(\w+)\s*\(", self.text)

    @property
    def text(self) -> str:
        return "\n".join(item.text for item in self.items if item.kept)


def split(text: str) -> Iterator[str]:
    """The declarations and preprocessor lines of the outermost level, without comments."""
    piece: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(text):
        kind, part = token.lastgroup, token.group()
        if kind == "mark":
            kind = "string"
        if kind == "comment":
            piece.append(" " + "\n" * part.count("\n"))
            continue
        if kind == "directive" and depth == 0 and not "".join(piece).strip():
            piece.clear()
            yield part.strip()
            continue
        if kind == "directive":
            piece.append("\n" + part.strip() + "\n")
            continue
        if kind == "open":
            if part == "{" and depth == 0 and _SCOPE.match("".join(piece)):
                yield "".join(piece).strip() + " {"
                piece.clear()
                continue
            depth += 1
        elif kind == "close":
            if part == "}" and depth == 0:  # of a scope
                yield "}"
                piece.clear()
                continue
            depth = max(0, depth - 1)
        piece.append(part)
        done = kind == "end" or (kind == "close" and part == "}" and _is_function("".join(piece)))
        if depth == 0 and done:
            yield "".join(piece).strip()
            piece.clear()
    rest = "".join(piece).strip()
    if rest:
        yield rest


def _is_function(text: str) -> bool:
    """Whether a declaration that ends with a brace is a function's body, and not a type or an initialiser."""
    head = text[: text.index("{")]
    return not _TYPE.match(head) and "(" in head and not re.search(r"=\s*$", head)


def _kind(text: str) -> str:
    if text.startswith("#"):
        return "directive"
    if text.endswith(" {") or text == "}":
        return "scope"
    head = text.split("{", 1)[0]
    if _DEVICE.search(head):
        return "device"
    if _TYPE.match(text):
        return "type"
    if _CONSTANT.match(head) or re.match(r"\s*template\s*<[^{;]*>\s*(?:struct|class)\b", text):
        return "constant"
    if re.match(r"\s*using\s+namespace\s+(?!std\b)", text) or re.match(r"\s*namespace\s+\w+\s*=", text):
        return "constant"
    return "device" if re.match(r"\s*(?:static_assert|__shared__)", text) else "host"


def _names(text: str) -> frozenset[str]:
    head = text.split("{", 1)[0]
    found = set(_NAMED.findall(head))
    found.update(re.findall(r"\b(?:struct|class|union|enum)\s+(?:__align__\([^)]*\)\s*)?(\w+)", head))
    if text.startswith("typedef"):
        found.update(re.findall(r"(\w+)\s*;\s*$", text))
    if text.startswith("enum"):
        found.update(re.findall(r"\b(\w+)\b", text))
    return frozenset(found)


def items(path: Path, root: Path, seen: set[Path] | None = None) -> list[Item]:
    """The items of a file, those of its own headers in place of their includes."""
    seen = seen if seen is not None else set()
    if path in seen:
        return []
    seen.add(path)
    out: list[Item] = []
    for text in split(path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")):
        kind = _kind(text)
        include = _INCLUDE.match(text) if kind == "directive" else None
        if include:
            local = _local(include.group(2), path, root)
            if local is not None and local.suffix in (".cu", ".cuh", ".h", ".hpp", ".inl"):
                out += items(local, root, seen)
            elif _HEADERS.match(include.group(2)):
                out.append(Item(text, kind, frozenset()))
            continue
        if re.match(r"#\s*(?:pragma|error|import)", text):
            continue
        out.append(Item(text, kind, _names(text), kept=kind != "host"))
    return out


def _local(name: str, path: Path, root: Path) -> Path | None:
    if name.startswith(
        ("helper_cuda", "helper_functions", "helper_gl", "helper_image", "helper_string", "helper_timer")
    ):
        return None
    common = root / "Common"
    for folder in (path.parent, path.parent.parent / "inc", path.parent.parent, common):
        candidate = folder / name
        if candidate.is_file():
            return candidate.resolve()
    return None


def prepare(path: Path, root: Path, instances: list[str]) -> Source:
    """Compile what the file has for the device; `instances` are name expressions of template kernels."""
    source = Source([Item(_PRELUDE, "directive", frozenset()), *items(path.resolve(), root)])
    tried: set[str] = set()
    for _ in range(ROUNDS):
        text = source.text
        if text in tried:
            break
        tried.add(text)
        try:
            source.program = compile(text, options=OPTIONS, name_expressions=tuple(instances), name="public.cu")
            source.error = ""
            return source
        except CompileError as error:
            source.error = _first(error)
            if not _mend(source, error):
                break
    return source


def _first(error: CompileError) -> str:
    found = next((d for d in error.diagnostics if d.severity in ("error", "catastrophic error")), None)
    return f"{found.text} (line {found.line})" if found else str(error).splitlines()[0]


def _mend(source: Source, error: CompileError) -> bool:
    """Bring back what is missing; cut out what is refused. Whether anything changed."""
    changed = False
    starts, line = [], 1
    for item in source.items:
        if item.kept:
            starts.append((line, item))
            line += item.text.count("\n") + 1
    for found in error.diagnostics:
        if found.severity == "warning":
            continue
        missing = re.search(
            r'(?:identifier|name followed by "::" must be a class or namespace name|namespace) "?(\w+)"?', found.text
        )
        if missing and (back := _bring_back(source, missing.group(1))):
            changed |= back
            continue
        at = next((item for start, item in reversed(starts) if start <= found.line), None)
        if at is not None and at.kept and at.kind not in ("scope",) and "__global__" not in at.text:
            if at.text.startswith("#") and re.match(r"#\s*(if|else|elif|endif)", at.text):
                continue
            if at is source.items[0]:
                continue
            at.kept, changed = False, True
            at.kind = "refused"
            if changed:
                return True
    return changed


def _bring_back(source: Source, name: str) -> bool:
    for item in source.items:
        if not item.kept and item.kind == "host" and name in item.names:
            item.kept, item.kind = True, "constant"
            source.missing.append(name)
            return True
    return False
