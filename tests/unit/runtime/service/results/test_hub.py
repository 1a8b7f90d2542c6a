"""Subscribers get a snapshot and then changes, a slow one their sum; nothing grows; a failed view ends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltabook.wire.results import Frame, FrameDecoder
from runtime.compiler import Column, NamedSelect, Relation, compile_program, encode_program, extend_program
from runtime.epochs import Cut, Footer, ResultLog
from runtime.plan import without_view
from runtime.service.health.lag import Freshness
from runtime.service.results.hub import Hub, HubConfig
from runtime.service.subscriptions import Listener, Message, Subscription, arrow_frame
from tests.harness.moments import Moment

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))
PROGRAM = compile_program([NamedSelect("plain", "SELECT a FROM r"), NamedSelect("other", "SELECT b FROM r")], [R])


class Connection(Listener):
    """What was written, as frames."""

    reads_arrow = True

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_finished = False
        self._decoder = FrameDecoder()

    def finish(self) -> None:
        self.is_finished = True

    def write(self, message: Message) -> None:
        self.data += message.encoded(arrow_frame)

    def flush(self) -> None:
        pass

    def frames(self) -> list[Frame]:
        found = list(self._decoder.feed(bytes(self.data)))
        self.data.clear()
        return found

    def seen(self) -> list[tuple[str, str, int, int]]:
        return [(f.header.kind, f.header.view, f.header.from_epoch, f.header.to_epoch) for f in self.frames()]


def changes(name: str, *rows: tuple[int, int]) -> dict[str, pa.Table]:
    column = "a" if name == "plain" else "b"
    return {name: pa.table({column: [v for v, _ in rows], "weight": [w for _, w in rows]})}


def footer(version: int, **attributes: str) -> Footer:
    cuts = {"feed": Cut("s", version * 10, 0)}
    return Footer(version - 1, version, cuts=cuts, attributes={k.replace("__", "/"): v for k, v in attributes.items()})


def new_hub(**options: Any) -> Hub:
    return Hub(PROGRAM, lambda: 99, HubConfig(**options))


def subscribed(hub: Hub, *names: str) -> tuple[Connection, Subscription]:
    connection = Connection()
    subscription = hub.subscribe(names, connection)
    assert subscription is not None
    subscription.catch_up()
    return connection, subscription


def test_a_snapshot_of_each_view_comes_first_then_changes() -> None:
    hub = new_hub()
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    connection, _ = subscribed(hub, "plain", "other")
    first, second = connection.frames()
    assert (first.header.kind, first.header.view, first.header.to_epoch) == ("snapshot", "plain", 1)
    assert first.header.feed == {"feed": ("s", 10)}
    assert first.header.time_ns == 99
    assert first.rows is not None
    assert first.rows.to_pylist() == [{"a": 1, "weight": 1}]
    assert second.header.view == "other"
    hub.publish(footer(2), changes("plain", (1, -1), (2, 1)), {})
    (frame,) = connection.frames()
    assert (frame.header.kind, frame.header.from_epoch, frame.header.to_epoch) == ("changes", 1, 2)
    assert frame.rows is not None
    assert frame.rows.to_pylist() == [{"a": 1, "weight": -1}, {"a": 2, "weight": 1}]


def test_only_subscribers_that_read_arrow_now_count() -> None:
    """What is encoded before it is published is encoded for them: not for pages, nor for whoever waits."""
    hub = new_hub()
    page = Connection()
    page.reads_arrow = False
    page_subscription = hub.subscribe(["plain"], page)
    assert page_subscription is not None
    page_subscription.catch_up()
    assert hub.arrow_followers["plain"] == 0
    (_, first), (_, second) = subscribed(hub, "plain", "other"), subscribed(hub, "plain")
    assert +hub.arrow_followers == {"plain": 2, "other": 1}
    first.pause()
    assert +hub.arrow_followers == {"plain": 1}
    hub.hold()
    assert not any(hub.arrow_followers.values())
    hub.hold(())
    assert +hub.arrow_followers == {"plain": 1}
    first.resume()
    hub.unsubscribe(second)
    assert +hub.arrow_followers == {"plain": 1, "other": 1}
    hub.publish(footer(1), {}, {}, without_view(PROGRAM, "plain"))
    assert +hub.arrow_followers == {"other": 1}
    hub.unsubscribe(first)
    hub.unsubscribe(page_subscription)
    assert not any(hub.arrow_followers.values())


def test_a_connection_closed_by_another_is_not_written_to() -> None:
    hub = new_hub()
    (first, _), (second, closed) = subscribed(hub, "plain"), subscribed(hub, "plain")
    first.frames(), second.frames()
    write = first.write

    def closing(message: Message) -> None:
        write(message)
        hub.unsubscribe(closed)

    first.write = closing  # type: ignore[method-assign]
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    assert (first.seen(), second.seen()) == ([("changes", "plain", 0, 1)], [])


def test_a_version_looks_only_at_views_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = new_hub()
    monkeypatch.setattr(hub.result("other"), "apply", None)
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    assert (hub.epoch_of("plain"), hub.epoch_of("other")) == (1, 1)


def test_only_views_that_were_asked_for_are_sent() -> None:
    hub = new_hub()
    connection, _ = subscribed(hub, "other")
    connection.frames()
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    assert connection.frames() == []


def test_a_slow_subscriber_gets_the_sum_as_one_frame() -> None:
    hub = new_hub()
    connection, subscription = subscribed(hub, "plain", "other")
    connection.frames()
    subscription.pause()
    for version in range(1, 200):
        removed = ((version - 1, -1),) if version > 1 else ()
        hub.publish(footer(version), changes("plain", *removed, (version, 1)), {})
        hub.heartbeat()
    assert not connection.data, "nothing is sent meanwhile"
    subscription.resume()
    (frame,) = connection.frames()
    assert (frame.header.kind, frame.header.from_epoch, frame.header.to_epoch) == ("changes", 0, 199)
    assert frame.header.feed == {"feed": ("s", 1990)}
    assert frame.rows is not None
    assert frame.rows.to_pylist() == [{"a": 199, "weight": 1}]
    hub.publish(footer(200), changes("plain", (7, 1)), {})
    assert connection.seen() == [("changes", "plain", 199, 200)]


@pytest.mark.parametrize("case", ["shared", "own"])
def test_a_subscriber_beyond_the_history_gets_a_snapshot(case: str) -> None:
    hub = new_hub(tuple_queues=case, queue_kilobytes=40)
    connection, slow = subscribed(hub, "plain")
    other, stuck = subscribed(hub, "plain")
    quick, _ = subscribed(hub, "plain")
    connection.frames(), other.frames(), quick.frames()
    stuck.pause()
    for version in range(1, 100):
        hub.publish(footer(version), changes("plain", (version, 1)), {})
        if version == 94:
            slow.pause()
        assert hub.stream("plain").kept <= (10 if case == "shared" else 20)
    assert len(quick.frames()) == 99
    slow.resume()
    stuck.resume()
    assert connection.seen()[-1] == ("changes", "plain", 94, 99)
    assert other.seen() == [("snapshot", "plain", 0, 99)]
    assert hub.stream("plain").kept == 0


def test_who_waits_equally_long_is_sent_the_same_bytes() -> None:
    hub = new_hub()
    two = [subscribed(hub, "plain") for _ in range(2)]
    for connection, subscription in two:
        connection.frames()
        subscription.pause()
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    hub.publish(footer(2), changes("plain", (1, -1), (2, 1)), {})
    sent: list[bytes] = []
    for connection, subscription in two:
        subscription.resume()
        sent.append(bytes(connection.data))
    assert sent[0] == sent[1] != b""


def test_changes_that_cancel_are_not_sent() -> None:
    hub = new_hub()
    connection, subscription = subscribed(hub, "plain")
    connection.frames()
    subscription.pause()
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    hub.publish(footer(2), changes("plain", (1, -1)), {})
    subscription.resume()
    assert connection.seen() == []


def test_a_failure_is_told_behind_what_a_slow_subscriber_missed() -> None:
    hub = new_hub()
    connection, subscription = subscribed(hub, "plain")
    connection.frames()
    subscription.pause()
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    hub.publish(footer(2), {}, {"plain": "too long"})
    subscription.resume()
    assert [(kind, to) for kind, _, _, to in connection.seen()] == [("changes", 1), ("error", 2)]


def test_nothing_is_kept_for_a_slow_subscriber_that_leaves() -> None:
    hub = new_hub()
    _, subscription = subscribed(hub, "plain")
    subscription.pause()
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    assert hub.stream("plain").kept == 1
    hub.unsubscribe(subscription)
    assert hub.stream("plain").kept == 0
    assert hub.subscribers == 0


def test_one_that_is_full_at_once_gets_its_changes_later() -> None:
    hub = new_hub()

    class Full(Connection):
        def write(self, message: Message) -> None:
            super().write(message)
            if held:
                held[0].pause()

    held: list[Subscription] = []
    connection = Full()
    subscription = hub.subscribe(["plain", "other"], connection)
    assert subscription is not None
    held.append(subscription)
    subscription.catch_up()
    assert connection.seen() == [("snapshot", "plain", 0, 0)], "the other one waits"
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    hub.publish(footer(2), changes("plain", (2, 1)), {})
    assert connection.seen() == []
    subscription.resume()
    assert connection.seen() == [("changes", "plain", 0, 2)]
    subscription.resume()
    assert connection.seen() == [("snapshot", "other", 0, 2)]


@pytest.mark.parametrize("is_changed", [True, False])
def test_snapshots_of_a_full_connection_become_one_version(*, is_changed: bool) -> None:
    """A connection that one snapshot fills gets the next one at a newer version, and what the first has missed."""
    hub = new_hub()
    hub.publish(footer(1), changes("plain", (7, 1)) | changes("other", (8, 1)), {})
    connection = Connection()
    subscription = hub.subscribe(["plain", "other"], connection)
    assert subscription is not None
    write = connection.write
    connection.write = lambda message: (write(message), subscription.pause())[0]  # type: ignore[func-returns-value, method-assign]
    subscription.catch_up()
    connection.write = write  # type: ignore[method-assign]
    moment = Moment(["plain", "other"])
    for frame in connection.frames():
        moment.take(frame)
    was_whole = moment.is_whole
    assert moment.rows == {"plain": Counter({(7,): 1})}
    changed = changes("plain", (7, -1), (9, 1)) if is_changed else {}
    hub.publish(footer(2), changed | changes("other", (8, 1)), {})
    subscription.resume()
    hub.heartbeat()
    for frame in connection.frames():
        moment.take(frame)
    assert (was_whole, moment.is_whole) == (False, True)
    assert (moment.epoch, moment.sequence) == (2, 20)
    assert moment.rows == {"plain": Counter({(9 if is_changed else 7,): 1}), "other": Counter({(8,): 2})}


def test_heartbeats_carry_the_version() -> None:
    hub = new_hub()
    connection, subscription = subscribed(hub, "plain")
    connection.frames()
    hub.publish(footer(4), {}, {})
    hub.heartbeat()
    assert connection.seen() == [("heartbeat", "", 0, 4)]
    hub.unsubscribe(subscription)
    hub.heartbeat()
    assert connection.frames() == []


def test_there_is_a_most_number_of_subscribers() -> None:
    hub = new_hub(most_subscribers=1)
    _, subscription = subscribed(hub, "plain")
    assert hub.subscribe(["plain"], Connection()) is None
    hub.unsubscribe(subscription)
    assert hub.subscribe(["plain"], Connection()) is not None


def test_a_failed_view_ends_with_its_reason_alone() -> None:
    """Other shards do not know of the failure: what they still send of the view is dropped."""
    hub = new_hub()
    connection, _ = subscribed(hub, "plain", "other")
    connection.frames()
    hub.publish(footer(1), changes("plain", (1, 1)) | changes("other", (5, 1)), {"plain": "too long"})
    frames = {f.header.view: f for f in connection.frames()}
    assert (frames["plain"].header.kind, frames["plain"].header.reason) == ("error", "too long")
    assert frames["other"].header.kind == "changes"
    hub.publish(footer(2), changes("plain", (8, -1)) | changes("other", (6, 1)), {})
    assert connection.seen() == [("changes", "other", 1, 2)]
    assert hub.failed == {"plain": "too long"}
    late, _ = subscribed(hub, "plain")
    assert late.seen() == [("error", "plain", 0, 2)]


def test_a_hub_comes_back_from_the_result_log(tmp_path: Path) -> None:
    log = ResultLog(tmp_path)
    hub = new_hub()
    for version in range(1, 4):
        mark = footer(version, **({"failed__other": "why"} if version == 2 else {}))
        found = changes("plain", (version, 1))
        failed = {"other": "why"} if version == 2 else {}
        log.publish(version - 1, version, {name: rows.to_batches() for name, rows in found.items()}, mark)
        hub.publish(mark, found, failed)
    again = new_hub()
    for segment in ResultLog(tmp_path).read_all():
        again.restore(segment)
    assert (again.version, again.cuts, again.failed) == (3, hub.cuts, {"other": "why"})
    assert sorted(again.result("plain").rows()["a"].to_pylist()) == [1, 2, 3]


def test_a_dropped_views_subscribers_are_notified() -> None:
    hub = new_hub()
    one, _ = subscribed(hub, "plain")
    both, _ = subscribed(hub, "plain", "other")
    one.frames(), both.frames()
    hub.publish(footer(1), changes("other", (5, 1)), {}, without_view(PROGRAM, "plain"))
    (told,) = one.frames()
    assert (told.header.kind, told.header.view, told.header.reason) == ("error", "plain", "dropped at epoch 1")
    assert one.is_finished
    assert both.seen() == [("error", "plain", 0, 1), ("changes", "other", 0, 1)]
    assert not both.is_finished
    assert [view.name for view in hub.views] == ["other"]
    hub.heartbeat()
    assert (one.seen(), both.seen()) == ([], [("heartbeat", "", 0, 1)])
    hub.publish(footer(2), changes("plain", (1, 1)), {}, PROGRAM)
    assert both.seen() == [], "who was told of its end hears nothing of another view of that name"


def test_a_new_view_has_its_first_version_and_subscribers() -> None:
    hub = new_hub()
    early, _ = subscribed(hub, "plain")
    early.frames()
    longer = extend_program(PROGRAM, [NamedSelect("late", "SELECT a, b FROM r")], [R])
    hub.publish(footer(1), {}, {})
    rows = pa.table({"a": [1], "b": [2], "weight": [1]})
    hub.publish(footer(2), {"late": rows}, {}, longer)
    assert early.frames() == []
    assert hub.since == {"plain": 1, "other": 1, "late": 2}
    late, _ = subscribed(hub, "late")
    (frame,) = late.frames()
    assert frame.rows is not None
    assert frame.rows.to_pylist() == rows.to_pylist()
    hub.publish(footer(3), {"late": rows}, {})
    assert late.seen() == [("changes", "late", 2, 3)]


def test_a_failed_view_is_whole_after_drop_and_add() -> None:
    hub = new_hub()
    hub.publish(footer(1), {}, {"plain": "too long"})
    hub.publish(footer(2), {}, {}, without_view(PROGRAM, "plain"))
    assert hub.failed == {}
    hub.publish(footer(3), changes("plain", (4, 1)), {}, PROGRAM)
    assert hub.result("plain").rows()["a"].to_pylist() == [4]


def test_a_changed_catalogue_returns_from_the_result_log(tmp_path: Path) -> None:
    log = ResultLog(tmp_path)
    shorter = without_view(PROGRAM, "plain")
    for version, program in ((1, None), (2, shorter), (3, None), (4, PROGRAM)):
        found = changes("other", (version, 1)) | (changes("plain", (version, 1)) if version in (1, 4) else {})
        control = encode_program(program) if program else b""
        mark = Footer(version - 1, version, control=control)
        log.publish(version - 1, version, {name: rows.to_batches() for name, rows in found.items()}, mark)
    hub = new_hub()
    for segment in ResultLog(tmp_path).read_all():
        hub.restore(segment)
    assert hub.program == PROGRAM
    assert hub.since == {"plain": 4, "other": 1}
    assert hub.result("plain").rows()["a"].to_pylist() == [4]
    assert sorted(hub.result("other").rows()["b"].to_pylist()) == [1, 2, 3, 4]


def test_a_held_hub_is_silent_and_then_sends_what_was_missed() -> None:
    """Those that come meanwhile get a snapshot; who missed nothing gets nothing."""
    hub = new_hub()
    early, _ = subscribed(hub, "plain")
    other, _ = subscribed(hub, "other")
    early.frames(), other.frames()
    hub.hold()
    hub.heartbeat()
    hub.publish(footer(1), changes("plain", (1, 1)), {})
    late, paused = subscribed(hub, "plain")
    paused.pause()
    paused.resume()
    assert early.seen() == other.seen() == late.seen() == []
    hub.hold(())
    assert early.seen() == [("changes", "plain", 0, 1)]
    assert late.seen() == [("snapshot", "plain", 0, 1)]
    assert other.seen() == []
    hub.heartbeat()
    hub.publish(footer(2), changes("plain", (2, 1)), {})
    assert [kind for kind, *_ in early.seen()] == ["heartbeat", "changes"]


def test_an_epoch_that_waits_too_long_makes_stale() -> None:
    freshness = Freshness(10.0)
    assert freshness.is_fresh(0, 1000.0)
    freshness.sealed(1, 0.0)
    freshness.sealed(2, 8.0)
    assert freshness.is_fresh(0, 10.0)
    assert not freshness.is_fresh(0, 10.5)
    assert freshness.is_fresh(1, 10.5)
    assert not freshness.is_fresh(1, 18.5)
    assert freshness.is_fresh(2, 1000.0)
