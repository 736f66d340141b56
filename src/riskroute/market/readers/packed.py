"""Files as they are or packed: gzip and zstd are told by their first bytes, whatever the name of the file."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from riskroute.core.extras import require_extra

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
"""First bytes of packed files."""


@contextmanager
def unpacked(path: Path) -> Iterator[Any]:
    """What a file holds, to read piece by piece."""
    with path.open("rb") as file:
        start = file.peek(4)[:4]
        if start == ZSTD:
            require_extra("zstd files", "market", "pyarrow")
            import pyarrow

            with pyarrow.input_stream(str(path), compression="zstd", buffer_size=0) as whole:
                yield whole
        else:
            yield gzip.GzipFile(fileobj=file) if start[:2] == GZIP else file


def read_fully(file: Any, count: int) -> bytes:
    """The next ``count`` bytes, fewer at the end of the file only."""
    parts, left = [], count
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
