"""Who follows epochs is told each exactly once, whatever happens to the connection or the process."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runtime.compiler import extend_program
from runtime.epochs import Footer
from runtime.epochs.retention import retire_epochs
from runtime.plan import without_view
from tests.generators.epochs_lab import RELATION, Connection, EpochsLab, select


@pytest.fixture
def lab(tmp_path: Path) -> EpochsLab:
    return EpochsLab(tmp_path)


def held(connection: Connection) -> list[tuple[str, int, int, list[tuple[int, int]]]]:
    """What came: kind, span, and rows with their weights."""
    return [
        (
            frame.header.kind,
            frame.header.from_epoch,
            frame.header.to_epoch,
            [] if frame.rows is None else sorted(zip(*frame.rows.to_pydict().values(), strict=True)),
        )
        for frame in connection.frames()
    ]


def test_changes_of_an_epoch_come_with_its_commit(lab: EpochsLab) -> None:
    follower = lab.follow("one")
    assert held(follower) == [("snapshot", 0, 0, [])]
    lab.change("one", 5)
    lab.change("one", 6, -5)
    lab.close()
    assert follower.frames() == []
    lab.commit()
    (frame,) = follower.frames()
    assert (frame.header.kind, frame.header.from_epoch, frame.header.to_epoch) == ("changes", 0, 1)
    assert frame.header.feed == {"feed": ("s", 10)}
    assert frame.rows is not None
    assert frame.rows.to_pylist() == [{"a": 6, "weight": 1}]


def test_changes_of_an_epoch_are_not_read_from_the_disk(lab: EpochsLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who publishes them is the reactor."""
    follower = lab.follow("one")
    assert held(follower) == [("snapshot", 0, 0, [])]
    seal = lab._seal

    def sealed(*given: Any, **named: Any) -> Footer:
        footer = seal(*given, **named)
        lab.log.path(footer.to_epoch).unlink()
        return footer

    monkeypatch.setattr(lab, "_seal", sealed)
    lab.epoch_of("one", 5)
    assert held(follower) == [("changes", 0, 1, [(5, 1)])]


def test_a_snapshot_in_an_open_epoch_waits_for_its_commit(lab: EpochsLab) -> None:
    lab.epoch_of("one", 1)
    lab.change("one", 2)
    follower = lab.follow("one")
    lab.change("one", 3)
    lab.close()
    lab.change("one", 4)  # of the epoch behind
    assert follower.frames() == []
    lab.commit()
    assert held(follower) == [("snapshot", 0, 2, [(1, 1), (2, 1), (3, 1)])]
    lab.close()
    lab.commit()
    assert held(follower) == [("changes", 2, 3, [(4, 1)])]


def test_a_snapshot_before_a_commit_comes_with_the_commit(lab: EpochsLab) -> None:
    lab.change("one", 2)
    lab.close()
    follower = lab.follow("one")
    lab.change("one", 3)
    assert follower.frames() == []
    lab.commit()
    assert held(follower) == [("snapshot", 0, 1, [(2, 1)])]


def test_epochs_without_a_change_widen_a_span_or_a_heartbeat(lab: EpochsLab) -> None:
    follower = lab.follow("one")
    follower.frames()
    for _ in range(3):
        lab.close()
        lab.commit()
    lab.epoch_of("one", 7)
    assert held(follower) == [("changes", 0, 4, [(7, 1)])]
    lab.close()
    lab.commit()
    lab.hub.heartbeat()
    lab.hub.heartbeat()
    assert follower.seen() == [("progress", "one", 4, 5)]
    lab.epoch_of("one", 8)
    assert follower.seen() == [("changes", "one", 5, 6)]


