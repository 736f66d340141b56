"""The configuration of a live router: a file with comments that works, and mistakes told in one line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from riskroute.core.errors import InputError
from riskroute.live.config import live_config, read_live_config, write_live_config
from riskroute.live.limits import Limits
from riskroute.live.state.amounts import NANO
from riskroute.live.tokens import token_hash, token_owner

HASHED = token_hash("secret")
LEAST: dict[str, Any] = {
    "log": {"path": "live.sqlite"},
    "venues": {"A": {}},
    "instruments": {"DEMO": {}},
    "tokens": {"desk": {"hash": HASHED, "scopes": ["trade"]}},
}


def test_the_template_is_a_configuration_with_its_tokens_hashed(tmp_path: Path) -> None:
    tokens = write_live_config(tmp_path / "sub" / "live.toml")
    text = (tmp_path / "sub" / "live.toml").read_text()
    assert (tmp_path / "sub" / "live.toml").stat().st_mode & 0o077 == 0
    config = read_live_config(tmp_path / "sub" / "live.toml")
    assert config.log.path == tmp_path / "sub" / "live.sqlite"
    assert config.halt_file == tmp_path / "sub" / "HALT"
    assert config.address == ("127.0.0.1", 8470)
    for name, token in tokens.items():
        assert token not in text
        assert token_owner(config.tokens, f"Bearer {token}") == (name, frozenset({*config.tokens[name].scopes, "read"}))
    assert token_owner(config.tokens, "Bearer guess") is None
    with pytest.raises(InputError, match="file must be new"):
        write_live_config(tmp_path / "sub" / "live.toml")


def test_the_template_names_every_key(tmp_path: Path) -> None:
    """Those that are comments become keys when their mark is taken away."""
    write_live_config(tmp_path / "live.toml")
    plain = (tmp_path / "live.toml").read_text().split("\n")
    lines = [line.removeprefix("# ") if line.startswith("# ") and " = " in line else line for line in plain]
    config = live_config(tomllib.loads("\n".join(lines)) | {"public": True})
    assert set(config.limits.model_fields_set) == set(type(config.limits).model_fields)
    assert set(config.model_fields_set) == set(type(config).model_fields)
    assert set(config.router.model_fields_set) == set(type(config.router).model_fields)


def test_limits_are_converted_to_the_units_of_the_engine() -> None:
    made = live_config(LEAST | {"limits": {"day_loss": 12.5, "quote_seconds": 0.5, "collar_bps": 7}}).limits.limits()
    assert (made.day_loss, made.quote_age, made.collar) == (12_500_000_000, NANO // 2, 7)
    assert set(Limits.__struct_fields__) == set(made.__struct_fields__)
    assert made.slow_write == 10 * NANO


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"listen": "8470"}, "listen must be HOST:PORT, such as 127.0.0.1:8470, was '8470'"),
        ({"listen": "0.0.0.0:80"}, "listen must be a loopback address unless public = true, was '0.0.0.0:80'"),
        ({"venues": {}}, "venues must have at least"),
        ({"venues": {"A": {"taker": 99}}}, r"taker fee of A must be at most 10 per share in magnitude, was 99"),
        ({"venues": {"A": {"maker": "2 per contract"}}}, r"maker fee of A is .*contract.* counted in shares"),
        ({"instruments": {"DEMO": {"tick": "0.0000000001"}}}, "tick of DEMO must be a multiple of 0.0"),
        ({"instruments": {"DEMO": {"negative_prices": True}}}, "negative_prices of DEMO must be false"),
        (
            {"instruments": {"DEMO": {}, "EURO": {"currency": "EUR"}}},
            "instruments of a service must have one currency, .*: DEMO has USD, EURO EUR",
        ),
        ({"pools": {"A": {}}}, "venues and pools must have different names, both have 'A'"),
        ({"log": {}}, "log must be given exactly one of path and postgres"),
        ({"mode": "paper"}, "mode must be 'live' or 'shadow', was 'paper'"),
        ({"colour": 1}, "unknown field colour, was 1; fields are"),
        ({"limits": {"day_loss": -1}}, r"limits\.day_loss must be greater than 0, was -1"),
        ({"tokens": {"desk": {"hash": "plain", "scopes": ["read"]}}}, r"tokens\.desk\.hash must be sha256: and 64"),
        ({"tokens": {"desk": {"hash": HASHED, "scopes": ["root"]}}}, r"tokens\.desk\.scopes\.0 must be 'trade'"),
    ],
)  # fmt: skip
def test_errors_name_field_value_and_expectation(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        live_config(LEAST | change)


def test_public_allows_other_addresses() -> None:
    assert live_config(LEAST | {"listen": "0.0.0.0:80", "public": True}).address == ("0.0.0.0", 80)
    assert live_config(LEAST | {"listen": "[::1]:80"}).address == ("::1", 80)


def test_the_file_of_a_router_is_relative_to_the_configuration(tmp_path: Path) -> None:
    own = "from riskroute.routers.rules import SweepRule\n\n\nclass Own(SweepRule):\n    name = 'own'\n"
    (tmp_path / "own.py").write_text(own)
    write_live_config(tmp_path / "live.toml")
    text = (tmp_path / "live.toml").read_text()
    assert '\nname = "dark-first+sweep"' in text
    (tmp_path / "live.toml").write_text(text.replace("dark-first+sweep", "own.py:Own:discretion=2"))
    router = read_live_config(tmp_path / "live.toml").build_router()
    assert (router.name, router.parameters["discretion"]) == ("own", 2)
    (tmp_path / "state.json").write_text(json.dumps(router.state()))
    given = {"name": f"{tmp_path / 'own.py'}:Own", "state": str(tmp_path / "state.json")}
    assert live_config(LEAST | {"router": given}).build_router().state() == router.state()


@pytest.mark.parametrize(
    ("router", "message"),
    [
        ({"name": "nope"}, "unknown router 'nope'"),
        ({"name": "sweep:x=1"}, "sweep has no parameter 'x'"),
        ({"state": "/no/such"}, "router.state must be a readable file, was '/no/such'"),
        ({"state": __file__}, "router.state must be a JSON file"),
    ],
)
def test_invalid_routers_are_refused(router: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        live_config(LEAST | {"router": router}).build_router()
