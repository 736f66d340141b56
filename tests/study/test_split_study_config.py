"""Configurations of studies: the template, the defaults, and mistakes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from riskroute import InputError
from riskroute.cli.app import run as command
from riskroute.study.split.config import TEMPLATE, checked_study


def test_the_template_is_the_default() -> None:
    written, default = checked_study(tomllib.loads(TEMPLATE)), checked_study({})
    assert written.pools == default.pools
    assert written.model_copy(update={"dark": None}) == default
    assert checked_study({"data": "books"}).pools == []


def test_init_writes_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my.toml"
    assert command(["split-study", "--init", str(path)]) == 0
    assert path.read_text() == TEMPLATE
    assert command(["split-study", "--init", str(path)]) == 2
    assert "which is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shares": -3}, r"shares.0 must be greater than or equal to 1, was -3"),
        ({"shares": []}, "shares must have at least one value"),
        ({"side": "hold"}, "side must be 'sell' or 'buy', was 'hold'"),
        ({"train": "noon"}, "train must be two times such as 11:00-13:00, was 'noon'"),
        ({"train": "12-11"}, "train must be two times, the first before the second, was '12-11'"),
        ({"train": "11-13"}, "test must not overlap train"),
        ({"judge": "12-13"}, "^judge is now called test$"),
        ({"train": "11:00Z-12:00"}, "train must be two times without a zone"),
        ({"shares": [1]}, "shares must be at least 2"),
        ({"policies": ["rize"]}, "policies must be one of .* was 'rize'"),
        ({"policies": []}, "policies must be at least one policy"),
        ({"horizon": 1}, "horizon must be greater than or equal to 10, was 1"),
        ({"sharez": 3}, "sharez must be left out, was 3: fields are data, symbol"),
        (
            {"dark": [{"name": "x", "presence": 2, "tail": 1}]},
            "x: presence must be a number of at least 0 and of at most 1",
        ),
        ({"dark": [{"name": "x"}]}, "dark.0.presence must be given"),
        ({"shares": 7, "lot": 2}, "shares must be a multiple of the lot of 2, was 7"),
        ({"data": ["synthetic", "x"]}, "data must be 'synthetic' or files and folders"),
        ({"bucket_minutes": 100}, "train must last 2 to 5,000 buckets of 100 minutes, was 80 minutes"),
        ({"bucket_minutes": 0.0001}, "train must last 2 to 5,000 buckets of 0.0001 minutes, was 80 minutes"),
        ({"venue": "XNAS"}, "venue must be left out for the synthetic market, was 'XNAS'"),
        ({"max_unresolved": 2}, "max_unresolved must be less than or equal to 1, was 2"),
        ({"risk_tolerances": [1, 1]}, "risk_tolerances must have different values"),
    ],
)
def test_bad_configurations_are_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        checked_study(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("shares", "lot"), [(10, 1), (100, 1), (1000, 10), (997, 1), (120, 2), (5000, 50)])
def test_lots_keep_orders_small(shares: int, lot: int) -> None:
    assert checked_study({}).lot_of(shares) == lot
