"""SVG charts for pages, without scripts; all text is escaped.

Charts are drawn 340 pixels wide, the width of a phone, and scale with the page. The hover text of a shape is its
``<title>``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from riskroute.core.text import natural_text
from riskroute.study.case import CaseEstimate
from riskroute.study.examples import OrderExample

_WIDTH = 340
_MARGIN = 8
_LABEL_WIDTH = 250.0  # longer labels are cut
_INK, _FAINT, _GRID = "#1c2733", "#52606d", "#dde4ec"

# by role: the chosen router, the benchmark rule, perfect foresight, a router under several risk profiles, any other;
# safe for colour-blind readers
_ROLES = {"chosen": "#0072b2", "rule": "#d55e00", "bound": "#7a7a7a", "line": "#00785a", "other": "#56616d"}
_PALETTE = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#8c6bb1", "#a6761d", "#999999")

KIND_NAMES = {
    "dark": "dark pool, IOC",
    "dark_rest": "dark pool, resting",
    "limit": "limit order",
    "take": "taken",
    "sweep": "swept",
}
_KINDS = dict(zip(KIND_NAMES, ("#1c2733", "#7a7a7a", "#0072b2", "#8c2d7b", "#d55e00"), strict=True))


@dataclass(frozen=True)
class ChartDot:
    """A named value with a confidence interval from ``low`` to ``high``, or with a standard error."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    error: float | None = None
    role: str = "other"

    @property
    def text(self) -> str:
        """The value with its interval or standard error."""
        if self.low is not None and self.high is not None:
            return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"
        return f"{self.value:.3f} ± {self.error:.3f}" if self.error is not None else f"{self.value:.3f}"

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the confidence interval; without one, the value minus and plus one standard error."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        error = self.error or 0.0
        return self.value - error, self.value + error


@dataclass(frozen=True)
class ChartCurve:
    """Points ``(x, y)`` with optional intervals, joined by a line (``line``), marked by dots (``dots``), or both."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    role: str = "other"
    line: bool = True
    dots: bool = True
    colour: str = ""  # default: the colour of the role

    @property
    def stroke(self) -> str:
        """Colour of the line and the dots."""
        return self.colour or _ROLES[self.role]

    @property
    def dashes(self) -> dict[str, str]:
        """SVG attributes of the line, which is dashed unless it is the chosen router's or has a colour of its own."""
        return {} if self.role == "chosen" or self.colour else {"stroke_dasharray": "6 3"}


@dataclass(frozen=True)
class ChartPoint:
    """A named point of a frontier; ``joined`` ones are connected by a line."""

    name: str
    x: float
    y: float
    role: str = "other"
    joined: bool = False


class _Scale:
    """A linear map of values to positions between ``first`` and ``last``, with round ticks.

    The axis ends at ticks or, if ``snug``, at the smallest and the largest value.

    Examples
    --------
    >>> scale = _Scale([0.13, 2.9], 40, 340)
    >>> scale.ticks, round(scale(1.5)), scale.label(2.0)
    ((0.0, 1.0, 2.0, 3.0), 190, '2')
    """

    def __init__(
        self, values: Sequence[float], first: float, last: float, *, most: int = 5, snug: bool = False
    ) -> None:
        low, high = min(values), max(values)
        span = (high - low) or abs(high) or 1.0
        self.step = _round_step(span / most)
        # 1e-9: a value that differs from a tick by rounding alone is on the tick
        if snug:
            begin, end = math.ceil(low / self.step - 1e-9), math.floor(high / self.step + 1e-9)
        else:
            begin, end = math.floor(low / self.step + 1e-9), math.ceil(high / self.step - 1e-9)
            end = max(end, begin + 1)
        self.ticks = tuple(k * self.step + 0.0 for k in range(begin, end + 1))
        self.low, self.high = (low, low + span) if snug else (self.ticks[0], self.ticks[-1])
        self.first, self.last = first, last

    def __call__(self, value: float) -> float:
        return self.first + (self.last - self.first) * (value - self.low) / (self.high - self.low)

    def label(self, value: float) -> str:
        """Return the text of a tick."""
        digits = max(-math.floor(math.log10(self.step) + 1e-9), 0)
        return f"{value:,.{digits}f}"


