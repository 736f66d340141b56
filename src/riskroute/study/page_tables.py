"""Tables of the page of a study, and the facts beside its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from riskroute.core.text import TextTable, dollars_text, fixed_text
from riskroute.simulation.dark_market import PoolModel
from riskroute.study.cost_records import VenueCosts
from riskroute.study.page_charts import KIND_NAMES
from riskroute.study.records import OrderExample, RoutingRow, StressTable, StudyCase
from riskroute.study.texts import interval_text, p_text, routing_text


def verdict_facts(case: StudyCase) -> tuple[tuple[str, str], ...]:
    """The numbers behind an answer, each with its name."""
    found, saving = case.comparison, case.saving
    facts = [("router to use", case.use if case.verdict else "no verdict")]
    if saving is not None:
        if case.chosen != case.use:
            facts.append(("best on the training days", case.chosen))
        facts += [
            ("compared with", saving.against),
            ("saving an order", f"{fixed_text(saving.bps.mean, 3, signed=True)} bps"),
            ("95 % interval", interval_text(saving.bps) + (" bps" if saving.bps.low is not None else "")),
            ("saving an order, in dollars", dollars_text(saving.dollars_per_order.mean)),
        ]
        many = saving.dollars_per_1000_orders
        if many is not None:
            ends = "" if many.low is None else f" ({dollars_text(many.low)} to {dollars_text(many.high)})"
            facts.append(("saving per 1,000 orders", f"{dollars_text(many.mean)}{ends}"))
    if found.p_value is not None:
        facts.append(("p-value, best of all routers", p_text(found.p_value)))
    names = dict.fromkeys((case.chosen, found.bar))
    facts += [(f"expected shortfall 5 %, {name}", f"{fixed_text(found.routers[name].es95_bps)} bps") for name in names]
    facts.append(("saved by perfect foresight, of future prices too", f"{fixed_text(case.headroom_bps, 3)} bps"))
    facts.append(("volume priced by an estimate", f"{case.estimated_share:.1%}"))
    facts.append(("orders judged", f"{found.orders:,}"))
    return tuple(facts)


def venue_rows(venues: Sequence[VenueCosts], router: str) -> TextTable:
    """One row per venue or pool and kind of child order of one router: fills, fees, markouts and toxicity."""
    rows = [[write(getattr(one, field)) for _, field, write in _VENUES] for one in venues if one.router == router]
    return TextTable([heading for heading, _, _ in _VENUES], rows)


def children_table(example: OrderExample) -> TextTable:
    """One row per child order: what was sent where, and what became of it."""
    rows = [
        [
            KIND_NAMES[one.kind],
            one.place,
            *(f"{one.sent:,}", f"{one.filled:,}"),
            "-" if one.price is None else price_text(one.price),
            f"{one.sent_after:.3f}",
            _fixed(3)(one.last_fill_after),
        ]
        for one in example.children
    ]
    return TextTable(["child order", "place", "sent", "filled", "price", "sent\nafter s", "last fill\nafter s"], rows)


def stress_rows(table: StressTable) -> TextTable:
    """One row per world: the cost of both routers, and the saving."""
    rows = [
        [
            one.world,
            *(fixed_text(one.cost_bps, 3), fixed_text(one.against_bps, 3)),
            *(fixed_text(one.saving_bps.mean, 3, signed=True), interval_text(one.saving_bps)),
            f"{one.estimated_share:.1%}",
        ]
        for one in table.worlds
    ]
    header = ["world", f"{table.router} bps", f"{table.against} bps", "saved bps", "95 % interval", "estimated"]
    return TextTable(header, rows)


def routing_table_rows(rows: Sequence[RoutingRow]) -> TextTable:
    """The routing table, with kinds of child orders in words."""
    plain = routing_text(rows)
    return TextTable(plain.header, [[one[0], KIND_NAMES.get(one[1], one[1]), *one[2:]] for one in plain.rows])


def pools_table(pools: Sequence[PoolModel]) -> TextTable:
    """One row per dark pool: what is assumed of it."""
    header = ["pool", "holds shares", "arrivals a second", "smallest", "largest", "adverse selection"]
    rows = [
        [
            one.name,
            f"{one.presence:.0%}",
            f"{one.rate:g}",
            *(f"{one.smallest:,}", f"{one.largest:,}"),
            f"{one.adverse:g}",
            f"{one.fee:g}",
            f"{one.improvement:g}",
        ]
        for one in pools
    ]
    return TextTable([*header, "fee $ a share", "price improvement"], rows)


def price_text(price: float) -> str:
    """A price with two digits, or up to four where it has them.

    Examples
    --------
    >>> price_text(48.02), price_text(48.005), price_text(1250.0)
    ('48.02', '48.005', '1,250.00')
    """
    text = f"{price:,.4f}"
    return text[:-2] + text[-2:].rstrip("0")


def _fixed(digits: int, times: float = 1.0) -> Callable[[float | None], str]:
    return lambda value: fixed_text(None if value is None else times * value, digits)


def _range(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else " to ".join(map(_fixed(2), interval))


_whole, _two, _percent = _fixed(0), _fixed(2), _fixed(1, 100.0)

_VENUES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("place", "place", str),
    ("child orders", "kind", KIND_NAMES.__getitem__),
    ("shares\nsent", "sent", _whole),
    ("filled", "filled", _whole),
    ("fill\nrate %", "fill_rate", _percent),
    ("volume\n%", "volume_share", _percent),
    ("fees\nbps", "fees_bps", _two),
    ("markout\n1 s", "markout_1_bps", _two),
    ("markout\n10 s", "markout_10_bps", _two),
    ("markout\n60 s", "markout_60_bps", _two),
    ("adverse\n1 s", "adverse_1_bps", _two),
    ("95 % interval", "adverse_1_interval", _range),
    ("toxicity", "toxicity", _two),
    ("net\nsaving", "net_saving_bps", _two),
    ("toxic", "toxic", lambda value: {None: "-", True: "yes", False: "no"}[value]),
)
