"""COPY (SUBSCRIBE view): each epoch once, and a subscriber that does not read costs the others nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.generators.epochs_lab import EpochsLab
from tests.generators.postgres_lab import Client, PostgresLab, fields_of, query

QUEUE_KILOBYTES = 16


@pytest.fixture
def epochs(tmp_path: Path) -> EpochsLab:
    return EpochsLab(tmp_path, queue_kilobytes=QUEUE_KILOBYTES)


@pytest.fixture
def lab(epochs: EpochsLab) -> PostgresLab:
    return PostgresLab(hub=epochs.hub)


def subscriber(lab: PostgresLab, sql: str = "COPY (SUBSCRIBE one) TO STDOUT") -> Client:
    client = lab.session()
    client.protocol.dataReceived(query(sql))
    return client


def rows(client: Client) -> list[tuple[int, ...]]:
    """Epoch, weight and value of the rows that have arrived."""
    lines = b"".join(content for code, content in client.read() if code == "d").decode().splitlines()
    return [tuple(int(field) for field in line.split("\t")) for line in lines]


def total(changes: list[tuple[int, ...]]) -> dict[int, int]:
    """Value → the sum of its weights, zeros left out."""
    weights: dict[int, int] = {}
    for _, weight, value in changes:
        weights[value] = weights.get(value, 0) + weight
    return {value: weight for value, weight in weights.items() if weight}


def test_changes_follow_the_rows_epoch_by_epoch(epochs: EpochsLab, lab: PostgresLab) -> None:
    epochs.epoch_of("one", 1, 2)
    client = subscriber(lab)
    epochs.epoch_of("one", 3)
    epochs.epoch_of("one", -1)
    assert rows(client) == [(1, 1, 1), (1, 1, 2), (2, 1, 3), (3, -1, 1)]
    later = subscriber(lab, "COPY (SUBSCRIBE one AS OF 1) TO STDOUT")
    assert total(rows(later)) == {3: 1, 1: -1}


def test_a_subscriber_that_does_not_read_gets_the_sum_later(epochs: EpochsLab, lab: PostgresLab) -> None:
    """While it is paused nothing is written to it, and no more is queued than the view's queue holds."""
    idle, reader = subscriber(lab), subscriber(lab)
    seen = rows(idle)
    assert rows(reader) == []
    epochs.reads_at_once = False
    idle.transport.producer.pauseProducing()
    queued = []
    for value in range(1, 201):
        epochs.epoch_of("one", value)
        queued.append(epochs.hub.committed.stream("one").kept if epochs.hub.committed else 0)
        assert rows(reader) == [(value, 1, value)]
    assert max(queued) <= QUEUE_KILOBYTES * 1024 // 4096
    assert idle.transport.value() == b""
    idle.transport.producer.resumeProducing()
    while epochs.reads:
        epochs.read()
    seen += rows(idle)
    assert len({epoch for epoch, *_ in seen}) < 5
    assert seen[-1][0] == 200
    assert total(seen) == dict.fromkeys(range(1, 201), 1)
    epochs.epoch_of("one", 500)
    assert rows(idle) == [(201, 1, 500)]


def test_a_subscriber_that_never_reads_is_disconnected(epochs: EpochsLab, lab: PostgresLab) -> None:
    idle, reader = subscriber(lab), subscriber(lab)
    idle.read()
    idle.transport.producer.pauseProducing()
    lab.clock.advance(lab.factory.limits.stalled_s - 1)
    assert not idle.transport.is_aborted
    lab.clock.advance(1)
    assert idle.transport.is_aborted
    idle.lose()
    lab.clock.advance(0)
    assert lab.factory.counts.subscribers == 1
    epochs.epoch_of("one", 1)
    assert epochs.hub.committed is not None
    assert epochs.hub.committed.stream("one").kept == 0
    assert rows(reader) == [(1, 1, 1)]


def test_a_client_that_reads_in_time_is_not_disconnected(epochs: EpochsLab, lab: PostgresLab) -> None:
    client = subscriber(lab)
    client.read()
    for _ in range(3):
        client.transport.producer.pauseProducing()
        lab.clock.advance(lab.factory.limits.stalled_s - 1)
        client.transport.producer.resumeProducing()
    assert not client.transport.is_aborted


def test_epochs_that_are_retired_end_the_copy(lab: PostgresLab) -> None:
    client = subscriber(lab, "COPY (SUBSCRIBE one AS OF 77) TO STDOUT")
    (error,) = [fields_of(content) for code, content in client.read() if code == "E"]
    assert error["C"] == "55000"
    assert "without AS OF" in error["H"]
    assert client.rows("SELECT 1") == [["1"]]


def test_a_cancelled_copy_ends_and_the_session_continues(epochs: EpochsLab, lab: PostgresLab) -> None:
    client = subscriber(lab)
    client.read()
    ((_, session),) = lab.factory.sessions.values()
    session.cancel("asked to")
    (error,) = [fields_of(content) for code, content in client.read() if code == "E"]
    assert error["C"] == "57014"
    lab.clock.advance(0)
    epochs.epoch_of("one", 1)
    assert rows(client) == []
    assert client.rows("SELECT 1") == [["1"]]


def test_progress_reports_epochs_without_a_change(epochs: EpochsLab, lab: PostgresLab) -> None:
    client = subscriber(lab, "COPY (SUBSCRIBE one) TO STDOUT (FORMAT csv, PROGRESS)")
    client.read()
    epochs.close()
    epochs.commit()
    epochs.hub.heartbeat()
    assert [content for code, content in client.read() if code == "d"] == [b"1,0,\n"]


def test_an_unknown_view_is_refused_at_its_place(lab: PostgresLab) -> None:
    error = lab.session().error(query("COPY (SUBSCRIBE nothing) TO STDOUT"))
    assert (error["C"], error["P"]) == ("42P01", "17")
