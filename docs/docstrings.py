"""What the site leaves out of signatures: fields that a policy learns are no parameters."""

from __future__ import annotations

from typing import Any

import griffe


class WithoutMemory(griffe.Extension):
    """Takes fields declared with `memory` out of classes: they look like parameters with a default."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        for name, member in list(cls.members.items()):
            if member.is_attribute and str(getattr(member, "value", "")).startswith("memory("):
                del cls.members[name]
