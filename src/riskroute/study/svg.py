"""Drawings for pages: SVG of texts, lines and boxes that scales, prints and needs no script; texts are escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from riskroute.core.text import TextTable

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


ROLES = ("chosen", "rule", "bound", "other")
"""What a router is to the reader: the one in question, the one to beat, one that knows the future, or any other."""

TRADE_KINDS = ("dark pool, at once", "dark pool, resting", "limit order", "taken", "swept")
"""How shares were traded, in words."""


@dataclass(frozen=True)
class Dot:
    """A value with its name, and an interval: its two ends, or one standard error to both sides."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    error: float | None = None
    role: str = "other"


@dataclass(frozen=True)
class DotChart:
    """Values beside each other on one scale, each on a line of its own."""

    title: str
    unit: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Curve:
    """A line through some points, with intervals where there are any."""

    name: str
    along: tuple[float, ...]
    up: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    role: str = "other"


@dataclass(frozen=True)
class CurveChart:
    """Curves over a common axis.

    Parameters
    ----------
    title, along, up : str
        Title, and what the axes show, with units.
    curves : tuple[Curve, ...]
        The curves.
    edge : float, optional
        A place on the axis to mark, named by ``edge_name``.
    clock : bool
        Whether the axis counts hours of the day.
    """

    title: str
    along: str
    up: str
    curves: tuple[Curve, ...]
    edge: float | None = None
    edge_name: str = ""
    clock: bool = False


@dataclass(frozen=True)
class GridCell:
    """A value with its interval, in a row and a column of a grid."""

    row: str
    column: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class GridChart:
    """Values by two things at once; ``down`` and ``across`` say which."""

    title: str
    unit: str
    down: str
    across: str
    cells: tuple[GridCell, ...]


@dataclass(frozen=True)
class BookBar:
    """Shares displayed by a venue at a price; ``side`` is ``bid`` or ``ask``."""

    venue: str
    side: str
    price: float
    shares: int


@dataclass(frozen=True)
class BookTrade:
    """Shares that an order traded somewhere at a price, in one of the ways of `TRADE_KINDS`."""

    kind: str
    place: str
    price: float
    shares: int


@dataclass(frozen=True)
class BookChart:
    """The books of all venues at one moment, price by price, and what an order traded at each price."""

    title: str
    bars: tuple[BookBar, ...]
    trades: tuple[BookTrade, ...]


Chart = DotChart | CurveChart | GridChart | BookChart


@dataclass(frozen=True)
class PageTable:
    """A table with what it shows."""

    caption: str
    table: TextTable


@dataclass(frozen=True)
class PageSection:
    """A heading with texts, charts and tables below it, and small print at its end."""

    title: str
    texts: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[PageTable, ...] = ()
    notes: tuple[str, ...] = ()
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class PagePart:
    """An answer in a sentence and in full, with the facts behind it and what supports it."""

    title: str
    headline: str
    answer: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[PageSection, ...]


@dataclass(frozen=True)
class PageContent:
    """A whole page: parts that answer a question each, and sections on all of them.

    ``summary`` has a row for every part, if there are several; ``command`` and ``program`` run it again.
    """

    title: str
    subtitle: str
    summary: PageTable | None
    parts: tuple[PagePart, ...]
    sections: tuple[PageSection, ...]
    command: str
    program: str
    settings: str


ROLE_COLOURS = {"chosen": "#0072b2", "rule": "#d55e00", "bound": "#7a7a7a", "other": "#56616d"}
"""Colours by what a router is to the reader; blue and vermilion are told apart by all eyes."""

VENUE_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#8c6bb1", "#a6761d", "#999999")
KIND_COLOURS = ("#1c2733", "#7a7a7a", "#0072b2", "#8c2d7b", "#d55e00")

_SIDE = 8
_ROW = 36
_LETTERS = 46
"""A line of a drawing has room for so many letters."""
_NAMES = 250.0
"""Names get so much of the width, and are cut if they are longer."""


def drawn_chart(chart: Chart) -> str:
    """Return a chart as an SVG drawing."""
    return _DRAWN[type(chart)](chart)