def test_who_comes_back_gets_what_lies_between(lab: EpochsLab) -> None:
    for value in range(1, 6):
        lab.epoch_of("one", value)
    follower = lab.follow("one", start={"one": 2})
    assert held(follower) == [("changes", 2, 5, [(3, 1), (4, 1), (5, 1)])]
    lab.epoch_of("one", -1)
    assert held(follower) == [("changes", 5, 6, [(1, -1)])]
    assert held(lab.follow("one", start={"one": 6})) == []
    assert held(lab.follow("one", start={"one": 0}))[0][3] == [(2, 1), (3, 1), (4, 1), (5, 1)]


def test_epochs_that_come_while_the_past_is_read_follow_it(lab: EpochsLab) -> None:
    lab.epoch_of("one", 1)
    lab.epoch_of("one", 2)
    lab.reads_at_once = False
    follower = lab.follow("one", start={"one": 1})
    lab.epoch_of("one", 3)
    lab.epoch_of("one", 4)
    assert follower.frames() == []
    lab.read()
    assert held(follower) == [("changes", 1, 2, [(2, 1)]), ("changes", 2, 4, [(3, 1), (4, 1)])]


@pytest.mark.parametrize("start", [{"one": 1}, None], ids=["from the logs", "from a snapshot of the open epoch"])
def test_a_heartbeat_waits_until_every_view_is_up_to_date(lab: EpochsLab, start: dict[str, int] | None) -> None:
    """A client that resumes would take its old rows for those of now."""
    lab.epoch_of("one", 1)
    lab.epoch_of("one", 2)
    lab.change("one", 3)
    lab.reads_at_once = False
    follower = lab.follow("one", start=start)
    lab.hub.heartbeat()
    assert follower.heartbeats == 0
    lab.close()
    lab.commit()
    lab.read()
    lab.hub.heartbeat()
    assert follower.heartbeats == 1


def test_more_than_the_queue_holds_is_read_from_the_log(tmp_path: Path) -> None:
    lab = EpochsLab(tmp_path, queue_kilobytes=20)
    follower = lab.follow("one")
    follower.frames()
    assert follower.subscription is not None
    follower.subscription.pause()
    for value in range(1, 31):
        lab.epoch_of("one", value)
    assert lab.hub.committed is not None
    assert lab.hub.committed.stream("one").kept <= 5
    follower.subscription.resume()
    assert held(follower) == [("changes", 0, 30, [(value, 1) for value in range(1, 31)])]


def test_what_is_retired_is_answered_by_a_snapshot_that_says_so(lab: EpochsLab) -> None:
    for value in range(1, 8):
        lab.epoch_of("one", value)
    retire_epochs(lab.log, 5)
    follower = lab.follow("one", start={"one": 2})
    (frame,) = follower.frames()
    assert (frame.header.kind, frame.header.to_epoch) == ("snapshot", 7)
    assert frame.header.reason == "epoch 3 is retired, the first that is left is 5"
    assert frame.rows is not None
    assert frame.rows.num_rows == 7
    assert follower.seen() == []
    assert held(lab.follow("one", start={"one": 4}))[0][:3] == ("changes", 4, 7)


@pytest.mark.parametrize(
    ("start", "run", "reason"),
    [
        (9, "", "expected an epoch of this run, the newest is 1, was 9"),
        (1, "abc", "expected epochs of the run 3e8, was abc"),
    ],
)
def test_epochs_of_another_run_are_answered_by_a_snapshot(lab: EpochsLab, start: int, run: str, reason: str) -> None:
    lab.epoch_of("one", 1)
    (frame,) = lab.follow("one", start={"one": start}, run=run).frames()
    assert (frame.header.kind, frame.header.to_epoch, frame.header.reason) == ("snapshot", 1, reason)


def test_a_run_has_one_name_over_restarts_and_retirement(lab: EpochsLab) -> None:
    for value in range(1, 5):
        lab.epoch_of("one", value)
    assert lab.hub.committed is not None
    run = lab.hub.committed.run
    retire_epochs(lab.log, 3)
    again = EpochsLab(lab.directory)
    assert again.hub.committed is not None
    assert again.hub.committed.run == run


