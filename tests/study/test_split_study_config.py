"""Configurations of studies: the template, the defaults, and mistakes."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from riskroute import InputError
from riskroute.cli.app import run_app as command
from riskroute.core.instrument import SHARES
from riskroute.study.config import split_config, study_config_template

TEMPLATE = study_config_template("split-study")


def test_the_template_is_the_default() -> None:
    written, default = split_config(tomllib.loads(TEMPLATE)), split_config({})
    assert written.pools == default.pools
    assert dataclasses.replace(written, dark=None) == default
    assert split_config({"data": "books"}).pools == ()


def test_init_writes_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my.toml"
    assert command(["split-study", "--init", str(path)]) == 0
    assert path.read_text() == TEMPLATE
    assert command(["split-study", "--init", str(path)]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"quantities": -3}, "quantities must be positive numbers, was -3"),
        ({"quantities": []}, "quantities must hold at least one number, was empty"),
        ({"side": "hold"}, "side must be one of sell, buy, was 'hold'"),
        ({"train": "noon"}, "train must be two times such as 11:00-13:00, was 'noon'"),
        ({"train": "12-12"}, "train must be two different times, was '12-12'"),
        ({"train": "11-13"}, "test must not overlap train"),
        ({"train": "11:00Z-12:00"}, "train must be two times without a zone"),
        ({"quantities": [0]}, "quantities must be positive numbers, was 0"),
        ({"policies": ["rize"]}, "policies must be one of .* was 'rize'"),
        ({"policies": []}, "policies must hold at least one value, was empty"),
        ({"horizon": 1}, "horizon must be an integer"),
        ({"sharez": 3}, "unknown field 'sharez' in the configuration; fields are data, symbol"),
        (
            {"dark": [{"name": "x", "presence": 2, "tail": 1}]},
            "x: presence must be a number of at least 0 and of at most 1",
        ),
        ({"dark": [{"name": "x"}]}, r"dark\[0\].presence is missing"),
        ({"data": ["synthetic", "x"]}, "data must be 'synthetic' alone, one folder or some files, was synthetic, x"),
        ({"bucket_minutes": 100}, "train must last 2 to 5,000 buckets of 100 minutes, was 80 minutes"),
        ({"bucket_minutes": 0.0001}, "train must last 2 to 5,000 buckets of 0.0001 minutes, was 80 minutes"),
        ({"venue": "XNAS"}, "venue cannot be given for the synthetic market, was 'XNAS'"),
        ({"max_unresolved": 2}, "max_unresolved must be a number"),
        ({"risk_tolerances": [1, 1]}, "risk_tolerances must have different values"),
    ],
)
def test_bad_configurations_are_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        split_config(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("shares", "lot"), [(10, 1), (100, 1), (1000, 10), (997, 1), (120, 2), (5000, 50)])
def test_lots_keep_orders_small(shares: int, lot: int) -> None:
    assert split_config({}).lot_of(shares, SHARES) == lot


def test_an_order_must_be_a_multiple_of_the_lot() -> None:
    with pytest.raises(InputError, match="quantities must be multiples of the lot, 2 shares, was 7 shares"):
        split_config({"quantities": 7, "lot": 2}).lot_of(7, SHARES)
