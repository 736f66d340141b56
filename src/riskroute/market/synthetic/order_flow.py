"""Synthetic order flow of one symbol on one venue: target quotes, and orders that follow them.

Quotes follow one fundamental price per stock. Either a venue quotes on its own around that price, with noise and a
mean-reverting spread, or it follows the best quotes of one market, and is at times a few ticks worse.

At the first event after target quotes change, the book moves to them: orders beyond the new quotes are executed or
withdrawn, and new orders arrive. Between moves, the book keeps at least six levels per side and a minimum size at the
best price. `_simulate_order_flow` is plain Python; `_simulate_compiled` is the same function compiled.
"""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable
from scipy.special import ndtri

from riskroute.core.arrays import Floats, Integers
from riskroute.core.seeding import seed_stream
from riskroute.market.clock import SECOND
from riskroute.market.synthetic.venues import REFERENCE_PRICE, SyntheticOwnQuotes, SyntheticSharedQuotes, SyntheticVenue

BID, ASK = 0, 1
_FEWEST_LEVELS = 6  # withdrawals leave at least this many levels per side, one more than the paper records
_TICK = 0.01
STEP = SECOND // 4  # nanoseconds between target quotes


_Messages = namedtuple("_Messages", "add attributed execute execute_at cancel delete replace trade")
MESSAGE = _Messages(*map(ord, "AFECXDUP"))  # character codes of ITCH message types

# Columns of a message: nanoseconds since midnight, type, side, price in ticks, shares, order number, number of the
# replaced order. Orders are numbered from 0 as they arrive. A trade with a hidden order has order number -1, and all
# messages except replacements have old order -1.
_Columns = namedtuple("_Columns", "time kind side price size order old")
COLUMN = _Columns(*range(7))

# Positions of entries in the state of a book; ``live``, ``levels`` and ``quoted`` have another entry for the asks.
_StateColumns = namedtuple("_StateColumns", "now written created free live levels quoted")
_STATE = _StateColumns(0, 1, 2, 3, 4, 6, 8)


# Fields of `SyntheticVenue`, the mean time between events, and the largest distance from the best price in ticks.
_FlowParameters = namedtuple(
    "_FlowParameters",
    "gap orders lot top_size top_share reach furthest takers hidden partial replaced moved sweep pro_rata",
)


class _FlowBook(NamedTuple):
    """A book with a linked list of orders per level; level ``i`` has price ``low + i``. Slots of orders are reused."""

    parameters: _FlowParameters
    rng: Any
    state: Integers  # time, counters and quotes, see `_StateColumns`
    low: int
    head: Integers  # ``(2, levels)`` by side and level, as are ``tail`` and ``total``
    tail: Integers
    total: Integers
    number: Integers  # ``(slots,)`` by slot, as are ``price`` to ``place``
    price: Integers
    size: Integers
    ahead: Integers
    behind: Integers
    place: Integers  # index of the slot in ``live``
    live: Integers  # ``(2, slots)``, the slots in use, by side
    free: Integers  # ``(slots,)``, the slots not in use


@register_jitable
def _queue_shares(sizes: Integers, amount: int, pro_rata: bool) -> Integers:
    """Return the allocation ``(n,)`` of a trade to the orders of a queue; ``amount`` is at most the sum of ``sizes``.

    >>> _queue_shares(np.array([10, 50, 40]), 12, False).tolist()
    [10, 2, 0]
    >>> _queue_shares(np.array([10, 50, 40]), 9, True).tolist()  # quotas 0.9, 4.5 and 3.6; the first gets the other 2
    [2, 4, 3]
    """
    shares, total, rest = np.zeros(len(sizes), np.int64), sizes.sum(), amount
    if pro_rata:
        for i in range(len(sizes)):
            shares[i] = sizes[i] * amount // total
            rest -= shares[i]
    for i in range(len(sizes)):
        more = min(rest, sizes[i] - shares[i])
        shares[i] += more
        rest -= more
    return shares


