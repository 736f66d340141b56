"""Write files atomically, and escape text for file names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.validation import valid_path


def writable_folder(name: str, value: Any) -> Path:
    """Return ``value`` as the path of a folder; raise `InputError` if the path or one of its parents is a file."""
    folder = valid_path(name, value)
    whole = folder.absolute()
    place = next(place for place in (whole, *whole.parents) if place.exists())
    if not place.is_dir():
        raise InputError(f"{name} must be a folder, was {str(folder)!r}: {place} is a file")
    return folder


def write_json(target: Path, content: Any, *, private: bool = False) -> Path:
    """Write plain values to ``target`` as indented JSON; only the owner can read a ``private`` file."""
    text = json.dumps(content, indent=1) + "\n"
    return write_whole(target, lambda beside: beside.write_text(text), private=private)


def write_whole(target: Path, write: Any, *, private: bool = False) -> Path:
    """Call ``write`` with a temporary path beside ``target``, then rename it: no reader sees a partial file.

    Only the owner can read a ``private`` file, even while it is being written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
        try:
            if private:
                os.close(os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600))
            write(beside)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"path must be writable, was {str(target)!r}: {error.strerror or error}") from error
    return target


def in_file_name(text: str) -> str:
    """Percent-encode all characters of a text except letters, digits, dots and hyphens, for a file name.

    Different texts have different encodings. Different lists of texts also differ if their encodings are joined by "_".
    """
    return "".join(
        c if c.isalpha() or c.isdecimal() or c in ".-" else "".join(f"%{b:02X}" for b in c.encode()) for c in text
    )
