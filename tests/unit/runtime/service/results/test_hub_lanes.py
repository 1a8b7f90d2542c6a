"""Views of both lanes in one hub: each has versions of its own, is held by itself, and may change lanes."""

from __future__ import annotations

import pyarrow as pa

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program
from runtime.engine.express import Update
from runtime.epochs import Cut, Footer
from runtime.plan import lane_program, without_view
from runtime.service.results.hub import Hub
from tests.unit.runtime.service.results.test_hub import Connection

R = Relation("r", (Column("a", "int64"),))
SQL = "SELECT a FROM r"
PROGRAM = compile_program(
    [NamedSelect("slow", SQL), NamedSelect("fast", SQL, lane="express"), NamedSelect("late", SQL, lane="express")], [R]
)


def rows(*values: int, weight: int = 1) -> pa.Table:
    return pa.table({"a": list(values), "weight": [weight] * len(values)})


def new_hub() -> Hub:
    hub = Hub(PROGRAM, lambda: 99)
    hub.begin_lane(lane_program(PROGRAM, "express"), {"fast": rows(1)}, {}, 4, {"feed": Cut("s", 40, 0)})
    return hub


def update(step: int, sequence: int, **changes: pa.Table) -> Update:
    return Update(step, 4, {"feed": Cut("s", sequence, 0)}, changes, {})


def subscribed(hub: Hub, *names: str) -> Connection:
    connection = Connection()
    subscription = hub.subscribe(names, connection)
    assert subscription is not None
    subscription.catch_up()
    return connection


def test_a_step_carries_the_feeds_position_and_its_epoch() -> None:
    hub = new_hub()
    connection = subscribed(hub, "fast", "slow")
    first = connection.frames()
    assert [(f.header.view, f.header.to_epoch, f.header.step) for f in first] == [("fast", 4, 0), ("slow", 0, 0)]
    hub.publish_update(update(1, 41, fast=rows(2)))
    hub.publish_update(update(2, 43, fast=rows(1, weight=-1)))
    told = [(f.header.from_epoch, f.header.to_epoch, f.header.step, f.header.feed) for f in connection.frames()]
    assert told == [(4, 4, 1, {"feed": ("s", 41)}), (4, 4, 2, {"feed": ("s", 43)})]
    assert hub.result("fast").rows()["a"].to_pylist() == [2]
    assert (hub.version, hub.epoch("express"), hub.step("express")) == (0, 4, 2)
    assert (hub.step_of("slow"), hub.step_of("fast")) == (0, 2)


def test_a_lane_is_held_by_itself() -> None:
    hub = new_hub()
    fast, slow = subscribed(hub, "fast"), subscribed(hub, "slow")
    fast.frames(), slow.frames()
    hub.hold(["spark"])
    hub.publish(Footer(0, 1), {"slow": rows(1)}, {})
    hub.publish_update(update(1, 41, fast=rows(2)))
    hub.heartbeat()
    assert [kind for kind, *_ in fast.seen()] == ["changes", "heartbeat"]
    assert slow.seen() == []
    hub.hold(())
    assert slow.seen() == [("changes", "slow", 0, 1)]


def test_who_follows_or_reads_a_view_listens_to_its_lane() -> None:
    now_ns = 10**12
    hub = Hub(PROGRAM, lambda: now_ns)
    hub.begin_lane(lane_program(PROGRAM, "express"), {}, {}, 4, {})

    def listened_to() -> list[str]:
        return [lane for lane in ("spark", "express") if hub.is_listened_to(lane)]

    assert listened_to() == []
    following = hub.subscribe(["slow"], Connection())
    assert following is not None
    assert listened_to() == ["spark"]
    hub.unsubscribe(following)
    assert listened_to() == []
    hub.read("fast")
    now_ns += 4 * 10**9
    assert listened_to() == ["express"]
    now_ns += 10**9
    assert listened_to() == []


def test_a_failed_lane_ends_its_views_for_all_subscribers() -> None:
    """A heartbeat would say that they are fresh."""
    hub = new_hub()
    fast, slow = subscribed(hub, "fast"), subscribed(hub, "slow")
    fast.frames(), slow.frames()
    hub.fail_lane("express", "too bad")
    assert [(f.header.kind, f.header.reason) for f in fast.frames()] == [("error", "too bad")]
    assert (slow.seen(), hub.failed) == ([], {"fast": "too bad", "late": "too bad"})
    assert subscribed(hub, "late").frames()[0].header.kind == "error"


def test_a_view_may_return_in_the_other_lane_early() -> None:
    hub = new_hub()
    connection = subscribed(hub, "slow")
    connection.frames()
    moved = compile_program([NamedSelect("slow", SQL, lane="express")], [R])
    hub.publish_update(Update(1, 6, {}, {"slow": rows(5)}, {}, program=lane_program(moved, "express")))
    assert (connection.frames()[-1].header.kind, connection.is_finished) == ("error", True)
    hub.publish(Footer(0, 1), {"slow": rows(9)}, {})
    hub.publish(Footer(1, 5), {}, {}, without_view(PROGRAM, "slow"))
    assert hub.result("slow").rows()["a"].to_pylist() == [5]
    assert [view.lane for view in hub.views] == ["express"]


def test_a_program_of_spark_alone_has_no_express_views() -> None:
    hub = Hub(Program((), (), ()), lambda: 0)
    hub.begin_lane(Program((), (), ()), {}, {}, 0, {})
    assert hub.views == ()
