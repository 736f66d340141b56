"""What pages and Markdown files hold, read as a browser or a reader of Markdown would."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any


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
