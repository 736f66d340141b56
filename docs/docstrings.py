"""Signatures on the site: parameters with their defaults, without the learned state of policies."""

from __future__ import annotations

from typing import Any

import griffe


class Parameters(griffe.Extension):
    """Removes fields declared with `memory` from classes, and shows the defaults of those declared with `parameter`."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        for name, member in list(cls.members.items()):
            value = getattr(member, "value", None)
            if not member.is_attribute or not isinstance(value, griffe.ExprCall):
                continue
            if str(value.function) == "memory":
                del cls.members[name]
            elif str(value.function) == "parameter":
                member.value = value.arguments[0]
