"""Watermarks of what is applied: the slowest of those who fill a relation says how far it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from runtime.engine.ingest.eventtimes import OVER, EventTimes

TIMES = {"trades": "t", "touches": "t", "ticks": "at"}


def origin(name: str, *relations: str, ended: bool = False, failure: str = "") -> Any:
    filled = [SimpleNamespace(name=each) for each in relations]
    return SimpleNamespace(name=name, ended=ended, failure=failure, adaptor=SimpleNamespace(relations=filled))


def ticks(*times: Any, kind: pa.DataType | None = None) -> dict[str, pa.RecordBatch]:
    return {"ticks": pa.record_batch({"at": pa.array(times, kind or pa.int64())})}


MARKET = origin("feed", "bids", "asks", "trades")


def test_a_feed_is_as_far_as_its_last_message() -> None:
    """No trade has come, and yet trades are as far as the book."""
    times = EventTimes()
    times.applied("feed", 9, {}, TIMES)
    assert times.watermarks([MARKET], [], TIMES) == {"trades": 9, "touches": 9}


def test_other_relations_are_as_far_as_their_largest_time() -> None:
    times = EventTimes()
    rows = origin("rows", "ticks")
    assert times.watermarks([rows], [], TIMES) == {}
    times.applied("rows", None, ticks(7), TIMES)
    times.applied("rows", None, ticks(3), TIMES)
    assert times.watermarks([rows], [], TIMES) == {"ticks": 7}


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [((3, None), pa.timestamp("us"), 3_000), ((2,), pa.date32(), 2 * 86_400 * 10**9), ((None,), pa.int64(), None)],
)
def test_watermarks_are_nanoseconds(values: tuple[Any, ...], kind: pa.DataType, expected: int | None) -> None:
    times = EventTimes()
    times.changed("rows", ticks(*values, kind=kind), TIMES)
    found = times.watermarks([origin("rows", "ticks")], [], TIMES)
    assert found == ({} if expected is None else {"ticks": expected})


def test_the_slowest_origin_counts() -> None:
    """One without a row holds the relation back, one that is over does not, and one that has failed does."""
    times = EventTimes()
    times.changed("a", ticks(10), TIMES)
    a, b = origin("a", "ticks"), origin("b", "ticks")
    assert times.watermarks([a, b], [], TIMES) == {}
    times.changed("b", ticks(4), TIMES)
    assert times.watermarks([a, b], [], TIMES) == {"ticks": 4}
    assert times.watermarks([a, origin("b", "ticks", ended=True)], [], TIMES) == {"ticks": 10}
    over = [origin("a", "ticks", ended=True), origin("b", "ticks", ended=True)]
    assert times.watermarks(over, [], TIMES) == {"ticks": OVER}
    failed = origin("b", "ticks", ended=True, failure="cable cut")
    assert times.watermarks([a, failed], [], TIMES) == {"ticks": 4}


def test_upstreams_are_origins_of_a_market() -> None:
    times = EventTimes()
    other: Any = SimpleNamespace(name="a")
    times.applied("feed", 9, {}, TIMES)
    assert times.watermarks([MARKET], [other], TIMES) == {}
    times.changed("a", {"trades": pa.record_batch({"t": [6]})}, TIMES)
    assert times.watermarks([MARKET], [other], TIMES) == {"trades": 6}
