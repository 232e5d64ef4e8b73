"""`crowdpipe model check`: do a model's segments compute what the whole model does?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdpipe.cli.options import Home, Json, home_of

if TYPE_CHECKING:
    from orchestrator.segmentation.checking.check import CheckFigures, ItemFigures
    from wire.manifest import Batching, Manifest

DIFFERS_EXIT_CODE = 1


def check(
    file: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file, a folder, or hf://org/name[/path].")
    ],
    max_segment: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Most bytes of weights in one segment.  [default: 16MiB]"
        ),
    ] = None,
    segments: Annotated[
        int | None, typer.Option(metavar="N", help="Cut into exactly this many segments.")
    ] = None,
    max_shape: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=N,…",
            help="Largest sizes of symbolic dimensions.  [default: batch 1, others 512]",
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Real inputs, as for run.  [default: generated]"),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Cut a model, run its segments against the whole, and say how far apart they are.

    Exit code 0: bit for bit the same with graph optimisation off, and as close as ONNX Runtime
    is to itself with it on. 1: not so. 2: the model cannot be cut, and why.
    """
    from crowdpipe.cli.console import out, print_json
    from crowdpipe.serving.models import CutWishes
    from wire.errors import InvalidModel

    wishes = CutWishes(_nbytes(max_segment), segments, _shape(max_shape))
    try:
        figures = _figures(file, wishes, inputs)
    except InvalidModel as error:
        if as_json:
            print_json({"holds": False, "refused": error.reason})
        raise
    recorded = _record(home, figures)
    if as_json:
        print_json(_plain(figures, recorded))
    else:
        _print(out(), file, figures, recorded)
    if not (figures.exact_holds and figures.fast_holds):
        raise typer.Exit(DIFFERS_EXIT_CODE)


def _nbytes(text: str | None) -> int | None:
    from crowdpipe.cli.quantities import parse_nbytes

    return parse_nbytes(text) if text else None


def _shape(text: str | None) -> dict[str, int]:
    from crowdpipe.cli.quantities import parse_shape

    return parse_shape(text)


def _figures(given: str, wishes: Any, inputs: Path | None) -> CheckFigures:
    from crowdpipe.cli.progress import ItemsProgress
    from crowdpipe.serving.model_files import find_model
    from crowdpipe.serving.model_work import CheckModel
    from crowdpipe.serving.worker_process import check_apart

    path = find_model(given)
    with (
        tempfile.TemporaryDirectory(prefix="crowdpipe-check-") as folder,
        ItemsProgress("checking", None) as progress,
    ):
        named = None if inputs is None else str(inputs)
        return check_apart(CheckModel(str(path), folder, wishes, named), progress)


def _record(home: Path | None, figures: CheckFigures) -> list[str]:
    """Keeps what was measured with every stored model that is this one, cut like this."""
    from crowdpipe.serving.models import record_reference
    from crowdpipe.serving.stores import open_store

    folder = home_of(home)
    if not folder.exists():
        return []
    with open_store(folder) as store:
        return record_reference(store, figures.manifest)


def _print(console: Any, given: str, figures: CheckFigures, recorded: list[str]) -> None:
    from crowdpipe.cli.quantities import counted, show_nbytes

    manifest = figures.manifest
    segments = counted(len(manifest.segments), "segment")
    console.print(f"{given}: {segments}, {show_nbytes(manifest.nbytes)}")
    console.print(_segments_table(figures))
    console.print()
    console.print(_items_table(figures))
    console.print()
    for line in _verdicts(figures):
        console.print(line)
    for note in manifest.notes:
        console.print(f"note   {note}")
    if recorded:
        console.print(f"kept   the measured difference, with {', '.join(recorded)}")


