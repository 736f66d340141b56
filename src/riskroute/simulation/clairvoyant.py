"""The clairvoyant: the best that could have been done with an order, knowing everything. A bound, not a router.

It knows what every pool holds, who will come to it, how every queue will move and what the books will show. All of
that is shares at a price, so it takes the cheapest ones: from pools at the mid, now or when a counterparty comes; from
limit orders as far as they are filled; from the displayed books now, after as long as it takes to try the pools, or at
the horizon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from riskroute.arrays import Integers
from riskroute.market.clock import SECOND
from riskroute.routers.context import Context, Pool
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.simulation.exchange import Exchange, Executed, Fill


class Oracle(Router, ABC):
    """A router of class F4: it is given the exchange itself, and says what became of an order."""

    feedback: ClassVar[str] = "F4"

    def decide(self, context: Context) -> Plan:
        return Plan(context.order)

    @abstractmethod
    def execute(self, exchange: Exchange, number: int, context: Context) -> Executed:
        """Return the fills of an order, by its number."""


class _Offer(NamedTuple):
    """Shares that can be had at a price, and what each costs against the arrival mid, fees included."""

    cost: float
    shares: int
    fill: Fill


class Clairvoyant(Oracle):
    """Take the cheapest shares of all that will be on offer until the horizon.

    Only shares that will be filled rest in a pool or wait in a queue, so that none is missing elsewhere. What a venue
    displays at one price now and a little later is one offer, the larger of the two; at the horizon it is a second one
    if its book has changed since.
    """

    name: ClassVar[str] = "clairvoyant"

    def execute(self, exchange: Exchange, number: int, context: Context) -> Executed:
        offers = sorted(self._offers(exchange, number, context), key=lambda offer: offer.cost)
        done, left = Executed(context), context.shares
        for offer in offers:
            if left == 0:
                break
            taken = min(left, offer.shares)
            self._fill(done, offer.fill._replace(child=len(done.children), shares=taken))
            left -= taken
        if left:  # more than is displayed: as the books go on
            book = context.displayed
            each = float(book.costs(book.depth + left) - book.costs(book.depth)) / left
            price = context.mid + context.sign * each
            fill = Fill(len(done.children), "sweep", "beyond", context.time, left, price, 0.0, estimated=True)
            self._fill(done, fill)
        for fill in done.fills:
            if fill.kind in ("dark", "dark_rest"):
                exchange.note_dark_fill(fill.place, fill.time)
        return done

    @staticmethod
    def _fill(done: Executed, fill: Fill) -> None:
        done.fills.append(fill)
        fee = fill.fee * fill.shares
        report = ChildReport(
            fill.child,
            fill.kind,
            fill.place,
            fill.shares,
            fill.shares,
            fill.price,
            fee,
            fill.time,
            fill.time,
            fill.time,
        )
        done.children.append(report)

    def _offers(self, exchange: Exchange, number: int, context: Context) -> list[_Offer]:
        end = context.time + int(context.horizon * SECOND)
        lit = int(exchange.latency.lit * SECOND)
        detours = self._detours(exchange, context)
        now = context.time + lit
        soon = sorted({context.time + detour + ways * lit for detour in detours for ways in (1, 2)})
        later = end > soon[-1] + SECOND
        offers = self._displayed(exchange, context, soon if later or end <= now else [*soon, end])
        if later:
            offers += self._displayed(exchange, context, [end], exchange.books.as_of(soon[-1]).rows)
        if end > now:
            offers += self._queued(exchange, context, now, end)
        return offers + self._dark(exchange, number, context, detours)

    @staticmethod
    def _detours(exchange: Exchange, context: Context) -> list[int]:
        """Return the nanoseconds that pass while none, one, two .. of the pools are tried."""
        return [pools * int(exchange.latency.dark * SECOND) for pools in range(len(context.pools) + 1)]

    def _offer(self, context: Context, fill: Fill) -> _Offer:
        return _Offer(context.sign * (fill.price - context.mid) + fill.fee, fill.shares, fill)

    def _displayed(
        self, exchange: Exchange, context: Context, times: list[int], seen: Integers | None = None
    ) -> list[_Offer]:
        """Shares displayed at some times, at most once at a price, but for venues whose snapshot was seen already.

        The hidden shares that an order is taken to meet there come on top, once.
        """
        most: dict[tuple[int, float], tuple[int, int]] = {}
        hidden: dict[tuple[int, float], int] = {}
        before = np.full(len(exchange.books.venues), -1)
        for time in times:
            books = exchange.books.as_of(time)
            prices, sizes = (books.ask_px, books.ask_sz) if context.sign > 0 else (books.bid_px, books.bid_sz)
            if seen is not None:
                sizes[books.rows == seen] = 0.0
            meets = [exchange.meets_hidden(v, time) for v in range(len(before))]
            known, before = books.rows == before, books.rows
            for v in np.flatnonzero(~known | meets).tolist():
                for level in np.flatnonzero(sizes[v] >= 1).tolist():
                    place, size = (v, float(prices[v, level])), int(sizes[v, level])
                    if size > most.get(place, (0, 0))[0]:
                        most[place] = (size, time)
                    if meets[v]:
                        hidden[place] = max(exchange.hidden_shares(*place, time), hidden.get(place, 0))
        names, fees = exchange.books.venues, exchange.takers
        return [
            self._offer(
                context, Fill(0, "take", names[v], time, size + hidden.get((v, price), 0), price, float(fees[v]))
            )
            for (v, price), (size, time) in most.items()
        ]

    def _queued(self, exchange: Exchange, context: Context, begin: int, end: int) -> list[_Offer]:
        offers: list[_Offer] = []
        if (queue := exchange.queue) is None:
            return offers
        for v, name in enumerate(exchange.books.venues):
            price, fills = queue.fills(v, context.sign, begin, end, context.shares)
            fee = float(exchange.makers[v])
            offers += [self._offer(context, Fill(0, "limit", name, time, shares, price, fee)) for time, shares in fills]
        return offers

    def _dark(self, exchange: Exchange, number: int, context: Context, detours: list[int]) -> list[_Offer]:
        if exchange.dark is None:
            return []
        offers = []
        for pool in context.pools:
            recent = exchange.filled_recently(pool.name, context.time)
            if size := exchange.dark.hidden(number, pool.name, recent=recent):
                tries = [
                    self._at_mid(exchange, context, pool, "dark", context.time + detour, size)
                    for detour in detours[:-1]
                ]
                offers.append(min(tries, key=lambda offer: offer.cost))
            offers += [
                self._at_mid(exchange, context, pool, "dark_rest", context.time + int(seconds * SECOND), size)
                for seconds, size in exchange.dark.arrivals(number, pool.name, context.horizon, recent=recent)
            ]
        return offers

    def _at_mid(self, exchange: Exchange, context: Context, pool: Pool, kind: str, time: int, size: int) -> _Offer:
        mid, half = exchange.mid_and_half_spread(time, context)
        price = mid - context.sign * pool.improvement * half
        return self._offer(context, Fill(0, kind, pool.name, time, size, price, pool.fee))
