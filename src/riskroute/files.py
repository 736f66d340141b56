"""Files written whole or not at all: beside their place first, then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from riskroute.errors import InputError


def write_json(target: Path, content: Any) -> Path:
    """Write plain values as JSON that people can read too."""
    return write_whole(target, lambda beside: beside.write_text(json.dumps(content, indent=1) + "\n"))


def write_whole(target: Path, write: Any) -> Path:
    """Write a file beside ``target`` and rename it, so that no reader ever meets half of it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
        try:
            write(beside)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"path must be writable, was {str(target)!r}: {error.strerror or error}") from error
    return target
