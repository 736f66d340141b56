"""Write docs/real-data.md's results: `python docs/real_data.py DATA`, where DATA holds the samples listed on the page.

``make real-data DATA=...`` runs it. Samples are imported into a temporary folder, studied with three seeds, and their
costs are recomputed from the imported tables by `swept_costs`, which shares no code with riskroute.
"""

from __future__ import annotations

import datetime as dt
import platform
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars

import riskroute as rr
from refresh import ROOT, between_markers
from riskroute.core.instrument import Instrument
from riskroute.core.text import TextTable
from riskroute.market import ReadingOptions, import_files
from riskroute.routing.fees import Fee, FeeSchedule
from riskroute.study.case import StudyCase
from riskroute.study.day_tables import KEY
from riskroute.study.router_comparison import RouterComparison

PAGE = ROOT / "docs" / "real-data.md"
SEEDS = (0, 1, 2)  # of the arrival times of orders
TOLERANCE = 1e-9  # basis points
SECOND = 10**9  # nanoseconds

Fees = dict[str, tuple[float, float]]  # taker and maker fee by venue


@dataclass(frozen=True)
class Sample:
    """One import of the page, the orders of its study, and the assumptions of both.

    ``orders`` are numbers of orders per day, each studied; details are those of the first.
    ``files`` maps venues to files; venue "" is stated by the file. Fees are amounts per share, or basis points if
    ``bps``. A book older than ``patience`` seconds counts as absent.
    """

    name: str
    files: dict[str, tuple[str, ...]]
    quantities: tuple[float, ...]
    horizons: tuple[float, ...]
    routers: tuple[str, ...]
    fees: Fees
    patience: int
    orders: tuple[int, ...] = (200,)
    bps: bool = False
    depth: int | None = None
    days: int | None = None
    block_minutes: float = 10.0
    instruments: tuple[Instrument, ...] = ()
    judged: bool = True  # False: mechanics only, no study

    @property
    def declared(self) -> dict[str, Instrument]:
        """The declared instruments by symbol."""
        return {one.symbol: one for one in self.instruments}

    def load(self, data: Path, folder: Path) -> str:
        """Import the files into ``folder``; return a line that describes them."""
        found = []
        for venue, names in self.files.items():
            options = ReadingOptions(venue=venue or None, depth=self.depth, instruments=self.declared)
            found += import_files([data / name for name in names], folder, options)
        one = found[0].instrument
        days, venues = (len({getattr(each, name) for each in found}) for name in ("date", "venue"))
        books, levels = sum(each.snapshots for each in found), max(each.levels for each in found)
        counts = [f"{books:,} books of up to {levels:,} level{'s' * (levels > 1)}"]
        counts += [f"{days} day{'s' * (days > 1)}", f"{venues} venue{'s' * (venues > 1)}"]
        return f"{one.symbol}: {', '.join(counts)}; unit {one.named(one.unit)}, tick {one.tick} {one.currency}"

    @property
    def schedule(self) -> FeeSchedule:
        """The fees as a user would write them."""
        texts = {
            venue: [f"{one} bps" if self.bps else f"{one:.4f} per share" for one in both]
            for venue, both in self.fees.items()
        }
        return FeeSchedule([Fee(venue, dt.date(2012, 1, 1), *both) for venue, both in texts.items()])


US_FEES: Fees = {
    **dict.fromkeys(("XNAS", "ARCX", "BATS", "EDGX"), (0.0030, -0.0020)),
    **dict.fromkeys(("XNYS", "XPSX"), (0.0025, -0.0015)),
    **dict.fromkeys(("XBOS", "BATY"), (-0.0010, 0.0020)),
    **dict.fromkeys(("EDGA", "XCIS", "XCBO"), (0.0005, 0.0005)),
}
BITCOIN = Instrument("BTCUSDT", unit="0.00001", tick="0.01", quantity="BTC", currency="USDT", zone="UTC")
ETHER = Instrument("ETHUSDT", unit="0.0001", tick="0.01", quantity="ETH", currency="USDT", zone="UTC")
LIMITS = ("delay+sweep", "cont-kukanov", "static+sweep", "contextual")
TAKERS = ("raw-sweep", "nbbo", "spray", "primary", "static", "contextual")
AMAZON = "lobster/LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"


def tape(symbol: str, quantity: float) -> Sample:
    """Return five days of quotes of the consolidated tape."""
    files = tuple(f"quotes/{symbol}/201310{day:02d}_quote.zip" for day in range(7, 12))
    return Sample(symbol, {"": files}, (quantity,), (0,), TAKERS, US_FEES, 5)


