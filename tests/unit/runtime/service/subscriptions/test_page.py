# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Pages over the WebSocket: they are sent what they ask for, when they ask for it, and never more."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure
from wsproto.events import BytesMessage, CloseConnection, Message
from wsproto.events import Ping as WsPing

from deltabook.wire.access import Access
from deltabook.wire.service import ColumnLine
from deltabook.wire.stream import (
    LONGEST_REQUEST_BYTES,
    MOST_SUBSCRIPTIONS,
    Ended,
    Failed,
    Frames,
    Hello,
    Next,
    Ping,
    Pong,
    StreamChange,
    StreamHeartbeat,
    StreamView,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from runtime.epochs import Footer
from runtime.plan import without_view
from tests.generators.page_lab import PageEnd
from tests.generators.results_lab import PROGRAM, ResultsLab


def change(lab: ResultsLab, *rows: tuple[int, int]) -> None:
    """A version of the view ``m``: values and their weights."""
    version = lab.hub.version
    table = pa.table({"x": pa.array([v for v, _ in rows], pa.int64()), "weight": [w for _, w in rows]})
    lab.hub.publish(Footer(version, version + 1), {"m": table}, {})


def changes(events: list[Any]) -> list[StreamChange]:
    """Those of one frame."""
    (frame,) = events
    assert isinstance(frame, Frames)
    return list(frame.changes)


def test_a_page_is_greeted_and_gets_all_snapshots_in_a_frame() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    assert page.status == 101
    assert page.events == [Hello("", 0)]
    subscribed, frame = page.ask(Subscribe("a", ("plain", "m")))
    assert subscribed == Subscribed(
        "a",
        (
            StreamView("plain", (ColumnLine("h", "int128", False, 1), ColumnLine("s", "string", True))),
            StreamView("m", (ColumnLine("x", "int64", True),)),
        ),
    )
    plain, m = frame.changes
    assert (plain.view, plain.kind, plain.to_epoch, sorted(plain.rows, key=str)) == (
        "plain", "snapshot", 3, [("0.5", "x"), ("1.0", None)],
    )  # fmt: skip
    assert sorted(plain.weights) == [1, 2]
    assert (m.view, m.kind, m.rows) == ("m", "snapshot", ())


def test_the_next_frame_comes_on_request_and_holds_the_sum() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.ask(Subscribe("a", ("m",)))
    change(lab, (1, 1))
    change(lab, (1, -1), (2, 1))
    assert page.hear() == []
    (told,) = changes(page.ask(Next("a")))
    assert (told.kind, told.from_epoch, told.to_epoch, told.rows, told.weights) == ("changes", 3, 5, ((2,),), (1,))
    assert page.ask(Next("a")) == [], "nothing is new"
    change(lab, (2, -1))
    assert len(changes(page.hear())) == 1, "it was asked for before"
    change(lab, (3, 1))
    assert page.hear() == []


def test_with_more_credit_frames_come_by_themselves() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.ask(Subscribe("a", ("m",), credit=3))
    for value in range(4):
        change(lab, (value, 1))
    assert [frame.changes[0].to_epoch for frame in page.hear()] == [4, 5]
    page.ask(Next("a", 2))
    change(lab, (9, 1))
    assert page.hear()[0].changes[0].to_epoch == 8


@pytest.mark.parametrize(("credit", "frames"), [(1, [["plain"]]), (2, [["plain"], ["m"]]), (5, [["plain"], ["m"]])])
def test_what_is_too_much_for_a_frame_is_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch, credit: int, frames: list[list[str]]
) -> None:
    """Where that may be sent already nobody has to ask for it: a page that has credit left does not."""
    monkeypatch.setattr("runtime.service.subscriptions.page._FRAME_BYTES", 1)
    lab = ResultsLab()
    page = PageEnd(lab)
    _, *heard = page.ask(Subscribe("a", ("plain", "m"), credit=credit))
    assert [[change.view for change in frame.changes] for frame in heard] == frames
    change(lab, (1, 1))
    events = page.ask(Next("a", 5)) if credit < 3 else page.hear()
    assert [(one.view, one.kind) for frame in events for one in frame.changes] == [
        ("m", "snapshot" if credit == 1 else "changes")
    ]
    change(lab, (2, 1))
    assert len(page.hear()) == 1