@register_jitable
def _empty_book(parameters: _FlowParameters, rng: np.random.Generator, low: int, levels: int) -> _FlowBook:
    slots = 8 * parameters.orders + 128
    state = np.zeros(_STATE.quoted + 2, np.int64)
    state[_STATE.free] = slots
    ends, total = np.full((2, levels), -1), np.zeros((2, levels), np.int64)
    live, free = np.zeros((2, slots), np.int64), np.arange(slots)
    o = np.zeros((6, slots), np.int64)
    return _FlowBook(
        parameters, rng, state, low, ends, ends.copy(), total, o[0], o[1], o[2], o[3], o[4], o[5], live, free
    )


@register_jitable
def _write(book: _FlowBook, out: Integers, kind: int, side: int, price: int, size: int, order: int, old: int) -> None:
    row = out[book.state[_STATE.written]]
    row[COLUMN.time], row[COLUMN.kind], row[COLUMN.side], row[COLUMN.price] = book.state[_STATE.now], kind, side, price
    row[COLUMN.size], row[COLUMN.order], row[COLUMN.old] = size, order, old
    book.state[_STATE.written] += 1


@register_jitable
def _insert(book: _FlowBook, side: int, price: int, size: int) -> int:
    state, level = book.state, price - book.low
    state[_STATE.free] -= 1
    slot = book.free[state[_STATE.free]]
    last = book.tail[side, level]
    if last < 0:
        book.head[side, level] = slot
        state[_STATE.levels + side] += 1
    else:
        book.behind[last] = slot
    book.tail[side, level] = slot
    book.ahead[slot], book.behind[slot] = last, -1
    book.total[side, level] += size
    book.number[slot], book.price[slot], book.size[slot] = state[_STATE.created], price, size
    book.place[slot], book.live[side, state[_STATE.live + side]] = state[_STATE.live + side], slot
    state[_STATE.live + side] += 1
    state[_STATE.created] += 1
    return int(book.number[slot])


@register_jitable
def _reduce(book: _FlowBook, side: int, slot: int, shares: int) -> None:
    state, level = book.state, book.price[slot] - book.low
    book.size[slot] -= shares
    book.total[side, level] -= shares
    if book.size[slot] > 0:
        return
    ahead, behind = book.ahead[slot], book.behind[slot]
    if ahead < 0:
        book.head[side, level] = behind
    else:
        book.behind[ahead] = behind
    if behind < 0:
        book.tail[side, level] = ahead
    else:
        book.ahead[behind] = ahead
    if book.head[side, level] < 0:
        state[_STATE.levels + side] -= 1
    state[_STATE.live + side] -= 1
    moved = book.live[side, state[_STATE.live + side]]
    book.live[side, book.place[slot]] = moved
    book.place[moved] = book.place[slot]
    book.free[state[_STATE.free]] = slot
    state[_STATE.free] += 1


@register_jitable
def _can_spare(book: _FlowBook, side: int, slot: int, shares: int) -> bool:
    """Return whether the book keeps its minimum of levels and size at the best price without ``shares`` of an order."""
    price = book.price[slot]
    left = book.total[side, price - book.low] - shares
    if price == book.state[_STATE.quoted + side]:
        return bool(left >= book.parameters.top_size)
    return bool(left > 0 or book.state[_STATE.levels + side] > _FEWEST_LEVELS)


@register_jitable
def _any_size(book: _FlowBook) -> int:
    """Draw the size of an order: one lot (50 %), two to four lots (20 %) or 1 share to one lot (30 %)."""
    draw, lot = book.rng.random(), int(book.parameters.lot)
    if draw < 0.5:
        return lot
    if draw < 0.7:
        return lot * (2 + int(book.rng.random() * 3))
    return 1 + int(book.rng.random() * lot)