def coin(name: str, quantities: tuple[float, ...], instrument: Instrument) -> Sample:
    """Return two files of Binance's spot market that meet at midnight."""
    files = tuple(f"binance/spot_{instrument.symbol.lower()}_2024080{day}.gz" for day in (8, 9))
    few = {"orders": (120,), "block_minutes": 0.5, "depth": 200}
    fees = {"SPOT": (10, 10)}
    return Sample(
        name, {"SPOT": files}, quantities, (0, 30), LIMITS, fees, 60, bps=True, instruments=(instrument,), **few
    )


SAMPLES = (
    Sample("amzn", {"": (AMAZON,)}, (100, 1000), (0, 60), LIMITS, {"XNAS": US_FEES["XNAS"]}, 60, (200, 400)),
    tape("bac", 1000),
    tape("ibm", 100),
    coin("btc", (1, 5), BITCOIN),
    coin("eth", (20,), ETHER),
    Sample(
        "perpetual",
        {"SPOT": ("binance/spot_btcusdt_20240808.gz",), "PERP": ("binance/usdm_btcusdt_20240808.gz",)},
        (1, 5),
        (0,),
        ("raw-sweep",),
        {"SPOT": (10, 10), "PERP": (5, 2)},
        60,
        bps=True,
        depth=200,
        days=1,
        instruments=(BITCOIN,),
        judged=False,
    ),
)


def swept_costs(
    folder: Path, orders: polars.DataFrame, fees: Fees, *, bps: bool, protected: bool, patience: int
) -> list[float]:
    """Return the cost of sweeping each order on the displayed books, in basis points; NaN if they do not suffice.

    Reads the imported Parquet tables and calls nothing of riskroute. ``orders`` has the columns ``symbol``, ``day``,
    ``time``, ``sign`` and ``quantity``.
    """
    costs = []
    for (symbol, day), mine in orders.group_by("symbol", "day", maintain_order=True):
        tables = [polars.read_parquet(file) for file in sorted(folder.glob(f"*_{symbol}_{day}.snapshots.parquet"))]
        stamps = [table["ts_event"].to_physical().to_numpy() for table in tables]
        for when, sign, quantity in mine.select("time", "sign", "quantity").iter_rows():
            last = [int(np.searchsorted(one, when, "right")) - 1 for one in stamps]
            shown = [k for k, row in enumerate(last) if row >= 0 and when - stamps[k][row] <= patience * SECOND]
            books = [tables[k].row(last[k], named=True) for k in shown]
            best = [[book[f"{side}_px_00"] for book in books if book[f"{side}_px_00"]] for side in ("bid", "ask")]
            mid, far, levels = (max(best[0]) + min(best[1])) / 2, "ask" if sign > 0 else "bid", []
            for book in books:
                fee = fees[book["venue"]][0]
                for price, size in (
                    (book[name], book[name.replace("px", "sz")]) for name in book if f"{far}_px" in name
                ):
                    if price and size:
                        paid = sign * price + (price * fee / 1e4 if bps else fee)
                        levels.append(((sign * price, paid) if protected else (paid, sign * price), paid, size))
            left, cost = quantity, 0.0
            for _, paid, size in sorted(levels):
                cost += min(left, size) * (paid - sign * mid)
                left -= min(left, size)
            costs.append(1e4 * cost / (quantity * mid) if left < 1e-9 * quantity else np.nan)
    return costs


def hidden_trades(folder: Path) -> np.ndarray:
    """Return the times of trades with hidden orders, whose shares are not displayed."""
    hidden = (polars.col("action") == "F") & (polars.col("order_id") == 0)
    tables = [polars.scan_parquet(file).filter(hidden).select("ts_event") for file in folder.glob("*.events.parquet")]
    return polars.concat(tables).collect()["ts_event"].sort().to_physical().to_numpy() if tables else np.empty(0, int)


