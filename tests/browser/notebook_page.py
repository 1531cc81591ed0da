"""A notebook open in headless Chromium: run its cells, press its buttons, read what the page shows."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, sync_playwright

from tests.browser.chromium import FLAGS, NAMES, find
from tests.browser.kernel import end
from tests.browser.server import Server

_PROMPTS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(prompt => prompt.textContent)"


class NotebookPage:
    """One notebook in JupyterLab. ``errors`` collects what the page complains of, ``requests`` what it asks for."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server
        self.notebook = ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(f"page error: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)

    @property
    def foreign_requests(self) -> list[str]:
        """Requests that went anywhere but to the server."""
        own = f"//127.0.0.1:{self.server.port}/"
        return [url for url in self.requests if own not in url and url.split(":")[0] in ("http", "https", "ws", "wss")]

    def open(self, notebook: str, *, timeout: float = 60) -> None:
        """Open ``notebook`` and wait until its kernel is idle."""
        self.notebook = notebook
        self.page.goto(self.server.address(notebook))
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=timeout * 1000)
        self._wait_for_kernel(notebook, timeout)
        self.wait_idle(timeout=timeout)

    def _wait_for_kernel(self, notebook: str, timeout: float) -> None:
        """The indicator also says idle where there is no kernel yet, so the server is asked, then the page."""
        end = time.monotonic() + timeout
        while not self.server.kernel_is_idle(notebook):
            if time.monotonic() > end:
                raise TimeoutError(f"{notebook} has no idle kernel after {timeout:g} s")
            self.page.wait_for_timeout(100)
        self.page.wait_for_function(
            "() => /\\| Idle/.test(document.querySelector('#jp-main-statusbar').textContent)", timeout=timeout * 1000
        )

    def wait_idle(self, *, timeout: float = 120) -> None:
        """Wait until the kernel is idle and no cell waits for it."""
        self.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").first.wait_for(timeout=timeout * 1000)
        self.page.wait_for_function(
            f"() => !{_PROMPTS}.some(text => text.includes('*'))",
            timeout=timeout * 1000,
        )

    def run_all(self, *, timeout: float = 300) -> None:
        """Menu Run, "Run All Cells", and wait for the last to end."""
        before = self.prompts()
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        # the prompts turn to [*] some time after the click
        self.page.wait_for_function(f"before => {_PROMPTS}.some((text, i) => text !== before[i])", arg=before)
        self.wait_idle(timeout=timeout)

    def choose_theme(self, theme: Literal["light", "dark"]) -> None:
        """Menu Settings, Theme, as a learner would."""
        is_light = "true" if theme == "light" else "false"
        if self.page.locator(f"body[data-jp-theme-light='{is_light}']").count():
            return
        self.page.get_by_role("menuitem", name="Settings", exact=True).click()
        for entry in ("Theme", f"JupyterLab {theme.title()}"):
            self.page.locator(".lm-Menu-itemLabel").get_by_text(entry, exact=True).click()
        self.page.locator(f"body[data-jp-theme-light='{is_light}']").wait_for(state="attached")
        self.page.wait_for_timeout(500)  # the colours fade

    def reopen_without_kernel(self) -> None:
        """Save, end the kernel, and open the page again: what a learner meets the next morning."""
        self.page.keyboard.press("Control+s")
        self.page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')")
        end(self.server, self.notebook)
        self.open(self.notebook)

    def cell(self, name: str) -> int:
        """The place of the cell with this id, or with this number, from 0."""
        if name.isdecimal():
            return int(name)
        cells = json.loads((self.server.root / self.notebook).read_text(encoding="utf-8"))["cells"]
        return next(place for place, cell in enumerate(cells) if cell["id"] == name)

    def prompts(self) -> list[str]:
        """The texts before the code cells: ``[ ]:``, ``[*]:`` while running or waiting, else a number."""
        found: list[str] = self.page.evaluate(f"() => {_PROMPTS}")
        return found

    def press(self, text: str, *, within: Locator | None = None) -> None:
        """Press the widget button with this label."""
        # an icon is part of the button's name, so the text is compared
        pattern = re.compile(rf"^\s*{re.escape(text)}\s*$")
        (within or self.page).locator("button.widget-button").filter(has_text=pattern).first.click()

    def tracebacks(self) -> list[str]:
        """The texts of all errors that the page shows below cells."""
        errors = ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']"
        messages = ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']"
        return [*self._texts(errors), *self._texts(messages)]

    def _texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found

    def languages(self) -> list[str]:
        """The language that each cell's editor highlights."""
        script = "() => [...document.querySelectorAll('.jp-Cell .cm-content')].map(editor => editor.dataset.language)"
        found: list[str] = self.page.evaluate(script)
        return found


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium. Raises ``FileNotFoundError`` when none is installed."""
    path = find()
    if path is None:
        raise FileNotFoundError(f"no Chromium found under any of the names {', '.join(NAMES)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def notebook_page(browser: Browser, server: Server, *, width: int = 1280, height: int = 900) -> Iterator[NotebookPage]:
    """A page with an empty profile of its own: no cookies, caches or settings of other pages."""
    context = browser.new_context(viewport={"width": width, "height": height})
    try:
        yield NotebookPage(context.new_page(), server)
    finally:
        context.close()


def screenshot(opened: NotebookPage, path: Path, **options: Any) -> None:
    """Write what the page shows as PNG."""
    opened.page.screenshot(path=str(path), **options)
