"""Drawings for pages: SVG of texts, lines and boxes that scales, prints and needs no script; texts are escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

WIDTH = 340
"""Width of a drawing in its own units, which are pixels on a phone."""

INK, FAINT, GRID = "#1c2733", "#52606d", "#dde4ec"


def svg_text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: float = 12,
    bold: bool = False,
    fill: str = INK,
    kind: str = "",
) -> str:
    """Return a text; ``kind`` is its class."""
    more = {"font_weight": "600"} if bold else {}
    more |= {"class": kind} if kind else {}
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}"'
    return f"<text {place}{_more(more)}>{_in_svg(text)}</text>"


def svg_line(x1: float, y1: float, x2: float, y2: float, *, colour: str = GRID, width: float = 1, **more: str) -> str:
    """Return a line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{_more(more)}/>'


def svg_box(x: float, y: float, wide: float, high: float, colour: str, *, said: str = "", **more: str) -> str:
    """Return a filled box, with what is said when a pointer rests on it."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
    return f'<rect {place} fill="{colour}"{_more(more)}>{svg_said(said)}</rect>'


def svg_dot(x: float, y: float, colour: str, *, radius: float = 4, said: str = "", **more: str) -> str:
    """Return a disc."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"{_more(more)}>{svg_said(said)}</circle>'


def svg_path(points: Iterable[tuple[float, float]], colour: str, *, width: float = 2, **more: str) -> str:
    """Return a line through some points."""
    listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{listed}" fill="none" stroke="{colour}" stroke-width="{width:g}"{_more(more)}/>'


def svg_said(text: str) -> str:
    """Return what is said when a pointer rests on the shape around it; nothing if there is nothing to say."""
    return f"<title>{_in_svg(text)}</title>" if text else ""


def svg_drawing(title: str, parts: Iterable[str], height: float) -> str:
    """Return a drawing as wide as its place, with its title read aloud by those who read pages aloud."""
    body = "".join(parts)
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    return f'<svg {size} role="img" aria-label="{_in_svg(title)}">{body}</svg>'


def _in_svg(text: str) -> str:
    return html.escape(text)


def _more(attributes: dict[str, str]) -> str:
    return "".join(f' {name.replace("_", "-")}="{_in_svg(value)}"' for name, value in attributes.items())


class SvgScale:
    """Places of values on an axis: from ``first`` to ``last`` units of the drawing, with round ticks.

    The axis ends with ticks, or with the smallest and largest value if it is ``snug``.

    Examples
    --------
    >>> scale = SvgScale([0.13, 2.9], 40, 340)
    >>> scale.ticks, round(scale(1.5)), scale.label(2.0)
    ((0.0, 1.0, 2.0, 3.0), 190, '2')
    """

    def __init__(
        self, values: Sequence[float], first: float, last: float, *, most: int = 5, snug: bool = False
    ) -> None:
        low, high = min(values), max(values)
        room = (high - low) or abs(high) or 1.0
        self.step = _round_step(room / most)
        if snug:
            begin, end = math.ceil(low / self.step - 1e-9), math.floor(high / self.step + 1e-9)
        else:
            begin, end = math.floor(low / self.step + 1e-9), math.ceil(high / self.step - 1e-9)
            end = max(end, begin + 1)
        self.ticks = tuple(k * self.step + 0.0 for k in range(begin, end + 1))
        self.low, self.high = (low, low + room) if snug else (self.ticks[0], self.ticks[-1])
        self.first, self.last = first, last

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return self.first + (self.last - self.first) * (value - self.low) / (self.high - self.low)

    def label(self, value: float) -> str:
        """Return a tick as text."""
        digits = max(-math.floor(math.log10(self.step) + 1e-9), 0)
        return f"{value:,.{digits}f}"


def _round_step(step: float) -> float:
    """Return the next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step) + 1e-9)
    return next(times * power for times in (1, 2, 5, 10) if times * power >= step * (1 - 1e-9))
