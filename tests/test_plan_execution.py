"""A plan means the same everywhere: backtest, live router and counterfactual send the same children and get the same.

Random orders with random plans meet books that stand still, and one script of what pools and queues fill. Each is
played three times: by `execute_plan` on an exchange, by the trading engine on simulated venues, and by the
counterfactual estimate, which is given the outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars
import pytest

from instruments import instrument_of
from live_engines import START, Clock
from live_logs import MemoryLog, MemoryStore
from riskroute.core.instrument import Instrument, instrument_terms
from riskroute.live import children as live_children
from riskroute.live import counterfactual
from riskroute.live.children import context_of
from riskroute.live.counterfactual import Counterfactual
from riskroute.live.engine import TradingEngine
from riskroute.live.limits import Limits
from riskroute.live.log.interface import log_events_after
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import SettledEvent
from riskroute.live.state.orders import ChildOrder, OrderOutcome, ParentOrder
from riskroute.live.state.quotes import PoolQuote, VenueQuote, quoted_touch
from riskroute.live.venues.simulated import SimulatedVenue, _Trade
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context, ContextPool
from riskroute.routers.execution import Execution, ExecutionChild
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routing.fees import fee_rows
from riskroute.simulation import execute_plan as simulated
from riskroute.simulation.exchange import BEYOND, Exchange, ExchangeLatency

VENUES, POOLS = ("A", "B", "C"), ("P", "Q", "R")
TAKERS, MAKERS = (0.003, -0.002, 0.001), (-0.002, 0.001, 0.0)
CENT = NANO // 100
LIT, DARK = 0.001, 0.005
ORDERS = 1000


class Sent(NamedTuple):
    """A child: kind, place, shares, limit price in 1e-9 dollars (0 without one), and shares filled."""

    kind: str
    place: str
    shares: float
    limit: int
    filled: float


@dataclass
class Case:
    """An order, its plan, and what pools and queues fill."""

    order: ParentOrder
    plan: Plan
    hidden: dict[str, int]
    arrivals: dict[str, list[tuple[float, int]]]
    queued: dict[str, int]
    taken: dict[tuple[str, int], int] = field(default_factory=dict)
    """Shares that the order took at live venues, by venue and price."""


def random_case(rng: np.random.Generator, number: int, protection: str = "reg-nms") -> Case:
    """Books of one to three levels, some of them too thin for the order, and a plan that may use every field.

    All quantities are multiples of the lot, as at a venue.
    """
    lot = int(rng.choice([1, 100]))

    def lots(least: int, end: int) -> int:
        return lot * int(rng.integers(least, (end - 1) // lot + 1))

    shares = lots(1, 3000)
    quotes = []
    for v, name in enumerate(VENUES):
        bid, ask = 1000 - int(rng.integers(0, 3)), 1002 + int(rng.integers(0, 3))
        sides = []
        for first, step in ((bid, -1), (ask, 1)):
            depth = int(rng.integers(0, 4)) if v else int(rng.integers(1, 4))  # the first venue shows both sides
            prices = first + step * np.cumsum(rng.integers(0, 3, depth) + (np.arange(depth) > 0)).astype(int)
            sides.append(tuple((int(price) * CENT, lots(1, 1500)) for price in prices))
        fees = {"taker": round(TAKERS[v] * NANO), "maker": round(MAKERS[v] * NANO)}
        quotes.append(VenueQuote(venue=name, bids=sides[0], asks=sides[1], at=START, **fees))
    pools = tuple(PoolQuote(pool=name, fee=CENT // 10, improvement=0.0) for name in POOLS)
    horizon = float(rng.choice([0.5, 2.5]))  # not 0: the live router refuses an order whose deadline has passed
    order = ParentOrder(
        key=str(number),
        symbol=f"S{number}",
        side="buy" if rng.random() < 0.5 else "sell",
        quantity=shares,
        deadline=START + int(horizon * NANO),
        quotes=tuple(quotes),
        pools=pools,
        received=START,
        terms=instrument_terms(instrument_of(lot=lot, protection=protection)),
    )
    hidden = {pool: lots(0, 800) * int(rng.random() < 0.5) for pool in POOLS}
    arrivals = {pool: [(float(t), lots(1, 400)) for t in (0.3, 1.6)] for pool in POOLS}
    queued = {venue: lots(0, 900) for venue in VENUES}
    return Case(order, _random_plan(rng, order, lots), hidden, arrivals, queued)


def _random_plan(rng: np.random.Generator, order: ParentOrder, lots: Callable[[int, int], int]) -> Plan:
    left, given = order.quantity, {}
    in_turn = bool(rng.random() < 0.5)
    if in_turn:
        given["dark"] = {pool: lots(0, order.quantity + 1) for pool in POOLS if rng.random() < 0.7}
    for kind, places in (("dark", POOLS), ("dark_rest", POOLS), ("limit", VENUES), ("take", VENUES)):
        if kind == "dark" and in_turn:
            continue
        given[kind] = {}
        for place in places:
            if rng.random() < 0.4:
                given[kind][place] = some = lots(0, left + 1)
                left -= some
    rest = str(rng.choice(["sweep", "touch", "venue:A", "venue:B", "post:C"]))
    if rest == "post:C":
        given["limit"].pop("C", None)
    return Plan(
        order.key,
        **given,
        in_turn=in_turn,
        before=in_turn and bool(rng.random() < 0.6),
        take_limits={
            v: round(10.01 + float(rng.integers(-2, 5)) / 100, 2) for v in given["take"] if rng.random() < 0.5
        },
        recall=[None, 0.2, 1.2, 9.0][int(rng.integers(0, 4))],
        rest=rest,
        trade_through=bool(rng.random() < 0.3),
    ).checked(context_of(order, START))


# the backtest


class ScriptedQueue:
    """Fills limit orders halfway to the horizon."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def fills(self, venue: int, sign: int, begin: int, end: int, shares: int) -> tuple[float, list[tuple[int, int]]]:
        quote = self.case.order.quotes[venue]
        own = quote.bids if sign > 0 else quote.asks
        some = min(shares, self.case.queued[quote.venue])
        return (own[0][0] / NANO, [((begin + end) // 2, some)] if some else []) if own else (float("nan"), [])

    def hidden_volume(self, *_: Any) -> int:
        return 0


class ScriptedPools:
    """Pools that hold what the script says, and leak nothing."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.pools: dict[str, Any] = {}  # contexts name the pools themselves

    def hidden(self, order: int, pool: str, *, recent: bool) -> int:
        return self.case.hidden[pool]

    def arrivals(self, order: int, pool: str, seconds: float, *, recent: bool) -> list[tuple[float, int]]:
        return [(when, size) for when, size in self.case.arrivals[pool] if when < seconds]

    def leaks(self, *_: Any) -> bool:
        return False


def exchange_of(case: Case) -> Exchange:
    """One snapshot per venue, shortly before the order."""
    tables = {}
    for quote in case.order.quotes:
        columns: dict[str, list[Any]] = {"ts_event": [START - 1], "sequence": [0]}
        for side, levels in (("bid", quote.bids), ("ask", quote.asks)):
            for level in range(3):
                price, size = levels[level] if level < len(levels) else (None, 0)
                columns[f"{side}_px_{level:02d}"] = [None if price is None else price / NANO]
                columns[f"{side}_sz_{level:02d}"] = [size]
        overrides = {name: polars.Float64 for name in columns if "_px_" in name}
        tables[quote.venue] = polars.DataFrame(columns, schema_overrides=overrides)
    pools: Any = ScriptedPools(case)
    queue: Any = ScriptedQueue(case)
    return Exchange(
        DayBooks.of_tables(tables), fee_rows(TAKERS), fee_rows(MAKERS), pools, queue, ExchangeLatency(LIT, DARK)
    )


def no_queue(case: Case, kind: str, venue: str) -> bool:
    """Whether a limit order cannot join a queue: the live router sends none, the others one that is not filled."""
    buying = case.order.sign > 0
    return kind == "limit" and not any(
        (quote.bids if buying else quote.asks) for quote in case.order.quotes if quote.venue == venue
    )


def backtested(case: Case, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Sent], float]:
    """Children of a backtest, and what they cost."""
    exchange, order = exchange_of(case), case.order
    context = Context(
        *(order.key, order.side, order.quantity, exchange.venue_books(START)),
        pools=tuple(ContextPool(name, CENT / 10 / NANO) for name in POOLS),
        lot=order.instrument.lot_units,
        horizon=(order.deadline - START) / NANO,
        time=START,
        instrument=order.instrument,
    )
    limits: list[float] = []
    walk = simulated._SimulatedOrder._walk

    def noted(self: Any, child: ExecutionChild, levels: Any, time: int, limit: float) -> int:
        limits.append(limit)
        return walk(self, child, levels, time, limit)

    with monkeypatch.context() as patch:
        patch.setattr(simulated._SimulatedOrder, "_walk", noted)
        done = simulated.execute_plan(exchange, 0, context, case.plan)
    walks = iter(limits)
    posted = ("limit", case.plan.rest.removeprefix("post:"))
    found = []
    for child in done.children:
        if child.place != BEYOND and not no_queue(case, child.kind, child.place):
            limit = next(walks) if child.kind in ("take", "sweep") else np.inf
            price = 0 if limit == np.inf else round(context.sign * limit * NANO)
            found.append((child.posted, Sent(child.kind, child.place, child.sent, price, child.filled)))
    # children are reported stage by stage; venues see them in the order of time, the plan's before those of its rest
    cost = sum(f.shares * (context.sign * (f.price - context.mid) + f.fee) for f in done.fills if not f.estimated)
    return [sent for _, sent in sorted(found, key=lambda one: (one[0], one[1][:2] == posted))], cost


# the live router


class ScriptedMarket:
    """Fills live children by the script of their order."""

    def __init__(self, cases: dict[str, Case]) -> None:
        self.cases = cases

    def instrument(self, symbol: str) -> Instrument:
        return next(iter(self.cases.values())).order.instrument

    def trades(self, child: ChildOrder, begin: int, end: int) -> list[_Trade]:
        case = self.cases[child.parent]
        sign, shares, found = case.order.sign, child.quantity, []
        bid, ask = quoted_touch(case.order.quotes)
        mid = (bid + ask) // 2
        if child.kind == "dark":
            return [(begin, mid, min(shares, case.hidden[child.place]))]
        if child.kind == "dark_rest":
            for seconds, size in case.arrivals[child.place]:
                when = START + int(seconds * NANO)
                if shares and begin <= when < end:
                    found.append((when, mid, min(shares, size)))
                    shares -= min(shares, size)
            return found
        quote = next(one for one in case.order.quotes if one.venue == child.place)
        if child.kind == "limit":
            assert child.limit is not None
            return [((begin + end) // 2, child.limit, min(shares, case.queued[child.place]))]
        for price, size in quote.asks if sign > 0 else quote.bids:
            if child.limit is not None and sign * price <= sign * child.limit:
                there = size - case.taken.get((child.place, price), 0)
                if some := min(shares, there):
                    case.taken[child.place, price] = case.taken.get((child.place, price), 0) + some
                    found.append((begin, price, some))
                    shares -= some
        return found

    def fee(self, child: Any, fills: Sequence[tuple[int, int]]) -> int:
        shares = sum(some for _, some in fills)
        if child.place in POOLS:
            return shares * CENT // 10
        return shares * round((MAKERS if child.kind == "limit" else TAKERS)[VENUES.index(child.place)] * NANO)


class Scripted(Router):
    """Sends the plan of the case."""

    name = "scripted"
    plans: ClassVar[dict[str, Plan]] = {}  # the engine makes routers of its own, from their state

    def decide(self, context: Context) -> Plan:
        return self.plans[context.order]


def traded(case: Case) -> tuple[list[Sent], OrderOutcome]:
    """Children of the live router, and the outcome."""
    clock, market = Clock(), ScriptedMarket({case.order.key: case})
    Scripted.plans = {case.order.key: case.plan}
    venues = {name: SimulatedVenue(name, market, clock, latency=LIT) for name in VENUES}
    venues |= {name: SimulatedVenue(name, market, clock, latency=DARK / 2) for name in POOLS}
    store = MemoryStore()
    engine = TradingEngine(
        MemoryLog(store),
        venues,
        Scripted(),
        Limits(collar=9000),
        quotes=lambda symbol: case.order.quotes,
        clock=clock,
        monotonic=clock,
        patience=1.0,
        snapshot_every=0,
    )
    engine.start()
    engine.submit(case.order)
    while engine.state.settled == 0:
        due = [venue.next_due for venue in venues.values()] + [engine.timers.next_due]
        clock.now = max(min(time for time in due if time is not None), clock.now)
        for venue in venues.values():
            venue.deliver()
        engine.flush()
        engine.tick()
        engine.flush()
    parent = engine.state.parents[case.order.key]
    children = [engine.state.children[name] for name in parent.children]
    worst = engine.limits.worst_price(parent.mid, case.order.sign)
    found = []
    for child in children:
        one = child.order
        collared = one.limit is None or abs(one.limit - worst) < CENT  # on the closest tick inside the collar
        limit = 0 if collared or one.kind == "limit" else one.limit
        found.append(Sent(one.kind, one.place, one.quantity, limit or 0, child.filled))
    engine.close()
    (settled,) = [event for _, event in log_events_after(MemoryLog(store)) if isinstance(event, SettledEvent)]
    return found, settled.outcome


# the counterfactual


def estimated(case: Case, outcome: OrderOutcome) -> tuple[list[Sent], float, float]:
    """Children of the counterfactual with the same plan, given the outcomes, its cost, and the shares guessed."""
    estimate = Counterfactual().cost(case.order, case.plan, outcome.children)
    found = [
        Sent(one.kind, one.place, one.shares, round((one.limit or 0) * NANO), filled)
        for one, filled in estimate.children
        if not no_queue(case, one.kind, one.place)
    ]
    return found, estimate.cost / NANO, estimate.guessed


def by_kind(children: list[Sent]) -> dict[str, list[Sent]]:
    """Children in the order in which they were sent, by kind: kinds that are sent together have no order."""
    found: dict[str, list[Sent]] = {}
    for child in children:
        found.setdefault(child.kind, []).append(child)
    return found


def filled_or_planned(children: list[Sent]) -> list[Sent]:
    """Without sweeps that found nothing: how often shares are looked for depends on time, which no estimate has."""
    return [child for child in children if child.filled or child.kind != "sweep"]


def difference(case: Case, monkeypatch: pytest.MonkeyPatch) -> str:
    """Play a case three times; say what differs, or nothing."""
    tested, tested_cost = backtested(case, monkeypatch)
    live, outcome = traded(case)
    if by_kind(tested) != by_kind(live):
        return f"backtest {by_kind(tested)}\nlive {by_kind(live)}"
    cost = sum(child.money + child.fees for child in outcome.children if not child.marked) / NANO
    if abs(cost - tested_cost) > 1e-6:
        return f"cost of the backtest {tested_cost}, live {cost}"
    guess, estimate, guessed = estimated(case, outcome)
    expected = by_kind(filled_or_planned(live))
    if guessed or by_kind(filled_or_planned(guess)) != expected:
        return f"live {expected}\ncounterfactual {by_kind(guess)}, {guessed} guessed"
    # shares for one venue alone cost more than the cheapest displayed ones, which the estimate takes for slippage
    if outcome.left == 0 and not case.plan.rest.startswith("venue") and abs(cost - estimate) > 1e-3:
        return f"cost live {cost}, of the counterfactual {estimate}"
    return ""


@pytest.mark.parametrize("part", range(10))
def test_a_plan_sends_the_same_children_everywhere(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(part)
    for number in range(ORDERS // 10):
        case = random_case(rng, number)
        assert not (found := difference(case, monkeypatch)), f"{case}\n{found}"


def test_a_plan_sends_the_same_children_everywhere_without_order_protection(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for number in range(ORDERS // 10):
        case = random_case(rng, number, "none")
        assert not (found := difference(case, monkeypatch)), f"{case}\n{found}"


MISTAKES = {
    "the backtest takes its own shares again": (simulated, "remove_own"),
    "the live router takes its own shares again": (live_children, "remove_own"),
    "the live router trades through": (live_children, "execution_limit"),
    "the counterfactual trades through": (counterfactual, "execution_limit"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_one_caller_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name = MISTAKES[mistake]
    monkeypatch.setattr(module, name, lambda *_: np.inf)
    rng = np.random.default_rng(0)
    assert any(difference(random_case(rng, number), monkeypatch) for number in range(ORDERS // 10))


def test_pools_in_turn_that_ignore_other_children_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live router alone pings with all shares that nobody holds, returned ones too, as it once did."""

    def greedy(self: Execution) -> list[ExecutionChild]:
        self._pingable = self.returned
        return pings(self)

    pings, traded_rightly = Execution.pings, traded

    def traded_wrongly(case: Case) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(Execution, "pings", greedy)
            return traded_rightly(case)

    monkeypatch.setitem(globals(), "traded", traded_wrongly)
    rng = np.random.default_rng(0)
    assert any(difference(random_case(rng, number), monkeypatch) for number in range(ORDERS // 10))
