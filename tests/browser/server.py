"""A JupyterLab server for one test: free port, its own token, home and settings, nothing of the user's."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cudalab.installation import kernelspecs, lab

START_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Server:
    port: int
    token: str
    root: Path
    log: Path
    runtime: Path

    def address(self, notebook: str) -> str:
        """Where the notebook opens, without the file browser beside it; ``notebook`` is relative to the root."""
        return f"http://127.0.0.1:{self.port}/doc/tree/{notebook}?token={self.token}"

    def request(self, path: str) -> object:
        """The JSON that the server's REST API answers with."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}?token={self.token}", timeout=5) as answer:
            return json.load(answer)

    def kernel_is_idle(self, notebook: str) -> bool:
        """Has ``notebook`` a kernel, and does it wait for work?"""
        sessions = self.request("/api/sessions")
        assert isinstance(sessions, list)
        return any(entry["path"] == notebook and entry["kernel"]["execution_state"] == "idle" for entry in sessions)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def serve(root: Path, *, device: str = "sim") -> Iterator[Server]:
    """Start JupyterLab in ``root`` as `cudalab lab` does, wait until it answers, and stop it with its kernels."""
    with tempfile.TemporaryDirectory(prefix="cudalab-lab-") as folder:
        home = Path(folder)
        server = Server(free_port(), secrets.token_hex(16), root, home / "server.log", home / "runtime")
        command = lab.command(root, browser=False, port=server.port, address="127.0.0.1")
        command += [f"--IdentityProvider.token={server.token}", "--ServerApp.port_retries=0"]
        settings = {
            "HOME": folder,
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "IPYTHONDIR": str(home / "ipython"),
            "CUDALAB_DEVICE": device,
            "JUPYTER_PATH": str(home / "prefix" / "share" / "jupyter"),
        }
        # the extension of this tree, whatever the environment was set up with
        kernelspecs.install(home / "prefix", Path(sys.executable))
        # every cell is drawn, also those out of view, so that a test can look at all of them
        tracker = home / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
        tracker.parent.mkdir(parents=True)
        tracker.write_text(json.dumps({"windowingMode": "none"}))
        with server.log.open("wb") as log:
            process = subprocess.Popen(
                command, cwd=root, env=lab.environment() | settings, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            _wait(server, process)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError):
            server.request("/api/status")
            return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{server.log.read_text(errors='replace')[-4000:]}")
