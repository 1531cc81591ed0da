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

from cudalab.sim.compiler import CompileError, Diagnostic, Limits, Program, compile
from tests.corpus.run import toolkit_folders

ROUNDS = 60
NAME = "public.cu"
"""What the compiler calls every source."""
LIMITS = Limits(seconds=120.0)  # unrolled kernels of samples that take the assembler long, on a busy machine
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
_CONDITION = re.compile(r"^([ \t]*#[ \t]*(if|ifdef|ifndef|else|elif|endif)\b(?:\\\n|[^\n])*)", re.MULTILINE)
_INCLUDE = re.compile(r'#\s*include\s*(["<])([^">]+)[">]')
_HEADERS = re.compile(
    r"^(cooperative_groups(/.*)?(\.h)?|cuda_(fp16|bf16|fp8|pipeline|awbarrier).*|cuda/(?!.*memory_resource).*|cub/.*"
    r"|mma\.h|crt/.*|cuda/std/.*|vector_types\.h|device_launch_parameters\.h|math_constants\.h|curand_kernel\.h)$"
)
# CCCL's <cuda/std/cstdint> declares these names too; the same types twice are no error.
_MISSING = re.compile(r'(?:identifier|(?<!or )namespace|cannot open source file) "?([\w/.]+)"?')
_FROM_DEVICE = "launches kernels from the device, which NVRTC alone does not compile and is out of scope"
_LIBRARIES = {
    "curand": "cuRAND, a library with headers of its own",
    "cufft": "cuFFT, a library with headers of its own",
    "cuda": "the CUDA runtime (host, or device runtime)",
    "XM": "DirectX",
    "std": "the C++ standard library, which NVRTC does not have",
    "cub": "CUB as a whole, which includes host headers",
    "thrust": "Thrust, which NVRTC does not compile",
}
_PRELUDE = """typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;
typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t; typedef long long intptr_t;
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
    refused: str = ""
    """Why the compiler does not take it."""

    @property
    def shown(self) -> str:
        """What the compiler gets: of what is cut out, the ends of conditions that began outside."""
        if self.kept:
            return self.text
        lines = _CONDITION.findall(self.text)
        begun = sum(word.startswith("if") for _, word in lines)
        return "\n".join(line for line, _ in lines) if begun != sum(word == "endif" for _, word in lines) else ""


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
        return _kernel_names(self.text)

    @property
    def text(self) -> str:
        return "\n".join(item.shown for item in self.items if item.shown)

    @property
    def refused(self) -> dict[str, str]:
        """Kernels that were cut out because NVRTC does not take them, and why."""
        cut = [item for item in self.items if item.refused and "__global__" in item.text]
        return {name: item.refused for item in cut for name in _kernel_names(item.text)}


def _kernel_names(text: str) -> list[str]:
    return re.findall(r"__global__[^;{(]*?(?:__launch_bounds__\s*\([^)]*\)[^;{(]*?)?\b(?!__launch)(\w+)\s*\(", text)


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


def _keep_macros(found: list[Item]) -> None:
    """Uses of the file's own macros that declare something for the device stay as well."""
    defined = [re.match(r"#\s*define\s+(\w+)\(", item.text) for item in found if _DEVICE.search(item.text)]
    names = {match.group(1) for match in defined if match}
    for item in found:
        used = re.match(r"(\w+)\s*\(", item.text)
        if item.kind == "host" and used and used.group(1) in names:
            item.kept, item.kind = True, "constant"


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
    found = items(path.resolve(), root)
    _keep_macros(found)
    source = Source([Item(_PRELUDE, "directive", frozenset()), *found])
    tried: set[str] = set()
    for _ in range(ROUNDS):
        text = source.text
        if text in tried:
            break
        tried.add(text)
        try:
            source.program = compile(text, options=OPTIONS, name_expressions=tuple(instances), name=NAME, limits=LIMITS)
            source.error = ""
            return source
        except CompileError as error:
            source.error = first(error)
            if source.refused_by_simulator or not _mend(source, error):
                break
    return source


def first(error: CompileError) -> str:
    """The first thing that the compiler said."""
    found = next((d for d in error.diagnostics if d.severity in ("error", "catastrophic error")), None)
    return f"{found.text} (line {found.line})" if found else str(error).splitlines()[0]


def _mend(source: Source, error: CompileError) -> bool:
    """Bring back what is missing; else cut out what is refused, kernels last. Whether anything changed."""
    starts, line = [], 1
    for item in source.items:
        if item.shown:
            starts.append((line, item))
            line += item.shown.count("\n") + 1
    errors = [found for found in error.diagnostics if found.severity == "error"]
    changed = False
    for found in errors:
        missing = _MISSING.search(found.text)
        changed |= bool(missing) and _bring_back(source, missing.group(1))
    if changed:
        return True
    for kernels in (False, True):
        for found in errors:
            if found.file == NAME:
                at = next((item for start, item in reversed(starts) if start <= found.line), None)
            else:  # inside a header
                at = next((item for item in reversed(source.items) if item.kept and _INCLUDE.match(item.text)), None)
            if at is None or at is source.items[0] or not at.kept or at.kind == "scope" or _CONDITION.match(at.text):
                continue
            if ("__global__" in at.text) == kernels:
                at.kept, at.kind = False, "refused"
                at.refused = _because(source, at, [d for d in errors if d.line >= found.line])
                return True
    return False


def why(source: Source, kernel: str, error: CompileError) -> str:
    """Why no instance of a template kernel is compiled."""
    errors = [found for found in error.diagnostics if found.severity == "error"]
    if not errors:
        return first(error)
    if errors[0].text.startswith("device-side kernel launch"):
        return _FROM_DEVICE
    own = next((item.text for item in source.items if kernel in _kernel_names(item.text)), "")
    return _because(source, Item(own, "device", frozenset()), errors)


def _because(source: Source, item: Item, errors: list[Diagnostic]) -> str:
    """Why the compiler does not take an item: the name that is missing, and what became of that."""
    if "<<<" in item.text:
        return _FROM_DEVICE
    end = errors[0].line + item.text.count("\n") + 1
    for found in errors:
        missing = _MISSING.search(found.text)
        if missing and found.line < end:
            name = missing.group(1)
            cut = next((other for other in source.items if other.refused and name in other.names), None)
            library = next((of for begin, of in _LIBRARIES.items() if name.startswith(begin)), "")
            if cut is not None:
                return f"needs {name}: {cut.refused}"
            if library:
                return f"needs {name}, which is of {library}"
    for name, of in _LIBRARIES.items():
        if re.search(rf"\b{name}\w*\s*::", item.text):
            return f"needs {name}, which is of {of}"
    named = [missing for found in errors if found.line < end and (missing := _MISSING.search(found.text))]
    if named:
        return f"needs {named[0].group(1)}"
    words = set(re.findall(r"\w+", item.text))
    for other in source.items:
        if other.refused and (names := sorted(words & other.names)):
            return f"needs {names[0]}: {other.refused}"
    return errors[0].text


def _bring_back(source: Source, name: str) -> bool:
    for item in source.items:
        if not item.kept and item.kind == "host" and name in item.names:
            item.kept, item.kind = True, "constant"
            source.missing.append(name)
            return True
    return False