@register_jitable
def _away(side: int, price: int, ticks: int) -> int:
    return price - ticks if side == BID else price + ticks


@register_jitable
def _distance(book: _FlowBook) -> int:
    ticks: int = min(int(-math.log(1.0 - book.rng.random()) * book.parameters.reach), book.parameters.furthest - 1)
    return 1 + ticks


@register_jitable
def _any_price(book: _FlowBook, side: int) -> int:
    """Draw a price at or behind the best price; if the side has too few levels, one without orders."""
    best = book.state[_STATE.quoted + side]
    few = book.state[_STATE.levels + side] < _FEWEST_LEVELS
    if not few and book.rng.random() < book.parameters.top_share:
        return int(best)
    ticks = _distance(book)
    while few and book.head[side, _away(side, best, ticks) - book.low] >= 0:
        ticks += 1
    return _away(side, best, ticks)


@register_jitable
def _wait(book: _FlowBook) -> None:
    """Advance the clock by the reaction time of an algorithm, 1 to 21 microseconds."""
    book.state[_STATE.now] += 1_000 + int(book.rng.random() * 20_000)


@register_jitable
def _add(book: _FlowBook, out: Integers, side: int, price: int, size: int) -> None:
    kind = MESSAGE.attributed if book.rng.random() < 0.02 else MESSAGE.add
    _write(book, out, kind, side, price, size, _insert(book, side, price, size), -1)


@register_jitable
def _delete(book: _FlowBook, out: Integers, side: int, slot: int) -> None:
    _write(book, out, MESSAGE.delete, side, book.price[slot], book.size[slot], book.number[slot], -1)
    _reduce(book, side, slot, book.size[slot])


@register_jitable
def _delete_any(book: _FlowBook, out: Integers, side: int, kept: int) -> bool:
    """Delete the first of four random orders not at ``kept`` that can be spared; return whether there is one."""
    for _ in range(4):
        slot = book.live[side, int(book.rng.random() * book.state[_STATE.live + side])]
        if book.price[slot] != kept and _can_spare(book, side, slot, book.size[slot]):
            _delete(book, out, side, slot)
            return True
    return False


@register_jitable
def _replace(book: _FlowBook, out: Integers, side: int, slot: int, size: int) -> None:
    old = book.number[slot]
    _reduce(book, side, slot, book.size[slot])
    price = _any_price(book, side)
    _write(book, out, MESSAGE.replace, side, price, size, _insert(book, side, price, size), old)


@register_jitable
def _match(book: _FlowBook, out: Integers, side: int, price: int, amount: int) -> None:
    """Trade ``amount`` shares, at most the shares displayed, with the orders at a price."""
    improved, state = price, book.state
    if book.rng.random() < 0.06 and state[_STATE.quoted + ASK] - state[_STATE.quoted + BID] > 1:
        improved = _away(side, price, -1)
    slots, sizes = np.zeros(state[_STATE.live + side], np.int64), np.zeros(state[_STATE.live + side], np.int64)
    orders, slot = 0, book.head[side, price - book.low]
    while slot >= 0:
        slots[orders], sizes[orders] = slot, book.size[slot]
        orders, slot = orders + 1, book.behind[slot]
    shares = _queue_shares(sizes, amount, book.parameters.pro_rata)
    kind = MESSAGE.execute if improved == price else MESSAGE.execute_at
    for i in range(orders):
        if shares[i] > 0:
            _write(book, out, kind, side, improved, shares[i], book.number[slots[i]], -1)
            _reduce(book, side, slots[i], shares[i])