def _segments_table(figures: CheckFigures) -> Any:
    from crowdpipe.cli.quantities import show_count, show_nbytes
    from crowdpipe.cli.tables import plain_table

    table = plain_table(
        ">segment", ">nodes", ">weights", ">activations", ">cost", ">crosses before", ">tensors"
    )
    manifest = figures.manifest
    for segment, nodes in zip(manifest.segments, figures.nodes, strict=True):
        cut = manifest.cuts[segment.index]
        table.add_row(
            str(segment.index),
            str(nodes),
            show_nbytes(segment.weight_nbytes),
            show_nbytes(segment.peak_activation_nbytes),
            show_count(segment.cost),
            show_nbytes(cut.bound_nbytes),
            str(len(cut.tensors)),
        )
    return table


def _items_table(figures: CheckFigures) -> Any:
    from crowdpipe.cli.tables import plain_table

    given = "made-up inputs" if figures.generated else "inputs"
    table = plain_table("exact", ">fast", f"~{given}")
    for item in figures.items:
        table.add_row(
            "same bits" if not item.differing else f"differs: {', '.join(item.differing)}",
            _difference(item),
            ", ".join(f"{name}{list(shape)}" for name, shape in item.shapes.items()),
        )
    return table


def _difference(item: ItemFigures) -> str:
    return f"{item.difference:.1e}" + (f" ({', '.join(item.beyond)})" if item.beyond else "")


def _verdicts(figures: CheckFigures) -> list[str]:
    exact = "every bit is the whole model's" if figures.exact_holds else "bits differ"
    fast = "within" if figures.fast_holds else "BEYOND"
    spread, limit = figures.reference.spread, figures.limit
    bound = f"{fast} the limit of {limit:.1e}" if limit else f"{fast} the limits"
    return [
        f"exact  {exact}, with graph optimisation off",
        f"fast   off by {figures.difference:.1e}, {bound}; "
        f"ONNX Runtime {figures.reference.runtime_version} itself varies by {spread:.1e}",
        f"batch  {_batching(figures.manifest, figures.reference.batching, limit)}",
    ]


def _batching(manifest: Manifest, found: Batching | None, limit: float) -> str:
    from crowdpipe.cli.quantities import counted

    if found is None or not found.cuts:
        return f"each item alone: {found.refused if found else 'not looked at'}"
    return (
        f"items together are off by {found.difference:.1e} from the same alone, "
        f"within the limit of {limit:.1e}: run --batch-size may be up to "
        f"{manifest.symbols[found.symbol]} (axis {found.symbol!r}, "
        f"{counted(len(found.cuts), 'cut')})"
    )


def _plain(figures: CheckFigures, recorded: list[str]) -> dict[str, Any]:
    from wire.record import to_plain

    manifest = figures.manifest
    return {
        "holds": figures.exact_holds and figures.fast_holds,
        "exact": figures.exact_holds,
        "fast": figures.fast_holds,
        "difference": _number(figures.difference),
        "limit": figures.limit,
        "reference": to_plain(figures.reference),
        "recorded": recorded,
        "generated": figures.generated,
        "items": [_item_plain(item) for item in figures.items],
        "segments": [
            {
                "index": segment.index,
                "nodes": nodes,
                "weight_nbytes": segment.weight_nbytes,
                "graph_nbytes": segment.graph_nbytes,
                "peak_activation_nbytes": segment.peak_activation_nbytes,
                "cost": segment.cost,
                "boundary_nbytes": manifest.cuts[segment.index].bound_nbytes,
                "boundary": list(manifest.cuts[segment.index].names),
                "operators": list(segment.operators),
            }
            for segment, nodes in zip(manifest.segments, figures.nodes, strict=True)
        ],
        "notes": list(manifest.notes),
    }


def _item_plain(item: ItemFigures) -> dict[str, Any]:
    return {
        "shapes": {name: list(shape) for name, shape in item.shapes.items()},
        "differing": list(item.differing),
        "difference": _number(item.difference),
        "beyond": list(item.beyond),
    }


def _number(value: float) -> float | None:
    """JSON has no infinity: None says that outputs cannot be compared by a number."""
    return value if value < float("inf") else None
