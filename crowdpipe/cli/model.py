"""`crowdpipe model add|check|list|show|remove`: what the store has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdpipe.cli.model_check import check
from crowdpipe.cli.options import Home, Json, desk_home_of, example

if TYPE_CHECKING:
    from orchestrator.segmentation.checking.comparing import ModelComparison
    from wire.manifest import Manifest, TensorSpec

Name = Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")]


def build() -> typer.Typer:
    group = typer.Typer(
        name="model",
        rich_markup_mode=None,
        no_args_is_help=True,
        help="Add, check, list, show and remove models.",
        epilog=example("crowdpipe model add minilm.onnx --name minilm", "crowdpipe model list"),
    )
    group.command(
        "add",
        epilog=example(
            "crowdpipe model add minilm.onnx --name minilm --max-shape batch=1,sequence=128"
        ),
    )(add)
    group.command("check", epilog=example("crowdpipe model check minilm.onnx --segments 8"))(check)
    group.command("list", epilog=example("crowdpipe model list"))(show_all)
    group.command("show", epilog=example("crowdpipe model show minilm"))(show)
    group.command("remove", epilog=example("crowdpipe model remove minilm"))(remove)
    return group


def add(
    file: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file, a folder, or hf://org/name[/path].")
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="1 to 32 of a-z, 0-9 and '-'.")],
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
        typer.Option(
            metavar="FILE.npz", help="Real inputs to compare on, as for run.  [default: made up]"
        ),
    ] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Serve it without comparing it with the whole.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace the model of that name; its runs end then."),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Cut a model into segments, compare them with the whole, and store them.

    The file itself is not changed.
    """
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.cli.progress import BytesProgress
    from crowdpipe.cli.quantities import counted, parse_nbytes, parse_shape, show_nbytes
    from crowdpipe.serving.announced import await_announced
    from crowdpipe.serving.model_files import find_model
    from crowdpipe.serving.model_work import AddModel
    from crowdpipe.serving.models import CutWishes
    from crowdpipe.serving.stores import open_store
    from crowdpipe.serving.worker_process import add_apart

    wishes = CutWishes(
        parse_nbytes(max_segment) if max_segment else None, segments, parse_shape(max_shape)
    )
    folder = desk_home_of(home)
    path = find_model(file)
    with open_store(folder) as store, BytesProgress(f"adding {name}") as progress:
        named = None if inputs is None else str(inputs)
        job = AddModel(str(folder), str(path), name, wishes, named, unchecked, replace)
        found = add_apart(job, progress)
    manifest = found.manifest
    await_announced(folder, name, manifest.digest)
    if as_json:
        print_json({**_summary(manifest), "compared": _compared_plain(found, unchecked)})
        return
    say(
        f"{name}: {counted(len(manifest.segments), 'segment')}, {show_nbytes(manifest.nbytes)}, "
        f"now in {store.where}"
    )
    say(_compared(found, unchecked))
    for note in manifest.notes:
        say(f"note: {note}")


def _compared(found: ModelComparison, skipped: bool) -> str:
    """What was found out before it is served, in a sentence."""
    if skipped:
        return "Not compared with the whole model, as you asked."
    if not found.reproducible:
        return "Runs; not compared, since it gives something else each time."
    same = "Compared: the same bits as the whole model, with graph optimisation off"
    if found.difference == 0.0:
        return f"{same} and on."
    return f"{same}; off by {found.difference:.1e} with it on (limit {found.limit:.1e})."


def _compared_plain(found: ModelComparison, skipped: bool) -> dict[str, Any] | None:
    """JSON has no infinity: a difference of None says that no number tells it."""
    if skipped or not found.reproducible:
        return None
    finite = found.difference < float("inf")
    return {"difference": found.difference if finite else None, "limit": found.limit}


