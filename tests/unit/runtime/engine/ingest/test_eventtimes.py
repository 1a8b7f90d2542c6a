"""Watermarks of what is applied: the slowest of those who fill a relation says how far it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from runtime.engine.ingest.eventtimes import EventTimes

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
    assert times.watermarks([MARKET], [], TIMES)[0] == {"trades": 9, "touches": 9}


def test_other_relations_are_as_far_as_their_largest_time() -> None:
    times = EventTimes()
    rows = origin("rows", "ticks")
    assert times.watermarks([rows], [], TIMES)[0] == {}
    times.applied("rows", None, ticks(7), TIMES)
    times.applied("rows", None, ticks(3), TIMES)
    assert times.watermarks([rows], [], TIMES)[0] == {"ticks": 7}


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [((3, None), pa.timestamp("us"), 3_000), ((2,), pa.date32(), 2 * 86_400 * 10**9), ((None,), pa.int64(), None)],
)
def test_watermarks_are_nanoseconds(values: tuple[Any, ...], kind: pa.DataType, expected: int | None) -> None:
    times = EventTimes()
    times.changed("rows", ticks(*values, kind=kind), TIMES)
    found, _ = times.watermarks([origin("rows", "ticks")], [], TIMES)
    assert found == ({} if expected is None else {"ticks": expected})


def test_the_slowest_origin_counts() -> None:
    """One without a row holds the relation back, one that is over does not, and one that has failed does."""
    times = EventTimes()
    times.changed("a", ticks(10), TIMES)
    a, b = origin("a", "ticks"), origin("b", "ticks")
    assert times.watermarks([a, b], [], TIMES)[0] == {}
    times.changed("b", ticks(4), TIMES)
    assert times.watermarks([a, b], [], TIMES)[0] == {"ticks": 4}
    assert times.watermarks([a, origin("b", "ticks", ended=True)], [], TIMES) == ({"ticks": 10}, frozenset())
    over = [origin("a", "ticks", ended=True), origin("b", "ticks", ended=True)]
    assert times.watermarks(over, [], TIMES) == ({"ticks": 4}, frozenset({"ticks"})), "a restart may find more rows"
    failed = origin("b", "ticks", ended=True, failure="cable cut")
    assert times.watermarks([a, failed], [], TIMES)[0] == {"ticks": 4}


def test_upstreams_are_origins_of_a_market() -> None:
    times = EventTimes()
    other: Any = SimpleNamespace(name="a")
    times.applied("feed", 9, {}, TIMES)
    assert times.watermarks([MARKET], [other], TIMES)[0] == {}
    times.changed("a", {"trades": pa.record_batch({"t": [6]})}, TIMES)
    assert times.watermarks([MARKET], [other], TIMES)[0] == {"trades": 6}


def test_an_epoch_seals_the_time_of_its_slowest_feed() -> None:
    """For those who read the log: an end is not sealed, as the next start may read more."""
    times = EventTimes()
    other = origin("b", "trades")
    times.applied("feed", 9, {}, TIMES)
    assert times.sealed([MARKET], []) == {"trades": 9}
    assert times.sealed([MARKET, other], []) == {}
    times.applied("b", 4, {}, TIMES)
    assert times.sealed([MARKET, other, origin("rows", "ticks")], []) == {"trades": 4}
    over = origin("b", "trades", ended=True)
    assert times.sealed([MARKET, over], []) == {"trades": 9}
    assert times.sealed([origin("feed", "trades", ended=True), over], []) == {"trades": 9}
    assert times.sealed([MARKET, origin("b", "trades", ended=True, failure="cable cut")], []) == {"trades": 4}


def test_an_upstream_is_as_far_as_it_has_sealed() -> None:
    times = EventTimes()
    up: Any = SimpleNamespace(name="a")
    rows = {"trades": pa.record_batch({"t": [6]})}
    times.followed("a", SimpleNamespace(relations=rows, watermarks={"trades": 5, "quotes": 7}), TIMES)  # type: ignore[arg-type]
    assert times.sealed([], [up]) == {"trades": 5}
    times.followed("a", SimpleNamespace(relations=rows, watermarks=None), TIMES)  # type: ignore[arg-type]
    assert times.sealed([], [up]) == {"trades": 6}
