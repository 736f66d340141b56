"""Public names that load their module when they are first used, so that importing the package is light.

A package lists its names once, in the stub beside it (``__init__.pyi``): type checkers read it, and so does `attach`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for ``package``, given the path ``file`` of its module."""
    homes: dict[str, str] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            homes |= {alias.name: node.module for alias in node.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:  # a module of this package
            return import_module(f"{package}.{name}")
        return getattr(import_module(homes[name]), name)

    names = sorted(homes)
    return get, lambda: names, names
