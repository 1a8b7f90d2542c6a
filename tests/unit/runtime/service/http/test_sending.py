# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Long answers: made as they are taken, bounded together, and given up with a client that takes nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.epochs import Footer
from runtime.service.http import SiteLimits
from runtime.service.results.hub import Hub
from tests.generators.results_lab import ResultsLab, parsed

ROWS = 40_000
GET = b"GET /v1/views/numbers HTTP/1.1\r\nHost: localhost\r\n"
ARROW = b"Accept: application/vnd.apache.arrow.stream\r\n"
PROGRAM = compile_program([NamedSelect("numbers", "SELECT a FROM r")], [Relation("r", (Column("a", "int64"),))])


@pytest.fixture(scope="module")
def hub() -> Hub:
    found = Hub(PROGRAM, lambda: 5)
    rows = pa.table({"a": pa.array(range(ROWS), pa.int64()), "weight": pa.array([1] * ROWS, pa.int64())})
    found.publish(Footer(0, 1), {"numbers": rows}, {})
    return found


class Narrow:
    """A client that takes an answer piece by piece; each is a write of the site's."""

    def __init__(self, lab: ResultsLab) -> None:
        self.protocol, self.transport = lab.connect()
        self.pieces = 0
        write, write_sequence = self.transport.write, self.transport.writeSequence

        def full() -> None:
            self.pieces += 1
            if self.transport.producer is not None:
                self.transport.producer.pauseProducing()

        def written(data: bytes) -> None:
            write(data)
            full()

        def all_written(data: Any) -> None:
            write_sequence(data)
            full()

        self.transport.write, self.transport.writeSequence = written, all_written

    def ask(self, headers: bytes = b"", times: int = 1) -> None:
        self.protocol.dataReceived((GET + headers + b"\r\n") * times)

    def take(self) -> None:
        """Room for one more piece."""
        self.transport.producer.resumeProducing()

    def take_all(self) -> bytes:
        while self.transport.producer is not None and not self.transport.value().endswith(b"0\r\n\r\n"):
            self.take()
        return bytes(self.transport.value())


def test_an_arrow_answer_is_made_no_faster_than_it_is_taken(hub: Hub) -> None:
    lab = ResultsLab(hub)
    client = Narrow(lab)
    client.ask(ARROW)
    before = len(client.transport.value())
    assert before < 10_000
    assert lab.site.figures().held_bytes == ROWS * 16
    client.take()
    assert 100_000 < len(client.transport.value()) < 200_000
    assert parsed(client.take_all()).arrow()["a"].to_pylist() == list(range(ROWS))
    assert lab.site.figures().held_bytes == 0


def test_a_client_that_takes_nothing_gets_no_second_answer(hub: Hub) -> None:
    lab = ResultsLab(hub)
    client = Narrow(lab)
    client.ask(times=50)
    assert len(client.transport.value()) < 200_000
    assert lab.site.figures().held_bytes < 1_000_000
    client.protocol.connectionLost(Failure(ConnectionLost()))
    assert lab.site.figures().held_bytes == 0


def test_a_long_json_answer_says_its_length_and_comes_whole(hub: Hub) -> None:
    client = Narrow(ResultsLab(hub))
    client.protocol.dataReceived(GET + b"Connection: close\r\n\r\n")
    while client.transport.producer is not None:
        client.take()
    answer = parsed(client.transport.value())
    assert answer.headers["content-length"] == str(len(answer.body))
    assert [row[0] for row in answer.json()["rows"]] == list(range(ROWS))


def test_a_client_that_takes_nothing_is_cut_off(hub: Hub) -> None:
    lab = ResultsLab(hub, limits=SiteLimits(stalled_s=5))
    client = Narrow(lab)
    client.ask(ARROW)
    lab.clock.advance(4)
    client.take()
    lab.clock.advance(4)
    assert not client.transport.disconnected
    lab.clock.advance(1)
    assert client.transport.disconnected
    assert lab.site.figures().held_bytes == 0


def test_answers_on_their_way_are_bounded_together(hub: Hub) -> None:
    lab = ResultsLab(hub, limits=SiteLimits(answers_bytes=ROWS * 20))
    first = Narrow(lab)
    first.ask(ARROW)
    second = lab.arrow("/v1/views/numbers")
    assert (second.status, second.headers["retry-after"]) == (503, "1")
    assert second.text.startswith("expected at most 800000 bytes of answers on their way")
    first.take_all()
    assert lab.arrow("/v1/views/numbers").status == 200


def test_head_of_a_long_answer_holds_nothing(hub: Hub) -> None:
    lab = ResultsLab(hub)
    assert lab.ask("/v1/views/numbers", "HEAD", headers=ARROW.decode()).body == b""
    assert lab.site.figures().held_bytes == 0


def test_an_incomplete_answer_does_not_look_whole(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = ResultsLab(hub)
    client = Narrow(lab)
    client.ask(ARROW)
    monkeypatch.setattr("runtime.service.results.materialised.FullRows.arrow", None)
    client.take()
    assert client.transport.disconnected
    assert not client.transport.value().endswith(b"0\r\n\r\n")
    assert lab.site.figures().held_bytes == 0
