"""The shipped router checks: all built-in routers pass, faulty ones fail."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from riskroute.core.errors import CheckError
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.router import Router
from riskroute.routers.rules import (
    DarkFirstPostRule,
    DarkFirstRule,
    NbboRule,
    PrimaryRule,
    RawSweepRule,
    RestEvenRule,
    SprayRule,
    SweepRule,
)
from riskroute.simulation.checks import check_router

OURS = [SweepRule(), RawSweepRule(), SweepRule(discretion=1), PrimaryRule(), SprayRule(), NbboRule(), RestEvenRule()]
OURS += [DarkFirstRule(), DarkFirstRule(mode="parallel"), DarkFirstRule(cap=200), DarkFirstPostRule()]


@pytest.mark.parametrize("router", OURS, ids=lambda router: f"{router.name} {router.parameters}")
def test_all_routers_pass(router: Router) -> None:
    check_router(router)


@dataclass
class Faulty(Router):
    """All to one of the first two venues, which one depends on how often it has learned."""

    name: ClassVar[str] = "faulty"
    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("seen",)

    def begin(self) -> None:
        self.seen: Any = 0

    def decide(self, context: Context) -> Plan:
        return Plan(context.order, take={context.books.venues[self.seen % 5 % 2]: context.shares})

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        self.seen += 1


class TooMuch(Faulty):
    def decide(self, context: Context) -> Plan:
        return Plan(context.order, take={context.books.venues[0]: context.shares + 1})


class Random(Faulty):
    def decide(self, context: Context) -> Plan:
        return Plan(context.order, take={context.books.venues[random.randrange(2)]: context.shares})


class Forgetful(Faulty):
    memory: ClassVar[tuple[str, ...]] = ()


class Greedy(Faulty):
    """Learns whatever comes, as often as it comes."""

    def learn(self, report: Report) -> None:
        super().learn(report)
        self.seen += 1


class Unknown(Faulty):
    feedback: ClassVar[str] = "F9"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TooMuch, "plans must be executable: child orders total"),
        (Random, "must make the same decisions on the same orders"),
        (Forgetful, "must make the same decisions when saved after .* orders"),
        (Greedy, "must learn a repeated report once"),
        (Unknown, "feedback must be one of F0, F1, F2, F3, F4"),
    ],
)
def test_faults_are_found(kind: type[Router], message: str) -> None:
    with pytest.raises(CheckError, match=f"faulty: {message}"):
        check_router(kind())


def test_without_a_fault_it_passes() -> None:
    check_router(Faulty())
