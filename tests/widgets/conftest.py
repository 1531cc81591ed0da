"""A page that shows what widgets display."""

from __future__ import annotations

import pytest


@pytest.fixture
def page(monkeypatch):
    """What is put on the page: MIME bundles in order; and what is put in the place of an earlier one."""
    shown: list[dict[str, str]] = []
    replaced: list[dict[str, str]] = []

    class Handle:
        def update(self, data, **_options):
            replaced.append(data)

    def display(data, **options):
        shown.append(data)
        return Handle() if options.get("display_id") else None

    for module in ("cudalab.widgets.output", "cudalab.plots.picture"):
        monkeypatch.setattr(f"{module}.display", display)
        monkeypatch.setattr(f"{module}.get_ipython", lambda: object())
    return type("Page", (), {"shown": shown, "replaced": replaced})()
