"""Order flow of one symbol on one venue: orders come, are changed, trade and go, around quotes that are given.

The quotes, a best bid and a best ask in ticks for every step of time, are a target that the book always shows, but for
the microseconds in which it moves: at least `FEWEST_LEVELS` levels a side, and some shares at the best. When the quotes
move, orders beyond them are taken by an aggressor or withdrawn, and new ones come. `simulate_order_flow` defines all of
it in plain Python; `simulate_compiled` is the same function compiled.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable
from scipy.special import ndtri

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.seeding import seed_stream
from riskroute.market.clock import SECOND
from riskroute.market.synthetic.venues import REFERENCE_PRICE, OwnQuotes, SharedQuotes, SyntheticVenue

BID, ASK = 0, 1
ADD, ATTRIBUTED, EXECUTE, EXECUTE_AT, CANCEL, DELETE, REPLACE, TRADE = (ord(letter) for letter in "AFECXDUP")

TIME, KIND, SIDE, PRICE, SIZE, ORDER, OLD = range(7)
"""Columns of a message: nanoseconds, letter, side, price in ticks, shares, number of the order, of the one it replaces.

Orders are numbered from 0 as they come. A hidden trade has order -1; only a replacement has an old one.
"""

FEWEST_LEVELS = 6
"""Levels a side that withdrawals leave alone: one more than the five that are usually looked at."""

_NOW, _COUNT, _CREATED, _FREE, _LIVE, _LEVELS, _QUOTED = 0, 1, 2, 3, 4, 6, 8  # the last three one per side each
_ATTRIBUTED_SHARE, _PRICED_SHARE, _TRIES = 0.02, 0.06, 4


class FlowCharacter(NamedTuple):
    """How orders come and go.

    ``gap`` is the mean time between events in nanoseconds, ``orders`` the usual number a side, ``lot`` a usual size,
    ``top_size`` the fewest shares at the best price, ``reach`` the mean distance of orders behind the best in ticks,
    ``furthest`` the largest. The shares are those of events: aggressors, hidden trades, partial cancels, replacements;
    ``moved`` is the share of withdrawn orders that come back at a price behind the new best, and ``sweep`` the chance
    that a price left behind is traded away instead.
    """

    gap: float
    orders: int
    lot: int
    top_size: int
    top_share: float
    reach: float
    furthest: int
    takers: float
    hidden: float
    partial: float
    replaced: float
    moved: float
    sweep: float
    pro_rata: bool


class FlowBook(NamedTuple):
    """A book as linked queues; level ``i`` has price ``low + i``. Orders live in slots that are used again.

    ``head``, ``tail`` and ``total`` are ``(2, levels)``; ``number``, ``price``, ``size``, ``ahead``, ``behind`` and
    ``place`` (in ``live``) are ``(slots,)``; ``live (2, slots)`` lists the slots in use, ``free (slots,)`` the others.
    ``state`` holds the time, counts and the quotes.
    """

    character: FlowCharacter
    rng: Any
    state: Integers
    low: int
    head: Integers
    tail: Integers
    total: Integers
    number: Integers
    price: Integers
    size: Integers
    ahead: Integers
    behind: Integers
    place: Integers
    live: Integers
    free: Integers


@register_jitable
def queue_shares(sizes: Integers, amount: int, pro_rata: bool) -> Integers:
    """Shares that each order of a queue ``(n,)`` gets of ``amount``, not more than there are.

    By time, the first gets all it can take, then the next; pro rata, each its part rounded down, the rest by time.

    Examples
    --------
    >>> queue_shares(np.array([10, 50, 40]), 12, False).tolist()
    [10, 2, 0]
    >>> queue_shares(np.array([10, 50, 40]), 9, True).tolist()  # 0.9, 4.5 and 3.6: two remain, for the first order
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
def _empty_book(character: FlowCharacter, rng: np.random.Generator, low: int, levels: int) -> FlowBook:
    slots = 8 * character.orders + 128
    state = np.zeros(_QUOTED + 2, np.int64)
    state[_FREE] = slots
    ends, total = np.full((2, levels), -1), np.zeros((2, levels), np.int64)
    live, free = np.zeros((2, slots), np.int64), np.arange(slots)
    o = np.zeros((6, slots), np.int64)
    return FlowBook(
        character, rng, state, low, ends, ends.copy(), total, o[0], o[1], o[2], o[3], o[4], o[5], live, free
    )


