"""Colours of equal lightness around the hue circle, so that they read on white and on black.

OKLCH to sRGB after Björn Ottosson, "A perceptual color space for image processing" (2020).
"""

from __future__ import annotations

import math

LIGHTNESS = 0.68
CHROMA = 0.125
FIRST_HUE = 262.0  # blue
LAST_HUE = 20.0  # red: the items' colours run from blue over green and amber to red


def item_colour(item: int, count: int) -> str:
    """`#rrggbb` for one of `count` items; neighbours look alike, the ends do not."""
    share = item / max(1, count - 1)
    return oklch(LIGHTNESS, CHROMA, FIRST_HUE + (LAST_HUE - FIRST_HUE) * share)


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """Lightness 0 to 1, chroma 0 to about 0.3, hue in degrees; clipped to sRGB."""
    a = chroma * math.cos(math.radians(hue))
    b = chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    return "#" + "".join(f"{_byte(channel):02x}" for channel in linear)


def _byte(linear: float) -> int:
    """Linear light 0 to 1 as an sRGB byte (IEC 61966-2-1)."""
    clipped = min(1.0, max(0.0, linear))
    curved = 12.92 * clipped if clipped <= 0.0031308 else 1.055 * clipped ** (1 / 2.4) - 0.055
    return round(255 * curved)
