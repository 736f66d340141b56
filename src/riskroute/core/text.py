"""Format tables and numbers as text, and escape text for Markdown and HTML."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any


def in_markdown(text: str, *, cell: bool = False) -> str:
    r"""Escape a text for one line of Markdown, or for a table ``cell``, so that no part of it is read as markup.

    A cell cannot start a heading or a list, so marks such as ``#`` and ``-`` at its beginning are not escaped.
    """
    # HTML entities, since some dialects of Markdown do not support a backslash before these characters
    entities = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("|"): "&#124;", ord("~"): "&#126;"}
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(text.split()))
    escaped = re.sub(r"([\\`*_\[\]])", r"\\\1", line.translate(entities))
    begins = r"^([#+-]|\d+[.)](?=\s|$))"
    return escaped if cell else re.sub(begins, lambda found: f"{found[0][:-1]}\\{found[0][-1]}", escaped)


@dataclass(frozen=True)
class TextTable:
    """Table of text, formatted as plain text, Markdown or HTML; Markdown and HTML escape the cells.

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
        """Format for a terminal: the first column left-aligned, the others right-aligned."""
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
        """Format for a Markdown page."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(in_markdown(cell, cell=True) for cell in line) + " |" for line in lines)

    def html(self) -> str:
        """Format for an HTML page; cells of more than 40 characters have the class ``long``."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        long = ' class="long"'
        rows = ("".join(f"<td{long * (len(cell) > 40)}>{html.escape(cell)}</td>" for cell in row) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def number_text(value: float) -> str:
    """Format a number without decimals; from 1e12, with four significant digits in scientific notation."""
    return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"


def fixed_text(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """Format with ``digits`` decimals, and a plus sign if ``signed``. None is a dash; a rounded zero has no sign."""
    if value is None:
        return "-"
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    return text if text.strip("+-0.,") else text.lstrip("+-")


def rounds_to_zero(value: float, digits: int = 2) -> bool:
    """Return whether a number rounds to zero at ``digits`` decimals."""
    return not fixed_text(value, digits).strip("0.")


def money_text(value: float | None, currency: str) -> str:
    """Format an amount with its currency; a dash for None and for amounts of several currencies (``""``).

    Examples
    --------
    >>> money_text(1234.5, "USD"), money_text(-12.5, "USD"), money_text(0.0123, "USDT"), money_text(0.000456, "USDT")
    ('1,234.50 USD', '-12.50 USD', '0.012 USDT', '0.00046 USDT')
    """
    if value is None or not currency:
        return "-"
    size = abs(value)
    digits = 2 if size >= 1 else 3
    if 1e-9 < size < 1e-3:  # smaller amounts are rounding errors
        digits = 1 - math.floor(math.log10(size))  # two significant digits
    return f"{fixed_text(value, digits)} {currency}"


def count_text(count: int) -> str:
    """Format a count in full below 1e12, otherwise as a rounded-down number such as ``about 9.9e+39``."""
    if count < 10**12:
        return f"{count:,}"
    digits = str(count)
    return f"about {digits[0]}.{digits[1]}e+{len(digits) - 1}"


def words_list(names: Sequence[str]) -> str:
    """Join names as in a sentence: "a, b and c"."""
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def shown(value: Any) -> str:
    """Return the ``repr`` of a value on one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def described(value: Any) -> str:
    """Describe a value in an error message: plain values by `shown`, others by their type."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Path):
        return shown(value)
    word = type(value).__name__
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"


def one_line_text(error: BaseException | str, most: int = 200) -> str:
    """Return a library's error message on one line of at most ``most`` characters."""
    return " ".join(str(error).split())[:most]


def p_text(value: float) -> str:
    """Format a p-value with three decimals, or as ``< 0.001``.

    Examples
    --------
    >>> p_text(0.0123), p_text(0.0)
    ('0.012', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def interval_text(low: float | None, high: float | None) -> str:
    """Format both ends of an interval with their signs; a dash if an end is None.

    Examples
    --------
    >>> interval_text(-0.5, 1.25), interval_text(None, None)
    ('-0.500 to +1.250', '-')
    """
    if low is None or high is None:
        return "-"
    return f"{fixed_text(low, 3, signed=True)} to {fixed_text(high, 3, signed=True)}"


def decimal_text(value: Decimal, separator: str = ",") -> str:
    """Return a decimal in full, without trailing zeros.

    >>> decimal_text(Decimal("1E+3")), decimal_text(Decimal("0.2500")), decimal_text(Decimal("1e-8"))
    ('1,000', '0.25', '0.00000001')
    """
    text = format(value, f"{separator}f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_number(value: Decimal) -> int | float:
    """Return a decimal as a JSON number: an integer if it is whole, otherwise a float.

    >>> plain_number(Decimal("1000")), plain_number(Decimal("0.25"))
    (1000, 0.25)
    """
    return int(value) if value == value.to_integral_value() else float(value)


def natural_text(quantity: Decimal | float) -> str:
    """Format a natural quantity without the name of the counted thing.

    >>> natural_text(1000.0), natural_text(0.1 + 0.2)
    ('1,000', '0.3')
    """
    exact = Decimal(f"{quantity:.15g}") if isinstance(quantity, float) else Decimal(quantity)
    return decimal_text(exact + 0)
