"""Histories are bounded, and are kept whether a page is open or not."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from deltabook.dashboard.history import MOST_CHARTED, MOST_MINUTES, MOST_SECONDS, FillMark, History, PriceLine, Series


def rows(series: Series, have: int = 0) -> list[Any]:
    changes = series.changes_after(have)
    return msgspec.json.decode(changes)["rows"] if changes is not None else []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=60), st.integers(1, 5))
def test_a_series_has_the_newest_keys_in_order_of_change(steps: list[tuple[int, int, bool]], most: int) -> None:
    series, key, number = Series(most), 0, 1
    expected: dict[int, list[int]] = {}
    for forward, value, is_new_frame in steps:
        key += forward
        number += is_new_frame
        if expected.get(key) != [key, value]:
            expected.pop(key, None)
            expected[key] = [key, value]
        series.put(number, key, (key, value))
        series._check()
        assert rows(series) == list(expected.values())[-most:]


def test_rows_that_end_before_what_is_held_replace_it() -> None:
    """The tape of another run of the market has lower numbers."""
    series = Series(5)
    series.replace(1, {7: (7, "a"), 9: (9, "b")})
    series.replace(2, {9: (9, "b"), 11: (11, "c")})
    assert rows(series, 1) == [[11, "c"]]
    series.replace(3, {2: (2, "d")})
    assert msgspec.json.decode(series.changes_after(2) or b"") == {"all": True, "rows": [[2, "d"]]}
    series.replace(4, {})
    assert rows(series) == []


def test_seconds_and_minutes_of_a_symbol_are_bounded() -> None:
    history = History()
    charted = history.of("S")
    assert charted is not None
    for second in range(0, 60 * (MOST_MINUTES + 3), 30):
        charted.add_line(1, PriceLine(second, 1.0 * second, None, None, None))
    assert len(charted.lines_1s) == MOST_SECONDS
    assert [line[0] for line in rows(charted.lines_1m)][:2] == [180, 240]
    assert rows(charted.lines_1m)[0][1] == 210.0, "the last of a minute stands for it"


def test_only_so_many_symbols_have_histories() -> None:
    history = History()
    assert all(history.of(f"S{number}") for number in range(MOST_CHARTED))
    assert history.of("another") is None
    assert history.of("S0") is history.of("S0")


def test_marks_are_numbered_so_that_two_of_a_second_are_two() -> None:
    charted = History().of("S")
    assert charted is not None
    for side in "BS":
        charted.add_mark(1, FillMark(0, 5.0, 100, side, 3, 1, "sobi"))
    assert [(mark[0], mark[3]) for mark in rows(charted.marks)] == [(1, "B"), (2, "S")]


def test_a_gap_lasts_from_the_loss_of_the_runtime_to_its_return() -> None:
    history = History()
    for time_s, is_live in ((10, True), (11, False), (12, False)):
        history.follow(1, time_s, is_live=is_live)
    assert rows(history.gaps) == [[11, None]]
    history.follow(2, 15, is_live=True)
    history.follow(2, 16, is_live=True)
    assert rows(history.gaps) == [[11, 15]]


def test_a_market_with_another_clock_keeps_its_candles_alone() -> None:
    """Until the first trade of a recorded day comes, its time is not known."""
    history = History()
    charted = history.of("S")
    assert charted is not None
    charted.bars_1s.put(1, 5, (5,))
    charted.add_line(1, PriceLine(1_700_000_000, 1.0, None, None, None))
    history.follow(1, 1_700_000_000, is_live=False)
    history.restart(2)
    assert [len(each) for each in (charted.bars_1s, charted.lines_1s, charted.lines_1m, history.gaps)] == [1, 0, 0, 0]
    history.follow(3, 7, is_live=True)
    assert rows(history.gaps) == [], "the gap was of the other clock"
