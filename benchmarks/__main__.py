"""`python -m benchmarks`: measures what the project promises, and says where it does not hold.

python -m benchmarks --quick
python -m benchmarks --only throughput,latency --json figures.json --pictures pictures
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.bench import CACHE, Bench, Options, Outcome
from benchmarks.earlier import earlier_run
from benchmarks.machine import machine
from benchmarks.report import Report
from benchmarks.row import Row
from benchmarks.table import table
from benchmarks.work import BUILT, work_of
from crowdpipe.serving.signals import Interrupted, ending_signals_raise
from wire.errors import CrowdpipeError, UserError

SUBJECTS = (
    "memory",
    "loading",
    "pipeline",
    "throughput",
    "latency",
    "hop",
    "small",
    "idle",
    "planner",
    "growth",
    "energy",
    "faults",
    "hostile",
)
WRONG_REQUEST = 2
WIDE = 150  # characters of a line in a file


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    console = Console(stderr=True, highlight=False)
    try:
        with ending_signals_raise():
            return _run(asked, console)
    except Interrupted as ended:
        console.print(f"{ended}; everything that was started is ended.")
        return ended.exit_code
    except UserError as error:
        console.print(f"error: {error}")
        return WRONG_REQUEST


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="NAME,…", help=f"some of {', '.join(SUBJECTS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; every row all the same")
    parser.add_argument("--trials", type=int, default=0, metavar="N", help="of the subject faults")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write pictures here")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="write the results as a page")
    parser.add_argument(
        "--with",
        dest="earlier",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.json",
        help="show in the page what another run measured, of subjects that this one leaves out",
    )
    parser.add_argument(
        "--model", default="standin", help=f"{', '.join(sorted(BUILT))}, or a file of your own"
    )
    parser.add_argument(
        "--cells", metavar="VALUE,…", help="values after which cells of your own model end"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="FOLDER")
    return parser


def chosen(only: str | None) -> tuple[str, ...]:
    """The subjects asked for, in the order in which they run; `UserError` for unknown names."""
    if only is None:
        return SUBJECTS
    names = set(_named(only))
    unknown = sorted(names - set(SUBJECTS))
    if unknown or not names:
        raise UserError(f"--only takes some of {', '.join(SUBJECTS)}, not {only!r}")
    return tuple(name for name in SUBJECTS if name in names)


def _named(text: str | None) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _run(asked: argparse.Namespace, console: Console) -> int:
    names = chosen(asked.only)
    for target in (asked.json, asked.pictures, asked.page):
        if target is not None and not target.absolute().parent.is_dir():
            raise UserError(f"there is no folder {target.absolute().parent} to write into")
    work = work_of(asked.model, asked.cache, console.print, _named(asked.cells))
    earlier = tuple(map(earlier_run, asked.earlier))
    report = Report(machine(), work.name, asked.quick, SUBJECTS, earlier)
    try:
        with Bench(
            work, Options(asked.quick, asked.trials, cache=asked.cache), console.print
        ) as bench:
            for name in names:
                report.add(name, _measure(name, bench))
                report.write(asked.json, asked.pictures, asked.page)
    finally:  # whoever ends it early keeps what was measured
        _show(report.rows)
    return 0


def _show(rows: Sequence[Row]) -> None:
    output = Console(highlight=False)
    if not output.is_terminal:
        output = Console(highlight=False, width=WIDE)
    if rows:
        output.print(table(rows))


def _measure(name: str, bench: Bench) -> Outcome:
    """One subject. What fails is told as a row, so that the others are still measured."""
    begun = time.monotonic()
    bench.say(f"{name} …")
    subject = importlib.import_module(f"benchmarks.subjects.{name}")
    try:
        outcome: Outcome = subject.run(bench)
    except CrowdpipeError as error:
        bench.say(f"{name} failed: {error}")
        outcome = Outcome([Row(name, "could not be measured", None, "", note=f"failed: {error}")])
    bench.say(f"{name} took {time.monotonic() - begun:.0f} s")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
