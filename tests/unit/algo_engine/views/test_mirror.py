"""Frames become contents and changes."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from algo_engine.views.mirror import ViewMirror
from deltabook.wire.results import Frame, FrameHeader


def frame(kind: str, weights: list[int], prices: list[int | None], to: int, view: str = "v") -> Frame:
    schema = pa.schema(
        [
            pa.field("symbol", pa.string()),
            pa.field("price", pa.int64(), metadata={"scale": "2"}),
            pa.field("weight", pa.int64()),
        ]
    )
    rows = pa.table([["A"] * len(prices), prices, weights], schema=schema)
    return Frame(FrameHeader(kind, view, to - 1, to, {}, 7), rows)  # type: ignore[arg-type] # any kind


def test_a_snapshot_replaces_and_changes_add() -> None:
    mirror = ViewMirror()
    mirror.apply(frame("snapshot", [1, 1], [10, 11], 5))
    change = mirror.apply(frame("changes", [-1, 2], [10, 12], 6))
    assert change is not None
    assert ([row["price"] for row in change.added], [row["price"] for row in change.removed]) == ([12, 12], [10])
    assert sorted(row["price"] for row in mirror.contents("v").rows()) == [11, 12, 12]
    mirror.apply(frame("snapshot", [1], [None], 9))
    assert [row["price"] for row in mirror.contents("v").rows()] == [None]
    assert (mirror.contents("v").epoch, mirror.contents("v").scales) == (9, {"price": 2})


def test_a_snapshot_has_the_scales_of_its_own_schema() -> None:
    """A view of the same name and columns may be defined again while the connection is lost."""
    mirror = ViewMirror()
    mirror.apply(frame("snapshot", [1], [10], 5))
    again = frame("snapshot", [1], [10], 6)
    assert again.rows is not None
    schema = pa.schema([field.remove_metadata() for field in again.rows.schema])
    mirror.apply(Frame(again.header, again.rows.cast(schema)))
    assert mirror.contents("v").scales == {}


def test_changes_that_a_snapshot_already_holds_are_skipped() -> None:
    mirror = ViewMirror()
    mirror.apply(frame("snapshot", [1], [10], 5))
    assert mirror.apply(frame("changes", [1], [11], 5)) is None
    assert len(mirror.contents("v")) == 1


def test_heartbeats_and_early_changes_change_nothing() -> None:
    mirror = ViewMirror()
    assert mirror.apply(frame("changes", [1], [10], 5)) is None
    assert mirror.apply(Frame(FrameHeader("heartbeat", ""), None)) is None
    assert "v" not in mirror


def test_steps_of_the_express_lane_are_many_in_an_epoch() -> None:
    def step(kind: str, weight: int, price: int, number: int) -> Frame:
        made = frame(kind, [weight], [price], 5)
        return Frame(msgspec.structs.replace(made.header, from_epoch=5, step=number), made.rows)

    mirror = ViewMirror()
    mirror.apply(step("snapshot", 1, 10, 3))
    assert mirror.apply(step("changes", 1, 11, 3)) is None, "the snapshot has it"
    assert mirror.apply(step("changes", 1, 12, 4)) is not None
    assert mirror.apply(step("changes", 1, 13, 5)) is not None
    assert sorted(row["price"] for row in mirror.contents("v").rows()) == [10, 12, 13]
    mirror.apply(step("snapshot", 1, 20, 1))  # of a runtime that was started again, and counts from the beginning
    assert mirror.apply(step("changes", 1, 21, 2)) is not None


def test_wide_integers_are_pythons_own() -> None:
    rows = pa.table(
        {"volume": pa.array([86, 2**100, None], pa.decimal128(38, 0)), "weight": pa.array([1, 1, 1], pa.int64())}
    )
    change = ViewMirror().apply(Frame(FrameHeader("snapshot", "v", 0, 1), rows))
    assert change is not None
    assert [type(row["volume"]) for row in change.added] == [int, int, type(None)]
    assert [row["volume"] for row in change.added] == [86, 2**100, None]
