"""Text for tables, and on its way into pages, scripts and Markdown, where some characters mean more.

Every text is escaped where it leaves, whether it was checked where it entered or not.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


def json_in_script(value: Any) -> str:
    r"""Plain values as JSON that may stand inside a script of an HTML page: no text in it can end or hide the script.

    Examples
    --------
    >>> json_in_script({"name": "</script><!--<script>&"})
    '{"name": "\\u003c/script\\u003e\\u003c!--\\u003cscript\\u003e\\u0026"}'
    """
    return json.dumps(value).translate(_IN_SCRIPTS)


_IN_SCRIPTS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def in_markdown(text: str) -> str:
    r"""A text as one line of Markdown that reads as it is: no table, link, tag, heading or list comes of it.

    Examples
    --------
    >>> print(in_markdown("a|b `c` <img> [d](e)"))
    a&#124;b \`c\` &lt;img&gt; \[d\](e)
    >>> print(in_markdown("# no heading"), in_markdown("1. no list"), in_markdown("costs -$1.50, 5 %"))
    \# no heading 1\. no list costs -$1.50, 5 %
    """
    begins = r"^([#+-]|\d+[.)](?=\s|$))"
    return re.sub(begins, lambda found: f"{found[0][:-1]}\\{found[0][-1]}", in_markdown_cell(text))


def in_markdown_cell(text: str) -> str:
    r"""A text as a cell of a Markdown table: as `in_markdown`, but for signs that mean something where a line begins.

    Characters that not every kind of Markdown lets be escaped by a backslash become entities.

    Examples
    --------
    >>> print(in_markdown_cell("-$0.35"), in_markdown_cell("a|b_c"))
    -$0.35 a&#124;b\_c
    """
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(text.split()))
    return re.sub(r"([\\`*_\[\]])", r"\\\1", line.translate(_ENTITIES))


_ENTITIES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("|"): "&#124;", ord("~"): "&#126;"}


@dataclass(frozen=True)
class TextTable:
    """Header and rows of texts, to be written as plain text, Markdown or HTML; cells are escaped where that matters.

    Examples
    --------
    >>> table = TextTable(["venue", "spread"], [["XNAS", "0.14"], ["a|b", "2.90"]])
    >>> print(table.plain())
    venue  spread
    -------------
    XNAS     0.14
    a|b      2.90
    >>> print(table.markdown())
    | venue | spread |
    | --- | --- |
    | XNAS | 0.14 |
    | a&#124;b | 2.90 |
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def plain(self) -> str:
        """For a terminal: the first column to the left, the others to the right."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.header))]
        first, *rest = (
            "  ".join(
                text.ljust(w) if k == 0 else text.rjust(w) for k, (text, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )
        return "\n".join([first, "-" * len(first), *rest])

    def markdown(self) -> str:
        """For a Markdown page."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(map(in_markdown_cell, line)) + " |" for line in lines)

    def html(self) -> str:
        """For an HTML page; long cells have the class ``long``."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        rows = ("".join(f"<td{_long(cell)}>{html.escape(cell)}</td>" for cell in row) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _long(cell: str) -> str:
    return ' class="long"' if len(cell) > 40 else ""


def number_text(value: float) -> str:
    """Whole numbers with commas while they are short, powers of ten when not."""
    return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"


def fixed_text(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """A number with so many digits after the point, with a plus if it is ``signed``; a dash for none.

    What rounds to zero has no sign.

    Examples
    --------
    >>> fixed_text(-0.004), fixed_text(-0.006), fixed_text(1234.5, 1), fixed_text(None)
    ('0.00', '-0.01', '1,234.5', '-')
    >>> fixed_text(0.25, 3, signed=True), fixed_text(-1e-5, 3, signed=True)
    ('+0.250', '0.000')
    """
    if value is None:
        return "-"
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    return text if text.strip("+-0.,") else text.lstrip("+-")


def rounds_to_zero(value: float, digits: int = 2) -> bool:
    """Whether a number reads as zero with so many digits after the point.

    Examples
    --------
    >>> rounds_to_zero(-0.004), rounds_to_zero(0.006), rounds_to_zero(0.0004, 3)
    (True, False, True)
    """
    return not fixed_text(value, digits).strip("0.")


def difference_text(value: float, digits: int = 2) -> str:
    """Basis points by which something costs more or less than what is named next.

    Examples
    --------
    >>> [f"It cost {difference_text(value)} the sweep." for value in (0.25, -0.25, -0.001)]
    ['It cost 0.25 bps more than the sweep.', 'It cost 0.25 bps less than the sweep.', 'It cost the same as the sweep.']
    """
    if rounds_to_zero(value, digits):
        return "the same as"
    return f"{fixed_text(abs(value), digits)} bps {'more' if value > 0 else 'less'} than"


def dollars_text(value: float | None) -> str:
    """An amount, with a sign before the dollar; a dash for none.

    Examples
    --------
    >>> dollars_text(-0.3456), dollars_text(1234.6), dollars_text(12.3), dollars_text(-1e-9), dollars_text(None)
    ('-$0.346', '$1,235', '$12.30', '$0.000', '-')
    """
    if value is None:
        return "-"
    size = abs(value)
    digits = 0 if size >= 1000 else 2 if size >= 1 else 3
    text = f"{size:,.{digits}f}"
    return f"{'-' if value < 0 and float(text.replace(',', '')) else ''}${text}"


def split_text(slots: Sequence[str], allocation: Sequence[int]) -> str:
    """Where the shares go, short.

    Examples
    --------
    >>> split_text(["XNAS", "XPSX", "Dark 1"], [4, 0, 1200])
    '4 XNAS, 1,200 Dark 1'
    """
    return ", ".join(f"{shares:,} {slot}" for slot, shares in zip(slots, allocation, strict=True) if shares)
