"""Writes the table of what is served and refused into docs/models.md, from the tests' models.

    python -m tests.support.model_table

Between two marks in that file; the rest of it is written by hand.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.backend_cases import BackendCase, try_everywhere
from tests.support.constructs import SERVED, Served
from tests.support.refused_models import REFUSED, RefusedModel
from wire.errors import InvalidModel

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
BEGIN = "<!-- begin: written by tests/support/model_table.py -->"
END = "<!-- end -->"


def table() -> str:
    """Both tables as Markdown. Every row was run to be written."""
    lines = ["| served exactly | ways to cut that were tried |", "|---|---|"]
    lines += [f"| {one.what} | {_ways(one)} |" for one in SERVED]
    lines += ["", "| refused before anything starts | what is said |", "|---|---|"]
    lines += [f"| {one.what} | {_reason(one)} |" for one in REFUSED]
    return "\n".join(lines)


def _ways(construct: Served) -> int:
    outcome = try_everywhere(BackendCase(construct.what, construct.make(), construct.feeds()))
    if outcome.verdict != "exact":
        raise AssertionError(f"{construct.what}: {outcome}")
    return outcome.ways


def _reason(construct: RefusedModel) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = construct.write(Path(folder))
        try:
            segment(path, "test", FolderSink(Path(folder) / "blobs"))
        except InvalidModel as error:
            return _one_line(str(error))
    raise AssertionError(f"{construct.what} was not refused")


def _one_line(text: str) -> str:
    """Short, and without what depends on the runtime that happens to be installed."""
    short = re.sub(r"ONNX Runtime \d\S*", "ONNX Runtime", " ".join(text.split()))
    short = re.sub(r"(takes is|export it with opset) \d+", r"\1 N", short)
    return (short if len(short) < 170 else short[:167] + "…").replace("|", "\\|")


def rewritten(page: str) -> str:
    """The page with the tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    """Rewrite the page; says whether it changed."""
    page = PAGE.read_text()
    now = rewritten(page)
    PAGE.write_text(now)
    print("unchanged" if now == page else f"{PAGE.name} is rewritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
