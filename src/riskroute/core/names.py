"""Names of venues, pools, symbols and labels: which are allowed, and how they become parts of file names.

They are checked where they enter, since pages, tables and files show them.
"""

from __future__ import annotations

from typing import Any

from riskroute.core.errors import InputError, shown

MARKS = "._-/"
"""What a name may have besides letters, digits and spaces."""

LABEL_MARKS = MARKS + "+,:%()="
"""The same for labels, which are short descriptions."""

SIDES = ("buy", "sell")
"""The sides of an order."""

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
    riskroute.core.errors.InputError: name must be a name of up to 64 letters, digits, spaces or ._-/ that begins with a
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