def test_a_process_ended_before_a_commit_sent_nothing_of_it(lab: EpochsLab) -> None:
    lab.epoch_of("one", 1)
    follower = lab.follow("one")
    lab.change("one", 2)
    lab.close()
    assert [kind for kind, *_ in follower.seen()] == ["snapshot"]
    again = EpochsLab(lab.directory)
    later = again.follow("one", start={"one": 1})
    assert later.frames() == []
    again.epoch_of("one", 3)
    assert held(later) == [("changes", 1, 2, [(3, 1)])]


def test_a_later_view_begins_empty_and_a_namesake_anew(
    lab: EpochsLab,
) -> None:
    lab.epoch_of("one", 1)
    longer = extend_program(lab.program, [select("late")], [RELATION])
    born = lab.catalogue(longer, {"late": [7, 8]})
    lab.epoch_of("late", 9)
    assert held(lab.follow("late", start={"late": 0})) == [("changes", 0, 3, [(7, 1), (8, 1), (9, 1)])]
    assert held(lab.follow("late", start={"late": born})) == [("changes", 2, 3, [(9, 1)])]
    follower = lab.follow("late")
    follower.frames()
    gone = lab.catalogue(without_view(lab.program, "late"))
    (told,) = follower.frames()
    assert (told.header.kind, told.header.reason) == ("error", f"dropped at epoch {gone}")
    assert follower.is_finished
    lab.catalogue(extend_program(lab.program, [select("late")], [RELATION]), {"late": [1]})
    (frame,) = lab.follow("late", start={"late": 3}).frames()
    assert frame.header.kind == "snapshot"
    assert frame.header.reason == "view late of epoch 3 ended with epoch 3, another view has its name"


def test_a_dropped_view_is_told_to_end_when_that_is_committed(lab: EpochsLab) -> None:
    longer = extend_program(lab.program, [select("late")], [RELATION])
    lab.catalogue(longer, {"late": [7]})
    follower = lab.follow("late", "one")
    follower.frames()
    assert follower.subscription is not None
    follower.subscription.pause()
    lab.catalogue(without_view(lab.program, "late"))
    assert follower.seen() == [("error", "late", 1, 2)]
    assert not follower.is_finished


def test_a_refilled_view_begins_with_a_snapshot(lab: EpochsLab) -> None:
    lab.epoch_of("one", 1)
    follower = lab.follow("one")
    follower.frames()
    lab.change("one", 2)
    lab.close()
    lab.commit(anew=["one"])
    (frame,) = follower.frames()
    assert (frame.header.kind, frame.header.reason) == ("snapshot", "the view was refilled at epoch 2")
    assert frame.rows is not None
    assert frame.rows.num_rows == 2
    (frame,) = lab.follow("one", start={"one": 0}).frames()
    assert (frame.header.kind, frame.header.reason) == ("snapshot", "view one was refilled at epoch 2")


def test_a_lane_that_failed_is_an_error_and_no_progress(lab: EpochsLab) -> None:
    follower = lab.follow("one")
    follower.frames()
    lab.hub.fail_lane("express", "too bad")
    (frame,) = follower.frames()
    assert (frame.header.kind, frame.header.reason) == ("error", "too bad")
    lab.commit()
    lab.hub.heartbeat()
    assert follower.frames() == []
    assert [f.header.kind for f in lab.follow("one").frames()] == ["error"]


def test_a_failed_lane_ends_the_wait_for_a_snapshot(lab: EpochsLab) -> None:
    """No epoch of the lane is committed any more, so that the snapshot would never come."""
    lab.change("one", 1)
    follower = lab.follow("one")
    assert follower.frames() == []
    lab.hub.fail_lane("express", "too bad")
    (frame,) = follower.frames()
    assert (frame.header.kind, frame.header.reason) == ("error", "too bad")


