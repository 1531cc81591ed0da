"""What tests in a browser share."""

import pytest


@pytest.fixture(scope="module")
def browser(chromium_path):
    from tests.browser.notebook_page import chromium

    with chromium() as running:
        yield running


@pytest.fixture
def page(browser, server):
    """A page of the ``server`` that the module has."""
    from tests.browser.notebook_page import notebook_page

    with notebook_page(browser, server) as opened:
        yield opened
