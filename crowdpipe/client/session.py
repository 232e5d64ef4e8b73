"""`Session`: a served model with the interface of `onnxruntime.InferenceSession`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, overload

from crowdpipe.client.arrays import Array
from crowdpipe.client.batch_size import BatchSize, batch_number
from crowdpipe.client.collection import Collection
from crowdpipe.client.line import Line, OnWait
from crowdpipe.client.signature import (
    Feeds,
    ModelMeta,
    NodeArg,
    model_meta,
    node_arg,
    output_names_of,
)
from crowdpipe.client.streaming import Order, Stream
from crowdpipe.home import broker_url
from wire.broker_url import BrokerUrl
from wire.errors import InvalidInput, NoOrchestrator, UnknownModel
from wire.messages.model import ModelSummary
from wire.messages.requests import RunOptions
from wire.transport import TRANSPORTS, Transport

TIMEOUT_S = 300.0
KEEP_S = 24 * 3600.0
ORCHESTRATOR_LIMIT_S = 5.0
MODEL_LIMIT_S = 3.0  # a model just added is announced within about a second
Outputs = list[Array]


class Session:
    """One served model.

    `broker` is an address such as `mqtt://name:secret@host`; without it, `CROWDPIPE_BROKER` or
    the one that `crowdpipe up` runs is used. `exact` asks for the whole model's results bit for
    bit. `transport` says how activations travel: `fp16` and `int8` lose precision. `partitions`
    and `policy` are the planner's choice unless given. `batch_size`: see `run_many`. `timeout_s` is
    the longest that `run` may take, and the longest that `run_many` may wait without any progress.
    `on_wait` is called, in a thread of the session's, with a sentence when something keeps a run
    from going on, such as no device being there, and with an empty text once it goes on. `on_news`
    is called likewise, with a sentence when something happened to a run: a device was lost, and its
    work went to another.

    Raises `BrokerUnreachable`, `Refused`, `NoOrchestrator`, `UnknownModel` (with the names there
    are). Safe to use from several threads. What stands for bfloat16, float8 and int4 in numpy:
    see `crowdpipe.client.arrays`.
    """

    def __init__(
        self,
        name: str,
        broker: str | BrokerUrl | None = None,
        *,
        exact: bool = False,
        transport: Transport = "auto",
        partitions: int | None = None,
        policy: str = "affinity",
        batch_size: BatchSize = 1,
        timeout_s: float = TIMEOUT_S,
        on_wait: OnWait | None = None,
        on_news: OnWait | None = None,
    ) -> None:
        if not (timeout_s > 0 and math.isfinite(timeout_s)):
            raise InvalidInput(f"timeout_s must be a positive number of seconds, not {timeout_s}")
        self._name = name
        self._timeout_s = timeout_s
        _check_transport(transport)
        self._options = RunOptions(
            exact=exact, transport=transport, partitions=partitions, policy=policy
        )
        self._options = self._options_of(False, None, batch_size)
        self._line = Line(broker_url(broker), on_wait=on_wait, on_news=on_news)
        self._line.open(min(timeout_s, 10.0))
        try:
            self._check_served()
            self._model()
        except BaseException:
            self._line.close()
            raise

    def _check_served(self) -> None:
        """`NoOrchestrator` unless one is online, or comes soon: it may just be starting."""
        line, limit_s = self._line, min(ORCHESTRATOR_LIMIT_S, self._timeout_s)
        line.wait_for(lambda: line.orchestrator_online or line.failure is not None, limit_s)
        if line.failure is not None:
            raise line.failure
        if not line.orchestrator_online:
            raise NoOrchestrator(
                f"no orchestrator is online at {line.broker.shown}: start one with `crowdpipe up`"
            )

    def get_inputs(self) -> list[NodeArg]:
        """What the model takes, in order."""
        return [node_arg(spec) for spec in self._model().inputs]

    def get_modelmeta(self) -> ModelMeta:
        """What the model's author wrote of it, such as the names of its classes."""
        return model_meta(self._model().metadata)

    def get_outputs(self) -> list[NodeArg]:
        """What the model gives, in order."""
        return [node_arg(spec) for spec in self._model().outputs]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Feeds, run_options: None = None
    ) -> Outputs:
        """The named outputs (all if None) for one input, as numpy arrays.

        Raises `InvalidInput` before anything is sent if names, types or shapes are not the
        model's; what the fleet fails with (`NoDevice`, `FleetTooSmall`, `ComputeFailed`, …); and
        `TimedOut` or `NoOrchestrator` when nobody answers in time; `Busy`, with the bound, if
        the orchestrator has no room for it until then.
        """
        if run_options is not None:
            raise InvalidInput("run options are ONNX Runtime's own and do not travel to devices")
        stream = self._stream([input_feed], output_names, 1, self._options, total=True)
        outputs: list[Outputs] = list(_outputs(stream))
        return outputs[0]

    @overload
    def run_many(
        self,
        feeds: Iterable[Feeds],
        *,
        output_names: Sequence[str] | None = None,
        ordered: Literal[True] = True,
        barrier: bool = False,
        transport: Transport | None = None,
        batch_size: BatchSize | None = None,
        count: int | None = None,
        return_errors: Literal[False] = False,
    ) -> Iterator[Outputs]: ...

    @overload
    def run_many(
        self,
        feeds: Iterable[Feeds],
        *,
        output_names: Sequence[str] | None = None,
        ordered: bool = True,
        barrier: bool = False,
        transport: Transport | None = None,
        batch_size: BatchSize | None = None,
        count: int | None = None,
        return_errors: bool = False,
    ) -> Iterator[Any]: ...

    def run_many(
        self,
        feeds: Iterable[Feeds],
        *,
        output_names: Sequence[str] | None = None,
        ordered: bool = True,
        barrier: bool = False,
        transport: Transport | None = None,
        batch_size: BatchSize | None = None,
        count: int | None = None,
        return_errors: bool = False,
    ) -> Iterator[Any]:
        """The outputs of many inputs, which are drawn from `feeds` as the fleet takes them.

        Yields lists of arrays in the order of the inputs, or, unless `ordered`, `(index, list)`
        as they are ready. An item's error is raised at its turn and ends the run; with
        `return_errors` it is yielded in the list's place. Memory is bounded: not more is drawn
        than can be in flight or wait for whoever reads. `barrier` has each partition wait until
        all outputs of the one before have arrived, which needs their number: if neither `count`
        nor the length of `feeds` tells it, `feeds` is read into a list first. `batch_size` lets
        devices compute so many waiting items in one call ("auto": as many as suit the model),
        which may change last bits. Leaving the loop early cancels what remains.
        """
        names = output_names_of(self._model(), output_names)  # now, not at the first `next`
        known = _count_of(feeds, count)
        if barrier and known is None:
            feeds = list(feeds)
            known = len(feeds)
        options = self._options_of(barrier, transport, batch_size)
        order: Order = "input" if ordered else "ready"
        stream = self._stream(feeds, names, known, options, order=order, go_on=return_errors)
        return _outputs(stream) if ordered else _numbered(stream)

    def submit(
        self,
        feeds: Iterable[Feeds],
        *,
        barrier: bool = False,
        transport: Transport | None = None,
        batch_size: BatchSize | None = None,
        count: int | None = None,
        keep_s: float = KEEP_S,
    ) -> str:
        """Submit a run that goes on without this session, and return its id once all inputs are
        with the orchestrator. Results are kept for `keep_s` after the last of them, for `collect`
        in this or any other session of yours.

        Raises as `run` does; nothing is left of the run then.
        """
        known = _count_of(feeds, count)
        if known is None:
            feeds = list(feeds)
            known = len(feeds)
        options = replace(
            self._options_of(barrier, transport, batch_size), detached=True, lifetime_s=keep_s
        )
        return self._stream(feeds, None, known, options).submit()

    def collect(self, run: str, *, output_names: Sequence[str] | None = None) -> Collection:
        """The results of a run of yours that `submit` or another session began:

            with session.collect(run) as results:
                for item, outputs in results:
                    ...

        gives each item that nobody had yet, as it comes, with its outputs or its error. What was
        given counts as had when the block ends; if that raises, all is kept for the next who
        collects. While another client reads the run, this waits. Raises `UnknownRun`, and
        `UserError` if this session reads the run already.
        """
        model = self._model()
        names = output_names_of(model, output_names)
        return Collection(self._line, run, model, names, self._timeout_s)

    def _options_of(
        self, barrier: bool, transport: Transport | None, batch_size: BatchSize | None
    ) -> RunOptions:
        usual = self._options
        _check_transport(transport or usual.transport)
        size = usual.batch_size if batch_size is None else batch_number(batch_size)
        if usual.exact and size != 1:
            raise InvalidInput(
                "an exact run computes each item alone: leave out batch_size, or exact"
            )
        return replace(
            usual, barrier=barrier, transport=transport or usual.transport, batch_size=size
        )

    def _stream(
        self,
        feeds: Iterable[Feeds],
        output_names: Sequence[str] | None,
        count: int | None,
        options: RunOptions,
        order: Order = "input",
        go_on: bool = False,
        total: bool = False,
    ) -> Stream:
        model = self._model()
        names = output_names_of(model, output_names)
        return Stream(
            self._line, model, options, feeds, names, count, self._timeout_s, order, go_on, total
        )

    def _model(self) -> ModelSummary:
        """What is known of the model now; it may have been replaced since the session began."""
        models = self._line.models
        limit_s = min(MODEL_LIMIT_S, self._timeout_s)
        self._line.wait_for(lambda: self._name in models or self._line.failure is not None, limit_s)
        if self._line.failure is not None:
            raise self._line.failure
        found = models.get(self._name)
        if found is None:
            listed = ", ".join(sorted(models)) or "none yet: add one with `crowdpipe model add`"
            raise UnknownModel(f"there is no model '{self._name}'; there is {listed}")
        return found

    def close(self) -> None:
        """Cancel what still runs and disconnect. May be called twice."""
        self._line.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crowdpipe.Session {self._name!r} at {self._line.broker.shown}>"


def _check_transport(transport: str) -> None:
    if transport not in TRANSPORTS:
        raise InvalidInput(f"transport {transport!r} is none of {', '.join(TRANSPORTS)}")


def _outputs(stream: Stream) -> Iterator[Any]:
    with closing(iter(stream)) as answers:  # whoever stops reading ends the run at once
        for answer in answers:
            yield answer.outputs


def _numbered(stream: Stream) -> Iterator[Any]:
    with closing(iter(stream)) as answers:
        for answer in answers:
            yield answer.index, answer.outputs


def _count_of(feeds: Iterable[Feeds], count: int | None) -> int | None:
    length = len(feeds) if isinstance(feeds, Sized) else None
    if count is None:
        return length
    if count < 0 or (length is not None and length != count):
        raise InvalidInput(f"count={count}, but there are {length} items in `feeds`")
    return count
