"""What a strategy remembers is on the disk with its orders, and comes back with the events since."""

from __future__ import annotations

from typing import Any

import pytest

from algo_engine.desk.memories import MOST_MEMORY_BYTES
from algo_engine.desk.order import Side
from algo_engine.desk.records import Checkpoint
from tests.generators.order_lab import OrderLab


@pytest.fixture
def lab() -> OrderLab:
    lab = OrderLab()
    lab.settle()
    lab.desk.end_recovery()
    return lab


def remembered(lab: OrderLab) -> dict[str, bytes]:
    return {each.name: each.data for each in lab.desk.recovered()}


def test_the_latest_of_a_name_is_restored_unless_forgotten(lab: OrderLab) -> None:
    """After the death of the process, without any order."""
    for name, data in (("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", b"")):
        lab.desk.remember(name, data)
    lab.turn()
    assert lab.desk.recovered() == [], "a run does not recover what it remembers itself"
    lab.kill()
    assert remembered(lab) == {"a": b"3"}


def test_events_since_come_with_it(lab: OrderLab) -> None:
    """Those of the journal, and those of the private stream that came while the engine was down."""
    first = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.exchange.fill(1, 2, 100)
    lab.told()
    lab.settle()
    lab.desk.remember("plan", b"x")
    lab.turn()
    lab.exchange.fill(1, 3, 100)
    lab.told()
    lab.settle()
    lab.kill()
    lab.exchange.fill(1, 5, 100)
    lab.told()
    lab.settle()
    (plan,) = lab.desk.recovered()
    fills = [(event.order.client_id, event.volume_lots) for event in plan.events if event.is_fill]
    assert fills == [(first, 3), (first, 5)]


def test_memories_have_a_limit(lab: OrderLab) -> None:
    """A checkpoint has all of them in one record, and a record that is too long could not be read again."""
    half = bytes(MOST_MEMORY_BYTES // 2 - 1)
    lab.desk.remember("a", half)
    lab.desk.remember("a", half)
    lab.desk.remember("b", half)
    with pytest.raises(ValueError, match=f"expected at most {MOST_MEMORY_BYTES} remembered bytes, was .* with c"):
        lab.desk.remember("c", b"1")
    lab.desk.remember("a", b"")
    lab.desk.remember("c", b"1")


def test_names_count_towards_the_limit(lab: OrderLab) -> None:
    with pytest.raises(ValueError, match="remembered bytes"):
        lab.desk.remember("n" * MOST_MEMORY_BYTES, b"1")


@pytest.mark.parametrize(("name", "data"), [("plan", "text"), ("plan", None), (1, b"x"), (b"plan", b"x")])
def test_what_could_not_be_read_again_is_not_written(lab: OrderLab, name: Any, data: Any) -> None:
    """The journal is read up to its first unreadable record: all later records would be lost."""
    lab.desk.remember("before", b"1")
    with pytest.raises(TypeError, match="expected a name as str and data as bytes to remember, was "):
        lab.desk.remember(name, data)
    lab.desk.remember("after", b"2")
    lab.turn()
    lab.kill()
    assert remembered(lab) == {"before": b"1", "after": b"2"}


def test_a_checkpoint_has_the_memories_of_its_moment() -> None:
    lab = OrderLab(compact_bytes=1)
    lab.desk.end_recovery()
    lab.desk.remember("plan", b"x")
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    checkpoint = lab.journal.durable[0]
    assert isinstance(checkpoint, Checkpoint)
    assert checkpoint.memories == {"plan": b"x"}
    lab.desk.remember("plan", b"y")
    assert checkpoint.memories == {"plan": b"x"}


def test_what_nobody_asks_for_is_forgotten(lab: OrderLab) -> None:
    """The strategy was changed: what its earlier version had in mind must not come back later."""
    lab.desk.remember("plan", b"x")
    lab.turn()
    lab.kill()
    lab.settle()
    lab.desk.end_recovery()
    lab.turn()
    lab.kill()
    assert remembered(lab) == {}


def test_compaction_keeps_it() -> None:
    """Each compaction begins a new journal with what is remembered."""
    lab = OrderLab(compact_bytes=64 * 20)
    lab.settle()
    lab.desk.end_recovery()
    lab.desk.remember("plan", b"x")
    for _ in range(50):
        lab.desk.submit(Side.BUY, "ACME", 10, 100)
        lab.settle()
        lab.exchange.fill(max(lab.exchange.resting), 10, 100)
        lab.told()
        lab.settle()
    assert len(lab.journal.durable) < 40
    lab.kill()
    lab.settle()
    assert remembered(lab) == {"plan": b"x"}


def test_an_order_is_never_without_its_memory() -> None:
    """Also where requests are synced behind their sending: these wait for the disk."""
    lab = OrderLab(is_behind=True)
    lab.settle()
    lab.desk.end_recovery()
    for _ in range(3):
        lab.desk.submit(Side.BUY, "ACME", 10, 100)
        lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.desk.remember("plan", b"x")
    lab.turn()
    assert len(lab.requests) == 1
    lab.crash()
    lab.settle()
    assert remembered(lab) == {"plan": b"x"}


def test_compaction_waits_until_it_is_seen() -> None:
    """Events since a memory would be lost by a compaction before the strategy has them."""
    lab = OrderLab(compact_bytes=64 * 20)
    lab.settle()
    lab.desk.end_recovery()
    lab.desk.remember("plan", b"x")
    lab.desk.submit(Side.BUY, "ACME", 900, 100)
    lab.settle()
    lab.kill()
    lab.settle()
    for _ in range(30):
        lab.exchange.fill(1, 1, 100)
        lab.told()
        lab.settle()
    (plan,) = lab.desk.recovered()
    assert sum(event.volume_lots for event in plan.events if event.is_fill) == 30
    lab.kill()
    lab.settle()
    (plan,) = lab.desk.recovered()
    assert sum(event.volume_lots for event in plan.events if event.is_fill) == 30
