"""Names that come from outside, and text on its way into files, pages and Markdown, where some characters mean more.

Names are checked where they enter, and every text is escaped where it leaves, whether it was checked or not.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from riskroute.errors import InputError, shown

MARKS = "._-/"
"""What a name may have besides letters, digits and spaces."""

LABEL_MARKS = MARKS + "+,:%()="
"""The same for labels, which are short descriptions."""

LONGEST_NAME, LONGEST_SYMBOL, LONGEST_VENUE = 64, 16, 32
"""Characters at most. Symbols and venues together must fit into the name of a file."""


def name_rule(longest: int = LONGEST_NAME, marks: str = MARKS) -> str:
    """What a name must be, in words."""
    return f"a name of up to {longest} letters, digits, spaces or {marks} that begins with a letter or digit"


def is_name(value: Any, *, longest: int = LONGEST_NAME, marks: str = MARKS) -> bool:
    """Whether a value is a text that `name_rule` allows; letters of any language are letters.

    Examples
    --------
    >>> is_name("Dark 1"), is_name("BRK.B"), is_name("Börse/Süd"), is_name("<!--<script>"), is_name("")
    (True, True, True, False, False)
    """
    if not isinstance(value, str) or not 0 < len(value) <= longest or value != value.rstrip():
        return False
    return _plain(value[0]) and all(_plain(letter) or letter == " " or letter in marks for letter in value)


def _plain(letter: str) -> bool:
    return letter.isalpha() or letter.isdecimal()


def as_name(field: str, value: Any, *, longest: int = LONGEST_NAME, marks: str = MARKS) -> str:
    """Return ``value`` if it is a name, or raise `InputError`.

    Examples
    --------
    >>> as_name("name", "a|b")
    Traceback (most recent call last):
    ...
    riskroute.errors.InputError: name must be a name of up to 64 letters, digits, spaces or ._-/ that begins with a
    letter or digit, was 'a|b'
    """
    if not is_name(value, longest=longest, marks=marks):
        raise InputError(f"{field} must be {name_rule(longest, marks)}, was {shown(value)}")
    return str(value)


def in_file_name(text: str) -> str:
    """A text as part of a file name: other characters than letters, digits, dots and hyphens as their codes.

    Different texts stay different, also with an underscore between them.

    Examples
    --------
    >>> in_file_name("BRK.B"), in_file_name("a_b/../c")
    ('BRK.B', 'a%5Fb%2F..%2Fc')
    """
    return "".join(c if _plain(c) or c in ".-" else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


def script_json(value: Any) -> str:
    r"""Plain values as JSON that may stand inside a script of an HTML page: no text in it can end or hide the script.

    Examples
    --------
    >>> script_json({"name": "</script><!--<script>&"})
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
class Table:
    """Header and rows of texts, to be written as plain text, Markdown or HTML; cells are escaped where that matters.

    Examples
    --------
    >>> table = Table(["venue", "spread"], [["XNAS", "0.14"], ["a|b", "2.90"]])
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


def number(value: float) -> str:
    """Whole numbers with commas while they are short, powers of ten when not."""
    return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"
