"""JupyterLab in a real browser: a server in a temporary home, and headless Chromium driven by Playwright."""