def _dot_chart(chart: DotChart) -> str:
    ends = [end for dot in chart.dots for end in (dot.value, *_ends(dot))]
    scale = SvgScale([*ends, 0.0], _SIDE + 6, WIDTH - _SIDE - 6)
    bottom = _ROW * len(chart.dots) + 4
    parts = _below(scale, 0, bottom, chart.unit)
    brief = any(len(dot.name) + len(_dot_words(dot)) > _LETTERS for dot in chart.dots)
    for k, dot in enumerate(chart.dots):
        words = f"{dot.value:+.3f}" if brief else _dot_words(dot)
        top, colour = _ROW * k, ROLE_COLOURS[dot.role]
        parts.append(
            svg_text(_SIDE, top + 14, _cut(dot.name, _NAMES), fill=colour, bold=dot.role in ("chosen", "rule"))
        )
        parts.append(svg_text(WIDTH - _SIDE, top + 14, words, anchor="end"))
        low, high = _ends(dot)
        parts.append(
            svg_line(scale(low), top + 25, scale(high), top + 25, colour=colour, width=3, stroke_opacity="0.45")
        )
        parts.append(svg_dot(scale(dot.value), top + 25, colour, radius=4.5, said=f"{dot.name}: {_dot_words(dot)}"))
    return svg_drawing(chart.title, parts, bottom + 38)


def _ends(dot: Dot) -> tuple[float, float]:
    """Ends of the line through a dot: those of its interval, or a standard error to both sides."""
    if dot.low is not None and dot.high is not None:
        return dot.low, dot.high
    error = dot.error or 0.0
    return dot.value - error, dot.value + error


def _dot_words(dot: Dot) -> str:
    if dot.low is not None and dot.high is not None:
        return f"{dot.value:+.3f} ({dot.low:+.3f} to {dot.high:+.3f})"
    return f"{dot.value:.3f} ± {dot.error:.3f}" if dot.error is not None else f"{dot.value:.3f}"


def _cut(name: str, room: float) -> str:
    """The beginning of a name that is too long; shapes say the whole of it when a pointer rests on them."""
    if _width(name) <= room:
        return name
    kept = next(k for k in range(len(name), -1, -1) if _width(name[:k]) <= room - 12)
    return f"{name[:kept]}…"


def _width(text: str) -> float:
    """About the width of a text, rather more than less: capitals are wider than other letters."""
    return sum(9.0 if letter.isupper() else 6.9 for letter in text)


def _below(scale: SvgScale, top: float, bottom: float, unit: str) -> list[str]:
    """An axis below a chart: ticks, lines from each to the top, the one at zero stronger, and what it shows."""
    parts = []
    for tick in scale.ticks:
        place, strong = scale(tick), tick == 0
        parts.append(svg_line(place, top, place, bottom, colour=FAINT if strong else GRID))
        parts.append(_tick(place, bottom + 14, scale.label(tick), "middle"))
    parts.append(svg_text(WIDTH / 2, bottom + 31, unit, anchor="middle", fill=FAINT))
    return parts


def _tick(x: float, y: float, text: str, anchor: str) -> str:
    return svg_text(x, y, text, anchor=anchor, size=11, fill=FAINT, kind="tick")


def _curve_chart(chart: CurveChart) -> str:
    top = 22 + 17 * len(chart.curves) + 16
    bottom, left, right = top + 170, 46, WIDTH - 12
    values = [value for curve in chart.curves for value in (*curve.up, *curve.low, *curve.high) if value is not None]
    up = SvgScale([*values, 0.0], bottom, top)
    places = [place for curve in chart.curves for place in curve.along]
    room = (min(places) - 0.6, max(places) + 0.6) if chart.clock else (0.0, max(places))
    along = SvgScale(room, left, right, most=4, snug=True)
    parts = []
    for k, curve in enumerate(chart.curves):
        y = 12 + 17 * k
        parts.append(
            svg_line(_SIDE, y - 4, _SIDE + 22, y - 4, colour=ROLE_COLOURS[curve.role], width=2.5, **_dashes(curve))
        )
        parts.append(svg_text(_SIDE + 28, y, _cut(curve.name, _NAMES)))
    parts.append(svg_text(_SIDE, top - 14, chart.up, fill=FAINT))
    for tick in up.ticks:
        parts.append(svg_line(left, up(tick), right, up(tick), colour=FAINT if tick == 0 else GRID))
        parts.append(_tick(left - 5, up(tick) + 4, up.label(tick), "end"))
    for tick in along.ticks if not chart.clock else sorted(set(places)):
        label = f"{tick:.0f}:00" if chart.clock else along.label(tick)
        parts.append(_tick(along(tick), bottom + 14, label, "middle"))
    if chart.edge is not None:
        place = along(chart.edge)
        parts.append(svg_line(place, top, place, bottom, colour=FAINT, stroke_dasharray="3 3"))
        parts.append(svg_text(place + 3, top + 9, chart.edge_name, size=11, fill=FAINT))
    shifts = [3.0 * (2 * k - len(chart.curves) + 1) if chart.clock else 0.0 for k in range(len(chart.curves))]
    for curve, shift in reversed(list(zip(chart.curves, shifts, strict=True))):
        parts += _curve(curve, along, up, shift, chart)
    parts.append(svg_text((left + right) / 2, bottom + 31, chart.along, anchor="middle", fill=FAINT))
    return svg_drawing(chart.title, parts, bottom + 38)


