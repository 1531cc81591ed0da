"""Talks to the kernel of an open notebook directly, beside the page."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from jupyter_client.blocking import BlockingKernelClient

from tests.browser.server import Server


def kernel_of(server: Server, notebook: str) -> str:
    """The id of the kernel that runs ``notebook``."""
    sessions = server.request("/api/sessions")
    assert isinstance(sessions, list)
    found: str = next(entry["kernel"]["id"] for entry in sessions if entry["path"] == notebook)
    return found


def end(server: Server, notebook: str) -> None:
    """End the notebook's kernel, as a shutdown of the machine would."""
    address = f"http://127.0.0.1:{server.port}/api/kernels/{kernel_of(server, notebook)}?token={server.token}"
    urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=60).close()


def ask(server: Server, notebook: str, code: str, *, timeout: float = 120) -> str:
    """Run ``code`` in the notebook's kernel and return what it prints. Raises ``RuntimeError`` with its error."""
    file = Path(server.runtime) / f"kernel-{kernel_of(server, notebook)}.json"
    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    client.start_channels()
    printed: list[str] = []

    def hear(message: dict) -> None:  # type: ignore[type-arg]
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    try:
        client.wait_for_ready(timeout=timeout)
        reply = client.execute_interactive(code, timeout=timeout, output_hook=hear, store_history=False)
    finally:
        client.stop_channels()
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"{reply['content'].get('ename')}: {reply['content'].get('evalue')}")
    return "".join(printed)