def _round_step(step: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least ``step``."""
    power = 10.0 ** math.floor(math.log10(step) + 1e-9)
    return next(times * power for times in (1, 2, 5, 10) if times * power >= step * (1 - 1e-9))


def dot_chart(title: str, unit: str, dots: Sequence[ChartDot]) -> str:
    """Draw values with their intervals on a common scale, one row per value."""
    row = 36
    scale = _Scale([*(end for dot in dots for end in (dot.value, *dot.ends)), 0.0], _MARGIN + 6, _WIDTH - _MARGIN - 6)
    bottom = row * len(dots) + 4
    parts = _axis_below(scale, 0, bottom, unit)
    too_long = any(len(dot.name) + len(dot.text) > 46 for dot in dots)  # letters that fit in one line
    for k, dot in enumerate(dots):
        top, colour = row * k, _ROLES[dot.role]
        bold = dot.role in ("chosen", "rule")
        parts.append(_text(_MARGIN, top + 14, _cut(dot.name, _LABEL_WIDTH), fill=colour, bold=bold))
        parts.append(_text(_WIDTH - _MARGIN, top + 14, f"{dot.value:+.3f}" if too_long else dot.text, anchor="end"))
        low, high = map(scale, dot.ends)
        parts.append(_line(low, top + 25, high, top + 25, colour=colour, width=3, stroke_opacity="0.45"))
        parts.append(_disc(scale(dot.value), top + 25, colour, radius=4.5, hover=f"{dot.name}: {dot.text}"))
    return _drawing(title, parts, bottom + 38)


def bar_chart(title: str, unit: str, names: Sequence[str], bars: Mapping[str, Sequence[float]]) -> str:
    """Draw a horizontal bar for every name and each of two series; the first series has the stronger colour."""
    colours = dict(zip(bars, (_ROLES["chosen"], "#9db7d8"), strict=True))
    most, left, y, parts = max(value for some in bars.values() for value in some) or 1.0, 130.0, 28.0, []
    x = float(_MARGIN)
    for series, colour in colours.items():
        parts += [_box(x, 3, 11, 11, colour), _text(x + 15, 12, series)]
        x += 30 + _text_width(series)
    for k, name in enumerate(names):
        parts.append(_text(left - 6, y + 12, _cut(name, left - 14), anchor="end"))
        for series, colour in colours.items():
            value = bars[series][k]
            wide = (_WIDTH - left - 50) * value / most
            parts.append(_box(left, y, wide, 9, colour, hover=f"{series}, {name}: {natural_text(value)} {unit}"))
            parts.append(_text(left + wide + 4, y + 9, natural_text(value), size=10.5))
            y += 11
        y += 8
    parts.append(_text((left + _WIDTH) / 2, y + 12, unit, anchor="middle", fill=_FAINT))
    return _drawing(title, parts, y + 20)


def curve_chart(
    title: str,
    x_axis: str,
    y_axis: str,
    curves: Sequence[ChartCurve],
    *,
    edge: tuple[float, str] | None = None,
    clock: bool = False,
    log: bool = False,
) -> str:
    """Draw curves over a common x axis; ``edge`` is an x position and the label of a vertical line there.

    With ``clock``, x is the hour of the day. With ``log``, y is logarithmic, over five decades up to the largest value.
    """
    top = 22 + 17 * len(curves) + 16
    bottom, left, right = top + 170, 46, _WIDTH - 12
    values = [value for curve in curves for value in (*curve.y, *curve.low, *curve.high) if value is not None]
    floor = max(values) / 1e5 if log else -math.inf
    y_scale = _Scale([math.log10(max(value, floor)) for value in values] if log else [*values, 0.0], bottom, top)
    xs = [x for curve in curves for x in curve.x]
    # hours leave room beside the first and the last; other axes begin at 0
    x_scale = _Scale(
        (min(xs) - 0.6, max(xs) + 0.6) if clock else (min(0.0, *xs), max(xs)), left, right, most=4, snug=True
    )

    def height(value: float) -> float:
        return y_scale(math.log10(max(value, floor)) if log else value)

    parts = []
    for k, curve in enumerate(curves):
        y = 12.0 + 17 * k
        if curve.line:
            parts.append(_line(_MARGIN, y - 4, _MARGIN + 22, y - 4, colour=curve.stroke, width=2.5, **curve.dashes))
        else:
            parts.append(_disc(_MARGIN + 11, y - 4, curve.stroke, radius=3))
        parts.append(_text(_MARGIN + 28, y, _cut(curve.name, _LABEL_WIDTH)))
    parts.append(_text(_MARGIN, top - 14, y_axis, fill=_FAINT))
    for tick in y_scale.ticks:
        parts.append(
            _line(left, y_scale(tick), right, y_scale(tick), colour=_FAINT if tick == 0 and not log else _GRID)
        )
        parts.append(_tick(left - 5, y_scale(tick) + 4, f"{10**tick:,.6g}" if log else y_scale.label(tick), "end"))
    parts += [
        _tick(x_scale(tick), bottom + 14, f"{tick:.0f}:00" if clock else x_scale.label(tick), "middle")
        for tick in (sorted(set(xs)) if clock else x_scale.ticks)
    ]
    if edge is not None:
        place = x_scale(edge[0])
        parts.append(_line(place, top, place, bottom, colour=_FAINT, stroke_dasharray="3 3"))
        parts.append(_text(place + 3, top + 9, edge[1], size=11, fill=_FAINT))
    # curves by hour stand side by side, so that their intervals do not hide each other
    shifts = [3.0 * (2 * k - len(curves) + 1) if clock else 0.0 for k in range(len(curves))]
    for curve, shift in reversed(list(zip(curves, shifts, strict=True))):
        at = [x_scale(x) + shift for x in curve.x]
        points = list(zip(at, map(height, curve.y), strict=True))
        if curve.line:
            listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            width = 1.3 if curve.role == "other" and not curve.colour else 2
            path = f'points="{listed}" fill="none" stroke="{curve.stroke}" stroke-width="{width:g}"'
            parts.append(f"<polyline {path}{_attributes(curve.dashes)}/>")
        for x, low, high in zip(at, curve.low, curve.high, strict=True) if curve.low else ():
            if low is not None and high is not None:
                ends = height(low), height(high)
                parts.append(_line(x, ends[0], x, ends[1], colour=curve.stroke, width=3, stroke_opacity="0.4"))
        lows, highs = (side or (None,) * len(at) for side in (curve.low, curve.high))
        for (x, y), where, value, low, high in zip(points, curve.x, curve.y, lows, highs, strict=True):
            if curve.dots:
                at_x = f"{where:.0f}:00" if clock else f"{where:,.0f}" if where == int(where) else f"{where:.4g}"
                hover = f"{curve.name}, {at_x}: {value:+.3f}"
                hover += "" if low is None or high is None else f" ({low:+.3f} to {high:+.3f})"
                parts.append(_disc(x, y, curve.stroke, radius=4 if clock else 2.4, hover=hover))
    parts.append(_text((left + right) / 2, bottom + 31, x_axis, anchor="middle", fill=_FAINT))
    return _drawing(title, parts, bottom + 38)


def frontier_chart(title: str, x_axis: str, y_axis: str, points: Sequence[ChartPoint]) -> str:
    """Draw points with their names, the ``joined`` ones connected by a line in the given order.

    The names stand in a column on the right, in the order of the points' heights, and a thin line leads to each.
    """
    size, row, gap = 10.5, 15.0, 16.0
    widths = [_text_width(one.name) * (1.1 if one.role in ("chosen", "rule") else 1.0) for one in points]  # bold: wider
    column = _WIDTH - min(max(widths) * size / 12 + 4, 170.0)
    top, left, right = 26.0, 40.0, column - gap
    bottom = top + max(1.3 * row * len(points), 170.0)
    x_scale = _Scale([one.x for one in points], left + 4, right - 4, most=3)
    y_scale = _Scale([one.y for one in points], bottom, top)
    parts = [_text(_MARGIN, 12, y_axis, fill=_FAINT)]
    for tick in y_scale.ticks:
        parts.append(_line(left, y_scale(tick), right, y_scale(tick), colour=_GRID))
        parts.append(_tick(left - 5, y_scale(tick) + 4, y_scale.label(tick), "end"))
    for tick in x_scale.ticks:
        parts.append(_line(x_scale(tick), top, x_scale(tick), bottom, colour=_GRID))
        parts.append(_tick(x_scale(tick), bottom + 14, x_scale.label(tick), "middle"))
    ranked = sorted(points, key=lambda one: (y_scale(one.y), -x_scale(one.x)))
    for one, y in zip(ranked, _spread([y_scale(one.y) for one in ranked], row, top + row / 2, bottom), strict=True):
        colour = _ROLES[one.role]
        ends = f"{x_scale(one.x) + 5:.1f},{y_scale(one.y):.1f} {right + 2:.1f},{y:.1f} {column - 3:.1f},{y:.1f}"
        parts.append(f'<polyline points="{ends}" fill="none" stroke="{colour}" stroke-width="0.6" opacity="0.6"/>')
        name = _cut(one.name, (_WIDTH - column) * 12 / size)
        parts.append(_text(column, y + 3.5, name, size=size, fill=colour, bold=one.role in ("chosen", "rule")))
    line = " ".join(f"{x_scale(one.x):.1f},{y_scale(one.y):.1f}" for one in points if one.joined)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{_ROLES["line"]}" stroke-width="1.6"/>')
    for one in points:
        hover = f"{one.name}: {y_axis} {one.y:.3f}, {x_axis} {one.x:.3f}"
        parts.append(_disc(x_scale(one.x), y_scale(one.y), _ROLES[one.role], radius=4, hover=hover))
    parts.append(_text((left + right) / 2, bottom + 31, x_axis, anchor="middle", fill=_FAINT))
    return _drawing(title, parts, bottom + 38)


def _spread(wanted: Sequence[float], least: float, first: float, last: float) -> list[float]:
    """Return ascending positions near the ``wanted`` ones, at least ``least`` apart, from ``first`` to ``last``.

    Examples
    --------
    >>> _spread([0.0, 1.0, 50.0, 99.0], 10.0, 0.0, 100.0)
    [0.0, 10.0, 50.0, 99.0]
    >>> _spread([98.0, 99.0], 10.0, 0.0, 100.0)
    [90.0, 100.0]
    """
    found: list[float] = []
    for one in wanted:
        found.append(max(one, found[-1] + least if found else first))
    limit = last
    for k in range(len(found) - 1, -1, -1):
        found[k] = min(found[k], limit)
        limit = found[k] - least
    return found


def grid_chart(title: str, unit: str, down: str, across: str, cells: Mapping[tuple[str, str], CaseEstimate]) -> str:
    """Draw estimates in a grid, shaded by magnitude; ``down`` and ``across`` name the variables of rows and columns."""
    rows, columns = (list(dict.fromkeys(key[k] for key in cells)) for k in (0, 1))
    left, top, high = 52.0, 42.0, 50.0
    wide = (_WIDTH - left - _MARGIN) / len(columns)
    most = max(abs(one.mean) for one in cells.values()) or 1.0
    parts = [_text(_MARGIN, 13, f"{down} (down) by {across} (across)", fill=_FAINT)]
    parts += [_text(left + wide * (k + 0.5), 34, name, anchor="middle") for k, name in enumerate(columns)]
    parts += [_text(left - 8, top + high * (k + 0.5) + 4, name, anchor="end") for k, name in enumerate(rows)]
    for (row, column), one in cells.items():
        x, y = left + wide * columns.index(column), top + high * rows.index(row)
        colour, tint = _ROLES["chosen" if one.mean >= 0 else "rule"], 0.08 + 0.42 * abs(one.mean) / most
        hover = f"{down} {row}, {across} {column}: {one.mean:+.3f}"
        parts.append(_box(x + 1, y + 1, wide - 2, high - 2, colour, hover=hover, fill_opacity=f"{tint:.2f}"))
        parts.append(_text(x + wide / 2, y + 21, f"{one.mean:+.3f}", anchor="middle", bold=True, kind="plain"))
        if one.low is not None and one.high is not None:
            ends = f"{one.low:+.2f} to {one.high:+.2f}"
            parts.append(_text(x + wide / 2, y + 37, ends, anchor="middle", size=10.5, kind="plain"))
    bottom = top + high * len(rows)
    parts.append(_text(left + wide * len(columns) / 2, bottom + 20, unit, anchor="middle", fill=_FAINT))
    return _drawing(title, parts, bottom + 28)


def svg_book_chart(title: str, example: OrderExample) -> str:
    """Draw the displayed quantities and an order's fills, one row per price."""
    named, price_text = example.instrument.named, example.instrument.price_text
    prices = sorted({*(one.price for one in example.levels), *(one.price for one in example.fills)}, reverse=True)
    venues = sorted({one.venue for one in example.levels})
    colours = {name: _PALETTE[min(k, len(_PALETTE) - 1)] for k, name in enumerate(venues)}
    kinds = {KIND_NAMES[kind]: _KINDS[kind] for kind in KIND_NAMES if any(one.kind == kind for one in example.fills)}
    left, right = max(54.0, 12.0 + 6.4 * max(len(price_text(price)) for price in prices)), 224.0
    most = max(sum(one.quantity for one in example.levels if one.price == price) for price in prices) or 1
    unit = (right - left) / most
    parts = [
        _text(left - 6, 12, "price", anchor="end", size=11, fill=_FAINT),
        _text(left, 12, f"{example.instrument.quantity} displayed", size=11, fill=_FAINT),
        _text(right + 10, 12, f"{example.instrument.quantity} traded", size=11, fill=_FAINT),
    ]
    y, side = 18.0, "ask"
    for price in prices:
        levels = [one for one in example.levels if one.price == price]
        fills = [one for one in example.fills if one.price == price]
        if side == "ask" and any(one.side == "bid" for one in levels):
            side = "bid"
            parts.append(_line(_MARGIN, y, _WIDTH - _MARGIN, y, colour=_FAINT, stroke_dasharray="3 3"))
        parts.append(_text(left - 6, y + 13, price_text(price), anchor="end", size=11.5))
        x = left
        for one in levels:
            hover = f"{one.venue}: {named(one.quantity)} at {price_text(price)}"
            edge = {"stroke": "#ffffff", "stroke_width": "0.6"}
            parts.append(_box(x, y + 3, unit * one.quantity, 12, colours[one.venue], hover=hover, **edge))
            x += unit * one.quantity
        for k, fill in enumerate(fills):
            hover = f"{KIND_NAMES[fill.kind]}, {fill.place}: {named(fill.quantity)} at {price_text(price)}"
            parts.append(_disc(right + 14, y + 9 + 18 * k, _KINDS[fill.kind], hover=hover))
            number = f"{natural_text(fill.quantity)} "
            place = _cut(fill.place, max(_WIDTH - right - 24 - _text_width(number), 12.0))
            parts.append(_text(right + 22, y + 13 + 18 * k, number + place, size=11.5))
        y += 18.0 * max(len(fills), 1)
    parts.append(_text(_MARGIN, y + 14, "asks above the dashed line, bids below", size=11, fill=_FAINT))
    legend, y = _legend(colours, kinds, y + 32)
    return _drawing(title, [*parts, *legend], y)


def _legend(venues: Mapping[str, str], kinds: Mapping[str, str], y: float) -> tuple[list[str], float]:
    """Return the shapes of a legend (boxes for venues, dots for kinds of child orders) and its lower end."""
    parts, x = [], float(_MARGIN)
    for names, dots in ((venues, False), (kinds, True)):
        for whole, colour in names.items():
            name = _cut(whole, _LABEL_WIDTH)
            wide = 18 + _text_width(name) + 6
            if x + wide > _WIDTH and x > _MARGIN:
                x, y = float(_MARGIN), y + 18
            parts.append(_disc(x + 5, y - 4, colour) if dots else _box(x, y - 9, 11, 11, colour))
            parts.append(_text(x + 15, y, name, size=11.5))
            x += wide
        x, y = float(_MARGIN), y + 18
    return parts, y


def chart_colours(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for each name; the first name has the colour of the chosen router."""
    colours = (_ROLES["chosen"], *_PALETTE)
    return {name: colours[min(k, len(colours) - 1)] for k, name in enumerate(names)}


def _cut(name: str, room: float) -> str:
    """Shorten a name to a width; hover texts have the full name."""
    if _text_width(name) <= room:
        return name
    kept = next(k for k in range(len(name), -1, -1) if _text_width(name[:k]) <= room - 12)
    return f"{name[:kept]}…"


def _text_width(text: str) -> float:
    """Return an estimate of the width of a text, too large rather than too small; capitals count as wider."""
    return sum(9.0 if letter.isupper() else 6.9 for letter in text)


def _axis_below(scale: _Scale, top: float, bottom: float, unit: str) -> list[str]:
    parts = []
    for tick in scale.ticks:
        place = scale(tick)
        parts.append(_line(place, top, place, bottom, colour=_FAINT if tick == 0 else _GRID))
        parts.append(_tick(place, bottom + 14, scale.label(tick), "middle"))
    parts.append(_text(_WIDTH / 2, bottom + 31, unit, anchor="middle", fill=_FAINT))
    return parts


def _tick(x: float, y: float, text: str, anchor: str) -> str:
    return _text(x, y, text, anchor=anchor, size=11, fill=_FAINT, kind="tick")


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: float = 12,
    bold: bool = False,
    fill: str = _INK,
    kind: str = "",
) -> str:
    more = ({"font_weight": "600"} if bold else {}) | ({"class": kind} if kind else {})
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}"'
    return f"<text {place}{_attributes(more)}>{html.escape(text)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, *, colour: str, width: float = 1, **more: str) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{_attributes(more)}/>'


def _box(x: float, y: float, wide: float, high: float, colour: str, *, hover: str = "", **more: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
    return f'<rect {place} fill="{colour}"{_attributes(more)}>{_hover(hover)}</rect>'


def _disc(x: float, y: float, colour: str, *, radius: float = 4, hover: str = "") -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}">{_hover(hover)}</circle>'


def _hover(text: str) -> str:
    return f"<title>{html.escape(text)}</title>" if text else ""


def _drawing(title: str, parts: Sequence[str], height: float) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}"'
    return f'<svg {size} role="img" aria-label="{html.escape(title)}">{"".join(parts)}</svg>'


def _attributes(more: Mapping[str, str]) -> str:
    return "".join(f' {name.replace("_", "-")}="{html.escape(value)}"' for name, value in more.items())