def _dashes(curve: Curve) -> dict[str, str]:
    return {} if curve.role == "chosen" else {"stroke_dasharray": "6 3"}


def _curve(curve: Curve, along: SvgScale, up: SvgScale, shift: float, chart: CurveChart) -> list[str]:
    colour = ROLE_COLOURS[curve.role]
    at = [along(place) + shift for place in curve.along]
    points = list(zip(at, map(up, curve.up), strict=True))
    parts = [svg_path(points, colour, width=2 if curve.role != "other" else 1.3, **_dashes(curve))]
    for place, low, high in zip(at, curve.low, curve.high, strict=True) if curve.low else ():
        if low is not None and high is not None:
            parts.append(svg_line(place, up(low), place, up(high), colour=colour, width=3, stroke_opacity="0.4"))
    lows, highs = (side or (None,) * len(at) for side in (curve.low, curve.high))
    for (x, y), where, value, low, high in zip(points, curve.along, curve.up, lows, highs, strict=True):
        begin = f"{where:.0f}:00" if chart.clock else f"{where:,.0f} orders"
        said = f"{curve.name}, {begin}: {value:+.3f}"
        said += "" if low is None or high is None else f" ({low:+.3f} to {high:+.3f})"
        parts.append(svg_dot(x, y, colour, radius=4 if chart.clock else 2.4, said=f"{said} bps"))
    return parts


def _grid_chart(chart: GridChart) -> str:
    rows = list(dict.fromkeys(cell.row for cell in chart.cells))
    columns = list(dict.fromkeys(cell.column for cell in chart.cells))
    left, top, high = 52.0, 42.0, 50.0
    wide = (WIDTH - left - _SIDE) / len(columns)
    most = max(abs(cell.value) for cell in chart.cells) or 1.0
    parts = [svg_text(_SIDE, 13, f"{chart.down} (down) by {chart.across} (across)", fill=FAINT)]
    parts += [svg_text(left + wide * (k + 0.5), 34, name, anchor="middle") for k, name in enumerate(columns)]
    parts += [svg_text(left - 8, top + high * (k + 0.5) + 4, name, anchor="end") for k, name in enumerate(rows)]
    for cell in chart.cells:
        x, y = left + wide * columns.index(cell.column), top + high * rows.index(cell.row)
        tint = 0.08 + 0.42 * abs(cell.value) / most
        colour = ROLE_COLOURS["chosen" if cell.value >= 0 else "rule"]
        said = f"{chart.down} {cell.row}, {chart.across} {cell.column}: {cell.value:+.3f}"
        parts.append(svg_box(x + 1, y + 1, wide - 2, high - 2, colour, said=said, fill_opacity=f"{tint:.2f}"))
        parts.append(svg_text(x + wide / 2, y + 21, f"{cell.value:+.3f}", anchor="middle", bold=True, kind="plain"))
        if cell.low is not None and cell.high is not None:
            ends = f"{cell.low:+.2f} to {cell.high:+.2f}"
            parts.append(svg_text(x + wide / 2, y + 37, ends, anchor="middle", size=10.5, kind="plain"))
    bottom = top + high * len(rows)
    parts.append(svg_text(left + wide * len(columns) / 2, bottom + 20, chart.unit, anchor="middle", fill=FAINT))
    return svg_drawing(chart.title, parts, bottom + 28)


