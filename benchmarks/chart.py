"""Line charts as self-contained SVG that reads on white and on black.

Few shapes and no more: lines, dots, horizontal marks, axes with round numbers, linear or both
logarithmic. Each line is named in a legend in its colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from crowdpipe.demo.colour import oklch
from crowdpipe.demo.timeline import nice_step

WIDTH, HEIGHT = 860.0, 400.0
LEFT, RIGHT, BOTTOM = 70.0, 24.0, 52.0
TITLE = 26.0
LEGEND_LINE = 20.0
CHARACTER = 6.6  # px that one takes in the legend's type, on average
TICKS = 8
NARROWEST = 1e-9
ROOM = 1.06  # the highest value stays this far below the top
DASHES = "2 5"
FEW_DECADES = 2.0  # fewer than so many have marks between them, too

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #5c6670; }
.title { font-size: 15px; font-weight: 600; fill: #1d2126; }
.over { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
.page { fill: #ffffff; } .grid { stroke: #e3e7ea; } .axis { stroke: #9aa4ae; }
.mark { stroke: #5c6670; stroke-dasharray: 5 4; } .line { fill: none; stroke-width: 1.8;
  stroke-linejoin: round; }
@media (prefers-color-scheme: dark) {
  text { fill: #9aa4ae; } .title { fill: #e6e9ec; } .page { fill: #15181c; }
  .over { stroke: #15181c; }
  .grid { stroke: #2b3138; } .axis, .mark { stroke: #7d8791; } }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y) in order of x. `dashed`: nothing that was measured."""

    name: str
    points: tuple[tuple[float, float], ...]
    dots: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A value to compare with, across the whole width."""

    name: str
    y: float


@dataclass(frozen=True, slots=True)
class Chart:
    """`y_from` None: from the least value. `counted`: x are whole numbers. At least one line has
    a point. `logarithmic`: all values are above 0, and what grows in proportion rises by as much
    as it goes to the right, whatever its size."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    y_from: float | None = None
    counted: bool = False
    logarithmic: bool = False

    def svg(self) -> str:
        """The whole file."""
        legend, rows = _legend(self.lines)
        plane = _Plane(self, TITLE + 14 + LEGEND_LINE * rows)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
            f'role="img" aria-label="{escape(self.title, quote=True)}">',
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH:g}" height="{HEIGHT:g}"/>',
            f'<text class="title" x="{LEFT:g}" y="{TITLE - 4:g}">{escape(self.title)}</text>',
            *legend,
            *_axes(self, plane),
            *_lines(self.lines, plane),
            *_marks(self.marks, plane),
        ]
        return "\n".join([*parts, "</svg>\n"])


class _Plane:
    """From values to pixels."""

    def __init__(self, chart: Chart, top: float) -> None:
        self._scale: Callable[[float], float] = math.log10 if chart.logarithmic else float
        self._ticks = decades if chart.logarithmic else ticks
        xs = [self._scale(x) for line in chart.lines for x, _ in line.points]
        values = [y for line in chart.lines for _, y in line.points] + [m.y for m in chart.marks]
        ys = list(map(self._scale, values))
        self.top, self.bottom = top, HEIGHT - BOTTOM
        self._least_step = 1.0 if chart.counted else 0.0
        self.x_from, self.x_to = _range(min(xs), max(xs))
        self.y_from = min(ys) if chart.y_from is None else self._scale(chart.y_from)
        self.y_from, self.y_to = _range(self.y_from, self.y_from + (max(ys) - self.y_from) * ROOM)
        if chart.logarithmic:  # no value is the lowest that there could be
            self.y_from -= (self.y_to - self.y_from) * (ROOM - 1)

    def x(self, value: float) -> float:
        share = (self._scale(value) - self.x_from) / (self.x_to - self.x_from)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (self._scale(value) - self.y_from) / (self.y_to - self.y_from)
        return self.bottom - share * (self.bottom - self.top)

    def x_ticks(self) -> list[tuple[float, str]]:
        return self._ticks(self.x_from, self.x_to, self._least_step)

    def y_ticks(self) -> list[tuple[float, str]]:
        return self._ticks(self.y_from, self.y_to)


