"""What the doctor says."""

import pytest

from cudalab import backend, doctor
from cudalab.cli import main
from cudalab.installation.gpu_probe import Gpu, NoGpu


def texts(findings):
    return [str(finding) for finding in findings]


def test_healthy_machine(capsys):
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    assert "nvidia-cuda-nvrtc 13.0." in output
    assert "device: simulated device 'h200'; times are modelled. CUDALAB_DEVICE=sim" in output
    assert "a kernel was compiled and run on the simulated device" in output
    assert output.rstrip().endswith("All that the course needs is here.")


def test_missing_package_is_a_problem_with_its_mending(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda package: None if package == "llvmlite" else "1")
    (finding,) = [finding for finding in doctor._packages() if finding.state == "problem"]
    assert "llvmlite is not installed (needed for the simulated device)" in finding.text
    assert "python -m cudalab setup" in finding.mend


@pytest.mark.parametrize("cuda, wanted", [((12, 8), "cupy-cuda12x"), ((13, 0), "cupy-cuda13x")])
def test_gpu_without_cupy_says_which_one_it_needs(monkeypatch, cuda, wanted):
    monkeypatch.setattr(backend, "installed_cupy", dict)
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    found = texts(doctor._gpu(Gpu(cuda, ("NVIDIA A100",))))
    assert any("CuPy is not installed" in text and f"this machine needs {wanted}" in text for text in found)
    assert any(f"--extra {wanted[5:-1]}" in text for text in found)


def test_cupy_for_a_newer_cuda_than_the_driver_s_is_named(monkeypatch):
    monkeypatch.setattr(backend, "installed_cupy", lambda: {"cupy-cuda13x": "14.2.0"})
    found = texts(doctor._gpu(Gpu((12, 8), ("NVIDIA A100",))))
    assert any("cupy-cuda13x is installed and its driver runs CUDA 12.8 at most" in text for text in found)


def test_two_cupys_are_a_problem(monkeypatch):
    monkeypatch.setattr(backend, "installed_cupy", lambda: {"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"})
    monkeypatch.setattr(backend, "gpu_problem", lambda gpu: None)
    found = texts(doctor._gpu(Gpu((13, 0), ("NVIDIA H200",))))
    assert any("disturb each other" in text and "pip uninstall cupy-cuda12x" in text for text in found)


def test_driver_that_nvidia_smi_sees_and_cuda_does_not(monkeypatch):
    monkeypatch.setattr(doctor, "_driver_by_smi", lambda: "580.1")
    (finding, *_) = doctor._gpu(NoGpu("no NVIDIA driver was found on this machine"))
    assert finding.state == "problem" and "--gpus all" in finding.mend


def test_missing_program_is_a_note_and_in_ci_a_problem(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    assert {finding.state for finding in doctor._programs()} == {"note"}
    monkeypatch.setenv("CI", "true")
    assert {finding.state for finding in doctor._programs()} == {"problem"}


def test_report_with_a_problem_is_not_healthy():
    report = doctor.Report((doctor.Finding("ok", "fine"), doctor.Finding("problem", "broken", "mend it")))
    assert not report.healthy
    assert str(report).endswith("BAD  broken\n       mend it\nMend what is marked BAD, then run this again.")