def _book_chart(chart: BookChart) -> str:
    prices = sorted({*(bar.price for bar in chart.bars), *(trade.price for trade in chart.trades)}, reverse=True)
    venues = sorted({bar.venue for bar in chart.bars})
    colours = {name: VENUE_COLOURS[min(k, len(VENUE_COLOURS) - 1)] for k, name in enumerate(venues)}
    used = {trade.kind for trade in chart.trades}
    kinds = {name: colour for name, colour in zip(TRADE_KINDS, KIND_COLOURS, strict=True) if name in used}
    left, right = 54.0, 224.0
    sums = {price: sum(bar.shares for bar in chart.bars if bar.price == price) for price in prices}
    most = max(sums.values()) or 1
    parts = [
        svg_text(left - 6, 12, "price $", anchor="end", size=11, fill=FAINT),
        svg_text(left, 12, "shares displayed", size=11, fill=FAINT),
        svg_text(right + 10, 12, "shares traded", size=11, fill=FAINT),
    ]
    y, side = 18.0, "ask"
    for price in prices:
        bars = [bar for bar in chart.bars if bar.price == price]
        trades = [trade for trade in chart.trades if trade.price == price]
        if side == "ask" and any(bar.side == "bid" for bar in bars):
            side = "bid"
            parts.append(svg_line(_SIDE, y, WIDTH - _SIDE, y, colour=FAINT, stroke_dasharray="3 3"))
        parts.append(svg_text(left - 6, y + 13, _price(price), anchor="end", size=11.5))
        parts += _bars(bars, colours, left, y + 3, (right - left) / most)
        parts += _trades(trades, kinds, right + 10, y)
        y += 18.0 * max(len(trades), 1)
    parts.append(svg_text(_SIDE, y + 14, "asks above the dashed line, bids below", size=11, fill=FAINT))
    legend, y = _legend(colours, kinds, y + 32)
    return svg_drawing(chart.title, [*parts, *legend], y)


def _bars(bars: list[BookBar], colours: dict[str, str], x: float, y: float, unit: float) -> list[str]:
    """Shares of the venues at one price, one after the other."""
    parts = []
    for bar in bars:
        wide, said = unit * bar.shares, f"{bar.venue}: {bar.shares:,} shares at {_price(bar.price)}"
        parts.append(svg_box(x, y, wide, 12, colours[bar.venue], said=said, stroke="#ffffff", stroke_width="0.6"))
        x += wide
    return parts


def _trades(trades: list[BookTrade], kinds: dict[str, str], x: float, y: float) -> list[str]:
    """What was traded at one price, one line each."""
    parts = []
    for k, trade in enumerate(trades):
        said = f"{trade.kind}, {trade.place}: {trade.shares:,} shares at {_price(trade.price)}"
        parts.append(svg_dot(x + 4, y + 9 + 18 * k, kinds[trade.kind], said=said))
        parts.append(
            svg_text(x + 12, y + 13 + 18 * k, _cut(f"{trade.shares:,} {trade.place}", WIDTH - x - 14), size=11.5)
        )
    return parts


def _legend(venues: dict[str, str], kinds: dict[str, str], y: float) -> tuple[list[str], float]:
    """Names of colours, venues as boxes and kinds of child orders as dots, in lines as wide as the drawing."""
    parts, x = [], float(_SIDE)
    for names, dots in ((venues, False), (kinds, True)):
        for whole, colour in names.items():
            name = _cut(whole, _NAMES)
            wide = 18 + _width(name) + 6
            if x + wide > WIDTH and x > _SIDE:
                x, y = float(_SIDE), y + 18
            parts.append(svg_dot(x + 5, y - 4, colour) if dots else svg_box(x, y - 9, 11, 11, colour))
            parts.append(svg_text(x + 15, y, name, size=11.5))
            x += wide
        x, y = float(_SIDE), y + 18
    return parts, y


def _price(price: float) -> str:
    text = f"{price:,.4f}"
    return text[:-2] + text[-2:].rstrip("0")


_DRAWN: dict[type, Callable[[Any], str]] = {
    DotChart: _dot_chart,
    CurveChart: _curve_chart,
    GridChart: _grid_chart,
    BookChart: _book_chart,
}