def test_a_stuck_page_changes_nothing_for_another_one() -> None:
    lab = ResultsLab()
    stuck = [PageEnd(lab) for _ in range(10)]
    for page in stuck:
        page.ask(Subscribe("a", ("m",)))
        page.transport.producer.pauseProducing()
    well = PageEnd(lab)
    well.ask(Subscribe("a", ("m",), credit=1000))
    for value in range(50):
        change(lab, (value, 1))
    assert len(well.hear()) == 50
    assert all(not page.transport.value() for page in stuck)
    assert lab.hub.stream("m").kept == 50, "once for all of them"
    for page in stuck:
        page.transport.producer.resumeProducing()
        (told,) = changes(page.ask(Next("a")))
        assert (told.kind, len(told.rows)) == ("changes", 50)
    assert lab.hub.stream("m").kept == 0


def test_nothing_is_read_from_a_page_that_takes_nothing() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.transport.producer.pauseProducing()
    assert page.transport.producerState == "paused"
    page.transport.producer.resumeProducing()
    assert page.transport.producerState == "producing"


def test_integers_that_a_page_would_round_are_text() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.ask(Subscribe("a", ("m",), credit=5))
    change(lab, (2**53 - 1, 1), (2**53, 1), (-(2**53), 1))
    (told,) = changes(page.hear())
    assert told.rows == ((2**53 - 1,), (str(2**53),), (str(-(2**53)),))


def test_heartbeats_cost_no_credit_and_skip_stale_views() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.ask(Subscribe("a", ("m",), credit=2))
    lab.hub.heartbeat()
    lab.hub.heartbeat()
    assert page.hear() == [StreamHeartbeat("a", 3, 5)] * 2
    lab.hub.hold()
    lab.hub.heartbeat()
    assert page.hear() == []
    lab.hub.hold(())
    change(lab, (1, 1))
    assert len(page.hear()) == 1


def test_a_page_may_leave_come_back_and_follow_several_things() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.ask(Subscribe("a", ("m",), credit=9))
    page.ask(Subscribe("b", ("m", "plain"), credit=9))
    change(lab, (1, 1))
    assert [event.id for event in page.hear()] == ["a", "b"]
    assert page.ask(Unsubscribe("a")) == [Ended("a")]
    change(lab, (2, 1))
    assert [event.id for event in page.hear()] == ["b"]
    assert isinstance(page.ask(Subscribe("b", ("m",)))[0], Subscribed), "in place of the other one"
    assert lab.hub.subscribers == 1
    assert page.ask(Ping()) == [Pong(0)]


def test_a_dropped_view_ends_what_followed_nothing_else() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.ask(Subscribe("a", ("m",), credit=2))
    lab.hub.publish(Footer(3, 4), {}, {}, without_view(PROGRAM, "m"))
    frame, ended = page.hear()
    assert (frame.changes[0].kind, frame.changes[0].reason) == ("error", "dropped at epoch 4")
    assert ended == Ended("a")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Subscribe("a", ("nowhere",)), "expected names out of m, plain, was 'nowhere'"),
        (
            Subscribe("a", ("m",), from_epoch=3),
            "expected from and run only by epoch, was by version: versions cannot be resumed",
        ),
        (Subscribe("a", ("m",), by="epoch"), "expected a runtime that commits epochs, was one without"),
        (Next("b"), "expected an id of a subscription, was 'b'"),
        (Unsubscribe("b"), "expected an id of a subscription, was 'b'"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_connection_stays(request_: Any, reason: str) -> None:
    page = PageEnd(ResultsLab())
    assert page.ask(request_) == [Failed(reason, request_.id)]
    assert page.closed is None
    assert page.ask(Ping()) == [Pong(0)]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"type":"jump"}', '{"type":"next"}', '{"type":"next","id":"a","credit":0}', "[" * 10_000,
     '{"type":"subscribe","id":"a","views":[]}', '{"type":"ping","more":1}', "\x00"],
    ids=["empty", "open", "list", "no type", "other type", "no id", "no credit", "deep", "no view", "more", "nul"],
)  # fmt: skip
def test_what_is_no_request_is_told_and_ends_the_connection(text: str) -> None:
    page = PageEnd(ResultsLab())
    (failed,) = page.ask(text)
    assert failed.reason.startswith("expected a request as JSON, was ")
    assert page.closed == (1007, "no request")
    assert (page.transport.disconnecting, page.transport.producer) == (True, None), "TLS would wait for the producer"