@dataclass(frozen=True)
class Check:
    """Costs of `sweep` without latency in a backtest and as recomputed, in basis points."""

    quantity: str
    played: polars.DataFrame

    @classmethod
    def of(cls, sample: Sample, quantity: float, folder: Path, kept: Path, hours: str | None = None) -> Check:
        """Backtest the rule `sweep` with the orders of the study's first seed, and recompute their costs."""
        result = rr.backtest(
            folder,
            quantities=quantity,
            routers=["sweep"],
            fees=sample.schedule,
            instruments=sample.declared,
            latency_ms=0,
            train=0,
            days=sample.days,
            orders=sample.orders[0],
            hours=hours,
            kept=kept,
        )
        orders = result.tables.orders.filter(polars.col("router") == "sweep")
        protected = result.protection == "reg-nms"
        found = swept_costs(folder, orders, sample.fees, bps=sample.bps, protected=protected, patience=sample.patience)
        times, hidden = orders["time"].to_numpy(), hidden_trades(folder)
        after = np.searchsorted(hidden, times + SECOND, "right") - np.searchsorted(hidden, times)
        played = orders.select(
            played=1e4 * polars.col("cost") / (polars.col("quantity") * polars.col("mid")),
            found=polars.Series(found),
            hidden=polars.Series(after > 0),
            short=polars.col("estimated") > 0,
        )
        return cls(result.days[0].instrument.named(quantity), played)

    @property
    def compared(self) -> polars.DataFrame:
        """The orders for which the display suffices."""
        return self.played.filter(polars.col("found").is_not_nan() & ~polars.col("hidden"))

    @property
    def gap(self) -> float:
        """Largest difference of an order in basis points; infinite if no order can be compared."""
        gaps = (self.compared["played"] - self.compared["found"]).abs()
        return float(gaps.max()) if len(gaps) else np.inf

    @property
    def agrees(self) -> bool:
        """Whether costs are the same, and both find the display short for the same orders."""
        displayed = self.played.filter(~polars.col("hidden"))
        return self.gap <= TOLERANCE and bool((displayed["found"].is_nan() == displayed["short"]).all())

    def __str__(self) -> str:
        short, hidden = int(self.played["found"].is_nan().sum()), int(self.played["hidden"].sum())
        without = [f"{short} exceed the display"] * (short > 0) + [f"{hidden} met hidden trades"] * (hidden > 0)
        left_out = f" ({'; '.join(without)})" if without else ""
        means = [float(self.compared[name].mean()) for name in ("played", "found")]
        return (
            f"{self.quantity}, {self.compared.height} of {self.played.height} orders{left_out}: backtest "
            f"{means[0]:.9f} bps, recomputed {means[1]:.9f} bps; no order differs by more than {self.gap:.0e} bps"
        )


def studied(sample: Sample, folder: Path, kept: Path) -> Iterator[str]:
    """Yield the paragraphs of a study with every seed."""
    results = {
        (count, seed): rr.Study(
            market=folder,
            quantities=sample.quantities,
            horizons=sample.horizons,
            routers=sample.routers,
            orders=count,
            block_minutes=sample.block_minutes,
            fees=sample.schedule,
            instruments=sample.declared,
            surface_orders=0,
            seed=seed,
        ).run(kept=kept)
        for count in sample.orders
        for seed in SEEDS
    }
    first = results[sample.orders[0], SEEDS[0]]
    sizes = range(len(first.cases))
    yield TextTable(HEADER, [row_of(seed, one.cases[k]) for k in sizes for (_, seed), one in results.items()]).plain()
    yield "\n".join(stability([one.cases[k] for one in results.values()]) for k in sizes)
    for case in first.cases:
        costs = [one.cost_bps for one in case.comparison.routers.values()]
        if max(costs) - min(costs) < TOLERANCE:
            yield f"{titled(case)}, seed {SEEDS[0]}: all {len(costs)} routers cost {costs[0]:.3f} bps."
        else:
            yield f"{titled(case)}, seed {SEEDS[0]}, all routers, bps:"
            yield routers_table(case.comparison)
        if (queues := case.comparison.queues) is not None:
            gaps = {name: abs(cost - queues.optimistic_bps[name]) for name, cost in queues.pessimistic_bps.items()}
            most = max(gaps, key=lambda name: gaps[name])
            yield f"Pessimistic and optimistic queues differ by at most {gaps[most]:.3f} bps ({most})."
    yield from first.answer.split("\n\n")


def stability(cases: Sequence[StudyCase]) -> str:
    """Return whether the verdict depends on the seed or the number of orders."""
    uses = [case.use if case.verdict else "no verdict" for case in cases]
    found = f"{uses[0]} in all {len(uses)} studies" if len(set(uses)) == 1 else f"flips: {', '.join(uses)}"
    return f"Verdict for {titled(cases[0])}: {found}."


HEADER = (
    *("quantity", "seconds", "orders", "seed", "rule", "cost", "se", "chosen", "cost", "se"),
    *("saving", "95 % CI", "use", "estimated", "queue band", "headroom"),
)


def routers_table(found: RouterComparison) -> str:
    """Return the table of all routers without the time of decisions, which differs from run to run."""
    table = found.table()
    kept = [k for k, name in enumerate(table.header) if name != "decision us"]
    rows = [[row[k] for k in kept] for row in table.rows]
    return TextTable([table.header[k] for k in kept], rows).plain()


