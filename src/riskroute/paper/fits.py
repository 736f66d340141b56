"""Figures of order books: the fits behind venue models, and how books are sampled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.paper.figures import new_figure, save_figure, text_in_figure, tidy_figure, unframe_figure
from riskroute.paper.results import PaperSamplingPicture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINT, LINE = "#1f6fd6", "#d8343c"
VENUE_COLOURS = ("#1f6fd6", "#f08c1e", "#2a9d3a", "#7d4fc4", "#d8343c", "#6d8299")


class FittedPoints(Protocol):
    """Mean and variance of the profit at each quantity, and R² of straight lines through them."""

    @property
    def quantities(self) -> Sequence[int] | Integers: ...
    @property
    def means(self) -> Sequence[float] | Floats: ...
    @property
    def variances(self) -> Sequence[float] | Floats: ...
    @property
    def r2_mean(self) -> float: ...
    @property
    def r2_variance(self) -> float: ...


def plot_fits(fits: Mapping[str, FittedPoints], path: str | os.PathLike[str], *, title: str) -> Path:
    """Write a figure with a row per venue: mean profit against quantity, variance against its square, with lines."""
    if not fits:
        raise InputError("fits must hold at least one venue to be drawn")
    figure = new_figure(11, 3.6 * len(fits) + 0.4)
    rows = figure.subplots(len(fits), 2, squeeze=False)
    for (name, fit), (left, right) in zip(fits.items(), rows, strict=True):
        quantities = np.array(fit.quantities, dtype=float)
        _draw_line(left, quantities, np.array(fit.means))
        left.set_title(f"{text_in_figure(name)}: mean, R² = {fit.r2_mean:.3f}", fontsize=10)
        left.set_xlabel("quantity (shares)")
        left.set_ylabel("mean profit (dollars)")
        _draw_line(right, quantities**2, np.array(fit.variances))
        right.set_title(f"{text_in_figure(name)}: variance, R² = {fit.r2_variance:.3f}", fontsize=10)
        right.set_xlabel("squared quantity (shares²)")
        right.set_ylabel("variance of the profit (dollars²)")
    figure.suptitle(text_in_figure(title), fontsize=12)
    return save_figure(figure, path)


def _draw_line(axes: Axes, along: Any, values: Any) -> None:
    axes.plot(along, values, "o", color=POINT, markersize=4, label="sampled")
    slope, start = np.polyfit(along, values, 1)
    axes.plot(along, start + slope * along, color=LINE, linewidth=1.4, label="straight line")
    tidy_figure(axes)
    axes.legend(frameon=False, loc="best")


def plot_sampling(picture: PaperSamplingPicture, path: str | os.PathLike[str], *, title: str) -> Path:
    """Write the picture of the sampling: some buckets with the drawn times and matched books, and one book walked."""
    figure = new_figure(11, 7.5)
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    for colour, (venue, course) in zip(VENUE_COLOURS, picture.venues.items(), strict=False):
        above.step(course.minutes, course.mids, where="post", color=colour, linewidth=1, label=text_in_figure(venue))
        above.plot(course.matched, course.matched_mids, "o", color=colour, markersize=6)
    for k, edge in enumerate(picture.edges):
        above.axvline(edge, color="#777777", linewidth=1.2, label="bucket" if k == 0 else None)
    for k, time in enumerate(picture.times):
        above.axvline(time, color="#111111", linestyle=":", linewidth=1, label="drawn time" if k == 0 else None)
    above.set_xlabel(f"minutes after {picture.start}")
    above.set_ylabel("mid (dollars)")
    above.set_title("one time per bucket, shared by all venues; dots: the closest book of each", fontsize=10)
    above.legend(frameon=False, loc="best", ncols=3)
    book = picture.book
    labels = [f"{price:.2f}" for price in book.prices]
    below.bar(labels, book.sizes, color="#c9d8ea", label="offered to buy")
    below.bar(labels, book.taken, color=POINT, label=f"taken by {sum(book.taken):,.0f} shares sold")
    below.set_xlabel(f"bid price (dollars); mid {book.mid:.3f}")
    below.set_ylabel("shares")
    below.set_title(f"one of these books ({text_in_figure(book.venue)}), walked from the best bid down", fontsize=10)
    below.legend(frameon=False, loc="best")
    for axes in (above, below):
        unframe_figure(axes)
    figure.suptitle(text_in_figure(title), fontsize=12)
    return save_figure(figure, path)
