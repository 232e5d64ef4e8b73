"""The picture of a demonstration: who computed which item when, as one self-contained HTML file.

One panel a phase, one lane a device, one bar a task, coloured by item; below each lane a thin
strip of fetches and loads. Panels that are to be compared share one scale. Says what it shows
in words too; needs no script to be read (a few lines only make hovering show one item's way).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from crowdpipe.cli.quantities import show_seconds
from crowdpipe.demo.colour import item_colour
from crowdpipe.watching.observation import Span

WIDTH = 1200.0
LEFT = 116.0  # where lanes begin; names stand before
RIGHT = 16.0
LANE = 32.0
BAR = 19.0
STRIP = 6.0
TOP = 10.0
AXIS = 34.0
LEAST_BAR = 0.75  # px: what is shorter is drawn this wide, or it would vanish
DIGIT = 6.3  # px of one digit in the bars' type size
TICKS = 10

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2126; --soft: #5c6670; --line: #d5dade;
  --lane: #f3f5f7; --page: #ffffff; --load: #8a939c; --fetch: #3f7fbf; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e9ec; --soft: #9aa4ae;
  --line: #363c43; --lane: #20252a; --page: #15181c; --load: #7d8791; --fetch: #5a9bdc; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  margin: 28px auto; max-width: 1240px; padding: 0 20px; }}
h1 {{ font-size: 22px; margin: 0 0 4px; }} h2 {{ font-size: 16px; margin: 26px 0 2px; }}
p {{ margin: 2px 0 8px; color: var(--soft); max-width: 90ch; }}
svg {{ width: 100%; height: auto; display: block; }}
text {{ fill: var(--soft); font: 12px system-ui, sans-serif; }}
text.name {{ fill: var(--ink); font-size: 13px; }}
text.digit {{ fill: #14171a; font-size: 10.5px; pointer-events: none; }}
.lane {{ fill: var(--lane); }} .grid {{ stroke: var(--line); }} .end {{ stroke: var(--soft);
  stroke-dasharray: 4 3; }}
.load {{ fill: var(--load); }} .evict {{ fill: none; stroke: var(--load); }}
.fetch {{ fill: var(--fetch); }}
svg.focus .task {{ opacity: .15; }} svg.focus .task.on {{ opacity: 1; }}
.key {{ display: inline-flex; align-items: center; gap: 6px; margin-right: 20px;
  color: var(--soft); }}
.key i {{ display: inline-block; height: 11px; width: 26px; border-radius: 2px; }}
.ramp {{ width: 120px !important; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<div>{legend}</div>
{panels}
<p>{footer}</p>
<script>
for (const picture of document.querySelectorAll("svg")) {{
  const mark = (bar, on) => {{
    picture.classList.toggle("focus", on);
    for (const other of picture.querySelectorAll(".task"))
      other.classList.toggle("on", on && other.dataset.item === bar.dataset.item);
  }};
  for (const bar of picture.querySelectorAll(".task")) {{
    bar.addEventListener("mouseenter", () => mark(bar, true));
    bar.addEventListener("mouseleave", () => mark(bar, false));
  }}
}}
</script>
</body>
</html>
"""
FOOTER = (
    "Each device's clock is shifted by the quickest of its messages to the watcher, so bars of "
    "different devices may be off against each other by what that message took."
)


@dataclass(frozen=True, slots=True)
class Phase:
    """One panel. Times are the watcher's clock; the x axis begins at `start_s`."""

    title: str
    caption: str
    start_s: float
    end_s: float
    spans: tuple[Span, ...]
    group: str = ""

    @property
    def length_s(self) -> float:
        return max(1e-3, self.end_s - self.start_s)


def timeline_page(
    title: str, summary: str, phases: Sequence[Phase], devices: Sequence[str], items: int
) -> str:
    """The whole HTML page. Phases of one `group` share a scale; `items` sets the colours."""
    longest: dict[str, float] = {}
    for phase in phases:
        longest[phase.group] = max(longest.get(phase.group, 0.0), phase.length_s)
    panels = [
        f"<h2>{escape(phase.title)}</h2><p>{escape(phase.caption)}</p>"
        + panel(phase, devices, items, longest[phase.group])
        for phase in phases
    ]
    return PAGE.format(
        title=escape(title),
        summary=escape(summary),
        legend=_legend(items),
        panels="\n".join(panels),
        footer=escape(FOOTER),
    )


def _legend(items: int) -> str:
    stops = ", ".join(item_colour(round(i * (items - 1) / 8), items) for i in range(9))
    ramp = f'<i class="ramp" style="background:linear-gradient(90deg,{stops})"></i>'
    keys = (
        f"{ramp} computing item 0 to {items - 1}",
        '<i style="background:var(--fetch);height:6px"></i> fetching segments',
        '<i style="background:var(--load);height:6px"></i> loading them',
    )
    return "".join(f'<span class="key">{key}</span>' for key in keys)


