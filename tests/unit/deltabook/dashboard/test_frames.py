"""A page that says what it has is sent what it has not, and never anything twice."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from deltabook.dashboard.frames import Ask, Frames, Scope
from deltabook.dashboard.history import Series

ALL: Scope = ("all", "")
SYMBOL: Scope = ("symbol", "S")


def decoded(data: bytes) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])


class Reader:
    """A page: what it has been sent, and which frame it has."""

    def __init__(self) -> None:
        self.have = self.symbol_have = 0
        self.values: dict[str, Any] = {}
        self.rows: list[Any] = []
        self.series: dict[int, Any] = {}

    def ask(self) -> Ask:
        return Ask(have=self.have, symbol="S", symbol_have=self.symbol_have)

    def read(self, data: bytes) -> None:
        frame = decoded(data)
        part = frame["symbol"]
        assert frame["number"] > self.have
        self.have = self.symbol_have = frame["number"]
        self.values |= {name: value for name, value in frame.items() if name in {"a", "b"}}
        self.values |= {name: value for name, value in part.items() if name == "c"}
        if "rows" in part:
            del self.rows[part["rows"]["count"] :]
            self.rows += [None] * (part["rows"]["count"] - len(self.rows))
            for place, row in part["rows"]["rows"]:
                self.rows[place] = row
        if "series" in part:
            news = part["series"]
            held = {} if news["all"] else self.series
            self.series = held | {row[0]: row for row in news["rows"]}


STEPS = st.tuples(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
    st.lists(st.integers(0, 2), max_size=4),
    st.one_of(st.none(), st.integers(0, 3), st.just("clear")),
    st.sets(st.integers(0, 2)),
)


@given(st.lists(STEPS, max_size=30))
def test_pages_that_ask_at_any_time_are_told_everything_once(steps: list[tuple[Any, ...]]) -> None:
    """Values, rows and series, of pages that miss different frames."""
    frames, series = Frames(), Series(100)
    readers = [Reader() for _ in range(3)]
    said: dict[str, int] = {}
    entered: dict[int, Any] = {}
    for at, (changes, rows, entry, asking) in enumerate(steps):
        if entry == "clear":
            series.clear(frames.number + 1)
            entered = {}
        elif entry is not None:
            key = at // 3  # the same one several times
            entered[key] = [key, entry]
            series.put(frames.number + 1, key, (key, entry))
        frames.begin(at)
        frames.put_series(SYMBOL, {"series": series})
        for name, value in changes.items():
            frames.put(SYMBOL if name == "c" else ALL, name, value)
        frames.put_rows(SYMBOL, "rows", rows)
        said |= changes
        for reader in (readers[number] for number in asking):
            reader.read(frames.frame(reader.ask()))
            assert reader.values == said
            assert reader.rows == rows
            assert reader.series == entered


def test_what_has_not_changed_is_not_sent_again() -> None:
    frames = Frames()
    frames.begin(1)
    frames.put(ALL, "a", [1])
    frames.put_rows(ALL, "b", ["x", "y"])
    first = decoded(frames.frame(Ask()))
    assert (first["a"], first["b"]) == ([1], {"count": 2, "rows": [[0, "x"], [1, "y"]]})
    frames.begin(2)
    frames.put(ALL, "a", [1])
    frames.put_rows(ALL, "b", ["x", "y"])
    assert decoded(frames.frame(Ask(have=first["number"]))) == {"number": first["number"] + 1, "market_ms": 2}
    frames.begin(3)
    frames.put_rows(ALL, "b", ["x", "z"])
    assert decoded(frames.frame(Ask(have=first["number"])))["b"] == {"count": 2, "rows": [[1, "z"]]}


def test_pages_in_step_share_one_encoded_frame() -> None:
    frames = Frames()
    frames.begin(1)
    assert frames.frame(Ask(symbol="S")) is frames.frame(Ask(symbol="S"))
    assert frames.frame(Ask(symbol="T")) != frames.frame(Ask(symbol="S"))
    assert frames.encoded == 2


def test_a_page_of_an_earlier_process_gets_everything() -> None:
    frames, series, far = Frames(), Series(10), 10_000
    series.put(frames.number + 1, 1, (1, "x"))
    frames.begin(1)
    frames.put(ALL, "a", 1)
    frames.put(SYMBOL, "c", 2)
    frames.put_series(SYMBOL, {"series": series})
    frame = decoded(frames.frame(Ask(have=far, symbol="S", symbol_have=far)))
    assert frame["a"] == 1
    assert frame["symbol"] == {"name": "S", "c": 2, "series": {"all": True, "rows": [[1, "x"]]}}


def test_unused_scopes_are_forgotten_and_come_back_whole() -> None:
    frames = Frames()
    frames.begin(1)
    frames.put(("view", "v"), "about", 1)
    have = frames.number
    frames.keep([])
    frames.begin(2)
    assert decoded(frames.frame(Ask(view="v")))["view"] == {"name": "v"}
    frames.put(("view", "v"), "about", 1)
    frames.begin(3)
    assert decoded(frames.frame(Ask(view="v", view_have=have)))["view"] == {"name": "v", "about": 1}
