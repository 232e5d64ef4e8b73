"""What a person reads when something is not as it must be."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import crowdpipe
from broker_config.port import free_port
from crowdpipe.errors import (
    BrokerUnreachable,
    InvalidInput,
    InvalidUrl,
    NoDevice,
    NoOrchestrator,
    Refused,
    StoreUnreachable,
    UnknownModel,
    UserError,
)
from tests.support.broker import BrokerUnderTest
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import QUICK, System
from tests.support.served import MODEL, Served, feeds_of, served


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A served model without any device: what is asked fails before one is needed."""
    with served(tmp_path_factory.mktemp("desk"), agents=0) as running:
        yield running


@pytest.fixture(scope="module")
def session(desk: Served) -> Iterator[crowdpipe.Session]:
    with crowdpipe.Session(MODEL, desk.broker, timeout_s=60) as session:
        yield session


@pytest.mark.parametrize(
    ("feeds", "sentence"),
    [
        ({}, r"input 'x' is missing.*x: tensor\(float\) \[batch, 24\]"),
        ({"z": 1}, "input 'x' is missing"),
        ({"x": np.zeros((1, WIDTH), np.float32), "z": 1}, "no input 'z'"),
        ({"x": np.zeros((1, WIDTH))}, r"float64.*tensor\(float\)"),
        ({"x": np.zeros(WIDTH, np.float32)}, "2 dimensions are needed, not 1"),
        ({"x": np.zeros((1, 7), np.float32)}, "7 is given where 24 is needed"),
        ({"x": np.zeros((5, WIDTH), np.float32)}, "'batch' may be at most 4"),
        ([1], "must be a dict"),
    ],
)
def test_feeds_that_do_not_fit_are_refused_here(
    session: crowdpipe.Session, feeds: dict[str, np.ndarray], sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        session.run(None, feeds)


def test_a_transport_that_there_is_not_is_refused_at_once(
    desk: Served, session: crowdpipe.Session
) -> None:
    with pytest.raises(InvalidInput, match="none of auto, zlib"):
        crowdpipe.Session(MODEL, desk.broker, transport="zip")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidInput, match="none of auto, zlib"):
        session.run_many(feeds_of(1), transport="zip")  # type: ignore[arg-type]  # on purpose


def test_an_output_that_there_is_not_is_refused(session: crowdpipe.Session) -> None:
    with pytest.raises(InvalidInput, match="no output 'z'; it has y"):
        session.run(["z"], feeds_of(1)[0])


def test_a_model_that_there_is_not_is_told_with_those_there_are(desk: Served) -> None:
    with pytest.raises(UnknownModel, match="no model 'bert'; there is mlp"):
        crowdpipe.Session("bert", desk.broker)


def test_a_plan_of_no_model_is_the_same_error(desk: Served) -> None:
    with pytest.raises(UnknownModel, match="no model 'bert'"):
        crowdpipe.plan("bert", desk.broker)


def test_a_plan_without_devices_says_so(desk: Served) -> None:
    with pytest.raises(NoDevice):
        crowdpipe.plan(MODEL, desk.broker)


def test_a_closed_session_says_so(desk: Served) -> None:
    session = crowdpipe.Session(MODEL, desk.broker)
    session.close()
    session.close()
    with pytest.raises(UserError, match="closed"):
        session.run(None, feeds_of(1)[0])


def test_a_broker_that_is_not_there_is_told_with_what_to_start() -> None:
    port = free_port("127.0.0.1")
    url = f"mqtt://client:secret@127.0.0.1:{port}"
    with pytest.raises(BrokerUnreachable, match="crowdpipe up") as told:
        crowdpipe.Session(MODEL, url)
    assert "secret" not in str(told.value)
    for look in (crowdpipe.models, crowdpipe.devices):
        with pytest.raises(BrokerUnreachable, match="crowdpipe up"):
            look(url)


def test_an_address_that_is_none_is_told() -> None:
    with pytest.raises(InvalidUrl, match="mqtt://"):
        crowdpipe.Session(MODEL, "127.0.0.1:1883")


def test_a_wrong_secret_is_told(desk: Served) -> None:
    url = desk.system.broker.url.login("client", "wrong")
    with pytest.raises(Refused, match="secret"):
        crowdpipe.Session(MODEL, str(url))


def test_a_user_who_may_not_ask_is_told(desk: Served) -> None:
    """A watcher sees the model and may not submit."""
    watcher = str(desk.system.broker.watcher)
    with (
        crowdpipe.Session(MODEL, watcher, timeout_s=20) as session,
        pytest.raises(Refused, match="access list"),
    ):
        session.run(None, feeds_of(1)[0])


def test_a_broker_without_any_orchestrator_is_told(fresh_mosquitto: BrokerUnderTest) -> None:
    with pytest.raises(NoOrchestrator, match="crowdpipe up"):
        crowdpipe.Session(MODEL, str(fresh_mosquitto.client))
    with pytest.raises(NoOrchestrator, match="crowdpipe up"):
        crowdpipe.plan(MODEL, str(fresh_mosquitto.client))


def test_an_orchestrator_that_has_stopped_is_told(system: System) -> None:
    system.add(mlp(3), MODEL, max_shape={"batch": 4})
    orchestrator = system.start()
    broker = str(system.broker.client)
    with crowdpipe.Session(MODEL, broker, timeout_s=30) as session:
        orchestrator.stop()
        with pytest.raises(NoOrchestrator, match="offline"):
            session.run(None, feeds_of(1)[0])
    with pytest.raises(NoOrchestrator, match="crowdpipe up"):
        crowdpipe.Session(MODEL, broker)


def test_a_fleet_without_devices_is_told(system: System) -> None:
    system.add(mlp(3), MODEL, max_shape={"batch": 4})
    system.start(options=replace(QUICK, no_device_s=1.0))
    with (
        crowdpipe.Session(MODEL, str(system.broker.client), timeout_s=30) as session,
        pytest.raises(NoDevice),
    ):
        session.run(None, feeds_of(1)[0])


def test_a_limit_that_passes_without_a_device_names_what_was_waited_for(desk: Served) -> None:
    told: list[str] = []
    with (
        crowdpipe.Session(MODEL, desk.broker, timeout_s=6, on_wait=told.append) as session,
        pytest.raises(NoDevice, match=r"waited 6 s for run .*no device is online"),
    ):
        session.run(None, feeds_of(1)[0])
    assert len(told) == 1
    assert "no device is online" in told[0]


def test_a_store_that_takes_connections_and_never_answers_is_told_as_what_is_waited_for(
    system: System,
) -> None:
    system.add(mlp(3), MODEL, max_shape={"batch": 4})
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        system.start(store_base=base)
        system.agent()
        broker = str(system.broker.client)
        with (
            crowdpipe.Session(MODEL, broker, timeout_s=25, on_wait=told.append) as session,
            pytest.raises(StoreUnreachable, match=rf"look whether the store runs.*{base}"),
        ):
            session.run(None, feeds_of(1)[0])
    assert any("model store" in each for each in told)
