"""Includes found in sources, however they are written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cudalab.sim.compiler.frontend.includes import IncludeError, check_bundled, dependencies, find_includes

FOREIGN = [
    '#include "/etc/passwd"',
    "#include </etc/passwd>",
    '  #  include"/etc/passwd"',
    '#include "../../etc/passwd"',
    '#include "x/../../etc/passwd"',
    '#include "C:\\secret.h"',
    '#define FILE "/etc/passwd"\n#include FILE',
    '#include_next "/etc/passwd"',
    '%:include "/etc/passwd"',
    '??=include "/etc/passwd"',
    '#inc\\\nlude "/etc/passwd"',
    '#inc??/\nlude "/etc/passwd"',
    '#\\\ninclude "/etc/passwd"',
    'int a; \\ \n#include "/etc/passwd"',
    '#/* a\nb */include/**/"/etc/passwd"',
    '/* a */ # include "/etc/passwd"',
    '/* a\n b */ #include "/etc/passwd"',
    'int a; /*\n*/ #include "/etc/passwd"',
    'const char *s = "/*";\n#include "/etc/passwd"\n// */',
    'char c = \'"\';\n#include "/etc/passwd"\n',
    'const char *s = R"(/*)";\n#include "/etc/passwd"\n/**/',
    '#embed "/etc/passwd"',
    '#import "/etc/passwd"',
    '#if __has_include("/etc/passwd")\n#endif',
    "#if __has_include ( <../secret.h> )\n#endif",
    "#include <iostream>",
    '#include "mine.h"',
    "#include",
]


@pytest.fixture
def bundled(tmp_path: Path) -> list[str]:
    folder = tmp_path / "include"
    (folder / "cuda").mkdir(parents=True)
    (folder / "cuda_fp16.h").write_text("")
    (folder / "cuda/atomic").write_text("")
    (tmp_path / "secret.h").write_text("")
    (folder / "link.h").symlink_to(tmp_path / "secret.h")
    return [str(folder)]


@pytest.mark.parametrize("source", FOREIGN)
def test_foreign_headers_are_refused(source: str, bundled: list[str]) -> None:
    with pytest.raises(IncludeError):
        check_bundled(f"int first;\n{source}\nint last;\n", bundled)


def test_a_link_out_of_the_folder_is_refused(bundled: list[str]) -> None:
    with pytest.raises(IncludeError):
        check_bundled("#include <link.h>", bundled)


@pytest.mark.parametrize(
    "source",
    [
        "#include <cuda_fp16.h>",
        '#include "cuda_fp16.h"',
        "#include <cuda/atomic>  // comment",
        "#if __has_include(<other.h>)\n#endif",
        "// #include <iostream>",
        "/*\n#include <iostream>\n*/",
        'printf("#include <iostream>\\n");',
        "int includes = 3; // include me",
        "#pragma unroll\n#define N 3",
    ],
)
def test_own_headers_and_comments_pass(source: str, bundled: list[str]) -> None:
    check_bundled(f"int first;\n{source}\nint last;\n", bundled)


def test_error_names_the_line(bundled: list[str]) -> None:
    with pytest.raises(IncludeError) as caught:
        check_bundled('int a; /*\n*/\\\n\nint b;\n#include "mine.h"\n', bundled)
    assert caught.value.line == 5


def test_find_includes() -> None:
    found = find_includes('#include <a.h>\n\n#include "b/c.h"\n#include MACRO(x)\n')
    assert [(entry.target, entry.quoted, entry.line) for entry in found] == [
        ("a.h", False, 1),
        ("b/c.h", True, 3),
        ("", False, 4),
    ]


def test_dependencies_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "sub/b.h"\n#include <cuda_fp16.h>\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.h").write_text('#include "c.h"\n#include "a.h"\n')
    (tmp_path / "sub/c.h").write_text("")
    found = dependencies("#include <a.h>", [str(tmp_path)])
    assert found is not None
    names = {Path(path).resolve().relative_to(tmp_path.resolve()).as_posix() for path, _ in found}
    assert names == {"a.h", "sub/b.h", "sub/c.h"}


def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("#define N 1\n")
    before = dependencies("#include <a.h>", [str(tmp_path)])
    (tmp_path / "a.h").write_text("#define N 2\n")
    assert dependencies("#include <a.h>", [str(tmp_path)]) != before


def test_computed_includes_cannot_be_followed(tmp_path: Path) -> None:
    assert dependencies("#include NAME", [str(tmp_path)]) is None


@pytest.mark.parametrize(
    "piece",
    ["/*", "#/*\n", "#/**/", "# ", "\n", "\\ ", 'R"(', "*/", "#include", '#include "', "__has_include(", "??/", " "],
)
@pytest.mark.parametrize("head", ["", 'R"('])
def test_scan_takes_linear_time(piece: str, head: str) -> None:
    """None of these makes the scan of 100 kB take seconds."""
    start = time.process_time()
    find_includes("#include x\n" + head + piece * (100_000 // len(piece)), queries=True)
    assert time.process_time() - start < 2.0


def test_no_includes_no_dependencies() -> None:
    assert dependencies("__global__ void k() {}", []) == []
