"""An item's error as it is told: it says once which item it is about, if there are several.

Some errors name their item already, since they travel alone; others do not.
"""

from __future__ import annotations

import re

from wire.errors import CrowdpipeError


def of_item(error: CrowdpipeError, item: int, count: int) -> CrowdpipeError:
    """`error` of one of `count` items, its sentence beginning with the item where `count` > 1."""
    text = str(error)
    named = re.match(rf"item {item}(: |\b)", text)
    if count > 1:
        return error if named else type(error)(f"item {item}: {text}")
    if named and named.group(1):
        return type(error)(text[named.end() :])
    return error
