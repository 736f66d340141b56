"""The study on ten synthetic markets: how close its split is to the best one, and whether it pays out of sample.

The truth is what the generator does in the long run: scenarios of many other markets, pooled. The recommended split of
each study is compared with the best split of that truth, in mean-variance. Out of sample, the recommended policy's
own path, learning included, is compared with splits that need no learning, on the judged books of its study.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from riskroute.experiments.judging import judge_splits
from riskroute.experiments.study import plan_study, play_study
from riskroute.experiments.study_config import checked_study
from riskroute.experiments.study_orders import BEST_VENUE, BY_DEPTH, EVEN, RECOMMENDED
from riskroute.routing.shared_books import SharedBook
from riskroute.simulation.engines import Engine
from riskroute.simulation.replay import Replay
from timing import leave, print_heading, print_table, say, verdict

SEEDS = range(10)
TRUTH = range(1000, 1020)
NAIVE = (EVEN, BY_DEPTH, BEST_VENUE)


def truth(out: Path) -> tuple[Replay, np.ndarray]:
    """Scenarios of many markets together, and the market each comes from."""
    replays, markets = [], []
    for seed in TRUTH:
        _, (case,) = plan_study(checked_study({"seed": seed, "horizon": 10}), out / "truth")
        for part in ("train", "judge"):
            replay = case.prepared.replay(part, case.problem)
            replays.append(replay)
            markets.append(np.full(replay.scenarios, seed))
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
    return Replay(case.problem, profits, shared), np.concatenate(markets)


def main() -> None:
    """Print one row per market."""
    print_heading("The study, ten synthetic markets", ["riskroute", "numpy"])
    rows, close, beaten = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        real, markets = truth(out)
        best = real.comparators[0]
        floor = float(real.mean_variance(np.array([best]))[0])
        where = f"{real.scenarios:,} scenarios of {len(TRUTH)} other markets"
        say(f"best split of {where}: {best}, mean-variance {floor:.4f}")
        for seed in SEEDS:
            config = checked_study({"seed": seed, "policies": ["adaptive", "thompson"]})
            data, cases = plan_study(config, out / "study")
            order = play_study(config, data, cases, out / "study", Engine()).summary["orders"][0]
            split = tuple(order["splits"][RECOMMENDED]["allocation"])
            judged = judge_splits({"best": best, "split": split}, real, markets, first="best", seed=seed)["split"]
            off = judged["excess"] / abs(floor)
            policy = order["policies"][order["recommended_policy"]]["judge"]
            values = {name: order["splits"][name]["judge"]["mean_variance"] for name in NAIVE}
            ahead = min(values.values()) - policy["mean_variance"]
            close.append(off <= 0.01)
            beaten.append(ahead > 0)
            rows.append(
                [
                    str(seed),
                    str(split),
                    f"{off:.2%}",
                    order["recommended_policy"],
                    f"{policy['mean_variance']:.3f} +- {policy['mean_variance_error']:.3f}",
                    *(f"{value:.3f}" for value in values.values()),
                ]
            )
    print_table(["seed", "recommended", "above the best", "policy", "its mean-variance", *NAIVE], rows)
    checks = {
        f"recommended split within 1 % of the best at {sum(close)} of {len(close)} seeds, target all": all(close),
        f"policy ahead of all three at {sum(beaten)} of {len(beaten)} seeds, target 9": sum(beaten) >= 9,
    }
    for text, holds in checks.items():
        say(f"{text}: {verdict(holds)}")
    leave(checks.values())


if __name__ == "__main__":
    main()
