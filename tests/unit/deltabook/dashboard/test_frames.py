"""A page that says what it has is sent what it has not, and never anything twice."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from deltabook.dashboard.frames import Ask, Frames, Scope
from deltabook.dashboard.history import MOST_POINTS, History, Mark, Point

ALL: Scope = ("all", "")


def decoded(data: bytes) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])


class Reader:
    """A page: what it has been told, and how far it is."""

    def __init__(self, symbol: str) -> None:
        self.symbol, self.have, self.symbol_have = symbol, 0, 0
        self.sections: dict[str, Any] = {}
        self.points: list[Any] = []

    def ask(self) -> Ask:
        return Ask(have=self.have, symbol=self.symbol, symbol_have=self.symbol_have)

    def read(self, data: bytes) -> None:
        frame = decoded(data)
        part = frame["symbol"]
        self.have = self.symbol_have = frame["number"]
        self.sections |= {name: value for name, value in frame.items() if name in {"a", "b"}}
        self.sections |= {name: value for name, value in part.items() if name == "c"}
        self.points = ([] if part["after"] == 0 else self.points) + part.get("points", [])


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), st.booleans(), st.sets(st.integers(0, 2))
        ),
        max_size=30,
    )
)
def test_pages_that_ask_at_any_time_are_told_everything_once(
    ticks: list[tuple[dict[str, int], bool, set[int]]],
) -> None:
    """Of a reader that misses some frames, one that misses others, and one that has all of them."""
    history = History()
    frames = Frames(history)
    readers = [Reader("S") for _ in range(3)]
    said: dict[str, int] = {}
    points: list[list[float | None]] = []
    for at, (changes, has_point, asking) in enumerate(ticks):
        if has_point:
            history.add("S", frames.number + 1, Point(at, 1.5, None, None, None))
            points.append([at, 1.5, None, None, None])
        frames.begin(at)
        for name, value in changes.items():
            frames.put(("symbol", "S") if name == "c" else ALL, name, value)
        said |= changes
        for reader in (readers[number] for number in asking):
            reader.read(frames.frame(reader.ask()))
            assert reader.sections == said
            assert reader.points == points


def test_what_has_not_changed_is_not_sent_again() -> None:
    frames = Frames(History())
    frames.begin(1)
    frames.put(ALL, "a", [1])
    first = decoded(frames.frame(Ask()))
    assert first["a"] == [1]
    frames.begin(2)
    frames.put(ALL, "a", [1])
    assert decoded(frames.frame(Ask(have=first["number"]))) == {"number": first["number"] + 1, "now_ms": 2}


def test_pages_in_step_share_one_encoded_frame() -> None:
    frames = Frames(History())
    frames.begin(1)
    assert frames.frame(Ask(symbol="S")) is frames.frame(Ask(symbol="S"))
    assert frames.frame(Ask(symbol="T")) != frames.frame(Ask(symbol="S"))
    assert frames.encoded == 2


def test_a_page_that_has_frames_of_an_earlier_process_is_told_everything() -> None:
    frames, far = Frames(History()), 10_000
    frames.begin(1)
    frames.put(ALL, "a", 1)
    frames.put(("symbol", "S"), "c", 2)
    frame = decoded(frames.frame(Ask(have=far, symbol="S", symbol_have=far)))
    assert (frame["a"], frame["symbol"]) == (1, {"name": "S", "after": 0, "c": 2})


def test_a_page_draws_no_points_of_an_older_scale() -> None:
    history = History()
    frames = Frames(history)
    history.add("S", frames.number + 1, Point(1, 10_000, None, None, None))
    frames.begin(1)
    have = decoded(frames.frame(Ask(symbol="S")))["number"]
    frames.begin(2)
    history.forget(frames.number)
    history.add("S", frames.number, Point(2, 100, None, None, None))
    frame = decoded(frames.frame(Ask(symbol="S", symbol_have=have)))
    assert frame["symbol"] == {"name": "S", "after": 0, "points": [[2, 100, None, None, None]]}
    frames.begin(3)
    again = decoded(frames.frame(Ask(symbol="S", symbol_have=frame["number"])))
    assert again["symbol"] == {"name": "S", "after": frame["number"]}


def test_scopes_that_nobody_asks_for_are_forgotten_and_come_back_whole() -> None:
    frames = Frames(History())
    frames.begin(1)
    frames.put(("view", "v"), "about", 1)
    have = frames.number
    frames.keep([])
    frames.begin(2)
    assert decoded(frames.frame(Ask(view="v")))["view"] == {"name": "v"}
    frames.put(("view", "v"), "about", 1)
    frames.begin(3)
    assert decoded(frames.frame(Ask(view="v", view_have=have)))["view"] == {"name": "v", "about": 1}


def test_a_history_is_bounded_and_marks_go_with_its_points() -> None:
    history = History()
    for second in range(MOST_POINTS + 5):
        history.add("S", second, Point(second, None, None, None, None))
    history.mark("S", MOST_POINTS, [Mark(3.0, 1.5, "B", "sobi, 3 at 1.50")])
    points, marks = (decoded(b"{" + part + b"}") for part in history.after("S", 0))
    assert [point[0] for point in points["points"]] == list(range(5, MOST_POINTS + 5))
    assert marks["marks"] == [[3.0, 1.5, "B", "sobi, 3 at 1.50"]]
    assert history.after("S", MOST_POINTS + 5) == []
    assert history.after("T", 0) == []
