"""Pages for tests: opened in a headless browser, parsed, and compared with the numbers of a record."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
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


class Page(HTMLParser):
    """The tags of a page, and the texts of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[str] = []
        self.tags: list[str] = []
        self._inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data

    @property
    def charts(self) -> Any:
        """The data of the charts: what the last script begins with."""
        (data,) = re.findall(r"^const charts = (.*);$", self.scripts[-1], re.MULTILINE)
        assert not set(data) & set("<>&\u2028\u2029")
        return json.loads(data)


def cells_of(row: str) -> list[str]:
    """Cells of a row of a Markdown table: split at pipes without a backslash before them."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


FRACTIONS = {
    *("depth_fraction", "volume_fraction", "sent_fraction", "dark_share", "limit_share", "taken_share"),
    *("estimated_share", "untraded_share", "fill_rate", "volume_share", "presence"),
}
"""Fields that are printed in per cent."""


def known_numbers(value: Any, name: str = "") -> Iterator[float]:
    """All numbers of plain values, those in texts too, and what is printed in per cent a hundredfold."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from known_numbers(item, str(key))
    elif isinstance(value, str):
        yield from (float(one) for one in re.findall(r"\d+(?:\.\d+)?", value))
    elif isinstance(value, int | float):
        yield float(value)
        if name in FRACTIONS:
            yield 100.0 * value


def unknown_numbers(text: str, known: Iterable[float]) -> list[str]:
    """Numbers of a text that are none of the known ones, rounded to as many digits."""
    plain = re.sub(r"95 %|(?:ES|worst) 5 %|per 1,000|:00|0\.001(?= |$)|(?<=ess than )0\.0?1", "", text)
    found = [one.replace(",", "") for one in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", plain)]
    sizes = {abs(number) for number in known}
    written = {f"{number:{form}}" for number in sizes for form in ("g", ".3g")}  # ends of thirds have three digits
    for digits in {len(one.partition(".")[2]) for one in found}:
        written |= {f"{number:.{digits}f}" for number in sizes}
    return [one for one in found if one not in written]
