"""What a seed stands for: the orders, the faults and the settings of one simulated life of the service."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from simulated_service.scheduler import NANO

VENUES = ("A", "B", "C")
POOLS = ("P", "Q")
PLACES = VENUES + POOLS
SYMBOLS = ("ONE", "TWO")
INSTRUMENTS = {  # fields by symbol: shares, and a contract with fractions, a multiplier and a minimum
    "ONE": {"protection": "reg-nms"},
    "TWO": {"unit": "0.01", "multiplier": 50, "minimum_quantity": "0.05", "quantity": "contracts"},
}

# Manners of a client: waits for its answer; leaves after sending; sends in small pieces; sends a part and nothing more.
MANNERS = ("waits", "leaves", "slow", "half-open")


@dataclass(frozen=True)
class Order:
    """An order that a client sends, and sends again until it is answered."""

    at: int
    number: int
    symbol: str
    side: str
    quantity: int
    seconds: float
    manner: str
    limit: bool

    def __str__(self) -> str:
        return (
            f"order {self.number}: {self.side} {self.quantity} {self.symbol} within {self.seconds:g} s, {self.manner}"
        )


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong: its kind, where, for how long, and after how many more steps of the service."""

    at: int
    kind: str
    place: str = ""
    seconds: float = 0.0
    steps: int = 0

    def __str__(self) -> str:
        if self.kind in ("kill", "power cut"):
            return f"{self.kind} after {self.steps} times {self.place or 'any step'}"
        return " ".join([self.kind, self.place, f"{self.seconds:.3g} s" if self.seconds else ""])


@dataclass(frozen=True)
class Scenario:
    """Everything that a seed determines before the service starts."""

    seed: int
    start: int
    seconds: float
    orders: tuple[Order, ...]
    faults: tuple[Fault, ...]
    refit_every: int
    snapshot_every: int
    reject: float
    partial: float
    duplicate: float
    disorder: float
    silence: float
    lost: float
    latency: float
    per_second: float  # orders, cancels and queries that a session may send; 0: no limit

    @property
    def settings(self) -> str:
        """All values but orders and faults that are not zero."""
        values = {name: value for name, value in vars(self).items() if name not in ("orders", "faults") and value}
        return ", ".join(f"{name} {value}" for name, value in values.items())

    def without(self, orders: tuple[Order, ...], faults: tuple[Fault, ...]) -> Scenario:
        """Return the scenario with other orders and faults."""
        return replace(self, orders=orders, faults=faults)


_MIDNIGHT = 19_675 * 86_400 * NANO

# Faults with their weights, the largest number of seconds, and whether they have a place.
_KINDS: dict[str, tuple[float, float, bool]] = {
    "kill": (8.0, 0.0, False),
    "power cut": (8.0, 0.0, False),
    "stop": (2.0, 0.0, False),
    "pause": (3.0, 8.0, False),
    "clock jump": (2.0, 20.0, False),
    "full disk": (2.0, 4.0, False),
    "slow disk": (2.0, 6.0, False),
    "failed sync": (2.0, 0.0, False),
    "silent venue": (6.0, 30.0, True),
    "cut line": (6.0, 30.0, True),
    "bust": (10.0, 0.0, True),
    "halt": (3.0, 0.0, False),
    "halt file": (1.0, 5.0, False),
    "event stream": (2.0, 20.0, False),
    "half-open connections": (2.0, 60.0, False),
    "stopped worker": (2.0, 20.0, False),
    "dead worker": (2.0, 0.0, False),
}


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = random.Random(seed)
    seconds = rng.choice((300.0, 900.0, 1800.0, 3600.0))
    count = int(seconds * rng.choice((0.04, 0.08, 0.16)))
    calm = rng.random() < 0.3  # venues without faults of their own
    odds = [0.0 if calm else rng.choice((0.0, 0.01, 0.05)) for _ in range(6)]
    return Scenario(
        seed=seed,
        # some seeds go past midnight, when exec ids begin again and daily limits count anew
        start=_MIDNIGHT - int(rng.choice((0.1, 0.5, 3.0, 10.0)) * seconds * NANO),
        seconds=seconds,
        orders=_orders(rng, seconds, count),
        faults=_faults(rng, seconds),
        refit_every=rng.choice((0, 0, 5, 20)),
        snapshot_every=rng.choice((50, 200, 1000)),
        reject=odds[0],
        partial=10 * odds[1],
        duplicate=odds[2],
        disorder=odds[3],
        silence=odds[4] / 2,
        lost=odds[5] / 2,
        latency=rng.choice((0.0005, 0.002, 0.02)),
        per_second=rng.choice((0.0, 0.0, 2.0, 20.0)),
    )


def _orders(rng: random.Random, seconds: float, count: int) -> tuple[Order, ...]:
    made, at = [], 0.0
    bursts = rng.random() < 0.7
    for number in range(count):
        at += rng.expovariate(count / seconds) * (0.02 if bursts and rng.random() < 0.7 else 2.5 if bursts else 1.0)
        made.append(
            Order(
                at=int(at * NANO),
                number=number,
                symbol=rng.choice(SYMBOLS),
                side=rng.choice(("buy", "sell")),
                quantity=rng.choice((100, 300, 700, 2500)),
                seconds=rng.choice((0.5, 2.0, 10.0, 30.0)),
                manner=rng.choices(MANNERS, (20, 2, 2, 1))[0],
                limit=rng.random() < 0.2,
            )
        )
    return tuple(one for one in made if one.at < seconds * NANO)


def _faults(rng: random.Random, seconds: float) -> tuple[Fault, ...]:
    chosen = [kind for kind in _KINDS if rng.random() < 0.7]  # some kinds of faults hide others
    made, at = [], 0.0
    while chosen and (at := at + rng.expovariate(1 / 60.0)) < seconds:
        kind = rng.choices(chosen, [_KINDS[one][0] for one in chosen])[0]
        _, longest, placed = _KINDS[kind]
        place, steps = rng.choice(PLACES) if placed else "", 0
        if kind in ("kill", "power cut"):
            place = rng.choice(("", "write", "write", "sync", "send", "answer", "query"))
            steps = rng.choice((1, 5, 20, 100)) * rng.randrange(1, 6) if place in ("", "write") else rng.randrange(8)
        length = longest * rng.random() ** 2 if longest else 0.0
        made.append(Fault(int(at * NANO), kind, place, length, steps))
        if kind == "halt" and rng.random() < 0.5:  # a halt must survive a crash
            made.append(Fault(int((at + 2 * rng.random()) * NANO), rng.choice(("kill", "power cut"))))
    return tuple(made)