def show_all(home: Home = None, as_json: Json = False) -> None:
    """All models in the store."""
    from crowdpipe.cli.console import out, print_json, say
    from crowdpipe.cli.quantities import show_nbytes
    from crowdpipe.cli.tables import plain_table
    from crowdpipe.serving.stores import open_store

    with open_store(desk_home_of(home)) as store:
        found = [store.get(name) for name in store.manifests.names()]
    if as_json:
        print_json([_summary(manifest) for manifest in found])
        return
    if not found:
        say("No model has been added yet. Add one: crowdpipe model add FILE.onnx --name NAME")
        return
    table = plain_table("model", ">size", ">segments", "~inputs", "~outputs", ">digest")
    for manifest in found:
        table.add_row(
            manifest.name,
            show_nbytes(manifest.nbytes),
            str(len(manifest.segments)),
            ", ".join(map(_tensor, manifest.inputs)),
            ", ".join(map(_tensor, manifest.outputs)),
            manifest.digest[:12],
        )
    out().print(table)


def show(name: Name, home: Home = None, as_json: Json = False) -> None:
    """One model: inputs, outputs and every segment."""
    from crowdpipe.cli.console import out, print_json
    from crowdpipe.cli.excerpts import show_text
    from crowdpipe.cli.quantities import show_count, show_nbytes, show_seconds
    from crowdpipe.cli.tables import plain_table
    from crowdpipe.serving.announced import segment_times
    from crowdpipe.serving.stores import open_store
    from wire.memory import resident_need

    with open_store(desk_home_of(home)) as store:
        manifest = store.get(name)
    took = segment_times(desk_home_of(home), manifest)
    if as_json:
        from wire.record import to_plain

        print_json({**to_plain(manifest), "segment_s": took})
        return
    console = out()
    console.print(f"{name}: {show_nbytes(manifest.nbytes)}")
    console.print(f"digest   {manifest.digest}")
    console.print("inputs   " + ", ".join(map(_tensor, manifest.inputs)))
    console.print("outputs  " + ", ".join(map(_tensor, manifest.outputs)))
    bounds = ", ".join(f"{symbol} ≤ {bound}" for symbol, bound in manifest.symbols.items())
    if bounds:
        console.print(f"bounds   {bounds}")
    console.print(f"loaded   {show_nbytes(resident_need(manifest.segments))} if all on one device")
    for key, text in manifest.metadata.custom.items():
        console.print(f"metadata {show_text(key)}: {show_text(text)}")
    for note in manifest.notes:
        console.print(f"note     {note}")
    table = plain_table(
        ">segment", ">weights", ">activations", ">crosses cut before", ">cost", "~operators"
    )
    for segment, seconds in zip(manifest.segments, took, strict=True):
        table.add_row(
            str(segment.index),
            show_nbytes(segment.weight_nbytes),
            show_nbytes(segment.peak_activation_nbytes),
            show_nbytes(manifest.cuts[segment.index].bound_nbytes),
            f"≈ {show_count(segment.cost)}" if seconds is None else show_seconds(seconds),
            ", ".join(segment.operators),
        )
    console.print(table)
    console.print("cost: measured on devices in seconds, or else estimated (≈) in multiply-adds")


def remove(name: Name, home: Home = None) -> None:
    """Remove a model and the weights that only it uses. Its runs end with an error."""
    from crowdpipe.cli.console import say
    from crowdpipe.serving.announced import await_announced
    from crowdpipe.serving.stores import open_store
    from model_store.manifests import unknown

    with open_store(desk_home_of(home)) as store:
        if not store.manifests.remove(name):
            raise unknown(name)
    await_announced(desk_home_of(home), name, None)
    say(f"{name} is removed.")


def _summary(manifest: Manifest) -> dict[str, Any]:
    from wire.messages.model import summary_of
    from wire.record import to_plain

    plain: dict[str, Any] = to_plain(summary_of(manifest))
    return plain


def _tensor(spec: TensorSpec) -> str:
    shape = ", ".join(spec.dims) if spec.rank_known else "?"
    return f"{spec.name}: {spec.kind.name.lower()}[{shape}]"
