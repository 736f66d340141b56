"""Symbols are shared out among processes, each with a log of its own."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from live_services import service_config
from riskroute.core.errors import InputError
from riskroute.live.http.requests import RequestParser

POSTGRES: dict[str, Any] = {"log": {"postgres": "dbname=nowhere"}}


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/2/3", "1/1001", "-1/2"])
def test_a_partition_is_written_as_k_of_n(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="partition must be K/N"):
        service_config(tmp_path, partition=text, **POSTGRES)


def test_a_file_has_one_partition(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="partition must be 1/1 for a log in a file, was '1/2': others need PostgreSQL"
    ):
        service_config(tmp_path, partition="1/2")
    assert service_config(tmp_path).lease_seconds == math.inf


def test_every_symbol_is_of_one_partition_and_the_others_name_it(tmp_path: Path) -> None:
    parts = [service_config(tmp_path, partition=f"{k}/3", **POSTGRES) for k in (1, 2, 3)]
    assert [part.stream for part in parts] == ["main.1of3", "main.2of3", "main.3of3"]
    assert [part.lease_seconds for part in parts] == [3.0] * 3
    counts = Counter(parts[0].partition_of(f"SYMBOL{number}") for number in range(3_000))
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 800
    right = parts[0].partition_of("DEMO")
    assert {part.partition_of("DEMO") for part in parts} == {right}
    for part in parts:
        if part.part[0] == right:
            assert RequestParser(part).instrument("DEMO").symbol == "DEMO"
        else:
            with pytest.raises(InputError, match=f"belongs to partition {right}/3, this is partition {part.partition}"):
                RequestParser(part).instrument("DEMO")
