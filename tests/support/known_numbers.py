"""Whether the numbers of a text are those of a record, rounded to as many digits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

FRACTIONS = {
    *("depth_fraction", "volume_fraction", "sent_fraction", "dark_share", "limit_share", "taken_share"),
    *("estimated_share", "fill_rate", "volume_share", "presence"),
}
"""Fields that are printed in per cent."""


def known_numbers(value: Any, name: str = "") -> Iterator[float]:
    """All numbers of plain values, those in texts too, and what is printed in per cent a hundredfold."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from known_numbers(item, str(key))
    elif isinstance(value, str):
        yield from (float(one) for one in re.findall(r"\d+", value))
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