def test_a_too_long_or_binary_message_ends_the_connection() -> None:
    page = PageEnd(ResultsLab())
    assert page.ask(" " * LONGEST_REQUEST_BYTES)[0].reason.startswith("expected a request as JSON")
    page = PageEnd(ResultsLab())
    page.ask(" " * (LONGEST_REQUEST_BYTES + 1))
    assert page.closed == (1009, f"expected a message of at most {LONGEST_REQUEST_BYTES} bytes")
    page = PageEnd(ResultsLab())
    for _ in range(LONGEST_REQUEST_BYTES // 1000 + 1):
        page.say(Message(data=" " * 1000, message_finished=False))
    assert str(page.closed).startswith("(1009, ")
    page = PageEnd(ResultsLab())
    for _ in range(LONGEST_REQUEST_BYTES + 1):
        page.raw(page.ws.send(Message(data="", message_finished=False)))
    page.hear()
    assert str(page.closed).startswith("(1009, "), "nothing after nothing is a message that grows as well"
    page = PageEnd(ResultsLab())
    page.say(BytesMessage(data=b"x"))
    assert page.closed == (1003, "expected text")


def test_a_page_that_answers_a_goodbye_is_not_left_twice() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    page.ask("no request")
    assert page.closed is not None
    page.raw(page.ws.send(CloseConnection(code=1000)))  # its transport refuses to lose its producer twice


def test_too_many_requests_end_the_connection_over_time() -> None:
    lab = ResultsLab()
    page = PageEnd(lab)
    for _ in range(400):
        page.ask(Ping())
    lab.clock.advance(0.1)
    for _ in range(20):
        page.ask(Ping())
    assert (page.closed, type(page.events[-1])) == (None, Pong)
    page.ask(Ping())
    assert page.closed == (1008, "too many requests")
    assert page.events[-1] == Failed("expected at most 200 requests a second, was more")


def test_there_is_a_most_number_of_subscriptions() -> None:
    page = PageEnd(ResultsLab())
    for number in range(MOST_SUBSCRIPTIONS):
        page.ask(Subscribe(f"s{number}", ("m",)))
    (failed,) = page.ask(Subscribe("another", ("m",)))
    assert failed == Failed(f"expected at most {MOST_SUBSCRIPTIONS} subscriptions, was one more", "another")


def test_a_page_that_answers_no_ping_is_left() -> None:
    lab = ResultsLab()
    page, silent = PageEnd(lab), PageEnd(lab)
    silent.ask(Subscribe("a", ("m",)))
    for _ in range(12):
        lab.clock.advance(10)
        page.hear()
    assert (page.closed, page.pings >= 5) == (None, True)
    silent.hear()
    assert silent.closed == (1001, "no message was received for too long")


def test_a_lost_or_closed_connection_leaves_nothing_behind() -> None:
    lab = ResultsLab()
    for end in ("lost", "closed"):
        page = PageEnd(lab)
        page.ask(Subscribe("a", ("m",)))
        assert lab.hub.subscribers == 1
        assert page.say(WsPing()) == []
        assert page.pongs == 1
        if end == "closed":
            page.say(CloseConnection(1000, "bye"))
            assert page.transport.disconnecting
        page.protocol.connectionLost(Failure(ConnectionLost()))
        assert lab.hub.subscribers == 0
    assert lab.site.figures().connections == 0
    assert not [c for c in lab.clock.getDelayedCalls() if "_check_alive" in repr(c) or "_disconnect" in repr(c)]


def test_who_may_connect_is_what_the_port_says() -> None:
    assert PageEnd(ResultsLab(), {"Origin": "http://evil.example"}).status == 403
    known = ResultsLab(access=Access(origins=["http://localhost:1"]))
    assert PageEnd(known, {"Origin": "http://localhost:1"}).status == 101
    secret = ResultsLab(access=Access("0123456789abcdef"))
    assert PageEnd(secret).status == 401
    assert PageEnd(secret, {"Authorization": "Bearer 0123456789abcdef"}).status == 101


def test_a_request_that_asks_for_no_websocket_is_426() -> None:
    answer = ResultsLab().ask("/v1/stream")
    assert (answer.status, answer.headers["upgrade"]) == (426, "websocket")
    assert answer.text.startswith("expected a request for a WebSocket, was another request: ")