@register_jitable
def _say(book: FlowBook, out: Integers, kind: int, side: int, price: int, size: int, order: int, old: int) -> None:
    row = out[book.state[_COUNT]]
    row[TIME], row[KIND], row[SIDE], row[PRICE] = book.state[_NOW], kind, side, price
    row[SIZE], row[ORDER], row[OLD] = size, order, old
    book.state[_COUNT] += 1


@register_jitable
def _insert(book: FlowBook, side: int, price: int, size: int) -> int:
    """Put an order at the end of its queue; its number."""
    state, level = book.state, price - book.low
    state[_FREE] -= 1
    slot = book.free[state[_FREE]]
    last = book.tail[side, level]
    if last < 0:
        book.head[side, level] = slot
        state[_LEVELS + side] += 1
    else:
        book.behind[last] = slot
    book.tail[side, level] = slot
    book.ahead[slot], book.behind[slot] = last, -1
    book.total[side, level] += size
    book.number[slot], book.price[slot], book.size[slot] = state[_CREATED], price, size
    book.place[slot], book.live[side, state[_LIVE + side]] = state[_LIVE + side], slot
    state[_LIVE + side] += 1
    state[_CREATED] += 1
    return int(book.number[slot])


@register_jitable
def _reduce(book: FlowBook, side: int, slot: int, shares: int) -> None:
    """Take shares from an order; one without any leaves."""
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
        state[_LEVELS + side] -= 1
    state[_LIVE + side] -= 1
    moved = book.live[side, state[_LIVE + side]]
    book.live[side, book.place[slot]] = moved
    book.place[moved] = book.place[slot]
    book.free[state[_FREE]] = slot
    state[_FREE] += 1


@register_jitable
def _spared(book: FlowBook, side: int, slot: int, shares: int) -> bool:
    """Whether the book still shows what it must without some shares of an order."""
    price = book.price[slot]
    left = book.total[side, price - book.low] - shares
    if price == book.state[_QUOTED + side]:
        return bool(left >= book.character.top_size)
    return bool(left > 0 or book.state[_LEVELS + side] > FEWEST_LEVELS)


@register_jitable
def _any_size(book: FlowBook) -> int:
    """A lot as a rule, several at times, an odd number otherwise."""
    draw, lot = book.rng.random(), book.character.lot
    if draw < 0.5:
        return lot
    if draw < 0.7:
        return lot * (2 + int(book.rng.random() * 3))
    return 1 + int(book.rng.random() * lot)


@register_jitable
def _away(side: int, price: int, ticks: int) -> int:
    return price - ticks if side == BID else price + ticks


@register_jitable
def _distance(book: FlowBook) -> int:
    ticks = int(-math.log(1.0 - book.rng.random()) * book.character.reach)
    return 1 + min(ticks, book.character.furthest - 1)


@register_jitable
def _any_price(book: FlowBook, side: int) -> int:
    """A price at or behind the best; where levels are few, one that makes a level."""
    best = book.state[_QUOTED + side]
    few = book.state[_LEVELS + side] < FEWEST_LEVELS
    if not few and book.rng.random() < book.character.top_share:
        return int(best)
    ticks = _distance(book)
    while few and book.head[side, _away(side, best, ticks) - book.low] >= 0:
        ticks += 1
    return _away(side, best, ticks)


@register_jitable
def _wait(book: FlowBook) -> None:
    """Let the microseconds pass in which machines answer each other."""
    book.state[_NOW] += 1_000 + int(book.rng.random() * 20_000)


@register_jitable
def _add(book: FlowBook, out: Integers, side: int, price: int, size: int) -> None:
    kind = ATTRIBUTED if book.rng.random() < _ATTRIBUTED_SHARE else ADD
    _say(book, out, kind, side, price, size, _insert(book, side, price, size), -1)


@register_jitable
def _delete(book: FlowBook, out: Integers, side: int, slot: int) -> None:
    _say(book, out, DELETE, side, book.price[slot], book.size[slot], book.number[slot], -1)
    _reduce(book, side, slot, book.size[slot])


@register_jitable
def _delete_any(book: FlowBook, out: Integers, side: int, kept: int) -> bool:
    """Delete an order that can be spared and is not at the price ``kept``, if a few tries find one."""
    for _ in range(_TRIES):
        slot = book.live[side, int(book.rng.random() * book.state[_LIVE + side])]
        if book.price[slot] != kept and _spared(book, side, slot, book.size[slot]):
            _delete(book, out, side, slot)
            return True
    return False