def titled(case: StudyCase) -> str:
    """Return order size and deadline as text."""
    return f"{case.size}, {f'{case.horizon:g} s' if case.horizon else 'at once'}"


def row_of(seed: int, case: StudyCase) -> list[str]:
    """Return a row of the table of studies."""
    found, saving = case.comparison, case.saving
    names, costs = (found.bar, case.chosen), found.routers
    interval = "-" if saving is None or saving.bps.low is None else f"{saving.bps.low:+.3f} to {saving.bps.high:+.3f}"
    band = "-"
    if found.queues is not None:
        ends = (found.queues.optimistic_bps[case.chosen], found.queues.pessimistic_bps[case.chosen])
        band = f"{ends[0]:.3f} to {ends[1]:.3f}"
    return [
        *(case.size, f"{case.horizon:g}", f"{found.orders:,}", str(seed)),
        *(text for one in names for text in (one, f"{costs[one].cost_bps:.3f}", f"{costs[one].se_bps or np.nan:.3f}")),
        *("-" if saving is None else f"{saving.bps.mean:+.3f}", interval, case.use if case.verdict else "no verdict"),
        *(f"{case.estimated_share:.1%}", band, f"{case.headroom_bps:.3f}"),
    ]


def mechanics(sample: Sample, folder: Path, kept: Path) -> Iterator[str]:
    """Yield a table of rules without a verdict."""
    result = rr.backtest(
        folder,
        quantities=sample.quantities,
        routers=["sweep", *sample.routers],
        fees=sample.schedule,
        instruments=sample.declared,
        days=sample.days,
        orders=sample.orders[0],
        kept=kept,
    )
    for quantity, one in result.comparisons.items():
        yield f"{result.days[0].instrument.named(quantity)}, at once, bps (mechanics only, no verdict):"
        yield routers_table(one)
    fills = result.tables.fills.join(result.tables.orders.select(*KEY, "sign", arrival="mid"), on=KEY)
    gap = 1e4 * polars.col("sign") * (polars.col("price") / polars.col("arrival") - 1)
    by = ["router", "sign", "place"]
    sums = fills.group_by(by).agg(
        part=polars.col("quantity").sum(), gap=(gap * polars.col("quantity")).sum() / polars.col("quantity").sum()
    )
    sums = sums.with_columns(polars.col("part") / polars.col("part").sum().over("router", "sign"))
    rows = [
        [router, "buy" if sign > 0 else "sell", place, f"{part:.1%}", f"{away:+.3f}"]
        for router, sign, place, part, away in sums.sort(by).iter_rows()
        if router != "clairvoyant"
    ]
    yield TextTable(["router", "side", "venue", "of the quantity", "bps from the mid, before fees"], rows).plain()


def report(sample: Sample, data: Path, folder: Path) -> str:
    """Import, study and recompute one sample; return its printout."""
    books, kept = folder / sample.name, folder / "kept"
    parts = [sample.load(data, books)]
    parts += (studied if sample.judged else mechanics)(sample, books, kept)
    checks = [Check.of(sample, quantity, books, kept) for quantity in sample.quantities]
    if not all(check.agrees for check in checks):
        sys.exit(f"{sample.name}: the backtest and the recomputed costs differ: {'; '.join(map(str, checks))}")
    parts += [f"Sweep without latency, recomputed: {check}." for check in checks]
    return "\n\n".join(wrapped(parts))


def wrapped(parts: Iterable[str]) -> Iterator[str]:
    """Yield paragraphs wrapped, tables unchanged."""
    for part in parts:
        yield part if "\n" in part else textwrap.fill(part, 120, break_on_hyphens=False, break_long_words=False)


def main(arguments: Sequence[str]) -> None:
    """Write every sample's printout to the page."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.exit(f"expected one folder of samples, was {' '.join(arguments)!r}\n{__doc__}")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for sample in SAMPLES:
            text = report(sample, Path(arguments[0]), Path(folder))
            between_markers(PAGE, f"real-data-{sample.name}", f"```text\n{text}\n```")
            sys.stderr.write(f"{sample.name}: {time.perf_counter() - began:.0f} s\n")
    seconds, versions = time.perf_counter() - began, f"Python {platform.python_version()}, polars {polars.__version__}"
    between_markers(PAGE, "real-data-run", f"Last run: {seconds:.0f} s, {versions}.")


if __name__ == "__main__":
    main(sys.argv[1:])