@register_jitable
def _event(book: _FlowBook, out: Integers) -> None:
    """Simulate one event between moves; most are adds and deletes that keep the number of orders near its target."""
    state, parameters = book.state, book.parameters
    side, draw = int(book.rng.random() * 2), book.rng.random()
    best, shares = state[_STATE.quoted + side], _any_size(book)
    slot = book.live[side, int(book.rng.random() * state[_STATE.live + side])]
    hidden, partial = parameters.takers + parameters.hidden, parameters.takers + parameters.hidden + parameters.partial
    spare, size = book.total[side, best - book.low] - parameters.top_size, book.size[slot]
    part = int(book.rng.random() * size)
    if draw < parameters.takers and spare > 0:
        _match(book, out, side, best, min(shares, spare))
    elif parameters.takers <= draw < hidden:
        middle = (state[_STATE.quoted + BID] + state[_STATE.quoted + ASK]) // 2
        _write(book, out, MESSAGE.trade, BID, middle, shares, -1, -1)
    elif hidden <= draw < partial and part > 0 and _can_spare(book, side, slot, part):
        _write(book, out, MESSAGE.cancel, side, book.price[slot], part, book.number[slot], -1)
        _reduce(book, side, slot, part)
    elif partial <= draw < partial + parameters.replaced and _can_spare(book, side, slot, size):
        _replace(book, out, side, slot, shares)
    else:
        wish = min(max(1.0 - state[_STATE.live + side] / (2.0 * parameters.orders), 0.05), 0.95)
        if book.rng.random() < wish or not _delete_any(book, out, side, -1):
            _add(book, out, side, _any_price(book, side), shares)


@register_jitable
def _leave(book: _FlowBook, out: Integers, side: int, old: int) -> None:
    """Clear the levels from ``old`` to the new best price: at times execute the first; withdraw or move the rest."""
    swept = book.rng.random() < book.parameters.sweep
    for price in range(old, book.state[_STATE.quoted + side], -1 if side == BID else 1):
        level = price - book.low
        if swept:
            _wait(book)
            _match(book, out, side, price, book.total[side, level])
            swept = False
        while book.head[side, level] >= 0:
            slot = book.head[side, level]
            _wait(book)
            if book.rng.random() < book.parameters.moved:
                _replace(book, out, side, slot, book.size[slot])
            else:
                _delete(book, out, side, slot)


@register_jitable
def _restore(book: _FlowBook, out: Integers, side: int) -> None:
    """Refill the best price and the levels behind it; delete surplus orders."""
    state, parameters, best = book.state, book.parameters, book.state[_STATE.quoted + side]
    if book.total[side, best - book.low] < parameters.top_size:
        if state[_STATE.live + side] > parameters.orders and _delete_any(book, out, side, best):
            _wait(book)
        _add(book, out, side, best, max(_any_size(book), parameters.top_size))
        _wait(book)
    while state[_STATE.levels + side] < _FEWEST_LEVELS:
        _add(book, out, side, _any_price(book, side), _any_size(book))
        _wait(book)
    for _ in range(state[_STATE.live + side] - 2 * parameters.orders):
        if _delete_any(book, out, side, best):
            _wait(book)


@register_jitable
def _move(book: _FlowBook, out: Integers, bid: int, ask: int) -> None:
    # The first message is behind the best prices: sampled books often end with the first message after a pause, which
    # must not be in the middle of a move.
    state, side = book.state, int(book.rng.random() * 2)
    old_bid, old_ask = state[_STATE.quoted + BID], state[_STATE.quoted + ASK]
    full = state[_STATE.live + side] >= book.parameters.orders
    if not (full and _delete_any(book, out, side, state[_STATE.quoted + side])):
        outer = min(old_bid, bid) if side == BID else max(old_ask, ask)
        _add(book, out, side, _away(side, outer, _distance(book)), _any_size(book))
    state[_STATE.quoted + BID], state[_STATE.quoted + ASK] = bid, ask
    _leave(book, out, BID, old_bid)
    _leave(book, out, ASK, old_ask)
    _wait(book)
    _restore(book, out, BID)
    _restore(book, out, ASK)


