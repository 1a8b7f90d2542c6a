"""Derived queries give what plain Python makes of the whole feed, wherever it is cut, restarted or done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators.derived_lab import (
    ENDED,
    Feed,
    Laboratory,
    Row,
    close,
    epochs_of,
    in_order_marks,
    random_feed,
    run_lab,
    stream_of,
)
from tests.harness.examples import examples

RANDOMS = st.integers(0, 2**32).map(Random)
DISORDER = st.sampled_from([0, 0, 4])
EXAMPLES = settings(max_examples=examples(30), deadline=None)


def check(sql: str, oracle: Callable[[Feed], list[Row]], random: Random, disorder: int, time: int = 0) -> None:
    """``time``: the place of the output's time; its watermark holds, and rows come in its order."""
    feed = random_feed(random, disorder=disorder)
    laboratory = run_lab(sql, feed, random, lateness=disorder)
    assert laboratory.rows == oracle(feed)
    assert laboratory.query.late == 0
    times = [row[time] for row in laboratory.rows]
    assert times == sorted(times)
    for count, watermark in laboratory.marks:
        assert all(each >= watermark for each in times[count:])


def key(value: Any) -> tuple[bool, Any]:
    """NULL last."""
    return (value is None, "" if value is None else value)


def sum_of(values: Iterable[Any]) -> Any:
    """SQL's sum, added up in order."""
    values = [value for value in values if value is not None]
    total = 0.0 if any(isinstance(value, float) for value in values) else 0
    for value in values:
        total += value
    return total if values else None


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_filter_and_project(random: Random, disorder: int) -> None:
    """Rows that are only looked at come in order of time."""
    check("SELECT t, k, price * 2 + volume AS x FROM trades WHERE price IS NOT NULL AND volume > 1",
          lambda feed: [(t, k, price * 2 + volume) for t, k, price, volume, *_ in stream_of(feed, "trades")
                        if price is not None and volume > 1], random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_union(random: Random, disorder: int) -> None:
    """A tape of two streams is in order of time, the first stream's rows first."""
    check("SELECT t, k, price FROM trades UNION ALL SELECT t, k, bid FROM quotes",
          lambda feed: sorted([row[:3] for row in [*stream_of(feed, "trades"), *stream_of(feed, "quotes")]],
                              key=lambda row: row[0]), random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_unnest(random: Random, disorder: int) -> None:
    """Every element with its number."""
    check("SELECT t, k, e, i FROM trades CROSS JOIN UNNEST(l) WITH ORDINALITY AS u(e, i)",
          lambda feed: [(row[0], row[1], e, i) for row in stream_of(feed, "trades")
                        for i, e in enumerate(row[5] or [], 1)], random, disorder)  # fmt: skip


def windows(
    rows: Iterable[Row], slide: int, size: int, by_key: bool = True
) -> dict[tuple[int, tuple[bool, Any]], list[Row]]:
    """The rows of each window and key, in the order of the windows."""
    groups: dict[tuple[int, tuple[bool, Any]], list[Row]] = {}
    for row in rows:
        start = row[0] // slide * slide
        while start + size > row[0]:
            groups.setdefault((start, key(row[1]) if by_key else key(None)), []).append(row)
            start -= slide
    return dict(sorted(groups.items()))


AGGREGATES = """FIRST(price) AS o, MAX(price) AS h, MIN(price) AS l, LAST(price) AS c, SUM(price * volume) AS pv,
    COUNT(*) AS n, COUNT(price) AS m, COUNT(DISTINCT price) AS d, SUM(f) AS sf, AVG(volume) AS av,
    SUM(volume) FILTER (price > 1) AS big"""


def aggregates(rows: list[Row]) -> Row:
    prices = [row[2] for row in rows]
    known = [price for price in prices if price is not None]
    return (
        prices[0], max(known, default=None), min(known, default=None), prices[-1],
        sum_of(None if row[2] is None else row[2] * row[3] for row in rows), len(rows), len(known), len(set(known)),
        sum_of(row[4] for row in rows), sum(row[3] for row in rows) / len(rows),
        sum_of(row[3] for row in rows if row[2] is not None and row[2] > 1),
    )  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER, st.sampled_from([(10, 10), (3, 10), (4, 8), (1, 3)]))
def test_tumbling_and_hopping_windows(random: Random, disorder: int, window: tuple[int, int]) -> None:
    """Every window of every key once, in order of the windows' ends, and sums of floats to the last bit."""
    slide, size = window
    text = f"TUMBLE(t, {size})" if slide == size else f"HOP(t, {slide}, {size})"
    check(f"SELECT window_start AS t, window_end, k, {AGGREGATES} FROM trades GROUP BY k, {text}",
          lambda feed: [(start, start + size, rows[0][1], *aggregates(rows))
                        for (start, _), rows in windows(stream_of(feed, "trades"), slide, size).items()],
          random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_windows_without_keys_and_with_having(random: Random, disorder: int) -> None:
    """A window alone is a key, and HAVING is about the window as a whole."""
    check("SELECT window_end AS t, SUM(volume) AS v FROM trades GROUP BY TUMBLE(t, 10) HAVING COUNT(*) > 1",
          lambda feed: [(start + 10, sum_of(row[3] for row in rows))
                        for (start, _), rows in windows(stream_of(feed, "trades"), 10, 10, by_key=False).items()
                        if len(rows) > 1], random, disorder)  # fmt: skip


def sessions(rows: Iterable[Row], gap: int) -> list[tuple[int, list[Row]]]:
    """The end of each session and its rows, in the order of ends and keys."""
    done: list[tuple[int, list[Row]]] = []
    open_: dict[Any, list[Row]] = {}
    for row in rows:
        current = open_.get(row[1])
        if current is None or row[0] - current[-1][0] >= gap:
            current = open_[row[1]] = []
            done.append((0, current))
        current.append(row)
    made = [(rows[-1][0] + gap, rows) for _, rows in done]
    return sorted(made, key=lambda each: (each[0], each[1][0][0], key(each[1][0][1])))


@EXAMPLES
@given(RANDOMS, DISORDER, st.integers(1, 6))
def test_session_windows(random: Random, disorder: int, gap: int) -> None:
    """A session ends when its key has been quiet for the gap."""
    check(f"SELECT window_end AS t, window_start, k, {AGGREGATES} FROM trades GROUP BY k, SESSION(t, {gap})",
          lambda feed: [(end, rows[0][0], rows[0][1], *aggregates(rows))
                        for end, rows in sessions(stream_of(feed, "trades"), gap)], random, disorder)  # fmt: skip


def weighted(rows: list[Row], before: list[Row], start: int, end: int) -> float | None:
    """The average of bid over the window, with what came before it."""
    points = [*before[-1:], *rows]
    spans = [(max(row[0], start), later, row[2]) for row, later in
             zip(points, [*(row[0] for row in points[1:]), end], strict=True)]  # fmt: skip
    total = sum((later - since) * bid for since, later, bid in spans if bid is not None)
    length = sum(later - since for since, later, bid in spans if bid is not None)
    return total / length if length else None


@EXAMPLES
@given(RANDOMS, DISORDER, st.sampled_from([(10, 10), (4, 10)]))
def test_time_weighted_average(random: Random, disorder: int, window: tuple[int, int]) -> None:
    """A value counts for as long as it holds, from before the window on."""
    slide, size = window

    def oracle(feed: Feed) -> list[Row]:
        rows = stream_of(feed, "quotes")
        found = []
        for (start, k), group in windows(rows, slide, size).items():
            before = [row for row in rows if key(row[1]) == k and row[0] < start]
            found.append((start, group[0][1], weighted(group, before, start, start + size)))
        return found

    sql = f"SELECT window_start AS t, k, TIME_WEIGHTED_AVG(bid, t) AS s FROM quotes GROUP BY k, HOP(t, {slide}, {size})"
    check(sql, oracle, random, disorder)


@EXAMPLES
@given(RANDOMS, DISORDER, st.booleans(), st.sampled_from([None, 0, 4]), st.booleans())
def test_asof_join(random: Random, disorder: int, outer: bool, tolerance: int | None, by_key: bool) -> None:
    """Each trade with the last quote that is not later, however far either stream is behind."""

    def oracle(feed: Feed) -> list[Row]:
        quotes = stream_of(feed, "quotes")
        found = []
        for row in stream_of(feed, "trades"):
            known = [q for q in quotes if q[0] <= row[0] and (not by_key or (q[1] == row[1] is not None))]
            match = known[-1] if known and (tolerance is None or row[0] - known[-1][0] <= tolerance) else None
            if match is not None or outer:
                found.append((row[0], row[1], row[3], *(match or (None, None, None))[::2]))
        return found

    within = "" if not tolerance else f" AND l.t - r.t <= {tolerance}"
    tolerance = tolerance or None
    check(f"SELECT l.t, l.k, volume, r.t AS u, bid FROM trades AS l ASOF {'LEFT ' if outer else ''}JOIN quotes AS r ON "
          f"{'l.k = r.k AND ' if by_key else ''}l.t >= r.t{within}", oracle, random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER, st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
def test_merge_join(random: Random, disorder: int, kind: str) -> None:
    """Rows of equal times and keys, in the order of both."""

    def oracle(feed: Feed) -> list[Row]:
        left, right = stream_of(feed, "trades"), stream_of(feed, "quotes")
        pairs: list[tuple[Row | None, Row | None]] = []
        for row in left:
            matches = [other for other in right if other[:2] == row[:2] and row[1] is not None]
            if kind in ("semi", "anti"):
                pairs += [(row, None)] if bool(matches) == (kind == "semi") else []
            else:
                pairs += [(row, other) for other in matches]
                pairs += [(row, None)] if not matches and kind in ("left", "full") else []
        if kind in ("right", "full"):
            matched = [other for _, other in pairs if other is not None]
            pairs += [(None, other) for other in right if not any(other is each for each in matched)]
        made = [((l or r)[0], (l or r)[1], None if l is None else l[3], None if r is None else r[2]) for l, r in pairs]  # type: ignore[index]  # noqa: E741
        return sorted(made, key=lambda row: (row[0], key(row[1]), repr(row)))

    both = kind in ("inner", "left", "right", "full")
    columns = (
        "COALESCE(l.t, r.t) AS t, COALESCE(l.k, r.k) AS k, volume, bid" if both else "l.t, l.k, volume, NULL AS bid"
    )
    if kind in ("inner", "left"):
        columns = columns.replace("COALESCE(l.t, r.t) AS t", "l.t")
    if kind == "right":
        columns = columns.replace("COALESCE(l.t, r.t) AS t", "r.t")
    sql = f"SELECT {columns} FROM trades AS l {kind} JOIN quotes AS r ON l.t = r.t AND l.k = r.k"
    feed = random_feed(random, disorder=disorder)
    laboratory = run_lab(sql, feed, random, lateness=disorder)
    given = laboratory.rows
    assert [(row[0], key(row[1])) for row in given] == sorted((row[0], key(row[1])) for row in given)
    assert sorted(given, key=lambda row: (row[0], key(row[1]), repr(row))) == oracle(feed)
    assert laboratory.rows == run_lab(sql, feed, random, lateness=disorder).rows  # the order too, wherever it is cut


@EXAMPLES
@given(RANDOMS, st.sampled_from(["inner", "left", "semi", "anti"]))
def test_lookup_join(random: Random, kind: str) -> None:
    """A row sees the table as of the barrier behind it."""
    feed = random_feed(random)
    held: Counter[Row] = Counter()
    for place in sorted((random.randint(0, len(feed)) for _ in range(8)), reverse=True):
        feed.insert(place, ("names", (random.choice(SYMBOLS_), random.choice([None, 1, 2]), random.choice("xy"), 1)))
    for place, (relation, row) in enumerate(list(feed)):
        if relation == "names":
            held[row[:3]] += 1
        elif held and random.random() < 0.2:
            gone = random.choice(sorted(held, key=repr))
            held -= Counter([gone])
            feed[place] = ("names", (*gone, -1))
    epochs = [*epochs_of(random, feed), []]
    columns = "l.t, l.k, volume, name" if kind in ("inner", "left") else "l.t, l.k, volume"
    sql = f"SELECT {columns} FROM trades AS l {kind} JOIN names AS n ON l.k = n.k AND l.volume = n.n"
    expected: list[Row] = []
    table: Counter[Row] = Counter()
    for epoch in epochs:
        table.update(Counter())
        for relation, row in epoch:
            if relation == "names":
                table[row[:3]] += row[3]
        for row in stream_of(epoch, "trades"):
            names = sorted(name for k, n, name in table.elements() if k == row[1] is not None and n == row[3])
            base = (row[0], row[1], row[3])
            if kind in ("semi", "anti"):
                expected += [base] if bool(names) == (kind == "semi") else []
            else:
                expected += [(*base, name) for name in names or ([None] if kind == "left" else [])]
    laboratory = Laboratory(sql, random)
    laboratory.run(epochs, [*in_order_marks(epochs[:-1]), {"trades": ENDED}])
    assert laboratory.rows == expected


SYMBOLS_ = ["A", "B", "ß", "C", None]


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_distinct(random: Random, disorder: int) -> None:
    """A row once, and nothing is kept behind the watermark."""
    check("SELECT DISTINCT t, k, volume FROM trades",
          lambda feed: list(dict.fromkeys((row[0], row[1], row[3]) for row in stream_of(feed, "trades"))),
          random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_first_row_of_each_key_and_window(random: Random, disorder: int) -> None:
    """The first of each key in each window, without an aggregation."""

    def oracle(feed: Feed) -> list[Row]:
        seen: dict[Any, Row] = {}
        for row in stream_of(feed, "trades"):
            seen.setdefault((row[1], row[3], row[0] // 12), (row[0], row[1], row[3]))
        return list(seen.values())

    check("SELECT t, k, volume FROM trades "
          "QUALIFY ROW_NUMBER() OVER (PARTITION BY k, volume, TUMBLE(t, 12) ORDER BY t) = 1", oracle, random,
          disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_lag(random: Random, disorder: int) -> None:
    """Changes alone, with what was before."""

    def oracle(feed: Feed) -> list[Row]:
        last: dict[Any, Any] = {}
        found = []
        for t, k, bid in stream_of(feed, "quotes"):
            if k not in last or bid != last[k]:
                found.append((t, k, bid, last.get(k)))
            last[k] = bid
        return found

    check("SELECT t, k, bid, LAG(bid) OVER (PARTITION BY k ORDER BY t) AS old FROM quotes "
          "QUALIFY bid IS DISTINCT FROM LAG(bid) OVER (PARTITION BY k ORDER BY t) "
          "OR LAG(t) OVER (PARTITION BY k ORDER BY t) IS NULL", oracle, random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER, st.integers(0, 9), st.integers(0, 9))
def test_row_number_and_limit(random: Random, disorder: int, count: int, offset: int) -> None:
    """Both count over all epochs and restarts."""
    check(f"SELECT t, k, ROW_NUMBER() OVER () AS n FROM trades LIMIT {count} OFFSET {offset}",
          lambda feed: [(row[0], row[1], n) for n, row in enumerate(stream_of(feed, "trades"), 1)
                        ][offset : offset + count], random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, DISORDER)
def test_windows_behind_an_asof_join_behind_a_subquery(random: Random, disorder: int) -> None:
    """Operators behind each other: bars of quotes, the bar before each trade, and windows of those."""

    def oracle(feed: Feed) -> list[Row]:
        bars = [(start + 5, rows[0][1], len(rows))
                for (start, _), rows in windows(stream_of(feed, "quotes"), 5, 5).items()]  # fmt: skip
        joined = []
        for row in stream_of(feed, "trades"):
            known = [bar for bar in bars if bar[0] <= row[0] and bar[1] == row[1] is not None]
            joined.append((row[0], row[1], known[-1][2] if known else None))
        return [(start, rows[0][1], len(rows), sum_of(row[2] for row in rows))
                for (start, _), rows in windows(joined, 20, 20).items()]  # fmt: skip

    check("""WITH bars AS (SELECT window_end AS t, k, COUNT(*) AS n FROM quotes GROUP BY k, TUMBLE(t, 5))
             SELECT window_start AS t, j.k, COUNT(*) AS c, SUM(n) AS s
             FROM (SELECT trades.t AS t, trades.k AS k, n FROM trades ASOF LEFT JOIN bars
                   ON trades.k = bars.k AND trades.t >= bars.t) AS j
             GROUP BY j.k, TUMBLE(t, 20)""", oracle, random, disorder)  # fmt: skip


@EXAMPLES
@given(RANDOMS, st.integers(0, 3))
def test_late_rows_are_set_aside_and_counted(random: Random, lateness: int) -> None:
    """A row older than its stream's watermark of the last barrier less the lateness, and no other, is late."""
    feed = [each for each in random_feed(random, disorder=8) if each[0] == "trades"]
    epochs = epochs_of(random, feed)
    laboratory = Laboratory("SELECT t, k, volume FROM trades", random, lateness=lateness)
    expected, late, mark = [], [], None
    for epoch, marks in zip(epochs, in_order_marks(epochs), strict=True):
        is_late = [mark is not None and row[0] < mark - lateness for _, row in epoch]
        late += [row for (_, row), each in zip(epoch, is_late, strict=True) if each]
        expected += [row for (_, row), each in zip(epoch, is_late, strict=True) if not each]
        before = laboratory.query.late
        laboratory.run([epoch], [marks])
        assert laboratory.query.late in (0, before)  # it was opened again behind its last epoch
        mark = marks["trades"]
    query = Laboratory("SELECT t, k, volume FROM trades", Random(0), lateness=lateness).query
    given_ = []
    for epoch, marks in zip([*epochs, []], [*in_order_marks(epochs), {"trades": ENDED}], strict=True):
        for relation, row in epoch:
            query.add(relation, batch_(relation, row))
        given_ += close(query, marks)
    assert query.late == len(late)
    assert [row["t"] for _, batch in query.take_late() for row in batch.to_pylist()] == [row[0] for row in late]
    assert query.late == 0
    assert [row[0] for row in given_] == [row[0] for row in sorted(expected, key=lambda row: row[0])]


def batch_(relation: str, row: Row) -> Any:
    from tests.generators.derived_lab import batch_of

    return batch_of(relation, [row])


@pytest.mark.parametrize("seed", range(3))
def test_state_of_a_long_feed_does_not_grow(seed: int) -> None:
    """What event time has passed is given up: windows, sessions, duplicates and rows that waited."""
    random = Random(seed)
    for sql in ("SELECT window_end AS t, k, COUNT(DISTINCT price) AS d FROM trades GROUP BY k, HOP(t, 5, 10)",
                "SELECT window_end AS t, k, COUNT(DISTINCT price) AS d FROM trades GROUP BY k, SESSION(t, 4)",
                "SELECT DISTINCT t, k FROM trades",
                "SELECT t, k FROM trades UNION ALL SELECT t, k FROM quotes"):  # fmt: skip
        laboratory = Laboratory(sql, random)
        feed = random_feed(random, most=400)
        epochs = [*epochs_of(random, feed), []]
        laboratory.run(epochs, [*in_order_marks(epochs[:-1]), {"trades": 2**40, "quotes": 2**40}])
        assert laboratory.query.held_rows() == 0