@register_jitable
def _replace(book: FlowBook, out: Integers, side: int, slot: int, size: int) -> None:
    old = book.number[slot]
    _reduce(book, side, slot, book.size[slot])
    price = _any_price(book, side)
    _say(book, out, REPLACE, side, price, size, _insert(book, side, price, size), old)


@register_jitable
def _match(book: FlowBook, out: Integers, side: int, price: int, amount: int) -> None:
    """Trade ``amount`` shares, not more than there are, with the orders at a price."""
    improved, state = price, book.state
    if book.rng.random() < _PRICED_SHARE and state[_QUOTED + ASK] - state[_QUOTED + BID] > 1:
        improved = _away(side, price, -1)
    slots, sizes = np.zeros(state[_LIVE + side], np.int64), np.zeros(state[_LIVE + side], np.int64)
    orders, slot = 0, book.head[side, price - book.low]
    while slot >= 0:
        slots[orders], sizes[orders] = slot, book.size[slot]
        orders, slot = orders + 1, book.behind[slot]
    shares = queue_shares(sizes, amount, book.character.pro_rata)
    kind = EXECUTE if improved == price else EXECUTE_AT
    for i in range(orders):
        if shares[i] > 0:
            _say(book, out, kind, side, improved, shares[i], book.number[slots[i]], -1)
            _reduce(book, side, slots[i], shares[i])


