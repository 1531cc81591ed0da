"""What set-up writes for Jupyter, and the environment it makes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from cudalab.installation import environment, kernelspecs, lab
from cudalab.installation.gpu_probe import Gpu, NoGpu

ROOT = Path(__file__).parents[2]


def test_kernelspecs_start_the_interpreter_with_a_device(tmp_path):
    kernelspecs.install(tmp_path, Path("/somewhere/python"), gpu=True)
    spec = json.loads((tmp_path / "share/jupyter/kernels/cudalab-gpu/kernel.json").read_text())
    assert spec["argv"][0] == str(Path("/somewhere/python"))
    assert spec["env"] == {"CUDALAB_DEVICE": "gpu"}
    spec = json.loads((tmp_path / "share/jupyter/kernels/cudalab-sim/kernel.json").read_text())
    assert spec["env"] == {"CUDALAB_DEVICE": "sim:h200"}


def test_kernels_know_in_their_first_cell_what_to_write_instead_of_import_cupy(tmp_path):
    kernelspecs.install(tmp_path, Path(sys.executable))
    spec = json.loads((tmp_path / "share/jupyter/kernels/cudalab-sim/kernel.json").read_text())
    options = spec["argv"][spec["argv"].index("{connection_file}") + 1 :]
    code = "import sys; print([type(finder).__name__ for finder in sys.meta_path])"
    shell = [sys.executable, "-m", "IPython", *options, "-c", code]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=100, check=True)
    assert "AdviceFinder" in ended.stdout


def test_installing_twice_leaves_one_extension(tmp_path):
    kernelspecs.install(tmp_path, Path("python"))
    (tmp_path / "share/jupyter/labextensions/cudalab/old.js").touch()
    kernelspecs.install(tmp_path, Path("python"))
    files = [file.name for file in (tmp_path / "share/jupyter/labextensions/cudalab").rglob("*") if file.is_file()]
    assert "remoteEntry.js" in files and "package.json" in files and "old.js" not in files


def test_extension_loads_every_plugin_that_it_names_and_no_other(tmp_path):
    kernelspecs.install(tmp_path, Path("python"))
    static = tmp_path / "share/jupyter/labextensions/cudalab/static"
    named = re.search(r"PLUGINS = \[(.*)\]", (static / "remoteEntry.js").read_text())
    assert sorted(re.findall(r'"(\w+\.js)"', named[1])) == sorted(
        {file.name for file in static.glob("*.js")} - {"remoteEntry.js"}
    )


def test_kernel_picker_offers_the_gpu_only_where_there_is_one(tmp_path):
    folder = tmp_path / "share/jupyter/kernels"
    kernelspecs.install(tmp_path, Path("python"), gpu=True)
    assert (folder / "cudalab-gpu").is_dir()
    written = kernelspecs.install(tmp_path, Path("python"))
    assert not (folder / "cudalab-gpu").exists() and folder / "cudalab-sim" in written


@pytest.mark.parametrize("found, offered", [(NoGpu("none"), False), (Gpu((13, 0), ("H200",)), True)])
def test_lab_lists_the_gpu_as_the_driver_says(tmp_path, monkeypatch, found, offered):
    monkeypatch.setattr(lab, "probe", lambda: found)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert any(folder.name == "cudalab-gpu" for folder in lab.list_kernels()) is offered


@pytest.mark.parametrize(
    "found, extra",
    [(NoGpu("none"), ""), (Gpu((12, 8), ("A100",)), "cuda12"), (Gpu((13, 1), ("H200",)), "cuda13")],
)
def test_lock_file_is_chosen_by_the_driver(found, extra):
    assert environment.choose_extra(found) == extra
    assert (ROOT / environment.LOCKS[extra]).is_file()


def test_fingerprint_changes_with_the_lock_file(tmp_path):
    for name in (*environment.LOCKS.values(), "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "cudalab/installation").mkdir(parents=True)
    (tmp_path / "cudalab/installation/kernelspecs.py").touch()
    before = environment.fingerprint(tmp_path, "")
    assert environment.fingerprint(tmp_path, "") == before
    (tmp_path / "requirements.lock").write_text("changed")
    assert environment.fingerprint(tmp_path, "") != before


def test_set_up_environment_is_left_alone(tmp_path):
    venv = tmp_path / "venv"
    python = environment.venv_python(venv)
    python.parent.mkdir(parents=True)
    python.touch()
    stamp = environment.fingerprint(environment.project_root(), "")
    (venv / environment.STAMP).write_text(stamp)
    assert environment.setup(venv, extra="") is False


def test_pinned_package_comes_with_its_hashes():
    lock = (ROOT / "requirements.lock").read_text()
    text = environment.pinned(lock, "uv")
    assert text.startswith("uv==") and text.count("==") == 1
    assert text.count("--hash=sha256:") >= 3
    with pytest.raises(environment.SetupError, match="no nothing-at-all"):
        environment.pinned(lock, "nothing-at-all")


def test_setup_needs_only_the_standard_library():
    code = (
        "import sys, cudalab.cli, cudalab.installation.environment\n"
        "print([name for name, m in sys.modules.items() if 'site-packages' in str(getattr(m, '__file__', ''))])"
    )
    ended = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_lab_command_opens_the_start_page_or_a_notebook():
    line = lab.command(Path("/course/work"), browser=False, port=1234, address="localhost")
    assert "--LabApp.default_url=/lab" in line and f"--ServerApp.root_dir={Path('/course/work')}" in line
    assert "--no-browser" in line and "--ServerApp.port=1234" in line
    line = lab.command(Path("/course/work"), "exercises/04.ipynb", browser=True, port=1234, address="localhost")
    assert "--LabApp.default_url=/lab/tree/exercises/04.ipynb" in line


def test_make_lab_takes_a_port():
    dry = ["make", "--dry-run", "--old-file=environment", "lab", "PORT=9999"]
    assert "cudalab lab --port 9999" in subprocess.run(dry, cwd=ROOT, capture_output=True, text=True).stdout


@pytest.mark.parametrize("wanted", ["04", "notebooks/04_device_memory.ipynb"])
def test_lab_opens_the_working_copy(tmp_path, monkeypatch, wanted):
    started = []
    for name in ("notebooks", "exercises"):
        (tmp_path / name).mkdir()
    small = tmp_path / "notebooks/04_device_memory.ipynb"
    output = nbformat.v4.new_output("stream", text="recorded")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output])]), small)
    before = small.read_bytes()
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setattr(lab, "project_root", lambda: tmp_path)
    monkeypatch.setattr(lab, "list_kernels", list)
    monkeypatch.setattr(lab.os, "chdir", lambda folder: None)
    monkeypatch.setattr(lab.os, "execve", lambda program, line, environment: started.append(line))
    monkeypatch.setattr(lab.subprocess, "run", lambda *arguments, **options: subprocess.CompletedProcess([], 0))
    lab.start(wanted, browser=False)
    assert f"--ServerApp.root_dir={tmp_path / 'work'}" in started[0]
    assert "--LabApp.default_url=/lab/tree/notebooks/04_device_memory.ipynb" in started[0]
    assert "recorded" not in (tmp_path / "work/notebooks/04_device_memory.ipynb").read_text()
    assert small.read_bytes() == before


def test_learners_see_no_menus_of_nbgrader():
    settings = json.loads((lab.CONFIGURATION / "labconfig/page_config.json").read_text())
    assert settings["disabledExtensions"]["@jupyter/nbgrader"] is True
    server = json.loads((lab.CONFIGURATION / "jupyter_server_config.json").read_text())["ServerApp"][
        "jpserver_extensions"
    ]
    assert {name for name, on in server.items() if on} == {"cudalab.course.server"}
    assert sum(name.startswith("nbgrader.") for name in server) == 4


def test_lab_environment_finds_programs_and_settings_of_this_python(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    found = lab.environment()
    assert found["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    disabled = json.loads(
        Path(found["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0], "labconfig/page_config.json").read_text()
    )
    assert disabled["disabledExtensions"]["@jupyterlab/apputils-extension:announcements"] is True


def test_kernels_keep_their_bytecode(monkeypatch):
    """Where the image of a container says that Python shall not, each would compile all that it imports."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in lab.environment()


def test_lab_refuses_a_file_that_is_not_there(capsys):
    assert lab.start("notebooks/99_nothing.ipynb", browser=False) == 1
    assert "there is no file" in capsys.readouterr().err