def _range(least: float, most: float) -> tuple[float, float]:
    """Never so narrow that its ends could not be told apart."""
    wide = most - least > NARROWEST * max(1.0, abs(least), abs(most))
    return (least, most) if wide else (least - 0.5, max(most, least) + 0.5)


def colour(index: int, count: int) -> str:
    """Of one line of several, of equal lightness and far from each other."""
    return oklch(0.62, 0.15, 262.0 - 300.0 * index / max(1, count))


def _legend(lines: Sequence[Line]) -> tuple[list[str], int]:
    """Its shapes, and how many rows they take."""
    parts, x, row = [], LEFT, 0
    for index, line in enumerate(lines):
        width = 34 + CHARACTER * len(line.name) + 14
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, row = LEFT, row + 1
        y = TITLE + 12 + LEGEND_LINE * row
        parts.append(
            f'<path d="M{x:g} {y:g}h24" stroke="{colour(index, len(lines))}" '
            f'stroke-width="3"{_dashes(line)}/>'
        )
        parts.append(f'<text x="{x + 30:g}" y="{y + 4:g}">{escape(line.name)}</text>')
        x += width
    return parts, row + 1


def _dashes(line: Line) -> str:
    return f' stroke-dasharray="{DASHES}"' if line.dashed else ""


def _axes(chart: Chart, plane: _Plane) -> Iterator[str]:
    for value, text in plane.y_ticks():
        y = plane.y(value)
        yield f'<path class="grid" d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}"/>'
        yield f'<text x="{LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for value, text in plane.x_ticks():
        x = plane.x(value)
        yield f'<path class="axis" d="M{x:.1f} {plane.bottom:g}v5"/>'
        yield f'<text x="{x:.1f}" y="{plane.bottom + 19:g}" text-anchor="middle">{text}</text>'
    yield f'<path class="axis" d="M{LEFT:g} {plane.bottom:g}H{WIDTH - RIGHT:g}"/>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield (
        f'<text x="{middle:g}" y="{HEIGHT - 12:g}" text-anchor="middle">{escape(chart.x)}</text>'
    )
    height = (plane.top + plane.bottom) / 2
    yield (
        f'<text transform="translate(18 {height:g}) rotate(-90)" text-anchor="middle">'
        f"{escape(chart.y)}</text>"
    )


def ticks(least: float, most: float, least_step: float = 0.0) -> list[tuple[float, str]]:
    """Round values within the range, and how they are written."""
    step = nice_step(max(least_step, (most - least) / TICKS))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(least / step - 1e-9)
    last = math.floor(most / step + 1e-9)
    return [
        (number * step, f"{number * step + 0.0:.{decimals}f}") for number in range(first, last + 1)
    ]


def decades(least: float, most: float, _least_step: float = 0.0) -> list[tuple[float, str]]:
    """Powers of ten from ten to the power of `least` to that of `most`, and twice and five times
    them where they are few."""
    factors = (1, 2, 5) if most - least < FEW_DECADES else (1,)
    powers = range(math.floor(least), math.ceil(most) + 1)
    values = [factor * 10.0**power for power in powers for factor in factors]
    within = (each for each in values if least - 1e-9 <= math.log10(each) <= most + 1e-9)
    return [(value, f"{value:,.0f}" if value >= 1 else f"{value:g}") for value in within]


def _marks(marks: Sequence[Mark], plane: _Plane) -> Iterator[str]:
    for mark in marks:
        y = plane.y(mark.y)
        yield f'<path class="mark" d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}"/>'
        yield (
            f'<text class="over" x="{WIDTH - RIGHT - 4:g}" y="{y - 5:.1f}" text-anchor="end">'
            f"{escape(mark.name)}</text>"
        )


def _lines(lines: Sequence[Line], plane: _Plane) -> Iterator[str]:
    for index, line in enumerate(lines):
        if not line.points:
            continue
        shade = colour(index, len(lines))
        points = [(plane.x(x), plane.y(y)) for x, y in line.points]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline class="line" stroke="{shade}"{_dashes(line)} points="{way}"/>'
        if line.dots:
            for x, y in points:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{shade}"/>'
