"""Where headers and the NVRTC library are found, in a made-up tree of each layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalab.sim.compiler.frontend.headers import Toolkit, find_toolkits, include_directories, nvrtc_library, provider


def _tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def _find(
    *, path: list[Path] | None = None, env: dict[str, str] | None = None, system: list[Path] | None = None,
    prefix: Path | None = None, windows: bool = False,
) -> list[Toolkit]:  # fmt: skip
    return find_toolkits(
        search_path=[str(entry) for entry in path or []],
        environment=env or {},
        prefix=str(prefix or ""),
        system=[str(entry) for entry in system or []],
        windows=windows,
    )


def test_wheels_since_cuda_13(tmp_path: Path) -> None:
    _tree(tmp_path / "nvidia/cu13/lib", "libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0")
    _tree(tmp_path / "nvidia/cu13/include", "cuda_runtime.h", "cccl/cub/cub.cuh")
    root = tmp_path / "nvidia/cu13"
    assert _find(path=[tmp_path]) == [
        Toolkit("wheel", root, root / "lib/libnvrtc.so.13", (root / "include", root / "include/cccl"))
    ]


def test_newest_of_several_wheels(tmp_path: Path) -> None:
    _tree(tmp_path / "nvidia", "cu9/lib/libnvrtc.so.9", "cu13/lib/libnvrtc.so.13", "cu12/lib/libnvrtc.so.12")
    assert [toolkit.root.name for toolkit in _find(path=[tmp_path])] == ["cu13", "cu12", "cu9"]


def test_wheels_before_cuda_13(tmp_path: Path) -> None:
    root = tmp_path / "nvidia"
    _tree(root, "cuda_nvrtc/lib/libnvrtc.so.12", "cuda_runtime/include/cuda_runtime.h", "cuda_cccl/include/cub/cub.cuh")
    includes = (root / "cuda_runtime/include", root / "cuda_cccl/include")
    assert _find(path=[tmp_path]) == [Toolkit("wheel", root, root / "cuda_nvrtc/lib/libnvrtc.so.12", includes)]


def test_wheels_on_windows(tmp_path: Path) -> None:
    root = tmp_path / "nvidia/cu13"
    _tree(root, "bin/x86_64/nvrtc64_130_0.dll", "bin/x86_64/nvrtc64_130_0.alt.dll", "include/cuda_fp16.h")
    (found,) = _find(path=[tmp_path], windows=True)
    assert found.library == root / "bin/x86_64/nvrtc64_130_0.dll"
    assert found.includes == (root / "include",)


def test_conda(tmp_path: Path) -> None:
    _tree(tmp_path, "conda-meta/history", "lib/libnvrtc.so.13", "lib/libnvrtc.so.12")
    _tree(tmp_path / "targets/x86_64-linux/include", "cuda_runtime.h", "cccl/cuda/atomic")
    include = tmp_path / "targets/x86_64-linux/include"
    expected = [Toolkit("conda", tmp_path, tmp_path / "lib/libnvrtc.so.13", (include, include / "cccl"))]
    assert _find(env={"CONDA_PREFIX": str(tmp_path)}) == expected
    assert _find(prefix=tmp_path) == expected  # not activated


def test_conda_on_windows(tmp_path: Path) -> None:
    _tree(tmp_path, "conda-meta/history", "Library/bin/nvrtc64_130_0.dll", "Library/include/cuda_runtime.h")
    (found,) = _find(prefix=tmp_path, windows=True)
    assert found.library == tmp_path / "Library/bin/nvrtc64_130_0.dll"
    assert found.includes == (tmp_path / "Library/include",)


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_installed_toolkit(tmp_path: Path, variable: str) -> None:
    _tree(
        tmp_path, "lib64/libnvrtc.so", "lib64/libnvrtc.so.13.0.88", "include/cuda_runtime.h", "include/cccl/nv/target"
    )
    (found,) = _find(env={variable: str(tmp_path)})
    assert found.layout == "toolkit"
    assert found.library == tmp_path / "lib64/libnvrtc.so.13.0.88"
    assert found.includes == (tmp_path / "include", tmp_path / "include/cccl")


def test_usual_folder(tmp_path: Path) -> None:
    _tree(tmp_path, "lib/x86_64-linux-gnu/libnvrtc.so.12", "include/cuda_fp16.h")
    (found,) = _find(system=[tmp_path])
    assert found.library == tmp_path / "lib/x86_64-linux-gnu/libnvrtc.so.12"


def test_a_place_with_the_library_wins(tmp_path: Path) -> None:
    _tree(tmp_path, "site/nvidia/cuda_runtime/include/cuda_runtime.h", "cuda/lib64/libnvrtc.so.13")
    found = _find(path=[tmp_path / "site"], system=[tmp_path / "cuda"])
    assert [toolkit.layout for toolkit in found] == ["toolkit", "wheel"]


def test_nothing_there(tmp_path: Path) -> None:
    assert _find(path=[tmp_path], env={"CUDA_HOME": str(tmp_path / "gone")}, system=[tmp_path], prefix=tmp_path) == []


def test_this_machine_has_both() -> None:
    library = nvrtc_library()
    assert library is not None and library.is_file()
    assert any((Path(folder) / "cuda_fp16.h").is_file() for folder in include_directories())


@pytest.mark.parametrize(
    ("header", "wheel"),
    [
        ("cuda_fp16.h", "nvidia-cuda-runtime"),
        ("cooperative_groups.h", "nvidia-cuda-runtime"),
        ("cub/cub.cuh", "nvidia-cuda-cccl"),
        ("cuda/barrier", "nvidia-cuda-cccl"),
        ("crt/host_defines.h", "nvidia-cuda-crt"),
        ("curand_kernel.h", "nvidia-curand"),
    ],
)
def test_provider(header: str, wheel: str) -> None:
    found = provider(header)
    assert found is not None and found[0] == wheel


def test_no_provider_for_a_header_of_the_learners() -> None:
    assert provider("mine.h") is None
