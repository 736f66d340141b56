"""The oracle itself: examples worked out by hand, and no line of the product in it."""

from __future__ import annotations

import ast
from pathlib import Path

import polars as pl
import pytest

from oracle import MILLISECOND, SECOND, Charge, Market, Order, benchmarks, clairvoyant, play, spread

T = 100 * SECOND


Levels = list[tuple[float, int]]


def table(*rows: tuple[float, Levels, Levels]) -> pl.DataFrame:
    """Books of a venue: seconds, bids and asks."""
    columns: dict[str, list[object]] = {"ts_event": [round(row[0] * SECOND) for row in rows]}
    for side, books in (("bid", [row[1] for row in rows]), ("ask", [row[2] for row in rows])):
        for level in range(max(map(len, books))):
            found = [book[level] if level < len(book) else (None, 0) for book in books]
            columns[f"{side}_px_{level:02d}"] = [price for price, _ in found]
            columns[f"{side}_sz_{level:02d}"] = [size for _, size in found]
    prices = {name: pl.Float64 for name in columns if "_px_" in name}
    return pl.DataFrame(columns, schema_overrides=prices)


BIDS = [(9.99, 100)]
FEES = {"A": (Charge(), Charge()), "B": (Charge(), Charge())}


def taken(market: Market, order: Order, rule: str = "sweep") -> list[tuple[str, int, float]]:
    return [(fill.venue, fill.shares, fill.price) for fill in play(market, order, rule).fills]