def _simulate_order_flow(
    rng: np.random.Generator, parameters: _FlowParameters, quotes: Integers, begin: int, end: int, step: int
) -> Integers:
    """Simulate messages ``(n, 7)``, sorted by time, around ``quotes (K, 2)`` in ticks that last ``step`` ns each."""
    margin = parameters.furthest + _FEWEST_LEVELS + 1
    low, high = quotes[:, BID].min(), quotes[:, ASK].max()
    book = _empty_book(parameters, rng, low - margin, high - low + 2 * margin + 1)
    state, out = book.state, np.empty((4096, len(COLUMN)), np.int64)
    room = 4 * len(book.free)  # a move of the quotes may withdraw every order and add as many
    state[_STATE.now], state[_STATE.quoted + BID], state[_STATE.quoted + ASK] = begin, quotes[0, BID], quotes[0, ASK]
    for i in range(2 * parameters.orders):
        size = max(_any_size(book), parameters.top_size)
        _add(book, out, i % 2, state[_STATE.quoted + i % 2] if i < 2 else _any_price(book, i % 2), size)
        state[_STATE.now] += int(rng.random() * 1_000_000_000 / (2 * parameters.orders))
    while True:
        state[_STATE.now] += 1 + int(-math.log(1.0 - rng.random()) * parameters.gap)
        if state[_STATE.now] >= end:
            break
        if state[_STATE.written] + room > len(out):
            out = np.concatenate((out, np.empty((len(out) + room, len(COLUMN)), np.int64)))
        now = min((state[_STATE.now] - begin) // step, len(quotes) - 1)
        if quotes[now, BID] != state[_STATE.quoted + BID] or quotes[now, ASK] != state[_STATE.quoted + ASK]:
            _move(book, out, quotes[now, BID], quotes[now, ASK])
        _event(book, out)
    while out[state[_STATE.written] - 1, COLUMN.time] >= end:
        state[_STATE.written] -= 1
    return out[: state[_STATE.written]]


_simulate_compiled = njit(cache=True)(_simulate_order_flow)


def _fundamental_price(seed: int, symbol: str, steps: int) -> Floats:
    """Return the price path of a stock in dollars, ``(steps,)``, four steps per second.

    Each move is the sum of a factor that all stocks share and a factor specific to the stock.
    """
    common, own = (
        np.random.default_rng(seed_stream(seed, "synthetic price", name)).standard_normal(steps)
        for name in ("", symbol)
    )
    moves = math.sqrt(0.6) * common + math.sqrt(1 - 0.6) * own  # 60 % of the variance is common
    level = np.random.default_rng(seed_stream(seed, "synthetic level", symbol)).uniform(math.log(40), math.log(400))
    known = {"QVEX": 270.0, "ZORN": 112.0, "XALT": 64.0, "LUMO": 48.0, "TARN": 93.0, "VEKO": 24.0}
    start, volatility = known.get(symbol, math.exp(level)), 4e-5  # per square root of a second: 0.6 % in a day
    return np.asarray(start * np.exp(volatility * math.sqrt(STEP / SECOND) * (np.cumsum(moves) - moves[0])))


def _ornstein_uhlenbeck(rng: np.random.Generator, steps: int, memory: float) -> Floats:
    """Draw a stationary path ``(steps,)`` of mean 0, variance 1 and time constant ``memory`` in seconds."""
    kept = math.exp(-STEP / SECOND / memory)
    shocks = rng.standard_normal(steps) * math.sqrt(1 - kept * kept)
    shocks[0] /= math.sqrt(1 - kept * kept)
    return np.array(list(itertools.accumulate(shocks.tolist(), lambda before, shock: kept * before + shock)))


def _follow(values: Floats, patience: float) -> Integers:
    """Round ``values`` with hysteresis: keep the last integer until a value is more than ``patience`` away from it.

    >>> _follow(np.array([5.2, 5.9, 6.6, 6.1, 5.7]), 1.0).tolist()
    [5, 5, 7, 7, 6]
    """
    now, path = round(values[0]), []
    for value in values.tolist():
        if abs(value - now) > patience:
            now = round(value)
        path.append(now)
    return np.array(path, dtype=np.int64)


def _target_quotes(seed: int, venue: SyntheticVenue, symbol: str, steps: int) -> Integers:
    if isinstance(venue.quotes, SyntheticSharedQuotes):
        return _shared_quotes(seed, venue.name, venue.quotes, symbol, steps)
    return _own_quotes(seed, venue.name, venue.quotes, symbol, steps)


def _own_quotes(seed: int, venue: str, quotes: SyntheticOwnQuotes, symbol: str, steps: int) -> Integers:
    price = _fundamental_price(seed, symbol, steps)
    scale = price[0] / REFERENCE_PRICE / _TICK
    noise, spread = (
        np.random.default_rng(seed_stream(seed, f"synthetic {part}", venue, symbol)) for part in ("noise", "spread")
    )
    middle = price / _TICK + scale * 0.005 * _ornstein_uhlenbeck(noise, steps, 30.0)
    # The deviation is at least 0.2 ticks: a constant spread would leave no variance to estimate.
    level, deviation = scale * quotes.half_spread, max(scale * quotes.spread_deviation, 0.2)
    log_variance = math.log1p((deviation / level) ** 2)
    logs = math.sqrt(log_variance) * _ornstein_uhlenbeck(spread, steps, 120.0) - log_variance / 2
    wanted = 2 * level * np.exp(logs)
    center = _follow(middle, max(scale * quotes.price_patience, 0.5))
    width = _follow(wanted, max(scale * quotes.spread_patience, 0.5))
    return _around(center, np.maximum(width, 1))


def _shared_quotes(seed: int, venue: str, quotes: SyntheticSharedQuotes, symbol: str, steps: int) -> Integers:
    shared = np.random.default_rng(seed_stream(seed, "synthetic market", symbol))
    wide = _ornstein_uhlenbeck(shared, steps, 120.0) > ndtri(1 - 0.25)  # two ticks wide for a quarter of the time
    best = _around(_follow(_fundamental_price(seed, symbol, steps) / _TICK, 1.0), np.where(wide, 2, 1))
    for column, side in enumerate(("bid", "ask")):
        rng = np.random.default_rng(seed_stream(seed, f"synthetic {side} behind", venue, symbol))
        state = _ornstein_uhlenbeck(rng, steps, quotes.memory)
        # Every 1.6 standard deviations beyond the threshold put the venue another tick behind.
        behind = np.maximum(np.ceil((state - ndtri(quotes.at_best)) / 1.6), 0).astype(np.int64)
        best[:, column] += behind if side == "ask" else -behind
    return best


def _around(center: Integers, width: Integers) -> Integers:
    bid = center - (width + 1) // 2
    return np.column_stack([bid, bid + width])


def order_flow_messages(seed: int, venue: SyntheticVenue, symbol: str, begin: int, end: int, rate: float) -> Integers:
    """Simulate the messages ``(n, 7)`` of a symbol on a venue; ``rate`` scales their number."""
    quotes = _target_quotes(seed, venue, symbol, -(-(end - begin) // STEP))
    shares = ("top_share", "reach", "takers", "hidden", "partial", "replaced", "moved", "sweep")
    parameters = _FlowParameters(
        gap=SECOND / (venue.events_per_second * rate),
        orders=venue.orders,
        lot=venue.lot,
        top_size=venue.top_size,
        furthest=int(20 * venue.reach),
        pro_rata=venue.matching == "pro-rata",
        **{name: float(getattr(venue, name)) for name in shares},
    )
    rng = np.random.default_rng(seed_stream(seed, "synthetic flow", venue.name, symbol))
    rows: Integers = _simulate_compiled(rng, parameters, quotes, begin, end, STEP)
    return rows
