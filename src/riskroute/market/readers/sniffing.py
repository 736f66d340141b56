"""What a file holds, told by its first bytes rather than by its name."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, NamedTuple

from riskroute.market.readers.csv_stream import csv_reading
from riskroute.market.readers.packed import GZIP, ZSTD, unpacked

HEAD = 1 << 16
"""Bytes that are looked at."""

ITCH_LENGTHS = {
    **{"S": 12, "R": 39, "H": 25, "Y": 20, "L": 26, "V": 35, "W": 12, "K": 28, "J": 35, "h": 21, "O": 48},
    **{"A": 36, "F": 40, "E": 31, "C": 36, "X": 23, "D": 19, "U": 35, "P": 44, "Q": 40, "B": 19, "I": 50, "N": 20},
}
"""Bytes of every kind of ITCH 5.0 message, without those of its length."""

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"PK\x05\x06", "a zip archive"),
    (0, b"PAR1", "a Parquet table"),
    (0, b"ARROW1", "an Arrow (Feather) table"),
    (0, b"FEA1", "a Feather table"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\xd4\xc3\xb2\xa1", "a network capture (pcap)"),
    (0, b"\xa1\xb2\xc3\xd4", "a network capture (pcap)"),
    (0, b"\x4d\x3c\xb2\xa1", "a network capture (pcap)"),
    (0, b"\xa1\xb2\x3c\x4d", "a network capture (pcap)"),
    (0, b"\x0a\x0d\x0d\x0a", "a network capture (pcapng)"),
    (0, b"\xfd7zXZ\x00", "an xz archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (0, b"\x04\x22\x4d\x18", "an lz4 archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x7fELF", "a program (ELF)"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"GIF8", "a GIF picture"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"\xd0\xcf\x11\xe0", "an old Office document"),
    (0, b"\xff\xfe", "text in UTF-16"),
    (0, b"\xfe\xff", "text in UTF-16"),
    (0, GZIP, "gzip within gzip or zstd"),
    (0, ZSTD, "zstd within gzip or zstd"),
)

PARQUET, ZIP, DBN, ITCH, TEXT = "a Parquet table", "a zip archive", "DBN", "ITCH", "text"
"""Words for contents that somebody reads."""

EMPTY, DAMAGED = "empty", "cut off or damaged"


class Content(NamedTuple):
    """What a file holds, in words, how it is packed (``gzip``, ``zstd`` or not at all), and its first bytes."""

    what: str
    packing: str
    head: bytes

    @property
    def odd(self) -> bool:
        """Whether the bytes tell nothing."""
        return self.what in (EMPTY, DAMAGED) or self.what.startswith("unknown")

    def __str__(self) -> str:
        return f"{self.what}, packed with {self.packing}" if self.packing else self.what


def content_of(path: Path) -> Content:
    """What a file holds."""
    with csv_reading(path):
        with path.open("rb") as file:
            start = file.read(4)
        packing = "gzip" if start[:2] == GZIP else "zstd" if start == ZSTD else ""
        with unpacked(path) as file:
            head, whole = _head(file)
    return Content(bytes_are(head) if head or whole else DAMAGED, packing, head)


def _head(file: Any) -> tuple[bytes, bool]:
    """The first bytes, and whether they could be read; of an archive that is cut off, those before the cut."""
    head = b""
    try:
        while len(head) < HEAD and (part := file.read1(HEAD - len(head))):
            head += part
    except (EOFError, OSError, zlib.error):
        return head, False
    return head, True


def bytes_are(head: bytes) -> str:
    r"""What first bytes belong to, in words.

    Examples
    --------
    >>> bytes_are(b"%PDF-1.7"), bytes_are(b"time,bid"), bytes_are(b"DBN\x03"), bytes_are(bytes(8))
    ('a PDF document', 'text', 'DBN', 'unknown bytes (00 00 00 00 00 00 00 00)')
    """
    if not head:
        return EMPTY
    for place, mark, what in _SIGNATURES:
        if head[place : place + len(mark)] == mark:
            return what
    if head[:3] == b"DBN" and b"\x00" < head[3:4] < b"\x20":
        return DBN
    if looks_like_itch(head):
        return ITCH
    return _text(head) or f"unknown bytes ({head[:8].hex(' ')})"


def looks_like_itch(head: bytes) -> bool:
    r"""Whether bytes begin with messages of ITCH 5.0, each after its length; up to ten are looked at.

    Examples
    --------
    >>> looks_like_itch(b"\x00\x0cS" + bytes(11)), looks_like_itch(b"\x00\x0dS" + bytes(12)), looks_like_itch(b"")
    (True, False, False)
    """
    place = seen = 0
    while seen < 10 and place + 3 <= len(head):
        length = int.from_bytes(head[place : place + 2], "big")
        if length == 0 and seen:  # the end of the session, as some files have it
            break
        if ITCH_LENGTHS.get(chr(head[place + 2])) != length:
            return False
        place += 2 + length
        seen += 1
    return seen > 0


def _text(head: bytes) -> str:
    """Kind of text, nothing if the bytes are none."""
    try:
        text = head[: max(len(head) - 3, 1)].decode("utf-8-sig")  # the last letter may be cut off
    except UnicodeDecodeError:
        return ""
    if any(letter < " " and letter not in "\t\r\n\f" for letter in text):
        return ""
    begin = text.lstrip()[:15].lower()
    if begin.startswith(("<!doctype", "<html", "<?xml", "<head")):
        return "a web page or XML"
    return "JSON" if begin.startswith(("{", "[")) else TEXT
