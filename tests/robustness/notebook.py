"""One live notebook kernel, as JupyterLab runs it: cells go in, outputs and errors come out."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Reply:
    """What a cell brought."""

    text: str = ""
    """All that it printed, and the text of what it displayed (hazards)."""
    error: str = ""
    """Type of the exception, empty when there was none."""
    value: str = ""
    """Its message."""
    traceback: str = ""
    """What the learner reads below the cell, without colours."""
    results: dict[str, Any] = field(default_factory=dict)


class Notebook:
    """A Python kernel in a process of its own on the simulated device."""

    def __init__(self, *, start_timeout: float = 60.0) -> None:
        self._manager = KernelManager(kernel_name="python3")
        # the interpreter of these tests, whatever kernels are installed for the user
        self._manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self._manager.start_kernel(cwd=str(ROOT), env={**os.environ, "CUDALAB_DEVICE": "sim"})
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=start_timeout)

    def run(self, code: str, *, timeout: float = 60.0, interrupt_after: float | None = None) -> Reply:
        """Runs a cell. ``interrupt_after`` seconds the stop button is pressed.

        Raises ``TimeoutError`` when the kernel does not answer within ``timeout`` seconds, ``RuntimeError`` when it
        died.
        """
        request = self._client.execute(code)
        start = time.monotonic()
        reply = Reply()
        while True:
            elapsed = time.monotonic() - start
            if elapsed > timeout:
                raise TimeoutError(f"the kernel did not answer within {timeout:g} s to:\n{code}")
            if interrupt_after is not None and elapsed > interrupt_after:
                self._manager.interrupt_kernel()
                interrupt_after = None
            try:
                message = self._client.get_iopub_msg(timeout=0.1)
            except Empty:
                if not self._manager.is_alive():
                    raise RuntimeError(f"the kernel died of:\n{code}") from None
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                reply.text += content["text"]
            elif kind == "display_data":
                reply.text += content["data"].get("text/plain", "")
            elif kind == "error":
                reply.error, reply.value = content["ename"], content["evalue"]
                reply.traceback = _plain("\n".join(content["traceback"]))
            elif kind == "status" and content["execution_state"] == "idle":
                return reply

    def ask(self, expression: str, *, timeout: float = 60.0) -> Any:
        """The value of a Python expression, through JSON. Raises ``RuntimeError`` with what the kernel said instead."""
        reply = self.run(f"import json; print(json.dumps({expression}))", timeout=timeout)
        if reply.error:
            raise RuntimeError(f"{reply.error}: {reply.value}\n{reply.traceback}")
        return json.loads(reply.text.splitlines()[-1])

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def _plain(text: str) -> str:
    """Without the escape sequences of colours."""
    out, rest = "", text
    while (at := rest.find("\x1b[")) >= 0:
        out += rest[:at]
        end = next((i for i, c in enumerate(rest[at + 2 :], at + 2) if c.isalpha()), len(rest) - 1)
        rest = rest[end + 1 :]
    return out + rest