def test_the_oracle_has_no_code_of_the_product() -> None:
    tree = ast.parse((Path(__file__).parent / "oracle.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    rooms = {name.partition(".")[0] for name in names}
    assert rooms == {
        "__future__",
        "collections",
        "functools",
        "itertools",
        "math",
        "numpy",
        "polars",
        "scipy",
        "typing",
    }


def test_protection_decides_whether_price_or_fees_come_first() -> None:
    """A asks 10.00 and charges two cents, B asks 10.01 and pays half a cent; the mid is 9.995."""
    books = {"A": table((99, BIDS, [(10.00, 100)])), "B": table((99, BIDS, [(10.01, 100)]))}
    fees = {"A": (Charge(0.02), Charge()), "B": (Charge(-0.005), Charge())}
    order = Order(T, 1, 100, 0.0)
    free, protected = (play(Market(books, fees, protected=rule), order, "sweep") for rule in (False, True))
    assert free.cost == pytest.approx(100 * (0.015 - 0.005))
    assert protected.cost == pytest.approx(100 * (0.005 + 0.02))
    unaware = play(Market(books, fees), order, "raw-sweep")
    assert unaware.cost == pytest.approx(protected.cost)


def test_ties_after_fees_go_to_the_larger_level_and_then_to_the_first_venue() -> None:
    """10.00 + 0.03 and 10.01 + 0.02 are equal in decimals, not in binary; the better price is taken first."""
    books = {"A": table((99, BIDS, [(10.01, 90)])), "B": table((99, BIDS, [(10.00, 50)]))}
    market = Market(books, {"A": (Charge(0.02), Charge()), "B": (Charge(0.03), Charge())})
    assert taken(market, Order(T, 1, 60, 0.0)) == [("B", 50, 10.00), ("A", 10, 10.01)]
    books = {"A": table((99, BIDS, [(10.00, 50)])), "B": table((99, BIDS, [(10.00, 60)]))}
    assert taken(Market(books, FEES), Order(T, 1, 10, 0.0)) == [("B", 10, 10.00)]


def test_fees_are_paid_on_the_price_and_within_what_an_order_pays() -> None:
    """At 10.01 and 10 bps a share costs 10.02001, more than 10.02 without a fee; a dollar is the most a child pays."""
    books = {"A": table((99, BIDS, [(10.01, 900)])), "B": table((99, BIDS, [(10.02, 50)]))}
    fees = {"A": (Charge(bps=10.0, most=1.0), Charge()), "B": (Charge(least=0.2), Charge())}
    one = play(Market(books, fees), Order(T, 1, 450, 0.0), "sweep")
    assert [(fill.venue, fill.shares) for fill in one.fills] == [("B", 50), ("A", 400)]
    assert sum(fill.shares * fill.fee for fill in one.fills) == pytest.approx(0.2 + 1.0)
    assert clairvoyant(Market(books, fees), Order(T, 1, 450, 0.0)) == pytest.approx(450 * (10.01 - 10.0 + 1.0 / 450))


def test_shares_beyond_the_display_are_estimated() -> None:
    """A depth of 100 shares, 5 cents from a mid of 10: 100 more cost 7.5 cents each; no price falls to zero."""
    market = Market({"A": table((99, [(9.95, 100)], [(10.05, 100)]))}, FEES)
    bought = play(market, Order(T, 1, 200, 0.0), "sweep")
    assert bought.estimated == 100
    assert bought.cost == pytest.approx(100 * 0.05 + 100 * 0.075)
    sold = play(market, Order(T, -1, 10_000_000, 0.0), "sweep")
    assert 0 < sold.fills[-1].price < 1
    assert clairvoyant(market, Order(T, 1, 200, 0.0)) == pytest.approx(bought.cost)


def test_an_order_does_not_take_the_same_shares_twice() -> None:
    """The level is there again a tenth of a second later, and counts again once a second has passed."""
    again = [(100.1 + k / 10, BIDS, [(10.01, 100)]) for k in range(20)]
    market = Market({"A": table((99, BIDS, [(10.01, 100)]), *again)}, FEES)
    fills = play(market, Order(T, 1, 150, 2.0), "sweep").fills
    assert [(fill.time - T, fill.shares) for fill in fills] == [
        (MILLISECOND, 100),
        (1002 * MILLISECOND, 50),
    ]
    assert play(market, Order(T, 1, 150, 0.9), "sweep").estimated == 50


def test_a_child_is_held_back_by_a_quote_that_ours_leave() -> None:
    """A's quote moves beyond the limit of our child there, so that B's child would trade through it."""
    books = {
        "A": table((99, BIDS, [(10.00, 100)]), (100.0005, BIDS, [(10.01, 100)])),
        "B": table((99, BIDS, [(10.02, 100)])),
    }
    times = []
    for protected in (False, True):
        one = play(Market(books, FEES, protected=protected), Order(T, 1, 200, 0.0), "sweep")
        times.append([(fill.venue, fill.time - T) for fill in one.fills])
    assert times == [
        [("B", MILLISECOND), ("A", 2 * MILLISECOND)],
        [("A", 2 * MILLISECOND), ("B", 2 * MILLISECOND)],
    ]


def test_stale_books_are_not_there() -> None:
    """After five seconds, or a minute where there are events."""
    trade = {"ts_event": [0], "action": ["F"], "side": ["A"], "price": [1.0], "size": [1], "order_id": [0]}
    for events, age in ((None, 5), ({"A": pl.DataFrame(trade)}, 60)):
        market = Market({"A": table((100, BIDS, [(10.01, 100)]))}, FEES, events)
        assert market.mid(T + age * SECOND) == pytest.approx(10.0)
        assert market.mid(T + age * SECOND + 1) is None


def test_a_limit_order_fills_behind_those_who_were_there() -> None:
    """Five shares ahead: two are cancelled, three trade. Ours are the next trade, a bid, and a trade through us."""
    rows = [
        (101, "C", "A", 10.01, 2, 1), (102, "F", "A", 10.01, 3, 1), (103, "A", "A", 10.01, 9, 2),
        (104, "F", "A", 10.01, 4, 2), (105, "F", "A", 10.01, 8, 0), (106, "A", "B", 10.01, 1, 3),
        (107, "F", "A", 10.02, 6, 4), (108, "F", "A", 10.00, 7, 5),
    ]  # fmt: skip
    names = ["ts_event", "action", "side", "price", "size", "order_id"]
    events = pl.DataFrame([(time * SECOND, *rest) for time, *rest in rows], schema=names, orient="row")
    market = Market({"A": table((99, BIDS, [(10.01, 5)]), (109, BIDS, [(10.01, 5)]))}, FEES, {"A": events})
    price, fills = market.queue_fills(0, -1, T, 110 * SECOND)
    assert (price, [(time // SECOND, size) for time, size in fills]) == (10.01, [(104, 4), (106, 1), (107, 6)])


def test_the_clairvoyant_waits_for_the_cheapest_second() -> None:
    """A hundred shares at 10.01 all the time are there once a second; for half a second they cost 9.98."""
    ask, cheap = [(10.01, 100)], [(9.98, 60)]
    market = Market({"A": table((99, BIDS, ask), (100.2, BIDS, cheap), (100.4, BIDS, ask), (101.5, BIDS, ask))}, FEES)
    cost = clairvoyant(market, Order(T, 1, 260, 2.0))
    assert cost == pytest.approx(60 * (9.98 - 10.0) + 200 * 0.01)  # mid 10.00


def test_the_average_mid_weighs_every_moment_alike() -> None:
    """The mid is 10.00 for 3 s, 10.01 for 5 s, unknown for a second, because the book is stale, and 10.03 for 1 s."""
    rows = [(99, BIDS, [(10.01, 100)]), (103, BIDS, [(10.03, 100)]), (109, BIDS, [(10.07, 100)])]
    market = Market({"A": table(*rows)}, FEES)
    found = benchmarks(market, Order(T, 1, 100, 10.0))
    # a book is shown for five seconds and a nanosecond
    assert found["twap"] == pytest.approx((3 * 10.00 + 5 * 10.01 + 1 * 10.03) / 9, abs=1e-10)
    assert found["vwap"] is None
    assert (found["arrival"], found["touch"]) == (10.0, 10.01)
    assert benchmarks(market, Order(T, -1, 100, 0.0)) == {"arrival": 10.0, "touch": 9.99, "vwap": None, "twap": 10.0}


def test_the_traded_price_counts_what_trades_from_the_arrival_to_the_horizon() -> None:
    """Executions at both ends count; B names no order, so its public trades count; those of A would count twice."""
    names = ["ts_event", "action", "side", "price", "size", "order_id"]
    rows = [
        (99, "F", "A", 1.00, 900, 1), (100, "F", "A", 10.01, 100, 1), (100, "T", "A", 10.01, 100, 0),
        (105, "F", "B", 9.99, 300, 0), (110, "F", "A", 10.03, 200, 2), (111, "F", "A", 1.00, 900, 2),
    ]  # fmt: skip
    named = pl.DataFrame([(time * SECOND, *rest) for time, *rest in rows], schema=names, orient="row")
    plain = named.with_columns(action=pl.lit("T"), order_id=pl.lit(0)).filter(pl.col("ts_event") == 110 * SECOND)
    books = {name: table((99, BIDS, [(10.01, 5)])) for name in "AB"}
    market = Market(books, FEES, {"A": named, "B": plain})
    vwap = (100 * 10.01 + 300 * 9.99 + (200 + 200) * 10.03) / 800
    assert benchmarks(market, Order(T, 1, 100, 10.0))["vwap"] == pytest.approx(vwap)
    assert benchmarks(market, Order(T + SECOND, 1, 100, 3.0))["vwap"] == 10.0  # nothing trades
    assert benchmarks(market, Order(T, 1, 100, 0.0))["vwap"] == 10.0  # a horizon of zero


def test_spreads_are_twice_what_fills_pay_above_the_mid_then_and_ten_seconds_later() -> None:
    """100 shares at 10.01 when the mid is 10.00; it is 10.02 ten seconds later, and unknown for the next fills."""
    rows = [(99, BIDS, [(10.01, 100)]), (104, BIDS, [(10.03, 100)]), (110, [(10.01, 9)], [(10.03, 100)])]
    one = play(Market({"A": table(*rows)}, FEES), Order(T, 1, 150, 5.0), "sweep")
    assert [(fill.shares, fill.price) for fill in one.fills] == [(100, 10.01), (50, 10.03)]
    assert spread(one.market, one, 0) == pytest.approx(1e4 * 2 * (100 * 0.01 + 50 * 0.02) / 150 / 10)
    assert spread(one.market, one, 10) is None  # the last snapshot is earlier
    later = [*rows, (113, [(10.01, 9)], [(10.03, 100)])]
    one = play(Market({"A": table(*later)}, FEES), Order(T, 1, 150, 5.0), "sweep")
    assert spread(one.market, one, 10) == pytest.approx(1e4 * 2 * (10.01 - 10.02) / 10)
