"""Thousands of orders at three loopback exchanges that time out, refuse, lose messages and cut lines, with kills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("ccxt", reason="needs ccxt: pip install 'riskroute[ccxt]'")

from exchange_trading import TradingResult, trade, trading
from loopback_exchanges import ExchangeFaults
from loopback_only import loopback_only
from paper_demo import main

FAULTS = ExchangeFaults(unanswered=0.05, limited=0.05, lost=0.02)


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_only():
        yield


def played(folder: Path, parents: int, kills: int) -> TradingResult:
    with trading(folder, "BINANCE", "KRAKEN", "BINANCE2", faults=FAULTS) as one:
        return trade(one, parents, kills)


def test_no_order_is_sent_twice_and_no_fill_is_lost(tmp_path: Path, survived: Callable[[str, int], None]) -> None:
    result = played(tmp_path, 60, 2)
    assert result.clean, result
    assert (result.parents, result.restarts) == (60, 2)
    assert result.trades > 60
    survived("lost answers, refusals and lost messages of exchanges", sum(result.faults.values()))


def test_the_demo_ends_with_a_clean_reconciliation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "4"]) == 0
    out = capsys.readouterr().out
    assert "killed, and ready again" in out
    assert out.splitlines()[-1] == "reconciliation: clean"


@pytest.mark.thorough
def test_five_thousand_orders_over_three_exchanges_with_twenty_kills(tmp_path: Path) -> None:
    result = played(tmp_path, 5_000, 20)
    assert result.clean, result
    assert (result.parents, result.restarts) == (5_000, 20)
