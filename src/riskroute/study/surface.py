"""Dark pools are an assumption: what a router saves if they hold more or less, and are more or less adverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from riskroute.simulation.backends import Backend
from riskroute.study.backtest_config import Stress
from riskroute.study.config import StudyConfig
from riskroute.study.differences import estimated_share, saving_of
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayTask, RouterChoice, TableCache, perform_plays, play_tasks
from riskroute.study.records import DarkSurface, SurfacePoint
from riskroute.study.tables import Tables

PRESENCE = (0.5, 1.0, 2.0)
ADVERSE = (0.0, 1.0, 2.0)
"""Factors on what pools hold, and on their adverse selection."""

WORLDS = len(PRESENCE) * len(ADVERSE)


def dark_surface(
    pair: tuple[RouterChoice, RouterChoice],
    days: Sequence[MarketDay],
    config: StudyConfig,
    size: int,
    horizon: float,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
) -> DarkSurface:
    """Return the saving of one router against another over a grid of assumptions.

    Routers that learn do so anew under each of them, from as few orders as are played; those that were fitted keep the
    parameters they have.
    """
    router, against = (one.label for one in pair)
    worlds = [Stress(presence=presence, adverse=adverse) for presence in PRESENCE for adverse in ADVERSE]
    tasks = [play_tasks(pair, days, config.backtest(size, horizon, world)) for world in worlds]
    tables = iter(
        perform_plays([one for some in tasks for one in some], backend=backend, cache=cache, finished=finished)
    )
    points, orders = [], 0
    for world, some in zip(worlds, tasks, strict=True):
        played = Tables.together([next(tables) for _ in some]).orders
        orders = int(played["judged"].sum()) // (2 * config.seeds)
        saved = saving_of(played, router, against, seed=config.seed)
        points.append(SurfacePoint(world.presence, world.adverse, saved.bps, estimated_share(played)))
    return DarkSurface(router, against, orders, tuple(points))
