"""A headless Chromium for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)
PHONE = {"height": 844, "deviceScaleFactor": 2, "mobile": True}


@contextmanager
def opened(page: Path | str, profile: Path) -> Iterator[Any]:
    """The page, a file or an address, in a wide browser; skips if there is no browser."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs Debian's chromium and chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}", "--window-size=1280,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.get(page if isinstance(page, str) else page.as_uri())
        yield driver
    finally:
        driver.quit()


@contextmanager
def as_phone(browser: Any, width: int = 390) -> Iterator[None]:
    """The page of a browser as a phone shows it, loaded again."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE | {"width": width})
    browser.refresh()
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
