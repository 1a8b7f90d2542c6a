"""A view that is open: rows and changes of pages add up to what the runtime has published."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from deltabook.dashboard.opened import MOST_CHANGES, MOST_ROWS, MOST_VIEWS, OpenView, OpenViews
from deltabook.wire.results import Frame, FrameHeader, encode_frame
from tests.unit.deltabook.dashboard.test_followers import Saying


def frame(kind: Any, rows: dict[int, int], step: int = 1, **more: Any) -> Frame:
    table = pa.table({"a": pa.array(list(rows), pa.int64()), "weight": pa.array(list(rows.values()), pa.int64())})
    return Frame(FrameHeader(kind, "v", 0, 7, step=step, **more), None if kind == "error" else table)


class PageRows:
    """What a page has of the rows: numbers and cells, put together from the changes."""

    def __init__(self) -> None:
        self.have, self.rows = 0, {}  # type: ignore[var-annotated]

    def read(self, view: OpenView, number: int) -> None:
        changes = view.rows.changes_after(self.have)
        if changes is not None:
            part = msgspec.json.decode(changes)
            self.rows = {} if part["all"] else self.rows
            for key, count, *cells in part["rows"]:
                self.rows.pop(key, None)
                if count:
                    self.rows[key] = (cells[0][0], count)
        self.have = number

    def multiset(self) -> Counter[str]:
        return Counter(dict(self.rows.values()))


CHANGES = st.lists(st.dictionaries(st.integers(0, 9), st.integers(-2, 3).filter(bool), max_size=6), max_size=20)


@given(st.dictionaries(st.integers(0, 9), st.integers(1, 3)), CHANGES, st.sets(st.integers(0, 20)))
def test_pages_that_read_at_any_time_have_the_rows_of_the_view(
    begin: dict[int, int], steps: list[dict[int, int]], reads: set[int]
) -> None:
    number = [1]
    view, page = OpenView("v", lambda: number[0]), PageRows()
    view.take(frame("snapshot", begin))
    held = Counter(begin)
    for at, step in enumerate(steps):
        number[0] += 1
        possible = {key: max(weight, -held[key]) for key, weight in step.items()}
        change = {key: weight for key, weight in possible.items() if weight}
        held.update(change)
        view.take(frame("changes", change))
        if at in reads:
            page.read(view, number[0])
            assert page.multiset() == Counter({str(key): count for key, count in held.items() if count})
    counts = view.counts()
    assert counts is not None
    assert (counts.total, counts.shown) == (held.total(), held.total())
    assert counts.added - counts.removed == held.total() - sum(begin.values())


def test_changes_are_newest_first_with_old_and_new_values() -> None:
    view = OpenView("v", lambda: 1)
    view.take(frame("snapshot", {5: 1}))
    assert msgspec.json.decode(view.changes.changes_after(0) or b"")["rows"] == []
    view.take(frame("changes", {7: 1, 5: -1, 6: 2}, step=4))
    rows = msgspec.json.decode(view.changes.changes_after(0) or b"")["rows"]
    assert rows == [[1, 4, -1, ["5"]], [2, 4, 2, ["6"]], [3, 4, 1, ["7"]]]
    view.take(frame("changes", dict.fromkeys(range(100, 100 + 2 * MOST_CHANGES), 1)))
    assert len(view.changes) == MOST_CHANGES
    counts = view.counts()
    assert counts is not None
    assert (counts.added, counts.removed, counts.total) == (3 + 2 * MOST_CHANGES, 1, 3 + 2 * MOST_CHANGES)


def test_of_a_large_view_the_newest_rows_are_kept() -> None:
    view = OpenView("v", lambda: 1)
    view.take(frame("snapshot", dict.fromkeys(range(3 * MOST_ROWS), 1)))
    for first in range(3 * MOST_ROWS, 9 * MOST_ROWS, 100):
        view.take(frame("changes", dict.fromkeys(range(first, first + 100), 1)))
        assert len(view.rows) <= 2 * MOST_ROWS
    page = PageRows()
    page.read(view, 1)
    assert page.multiset() == Counter(map(str, range(8 * MOST_ROWS, 9 * MOST_ROWS)))
    counts = view.counts()
    assert counts is not None
    assert (counts.shown, counts.total) == (MOST_ROWS, 9 * MOST_ROWS)
    view.take(frame("changes", {1: -1}))
    assert page.multiset() == Counter(map(str, range(8 * MOST_ROWS, 9 * MOST_ROWS))), "of one that is not kept"


def test_cells_are_texts_with_all_their_digits() -> None:
    view = OpenView("v", lambda: 1)
    fields = [
        pa.field("a", pa.decimal128(38, 0)),
        pa.field("b", pa.int64(), metadata={"scale": "2"}),
        pa.field("c", pa.string()),
        pa.field("d", pa.bool_()),
        pa.field("weight", pa.int64()),
    ]
    columns = [[12345678901234567890123456789], [-5], [None], [True], [1]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    view.take(Frame(FrameHeader("snapshot", "v"), table))
    rows = msgspec.json.decode(view.rows.changes_after(0) or b"")["rows"]
    assert rows == [[1, 1, ["12345678901234567890123456789", "-0.05", None, "true"]]]


def test_a_view_is_followed_while_a_page_has_it_open() -> None:
    clock, peer = Clock(), Saying()
    opened = OpenViews(peer, clock, lambda: 1)
    peer.answers["/v1/views/v/explain"] = b"view v\n"
    opened.start()
    opened.want("v")
    clock.pump([0.5] * 3)
    assert [path for path, _ in peer.listening] == ["/v1/changes?views=v"]
    view = opened.get("v")
    assert view is not None
    assert (view.explain, view.counts()) == ("view v\n", None)
    told = frame("snapshot", {5: 1})
    peer.listening[0][1].dataReceived(encode_frame(told.header, told.rows))
    peer.listening[0][1].connectionLost()
    opened.want("v")
    clock.pump([0.5])
    assert len(peer.listening) == 2, "a subscription that has ended is begun again"
    clock.pump([0.5] * 8)
    assert opened.get("v") is None
    clock.pump([0.5] * 8)
    assert len(peer.listening) == 2, "nobody looks"


def test_why_a_view_stands_still_is_said_and_its_rows_stay() -> None:
    clock, peer = Clock(), Saying()
    opened = OpenViews(peer, clock, lambda: 1)
    opened.start()
    opened.want("v")
    clock.pump([0.5])
    view = opened.get("v")
    assert view is not None
    counts = view.counts()
    assert counts is not None
    assert "expected something else" in counts.problem
    view.take(frame("snapshot", {5: 1}))
    view.take(frame("error", {}, reason="dropped at epoch 3"))
    counts = view.counts()
    assert counts is not None
    assert (counts.problem, counts.total) == ("dropped at epoch 3", 1)


def test_only_so_many_views_are_followed() -> None:
    clock, peer = Clock(), Saying()
    opened = OpenViews(peer, clock, lambda: 1)
    peer.answers |= {f"/v1/views/v{number}/explain": b"x" for number in range(2 * MOST_VIEWS)}
    opened.start()
    for number in range(2 * MOST_VIEWS):
        opened.want(f"v{number}")
    clock.pump([0.5])
    assert len(peer.listening) == MOST_VIEWS
