"""Who computed which item when, as a self-contained SVG: the demonstration's panels, one below the
other to one scale."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from crowdpipe.demo.timeline import AXIS, LANE, TOP, WIDTH, Phase, panel

HEAD = 24.0
GAP = 10.0
STYLE = """
text { fill: #5c6670; font: 12px system-ui, sans-serif; }
.title { font-size: 15px; font-weight: 600; fill: #1d2126; }
text.name { fill: #1d2126; font-size: 13px; } text.digit { fill: #14171a; font-size: 10.5px; }
.page { fill: #ffffff; } .lane { fill: #f3f5f7; } .grid { stroke: #d5dade; }
.end { stroke: #5c6670; stroke-dasharray: 4 3; } .load { fill: #8a939c; }
.evict { fill: none; stroke: #8a939c; } .fetch { fill: #3f7fbf; }
@media (prefers-color-scheme: dark) {
  text { fill: #9aa4ae; } .title, text.name { fill: #e6e9ec; } .page { fill: #15181c; }
  .lane { fill: #20252a; } .grid { stroke: #363c43; } .end { stroke: #9aa4ae; }
}
"""


def timeline_svg(phases: Sequence[Phase], devices: Sequence[str], items: int) -> str:
    """The whole file; `items` sets the colours."""
    scale_s = max(phase.length_s for phase in phases)
    lanes = TOP + LANE * len(devices) + AXIS
    height = (HEAD + lanes + GAP) * len(phases)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
        f'aria-label="{escape(", ".join(phase.title for phase in phases), quote=True)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH:g}" height="{height:g}"/>',
    ]
    for number, phase in enumerate(phases):
        y = (HEAD + lanes + GAP) * number
        parts.append(f'<text class="title" x="8" y="{y + 18:g}">{escape(phase.title)}</text>')
        drawn = panel(phase, devices, items, scale_s)
        place = f'<svg y="{y + HEAD:g}" width="{WIDTH:g}" height="{lanes:g}" '
        parts.append(drawn.replace("<svg ", place, 1))
    return "\n".join([*parts, "</svg>\n"])
