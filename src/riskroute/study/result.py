"""What a study found, as a record: JSON in and out, text, and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars

from riskroute.core.files import writable_folder, write_json, write_whole
from riskroute.core.records import from_plain, to_plain
from riskroute.market.clock import zone_label
from riskroute.routers.context import NO_PROTECTION
from riskroute.simulation.dark_market import PoolModel
from riskroute.study.backtest_texts import LEGEND, comparison_table
from riskroute.study.config import StudyConfig
from riskroute.study.records import StudyCase
from riskroute.study.texts import routing_text, savings_table, states_table, surface_table
from riskroute.study.words import case_paragraph


@dataclass(frozen=True)
class StudyResult:
    """The answers for all symbols, sizes and horizons.

    Parameters
    ----------
    config : StudyConfig
        What was asked.
    days : tuple[str, ...]
        Symbols and days that were played.
    pools : tuple[PoolModel, ...]
        Dark pools as assumed.
    cases : tuple[StudyCase, ...]
        One per symbol, size and horizon; with several symbols, one more for all of them together.
    versions : dict[str, str]
        Versions of what the numbers depend on.
    synthetic : bool
        Whether days were generated, and not recorded.
    protection : str
        ``reg-nms`` if venues protected each other's quotes, else ``none``.
    """

    config: StudyConfig
    days: tuple[str, ...]
    pools: tuple[PoolModel, ...]
    cases: tuple[StudyCase, ...]
    versions: dict[str, str] = field(default_factory=dict)
    synthetic: bool = False
    protection: str = NO_PROTECTION

    @property
    def answer(self) -> str:
        """The answer in plain words: a paragraph for every symbol, size and horizon, and a line for all symbols."""
        pooled = any(case.symbol for case in self.cases)
        return "\n\n".join(
            case_paragraph(case, self.config, pooled=pooled and not case.symbol, synthetic=self.synthetic)
            for case in self.cases
        )

    @property
    def conditions(self) -> str:
        """The market, its hours if they were asked for, and its rules, on one line."""
        name = f"{self.config.market} (synthetic)" if self.synthetic else self.config.market
        hours = f", {self.config.hours} {zone_label(self.zone)}" if self.config.hours else ""
        return f"{name}{hours}, protection {self.protection}"

    @property
    def zone(self) -> str:
        """Time zone of the days; empty if there are several."""
        zones = {case.zone for case in self.cases}
        return zones.pop() if len(zones) == 1 else ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values; every number that is printed is among them."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, content: Any) -> StudyResult:
        """Rebuild the result of what `to_json` returned."""
        return from_plain(cls, content)

    @property
    def routing_table(self) -> polars.DataFrame:
        """Where the router to use sends shares, by symbol, size, horizon and state of the book."""
        rows = [
            {
                "symbol": case.symbol,
                "shares": case.shares,
                "horizon": case.horizon,
                "router": case.use,
                **to_plain(row),
            }
            for case in self.cases
            for row in case.routing_table
        ]
        return polars.DataFrame(rows)

    def write(self, out: str | Path) -> list[Path]:
        """Write the result as JSON and text, and the routing table as CSV and Parquet."""
        folder, table = writable_folder("out", out), self.routing_table
        return [
            write_json(folder / "study.json", self.to_json()),
            write_whole(folder / "study.txt", lambda beside: beside.write_text(f"{self}\n")),
            write_whole(folder / "routing.csv", table.write_csv),
            write_whole(folder / "routing.parquet", table.write_parquet),
        ]

    @property
    def _days(self) -> str:
        one = self.cases[0]
        if not one.training_days:
            return f"days halved for training and test: {one.test_days}"
        return f"training days {one.training_days}, test days {one.test_days}"

    def __str__(self) -> str:
        lines = [f"{self.conditions}: {self._days}", "", savings_table(self.cases).plain()]
        for case in self.cases:
            time = f"{case.horizon:g} s" if case.horizon else "at once"
            name = f"{case.symbol}, " if case.symbol else ""
            lines += ["", f"{name}{case.shares:,} shares, {time}: all routers on the test days, bps", ""]
            lines += [comparison_table(case.comparison).plain()]
            if case.states:
                lines += ["", f"{case.chosen} less {case.comparison.bar}, by state of the market", ""]
                lines += [states_table(case.states).plain()]
            if case.surface is not None:
                one = case.surface
                said = f"{one.router} saves against {one.against}, bps, by assumption on dark pools"
                each = f"{one.orders:,} orders each; estimated: at most {one.estimated_share:.1%}"
                lines += ["", f"{said} ({each})", "", surface_table(one).plain()]
            lines += [
                "",
                f"where {case.use} sends shares by spread and imbalance of the book, fractions of those sent",
                "",
            ]
            lines += [routing_text(case.routing_table).plain()]
        return "\n".join([*lines, "", *LEGEND, "", self.answer])
