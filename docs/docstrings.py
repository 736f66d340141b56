"""Docstrings for the site: lists of parameters and examples become Markdown, and fields of memory leave the signatures.

Entries of our lists read ``name : what it is``, without a type, since signatures have those. A reader of numpydoc would
take the words for the type, and the paragraphs after the list for more parameters.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_LIST = re.compile(r"^(Parameters|Attributes)\n-+\n(.+?)(?=\n\n|\Z)", flags=re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^>>> .+?(?=\n\n|\Z)", flags=re.MULTILINE | re.DOTALL)


def as_markdown(text: str) -> str:
    r"""Return a docstring with its lists and examples in Markdown.

    >>> as_markdown("A pair.\n\nParameters\n----------\nleft, right : numbers,\n    in order.\n\n>>> 1 + 1\n2")
    'A pair.\n\n**Parameters**\n\n- `left`, `right`: numbers, in order.\n\n```pycon\n>>> 1 + 1\n2\n```'
    """
    return _EXAMPLE.sub(r"```pycon\n\g<0>\n```", _LIST.sub(_listed, text))


def _listed(found: re.Match[str]) -> str:
    entries = re.sub(r"\n +", " ", found[2]).splitlines()
    return f"**{found[1]}**\n\n" + "\n".join(_entry(*entry.partition(" : ")) for entry in entries)


def _entry(names: str, _: str, meaning: str) -> str:
    return f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {meaning}"


class PlainDocstrings(griffe.Extension):
    """Rewrites every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Take out what a policy learns: it looks like a field with a default, but is no parameter."""
        for name, member in list(cls.members.items()):
            if member.is_attribute and str(getattr(member, "value", "")).startswith("memory("):
                del cls.members[name]