def panel(phase: Phase, devices: Sequence[str], items: int, scale_s: float) -> str:
    """The SVG of one phase, `scale_s` seconds wide."""
    height = TOP + LANE * len(devices) + AXIS
    axis = _Scale(phase.start_s, scale_s)
    parts = [
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
        f'aria-label="{escape(phase.title, quote=True)}">',
        *_lanes(devices),
        *_grid(axis, height),
        *_end(axis, phase, height),
    ]
    row_of = {device: row for row, device in enumerate(devices)}
    for span in phase.spans:
        if span.device in row_of and span.end_s > phase.start_s and span.start_s < phase.end_s:
            parts += _bar(span, axis, TOP + LANE * row_of[span.device], items)
    return "\n".join([*parts, "</svg>"])


class _Scale:
    """From seconds on the watcher's clock to pixels."""

    def __init__(self, start_s: float, length_s: float) -> None:
        self.start_s = start_s
        self.length_s = length_s

    def x(self, at_s: float) -> float:
        share = (at_s - self.start_s) / self.length_s
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)


def _lanes(devices: Sequence[str]) -> Iterator[str]:
    for row, device in enumerate(devices):
        y = TOP + LANE * row
        yield (
            f'<rect class="lane" x="{LEFT:g}" y="{y:g}" width="{WIDTH - LEFT - RIGHT:g}" '
            f'height="{LANE - 4:g}" rx="3"/>'
        )
        yield (
            f'<text class="name" x="{LEFT - 10:g}" y="{y + 18:g}" text-anchor="end">'
            f"{escape(device)}</text>"
        )


def _grid(axis: _Scale, height: float) -> Iterator[str]:
    step = nice_step(axis.length_s / TICKS)
    bottom = height - AXIS
    for number in range(int(axis.length_s / step) + 1):
        at_s = number * step
        x = axis.x(axis.start_s + at_s)
        yield f'<path class="grid" d="M{x:.1f} {TOP:g}V{bottom:g}"/>'
        yield (
            f'<text x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{_tick(at_s, step)}</text>'
        )


def _tick(at_s: float, step: float) -> str:
    decimals = max(0, -math.floor(math.log10(step)))
    return f"{at_s:.{decimals}f} s" if at_s else "0"


def nice_step(least: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)


def _end(axis: _Scale, phase: Phase, height: float) -> Iterator[str]:
    """Where the last result was in the client's hands."""
    x = axis.x(phase.end_s)
    yield f'<path class="end" d="M{x:.1f} {TOP - 6:g}V{height - AXIS + 4:g}"/>'
    yield (
        f'<text x="{x:.1f}" y="{height - 4:g}" text-anchor="end">all results after '
        f"{show_seconds(phase.length_s)}</text>"
    )


def _bar(span: Span, axis: _Scale, y: float, items: int) -> Iterator[str]:
    left = axis.x(span.start_s)
    width = max(LEAST_BAR, axis.x(span.end_s) - left)
    title = f"<title>{escape(_told(span, axis))}</title>"
    where = f'x="{left:.2f}" width="{width:.2f}"'
    if span.kind != "compute" or span.item is None:
        top = y + BAR + 3
        yield f'<rect class="{span.kind}" {where} y="{top:g}" height="{STRIP:g}">{title}</rect>'
        return
    # A hair less than its time, so that tasks without a pause between can be told apart.
    where = f'x="{left:.2f}" width="{max(LEAST_BAR, width - 0.5):.2f}"'
    yield (
        f'<rect class="task" data-item="{span.item}" {where} y="{y + 1:g}" height="{BAR:g}" '
        f'rx="1.5" fill="{item_colour(span.item, items)}">{title}</rect>'
    )
    if width > DIGIT * len(str(span.item)) + 3:
        yield (
            f'<text class="digit" x="{left + width / 2:.2f}" y="{y + 14.5:g}" '
            f'text-anchor="middle">{span.item}</text>'
        )


def _told(span: Span, axis: _Scale) -> str:
    """What hovering says."""
    segments = (
        f"segment {span.first}" if span.first == span.last else f"segments {span.first}–{span.last}"
    )
    what = f"item {span.item}, {segments}" if span.kind == "compute" else f"{span.kind} {segments}"
    note = f", {span.note}" if span.note else ""
    return (
        f"{span.device}: {what}{note}\nfrom {span.start_s - axis.start_s:.3f} s, "
        f"took {show_seconds(span.end_s - span.start_s)}"
    )
