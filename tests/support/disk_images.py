"""The states of files that a power cut may leave, made from a record of what was done to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple


class Operation(NamedTuple):
    """Something done to a file: create, write, truncate, sync or delete; or what a client was told: answer."""

    what: str
    file: str
    offset: int = 0
    data: bytes = b""


class DiskImage(NamedTuple):
    """What had been answered before the power was cut, and what the files contain after it."""

    answered: frozenset[str]
    files: dict[str, bytes]


class _Change(NamedTuple):
    """A write to the inode of a file, or its truncation where ``data`` is None."""

    inode: int
    offset: int
    data: bytes | None


class _Entry(NamedTuple):
    """A name that a folder got, or lost where ``inode`` is None."""

    name: str
    inode: int | None


def disk_images(operations: Sequence[Operation], existing: Sequence[str]) -> Iterator[DiskImage]:
    """Every image of the disk that a power cut during some operations may leave, as far as they can be listed.

    ``existing`` are empty files that were there before. Writes since a file was last synced may be there or not, each
    for itself, in whole or torn in two; those images are listed in which all are lost, all are kept, the first few are
    kept, one alone is kept or lost, or one is torn. Names come and go in sequence, and are certain once the folder is
    synced: SQLite does that with the first sync of a file it made.
    """
    disk = _Disk(existing)
    seen: set[tuple[int, frozenset[tuple[str, bytes]]]] = set()
    answered: frozenset[str] = frozenset()
    for operation in operations:
        if operation.what == "answer":
            answered |= {operation.file}
        else:
            disk.do(operation)
        for files in disk.images():
            mark = (len(answered), frozenset(files.items()))
            if mark not in seen:
                seen.add(mark)
                yield DiskImage(answered, files)


class _Disk:
    """Inodes and names: as they are, and as they would be found after a power cut."""

    def __init__(self, existing: Sequence[str]) -> None:
        self.names = {name: inode for inode, name in enumerate(existing)}
        self.durable_names = dict(self.names)
        self.durable = dict.fromkeys(self.names.values(), b"")
        self.changes: list[_Change] = []
        self.entries: list[_Entry] = []

    def do(self, operation: Operation) -> None:
        what, name, offset, data = operation
        if what == "create":
            self.names[name] = inode = len(self.durable)
            self.durable[inode] = b""
            self.entries.append(_Entry(name, inode))
        elif what == "delete":
            del self.names[name]
            self.entries.append(_Entry(name, None))
        elif what == "sync":
            self._sync(self.names[name])
        else:
            self.changes.append(_Change(self.names[name], offset, data if what == "write" else None))

    def _sync(self, inode: int) -> None:
        self.durable = _changed(self.durable, [one for one in self.changes if one.inode == inode])
        self.changes = [one for one in self.changes if one.inode != inode]
        if any(one.inode == inode for one in self.entries):
            self.durable_names = _renamed(self.durable_names, self.entries)
            self.entries = []

    def images(self) -> Iterator[dict[str, bytes]]:
        folders = [_renamed(self.durable_names, self.entries[:k]) for k in range(len(self.entries) + 1)]
        for names, kept in product(folders, _survivors(self.changes)):
            contents = _changed(self.durable, kept)
            yield {name: contents[inode] for name, inode in names.items()}


def _survivors(changes: list[_Change]) -> Iterator[list[_Change]]:
    """What a disk may have made of changes that were not synced."""
    for k in range(len(changes) + 1):
        yield changes[:k]
    for k, one in enumerate(changes):
        yield [one]
        yield changes[:k] + changes[k + 1 :]
        middle = len(one.data or b"") // 2
        if one.data and middle:
            first = one._replace(data=one.data[:middle])
            second = one._replace(data=one.data[middle:], offset=one.offset + middle)
            for torn in (first, second):
                yield [*changes[:k], torn]
                yield [*changes[:k], torn, *changes[k + 1 :]]


def _renamed(names: dict[str, int], entries: Iterable[_Entry]) -> dict[str, int]:
    after = dict(names)
    for name, inode in entries:
        if inode is None:
            after.pop(name, None)
        else:
            after[name] = inode
    return after


def _changed(contents: dict[int, bytes], changes: Iterable[_Change]) -> dict[int, bytes]:
    after = dict(contents)
    for inode, offset, data in changes:
        before = after[inode][:offset].ljust(offset, b"\0")
        after[inode] = before if data is None else before + data + after[inode][offset + len(data) :]
    return after