@register_jitable
def _event(book: FlowBook, out: Integers) -> None:
    """Something happens while the quotes stand: mostly an order comes or goes, to keep their number near the usual."""
    state, character = book.state, book.character
    side, draw = int(book.rng.random() * 2), book.rng.random()
    best, shares = state[_QUOTED + side], _any_size(book)
    slot = book.live[side, int(book.rng.random() * state[_LIVE + side])]
    hidden, partial = character.takers + character.hidden, character.takers + character.hidden + character.partial
    spare, size = book.total[side, best - book.low] - character.top_size, book.size[slot]
    part = int(book.rng.random() * size)
    if draw < character.takers and spare > 0:
        _match(book, out, side, best, min(shares, spare))
    elif character.takers <= draw < hidden:
        _say(book, out, TRADE, BID, (state[_QUOTED + BID] + state[_QUOTED + ASK]) // 2, shares, -1, -1)
    elif hidden <= draw < partial and part > 0 and _spared(book, side, slot, part):
        _say(book, out, CANCEL, side, book.price[slot], part, book.number[slot], -1)
        _reduce(book, side, slot, part)
    elif partial <= draw < partial + character.replaced and _spared(book, side, slot, size):
        _replace(book, out, side, slot, shares)
    else:
        wish = min(max(1.0 - state[_LIVE + side] / (2.0 * character.orders), 0.05), 0.95)
        if book.rng.random() < wish or not _delete_any(book, out, side, -1):
            _add(book, out, side, _any_price(book, side), shares)


@register_jitable
def _leave(book: FlowBook, out: Integers, side: int, old: int) -> None:
    """Clear the prices from ``old`` to the new best: the first is traded away at times, the others withdrawn."""
    swept = book.rng.random() < book.character.sweep
    for price in range(old, book.state[_QUOTED + side], -1 if side == BID else 1):
        level = price - book.low
        if swept:
            _wait(book)
            _match(book, out, side, price, book.total[side, level])
            swept = False
        while book.head[side, level] >= 0:
            slot = book.head[side, level]
            _wait(book)
            if book.rng.random() < book.character.moved:
                _replace(book, out, side, slot, book.size[slot])
            else:
                _delete(book, out, side, slot)


@register_jitable
def _restore(book: FlowBook, out: Integers, side: int) -> None:
    """Show the best price and enough levels behind it; orders too many make room."""
    state, character, best = book.state, book.character, book.state[_QUOTED + side]
    if book.total[side, best - book.low] < character.top_size:
        if state[_LIVE + side] > character.orders and _delete_any(book, out, side, best):
            _wait(book)
        _add(book, out, side, best, max(_any_size(book), character.top_size))
        _wait(book)
    while state[_LEVELS + side] < FEWEST_LEVELS:
        _add(book, out, side, _any_price(book, side), _any_size(book))
        _wait(book)
    for _ in range(state[_LIVE + side] - 2 * character.orders):
        if _delete_any(book, out, side, best):
            _wait(book)


@register_jitable
def _move(book: FlowBook, out: Integers, bid: int, ask: int) -> None:
    """Bring the book from the quotes it shows to others.

    A message behind the best prices comes first: samples of books often fall on the first message after a silence, and
    that must not be the middle of a move.
    """
    state, side = book.state, int(book.rng.random() * 2)
    old_bid, old_ask = state[_QUOTED + BID], state[_QUOTED + ASK]
    full = state[_LIVE + side] >= book.character.orders
    if not (full and _delete_any(book, out, side, state[_QUOTED + side])):
        outer = min(old_bid, bid) if side == BID else max(old_ask, ask)
        _add(book, out, side, _away(side, outer, _distance(book)), _any_size(book))
    state[_QUOTED + BID], state[_QUOTED + ASK] = bid, ask
    _leave(book, out, BID, old_bid)
    _leave(book, out, ASK, old_ask)
    _wait(book)
    _restore(book, out, BID)
    _restore(book, out, ASK)


def simulate_order_flow(
    rng: np.random.Generator, character: FlowCharacter, quotes: Integers, begin: int, end: int, step: int
) -> Integers:
    """Messages ``(n, 7)`` of one symbol on one venue, in the order of time, from ``begin`` and before ``end``.

    ``quotes (K, 2)`` are best bid and ask in ticks, each for ``step`` nanoseconds. The book fills within a second.
    """
    if quotes.shape[0] == 0 or quotes.shape[1] != 2 or step < 1 or character.orders < 1:
        raise InputError("quotes must be rows of bid and ask for steps of time, and there must be orders")
    margin = character.furthest + FEWEST_LEVELS + 1
    low, high = quotes[:, BID].min(), quotes[:, ASK].max()
    book = _empty_book(character, rng, low - margin, high - low + 2 * margin + 1)
    state, out = book.state, np.empty((4096, OLD + 1), np.int64)
    room = 4 * len(book.free)  # a move may withdraw every order, and bring as many
    state[_NOW], state[_QUOTED + BID], state[_QUOTED + ASK] = begin, quotes[0, BID], quotes[0, ASK]
    for i in range(2 * character.orders):
        size = max(_any_size(book), character.top_size)
        _add(book, out, i % 2, state[_QUOTED + i % 2] if i < 2 else _any_price(book, i % 2), size)
        state[_NOW] += int(rng.random() * 1_000_000_000 / (2 * character.orders))
    while True:
        state[_NOW] += 1 + int(-math.log(1.0 - rng.random()) * character.gap)
        if state[_NOW] >= end:
            break
        if state[_COUNT] + room > len(out):
            out = np.concatenate((out, np.empty((len(out) + room, OLD + 1), np.int64)))
        now = min((state[_NOW] - begin) // step, len(quotes) - 1)
        if quotes[now, BID] != state[_QUOTED + BID] or quotes[now, ASK] != state[_QUOTED + ASK]:
            _move(book, out, quotes[now, BID], quotes[now, ASK])
        _event(book, out)
    while out[state[_COUNT] - 1, TIME] >= end:
        state[_COUNT] -= 1
    return out[: state[_COUNT]]


simulate_compiled = njit(cache=True)(simulate_order_flow)


# Best bids and asks of the synthetic market, step by step: targets that the order flow of every venue follows.
#
# Prices follow one fundamental price per stock. A venue quotes on its own, around that price with a little noise and a
# spread that wanders, or it shares in the best quotes of one market, at times a few ticks behind them.
#


KNOWN_PRICES = {"QVEX": 270.0, "ZORN": 112.0, "XALT": 64.0, "LUMO": 48.0, "TARN": 93.0, "VEKO": 24.0}
"""Dollars at which well-known stocks begin; others get a price of their own."""

TICK = 0.01
STEP = SECOND // 4
"""Nanoseconds between quotes."""

_VOLATILITY = 4e-5  # per square root of a second: 0.6 % in a day
_COMMON_SHARE = 0.6  # of the variance of prices
_SPREAD_MEMORY, _NOISE_MEMORY = 120.0, 30.0  # seconds
_NOISE = 0.005  # dollars at the reference price
_LEAST_DEVIATION = 0.2  # ticks: a spread that never changed would leave nothing to estimate
_WIDE = 0.25  # share of the time in which the best quotes of a shared market are two ticks apart
_FURTHER = 1.6  # standard deviations of a venue's state that put it another tick behind


def fundamental_price(seed: int, symbol: str, steps: int) -> Floats:
    """Price of a stock in dollars, ``(steps,)``, four a second: a factor common to all stocks, and one of its own."""
    common, own = (
        np.random.default_rng(seed_stream(seed, "synthetic price", name)).standard_normal(steps)
        for name in ("", symbol)
    )
    moves = math.sqrt(_COMMON_SHARE) * common + math.sqrt(1 - _COMMON_SHARE) * own
    level = np.random.default_rng(seed_stream(seed, "synthetic level", symbol)).uniform(math.log(40), math.log(400))
    start = KNOWN_PRICES.get(symbol, math.exp(level))
    return np.asarray(start * np.exp(_VOLATILITY * math.sqrt(STEP / SECOND) * (np.cumsum(moves) - moves[0])))


def _wandering(rng: np.random.Generator, steps: int, memory: float) -> Floats:
    """A stationary path ``(steps,)`` of mean 0 and variance 1 that forgets within ``memory`` seconds."""
    kept = math.exp(-STEP / SECOND / memory)
    shocks = rng.standard_normal(steps) * math.sqrt(1 - kept * kept)
    shocks[0] /= math.sqrt(1 - kept * kept)
    return np.array(list(itertools.accumulate(shocks.tolist(), lambda before, shock: kept * before + shock)))


def followed(values: Floats, patience: float) -> Integers:
    """Whole numbers that follow ``values``: they move, to the nearest, when they are off by more than ``patience``.

    Examples
    --------
    >>> followed(np.array([5.2, 5.9, 6.6, 6.1, 5.7]), 1.0).tolist()
    [5, 5, 7, 7, 6]
    """
    now, path = round(values[0]), []
    for value in values.tolist():
        if abs(value - now) > patience:
            now = round(value)
        path.append(now)
    return np.array(path, dtype=np.int64)


def target_quotes(seed: int, venue: SyntheticVenue, symbol: str, steps: int) -> Integers:
    """Best bid and best ask in ticks that a venue shows, ``(steps, 2)``, four a second."""
    quotes = venue.quotes
    if isinstance(quotes, SharedQuotes):
        return _shared_quotes(seed, venue.name, quotes, symbol, steps)
    return _own_quotes(seed, venue.name, quotes, symbol, steps)


def _own_quotes(seed: int, venue: str, quotes: OwnQuotes, symbol: str, steps: int) -> Integers:
    price = fundamental_price(seed, symbol, steps)
    scale = price[0] / REFERENCE_PRICE / TICK
    noise, spread = (
        np.random.default_rng(seed_stream(seed, f"synthetic {part}", venue, symbol)) for part in ("noise", "spread")
    )
    middle = price / TICK + scale * _NOISE * _wandering(noise, steps, _NOISE_MEMORY)
    level, deviation = scale * quotes.half_spread, max(scale * quotes.spread_deviation, _LEAST_DEVIATION)
    log_variance = math.log1p((deviation / level) ** 2)
    logs = math.sqrt(log_variance) * _wandering(spread, steps, _SPREAD_MEMORY) - log_variance / 2
    wanted = 2 * level * np.exp(logs)
    center = followed(middle, max(scale * quotes.price_patience, 0.5))
    width = followed(wanted, max(scale * quotes.spread_patience, 0.5))
    return _around(center, np.maximum(width, 1))


def _shared_quotes(seed: int, venue: str, quotes: SharedQuotes, symbol: str, steps: int) -> Integers:
    best = market_quotes(seed, symbol, steps)
    for column, side in enumerate(("bid", "ask")):
        rng = np.random.default_rng(seed_stream(seed, f"synthetic {side} behind", venue, symbol))
        state = _wandering(rng, steps, quotes.memory)
        behind = np.maximum(np.ceil((state - ndtri(quotes.at_best)) / _FURTHER), 0).astype(np.int64)
        best[:, column] += behind if side == "ask" else -behind
    return best


def market_quotes(seed: int, symbol: str, steps: int) -> Integers:
    """Best quotes in ticks of the market that venues share, ``(steps, 2)``: one tick apart, at times two."""
    rng = np.random.default_rng(seed_stream(seed, "synthetic market", symbol))
    wide = _wandering(rng, steps, _SPREAD_MEMORY) > ndtri(1 - _WIDE)
    return _around(followed(fundamental_price(seed, symbol, steps) / TICK, 1.0), np.where(wide, 2, 1))


def _around(center: Integers, width: Integers) -> Integers:
    bid = center - (width + 1) // 2
    return np.column_stack([bid, bid + width])