def test_a_failure_belongs_to_its_epoch(lab: EpochsLab) -> None:
    follower = lab.follow("one")
    follower.frames()
    lab.close()
    lab.commit(failed={"one": "overflow"})
    (frame,) = follower.frames()
    assert (frame.header.kind, frame.header.to_epoch, frame.header.reason) == ("error", 1, "overflow")


def test_the_versions_of_the_spark_lane_are_its_epochs(tmp_path: Path) -> None:
    lab = EpochsLab(tmp_path, [select("one"), select("two", "spark")])
    lab.spark(3, {"two": [1]})
    follower = lab.follow("two", "one")
    assert held(follower)[0] == ("snapshot", 0, 3, [(1, 1)])
    lab.spark(5, {})
    lab.spark(9, {"two": [2]})
    assert held(follower) == [("changes", 3, 9, [(2, 1)])]
    again = EpochsLab(tmp_path)
    assert held(again.follow("two", start={"two": 3})) == [("changes", 3, 9, [(2, 1)])]
    assert held(again.follow("two", start={"two": 5})) == [("changes", 5, 9, [(2, 1)])]
    assert held(again.follow("two", start={"two": 0})) == [("changes", 0, 9, [(1, 1), (2, 1)])]
    (frame,) = again.follow("two", start={"two": 4}).frames()
    assert frame.header.reason == "epoch 4 is retired, or not the end of one of Spark's batches"


def test_a_slow_follower_of_two_views_gets_them_in_turn(tmp_path: Path) -> None:
    lab = EpochsLab(tmp_path, [select("one"), select("two")])
    for value in range(1, 5):
        lab.epoch_of("one", value)
        lab.epoch_of("two", value)
    follower = lab.follow("one", "two", start={"one": 0, "two": 2}, stops_after=1)
    assert follower.subscription is not None
    seen = follower.seen()
    for _ in range(8):
        follower.subscription.resume()
        lab.epoch_of("one", 9)
        seen += follower.seen()
    spans = {name: [(begin, to) for _, view, begin, to in seen if view == name] for name in ("one", "two")}
    assert spans["two"][0][0] == 2
    for told in spans.values():
        assert all(before[1] == after[0] for before, after in pairwise(told))


def test_a_follower_has_one_piece_of_the_past_at_a_time(tmp_path: Path) -> None:
    """However many views it follows: what is read for a connection that is full is kept until it has room."""
    lab = EpochsLab(tmp_path, [select("one"), select("two")])
    lab.epoch_of("one", 1)
    lab.epoch_of("two", 2)
    lab.reads_at_once = False
    follower = lab.follow("one", "two", start={"one": 0, "two": 0})
    assert follower.subscription is not None
    follower.subscription.pause()
    (first,) = lab.reads
    lab.reads.clear()
    first[1].callback(first[0]())
    assert lab.reads == []
    follower.subscription.resume()
    assert held(follower) == [("changes", 0, 2, [(1, 1)])]
    lab.read()
    assert held(follower) == [("changes", 0, 2, [(2, 1)])]


def test_a_view_dropped_while_read_leaves_the_past_of_others(tmp_path: Path) -> None:
    lab = EpochsLab(tmp_path, [select("one"), select("two")])
    lab.epoch_of("one", 1)
    lab.epoch_of("two", 2)
    lab.reads_at_once = False
    follower = lab.follow("one", "two", start={"one": 0, "two": 0})
    assert follower.subscription is not None
    follower.subscription.leave("one")
    lab.read()
    assert held(follower) == [("changes", 0, 2, [(2, 1)])]


def test_who_leaves_leaves_nothing_behind(lab: EpochsLab) -> None:
    lab.change("one", 1)
    follower = lab.follow("one")
    assert follower.subscription is not None
    lab.hub.unsubscribe(follower.subscription)
    lab.close()
    lab.commit()
    assert follower.frames() == []
    assert lab.hub.subscribers == 0
    assert lab.hub.committed is not None
    assert lab.hub.committed.stream("one").kept == 0
