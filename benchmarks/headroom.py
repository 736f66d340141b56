"""The three parts of the headroom on every synthetic market, by order size, horizon and risk profile.

The last two of four days are judged. Recordings are evaluated too, if the environment variable ``RISKROUTE_TAPE`` names
their folder.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from pathlib import Path

from riskroute.simulation.backends import Backend
from riskroute.study.config import BacktestConfig
from riskroute.study.headroom import (
    HORIZONS,
    RISKS,
    SIZES,
    headroom_legend,
    headroom_table,
    headroom_words,
    market_headroom,
)
from riskroute.study.markets import MARKETS, market_days
from riskroute.study.play import PlayCache
from timing import leave, print_heading, say, sized, verdict

TAPE = os.environ.get("RISKROUTE_TAPE")
SHARES, WAITS, PROFILES = sized((SIZES, HORIZONS, RISKS), ((100,), (0.0,), RISKS[:1]))
HOURS = sized(None, (dt.time(11), dt.time(11, 5)))
NAMES = sized((*MARKETS, *([TAPE] if TAPE else [])), ("comparable",))


def main() -> None:
    """Print the tables and their summary."""
    print_heading("Headroom", ["riskroute", "numpy", "numba", "polars"])
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            backend = Backend("local", sized(None, 1))
            days = market_days(name, days=sized(4, 1), hours=HOURS, kept=Path(folder), backend=backend)
            config = BacktestConfig(orders=sized(100, 20))
            cache = PlayCache(Path(folder) / "played")
            rows = market_headroom(
                *(Path(name).name, days, config),
                sizes=SHARES,
                horizons=WAITS,
                risks=PROFILES,
                backend=backend,
                cache=cache,
            )
            say(headroom_table(rows).plain())
            say("")
            found += rows
    for line in (*headroom_legend(found), "", *headroom_words(found)):
        say(line)
    say("")
    parts = ("fixed_saving_bps", "seeing_saving_bps", "foresight_saving_bps")
    negative = sum(any(getattr(one, name) < -1e-6 for name in parts) for one in found)
    text = f"a part of the headroom is below zero in {negative} of {len(found)} cases, target none"
    say(f"{text}: {verdict(not negative)}")
    leave([not negative])


if __name__ == "__main__":
    main()
