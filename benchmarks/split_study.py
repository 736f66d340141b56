"""The split study on ten synthetic markets: the distance of its split to the best one, and its out-of-sample gain.

The truth is pooled from scenarios of many other markets of the same generator. The recommended split of each study is
compared with the best split under that truth, in mean-variance. Out of sample, the path of the recommended policy,
learning included, is compared with fixed splits on the test books of its study.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.learning.actions import as_batch
from riskroute.routing.shared_books import SharedBook
from riskroute.simulation.backends import Backend
from riskroute.simulation.replay import Replay
from riskroute.study.config import split_config
from riskroute.study.split_study import NAIVE, PARTS, SplitStudy, _measure_splits, _prepare_order, _study_data
from timing import leave, print_heading, print_table, say, sized, verdict

RISK_TOLERANCE = 2.0  # the default
SEEDS = range(sized(10, 1))
TRUTH = range(1000, sized(1020, 1002))
SMALLER: dict[str, Any] = sized(
    {}, {"train": "11:00-11:02", "test": "11:02-11:04", "bucket_minutes": 0.25, "repeats": 2, "horizon": 30}
)


def truth(out: Path, shares: int) -> tuple[Replay, np.ndarray]:
    """Return the pooled scenarios of many markets, and the market of each; use the smallest cap of each slot."""
    every = []
    for seed in TRUTH:
        config = split_config({"seed": seed, "quantities": shares, **SMALLER})
        every.append(_prepare_order(config, _study_data(config, out / "truth"), shares))
    caps = np.min([one.caps for one in every], axis=0)
    every = [dataclasses.replace(one, caps=caps) for one in every]
    problem = every[0].problem(RISK_TOLERANCE)
    replays = [one.replay(part, problem) for one in every for part in PARTS]
    markets = [np.full(replay.scenarios, seed) for seed, replay in zip(np.repeat(TRUTH, 2), replays, strict=True)]
    shared = [
        SharedBook(
            books[0].slots,
            np.concatenate([book.crossing for book in books]),
            np.concatenate([book.rests for book in books], axis=1),
            np.concatenate([book.depths for book in books]),
        )
        for books in zip(*(replay.shared for replay in replays), strict=True)
    ]
    profits = np.concatenate([replay.profits for replay in replays], axis=1)
    return Replay(problem, profits, shared), np.concatenate(markets)


def compare(shares: int, runs: int, out: Path) -> dict[str, bool]:
    """Print one row per market for one order size; return which targets hold."""
    rows, close, beaten = [], [], []
    real, markets = truth(out, shares)
    best = real.comparators[0]
    assert isinstance(best, tuple)
    floor = float(real.mean_variance(as_batch(best))[0])
    where = f"{real.scenarios:,} scenarios of {len(TRUTH)} other markets"
    say(f"\n{shares:,} shares: best split of {where}: {best}, mean-variance {floor:.4g}")
    for seed in SEEDS:
        study = SplitStudy(seed=seed, quantities=shares, runs=runs, policies=["adaptive"], **SMALLER)
        (order,) = study.run(out=out / "study", backend=Backend(workers=sized(None, 1))).orders
        split = tuple(map(int, order.recommended.allocation))
        measured = _measure_splits({"best": best, "split": split}, real, markets, first="best", seed=seed)["split"]
        off = measured.excess / abs(floor)
        policy = order.policies[order.recommended_policy].test
        values = {name: order.splits[name].test.mean_variance for name in NAIVE}
        close.append(off <= 0.01)
        beaten.append(policy.mean_variance < min(values.values()))
        rows.append(
            [
                str(seed),
                " ".join(map(str, split)),
                f"{off:.2%}",
                order.recommended_policy,
                f"{policy.mean_variance:.4g} +- {policy.mean_variance_error:.2g}",
                f"{order.recommended.test.mean_variance:.4g}",
                *(f"{value:.4g}" for value in values.values()),
            ]
        )
    header = ["seed", "recommended", "above the best", "policy", "its mean-variance", "recommended split's", *NAIVE]
    print_table(header, rows)
    return {
        f"recommended split within 1 % of the best at {sum(close)} of {len(close)} seeds": all(close),
        f"policy ahead of all three naive splits at {sum(beaten)} of {len(beaten)} seeds": sum(beaten) >= 9,
    }


def main() -> None:
    """Compare small orders, which have targets, and large ones, which have none."""
    print_heading("The study, ten synthetic markets", ["riskroute", "numpy"])
    with tempfile.TemporaryDirectory() as folder:
        checks = compare(10, sized(10, 2), Path(folder))
        for text, holds in checks.items():
            say(f"{text}: {verdict(holds)}")
        for shares in sized((1000,), ()):  # without targets
            for text in compare(shares, 4, Path(folder)):
                say(text)
    leave([], checks.values())


if __name__ == "__main__":
    main()
