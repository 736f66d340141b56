"""What the paper's experiments hand to the report: typed records, without anything that computes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from riskroute.core.results import RegretCurve


@dataclass(frozen=True)
class PaperChangeStory:
    """One run in a changing world.

    Parameters
    ----------
    changes : tuple of int
        Rounds at which the coefficients change.
    restarts : tuple of int
        Rounds at which the policy starts afresh.
    windows : tuple of pairs of int
        First round and end of every window of exploration.
    gap_rounds : tuple of int
        Rounds at which the gap changes, and the end.
    gaps : tuple of float
        Mean-variance gap to the comparator from each of these rounds on.
    """

    changes: tuple[int, ...]
    restarts: tuple[int, ...]
    windows: tuple[tuple[int, int], ...]
    gap_rounds: tuple[int, ...]
    gaps: tuple[float, ...]


@dataclass(frozen=True)
class PaperFigureResult:
    """What the picture of an experiment shows.

    Parameters
    ----------
    name : str
        Name of the experiment.
    title : str
        Its title, with what was played.
    panels : mapping of str to regret curves by policy
        One panel for each title.
    story : ChangeStory or None
        One run in a changing world, if the experiment has one.
    panel : str or None
        The only panel of the paper's figure that is wanted.
    """

    name: str
    title: str
    panels: Mapping[str, Mapping[str, RegretCurve]]
    story: PaperChangeStory | None = None
    panel: str | None = None


@dataclass(frozen=True)
class PaperFitPoints:
    """Mean and variance of the profit at each quantity, and R² of straight lines through them."""

    quantities: tuple[int, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]
    r2_mean: float
    r2_variance: float


@dataclass(frozen=True)
class PaperVenueCourse:
    """The mid of one venue over time, and the books matched with the sampled times; times are in minutes."""

    minutes: tuple[float, ...]
    mids: tuple[float | None, ...]
    matched: tuple[float, ...]
    matched_mids: tuple[float, ...]


@dataclass(frozen=True)
class PaperWalkedBook:
    """The bids of one book, the best first, and how many shares of each an order takes."""

    venue: str
    mid: float
    prices: tuple[float, ...]
    sizes: tuple[float, ...]
    taken: tuple[float, ...]
    profit: float


@dataclass(frozen=True)
class PaperSamplingPicture:
    """How books are sampled: edges and sampled times of some buckets, in minutes, and one book that is walked."""

    start: str
    edges: tuple[float, ...]
    times: tuple[float, ...]
    venues: dict[str, PaperVenueCourse]
    book: PaperWalkedBook


@dataclass(frozen=True)
class PaperBookPicture:
    """What a picture made from order books shows: fits by venue, or how books are sampled."""

    title: str
    fits: Mapping[str, PaperFitPoints] = field(default_factory=dict)
    sampling: PaperSamplingPicture | None = None
