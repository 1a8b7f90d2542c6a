"""Followers of peers: what they say is kept, what they lose is found again, and the lamps tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock

from deltabook.dashboard.followers import AlgoFollower, ExchangeFollower, ResultsFollower
from deltabook.dashboard.market import VIEWS, DisplayedMarket
from deltabook.dashboard.peers import Link, Peer
from deltabook.dashboard.scales import Scales
from deltabook.wire.admin import Book, Statistics, SymbolLine
from deltabook.wire.http.peer import RefusedError
from deltabook.wire.results import FrameHeader, encode_frame
from deltabook.wire.strategies import FillLine, Fills, OrderLine, Orders, Strategies
from tests.unit.deltabook.dashboard.test_market import frame


class Saying:
    """A peer in memory: path → what it answers; an error is raised."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.listening: list[tuple[str, Protocol]] = []
        self.is_down = False

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """See `Asker`."""
        self.asked.append(f"{method} {path}")
        if self.is_down:
            raise ConnectionRefusedError("nobody there")
        answer = self.answers.get(path)
        if answer is None:
            raise RefusedError(404, f"expected something else, was {path}")
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)

    async def listen(self, path: str, listener: Protocol) -> None:
        """See `Asker`."""
        self.listening.append((path, listener))


def offer(lanes: Mapping[str, str], **more: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "lane": lane, "columns": [{"name": c} for c in VIEWS.get(name, ())], **more}
        for name, lane in lanes.items()
    ]


class Runtime:
    """A follower of a runtime on a clock."""

    def __init__(self) -> None:
        self.clock, self.peer, self.market = Clock(), Saying(), DisplayedMarket()
        self.peer.answers = {"/v1/status": {"epoch": 3}, "/v1/views": offer({"best_quote": "express", "tape": "spark"})}
        self.link = Link(Peer("127.0.0.1:1"), lambda: int(self.clock.seconds() * 1000))
        self.rounds = 0
        self.results = ResultsFollower(self.peer, self.link, self.market, self.clock, self._round)

    def _round(self) -> None:
        self.rounds += 1

    def run(self, seconds: float) -> None:
        self.clock.pump([0.25] * int(seconds * 4))

    def state(self) -> str:
        return self.link.state

    def say(self, at: int, *frames: bytes) -> None:
        self.peer.listening[at][1].dataReceived(b"".join(frames))


BEAT = encode_frame(FrameHeader("heartbeat", ""))


def test_a_runtime_whose_time_up_falls_was_restarted() -> None:
    """Also one that was away for longer than it had been up."""
    rig = Runtime()
    rig.peer.answers["/v1/statistics"] = {"up_s": 100.0}
    rig.results.start()
    rig.run(1)
    rig.peer.answers["/v1/statistics"] = {"up_s": 103.0}
    rig.run(3)
    assert (rig.link.line.restarts, rig.link.line.restarted_ms) == (0, None)
    rig.peer.answers["/v1/statistics"] = {"up_s": 1.0}
    rig.run(2)
    line = rig.link.line
    assert line.restarts == 1
    assert line.restarted_ms is not None
    assert 0 <= 1000 * (rig.clock.seconds() - 1) - line.restarted_ms <= 2_000, "asked for every two seconds"
    rig.peer.is_down = True
    rig.run(60)
    rig.peer.is_down = False
    rig.peer.answers["/v1/statistics"] = {"up_s": 5.0}
    rig.run(2)
    assert rig.link.line.restarts == 2


def test_views_of_a_spark_that_is_starting_are_not_stale() -> None:
    rig = Runtime()
    rig.peer.answers["/v1/status"] = {"spark": "starting"}
    rig.results.start()
    for _ in range(8):
        rig.run(1)
        rig.say(0, BEAT)
    assert rig.state() == "live"
    rig.peer.answers["/v1/status"] = {"spark": "up"}
    rig.run(1)
    assert rig.state() == "stale"
    assert "lane spark" in rig.link.line.words


def quote(bid: int) -> bytes:
    told = frame("snapshot", "best_quote", {("A", bid, 1, bid + 1, 1): 1})
    return encode_frame(told.header, told.rows)


def test_each_lane_is_one_subscription() -> None:
    rig = Runtime()
    rig.results.start()
    paths = [path for path, _ in rig.peer.listening]
    assert paths == ["/v1/changes?views=best_quote", "/v1/changes?views=tape"]
    assert (rig.link.state, rig.results.figures) == ("live", {"epoch": 3})
    rig.peer.answers["/v1/statistics"] = {"epoch": 1, "memory_bytes": 5}
    rig.run(3)
    assert rig.results.figures == {"epoch": 3, "memory_bytes": 5}
    assert len(rig.peer.listening) == 2, "once is enough"
    rig.say(0, quote(10)[:7])
    rig.say(0, quote(10)[7:])
    assert rig.market.quotes["A"].bid_ticks == 10


def test_absent_and_failed_views_are_named_with_the_reason() -> None:
    rig = Runtime()
    rig.peer.answers["/v1/views"] = [
        *offer({"best_quote": "express"}),
        *offer({"tape": "spark"}, failed="too wide"),
        {"name": "book_depth", "lane": "spark", "columns": [{"name": "symbol"}]},
    ]
    rig.results.start()
    assert rig.results.missing == {
        "book_depth": "it has no column side, price, volume, orders",
        "bars_1m": "the runtime does not keep it",
        "bars_1s": "the runtime does not keep it",
        "tape": "it failed: too wide",
        "vwap_book": "the runtime does not keep it",
        "vwap_trades": "the runtime does not keep it",
    }


def test_an_added_view_is_subscribed_and_a_dropped_forgotten() -> None:
    rig = Runtime()
    rig.results.start()
    rig.say(0, quote(10))
    rig.peer.answers["/v1/views"] = offer({"book_depth": "express", "best_quote": "express"})
    rig.run(2)
    assert rig.peer.listening[-1][0] == "/v1/changes?views=best_quote,book_depth"
    rig.peer.answers["/v1/views"] = offer({"book_depth": "express"})
    rig.run(2)
    assert rig.market.known == set()


def test_a_view_that_returns_is_subscribed_again() -> None:
    """Between two requests of the views, so that the list of names is the same before and after."""
    rig = Runtime()
    rig.peer.answers["/v1/views"] = offer({"best_quote": "express", "book_depth": "express"})
    rig.results.start()
    rig.run(0.5)
    asked = rig.peer.asked.count("GET /v1/views")
    ended: list[bool] = []
    changes = rig.peer.listening[0][1]
    changes.abort = lambda: ended.append(True)  # type: ignore[attr-defined]
    rig.say(0, encode_frame(FrameHeader("error", "best_quote", reason="dropped at epoch 3")))
    assert ended == [True]
    changes.connectionLost()
    rig.run(0.5)
    assert rig.peer.asked.count("GET /v1/views") == asked + 1
    assert [path for path, _ in rig.peer.listening] == ["/v1/changes?views=best_quote,book_depth"] * 2


def test_silence_is_stale_and_a_heartbeat_is_not() -> None:
    rig = Runtime()
    rig.peer.answers["/v1/views"] = offer({"best_quote": "express"})
    rig.results.start()
    for _ in range(8):
        rig.run(1)
        rig.say(0, BEAT)
    assert rig.state() == "live"
    rig.run(6)
    assert rig.state() == "stale"
    assert "lane express" in rig.link.line.words
    rig.say(0, BEAT)
    rig.run(1)
    assert rig.state() == "live"
    rig.run(25)
    assert len(rig.peer.listening) == 2, "what is dead is begun anew"


def test_a_lost_runtime_is_found_again_and_its_state_kept() -> None:
    rig = Runtime()
    rig.peer.answers["/v1/views"] = offer({"best_quote": "express"})
    rig.results.start()
    rig.say(0, quote(10))
    rig.peer.is_down = True
    rig.peer.listening[0][1].connectionLost()
    rig.run(2)
    assert (rig.link.state, rig.link.line.words) == ("lost", "nobody there")
    since = rig.link.line.since_ms
    rig.run(2)
    assert rig.link.line.since_ms == since
    assert rig.market.quotes["A"].bid_ticks == 10
    rig.peer.is_down = False
    rig.run(1)
    rig.say(1, quote(11))
    assert (rig.link.state, rig.market.quotes["A"].bid_ticks) == ("live", 11)
    assert rig.rounds > 4


def test_an_answer_that_ends_at_once_is_requested_again() -> None:
    rig = Runtime()

    class Ending(Saying):
        async def listen(self, path: str, listener: Protocol) -> None:
            await super().listen(path, listener)
            if len(self.listening) == 1:
                listener.connectionLost()

    rig.peer.__class__ = Ending
    rig.peer.answers["/v1/views"] = offer({"best_quote": "express"})
    rig.results.start()
    rig.run(2)
    assert len(rig.peer.listening) == 2


def test_unreadable_frames_end_the_subscription_alone() -> None:
    rig = Runtime()
    rig.results.start()
    rig.say(0, b"\xff" * 8)
    rig.peer.listening[0][1].connectionLost()
    rig.run(1)
    assert len(rig.peer.listening) == 3
    rig.peer.answers["/v1/views"] = b"no json"
    rig.run(2)
    assert rig.link.state == "lost"


def fill(number: int, time_ns: int) -> FillLine:
    return FillLine(number, time_ns, "sobi", "A", "B", 1, 10, "maker", 0, 1)


class Trading:
    """A follower of strategies on a clock."""

    def __init__(self, fills: tuple[FillLine, ...]) -> None:
        self.clock, self.peer = Clock(), Saying()
        self.clock.advance(1_000_000.0)
        self.link = Link(Peer("127.0.0.1:1"), lambda: 0)
        self.algos = AlgoFollower(self.peer, self.link, self.clock, lambda: None)
        self.say("run1", fills)

    def say(self, run: str, fills: tuple[FillLine, ...]) -> None:
        last = fills[-1].number if fills else 0
        self.peer.answers |= {
            "/v1/strategies": Strategies(1.0, 1, run, True, last, ()),
            "/v1/orders": Orders((OrderLine("sobi", 1, 2, "A", "B", 3, 0, 10, "accepted"),)),
        }
        for after in range(last + 1):
            later = tuple(f for f in fills if f.number > after)
            self.peer.answers[f"/v1/fills?after={after}"] = Fills(run, later, last)


def test_fills_are_asked_for_once_and_anew_of_another_run() -> None:
    rig = Trading((fill(1, 0), fill(2, 0)))
    rig.algos.start()
    rig.clock.pump([0.3] * 6)
    assert [each.number for each in rig.algos.fills] == [1, 2]
    assert len([path for path in rig.peer.asked if "fills" in path]) == 1
    rig.say("run2", (fill(1, 0),))
    rig.clock.pump([0.3] * 3)
    assert [each.number for each in rig.algos.fills] == [1]
    assert rig.link.state == "live"
    rig.peer.is_down = True
    rig.clock.pump([0.3] * 3)
    assert (rig.link.state, len(rig.algos.fills)) == ("lost", 1)


def test_fills_that_come_a_second_time_end_the_round() -> None:
    rig = Trading((fill(1, 0), fill(2, 0)))
    rig.peer.answers["/v1/fills?after=2"] = Fills("run1", (fill(2, 0),), 2)
    rig.peer.answers["/v1/strategies"] = Strategies(1.0, 1, "run1", True, 9, ())
    rig.algos.start()
    assert [each.number for each in rig.algos.fills] == [1, 2]
    assert len([path for path in rig.peer.asked if "fills" in path]) == 2


def test_a_fill_has_its_own_time_unless_the_clocks_differ() -> None:
    now_ns = 1_000_000 * 10**9
    rig = Trading((fill(1, now_ns - 300 * 10**9), fill(2, now_ns - 2 * 86_400 * 10**9)))
    rig.algos.start()
    placed = rig.algos.take_placed(rig.clock.seconds())
    assert [(f.number, at) for f, at in placed] == [(1, 999_700.0)], "two days ago is off the chart"
    rig.say("run1", (fill(3, now_ns), fill(4, 5)))
    rig.clock.pump([0.3] * 2)
    placed = rig.algos.take_placed(rig.clock.seconds())
    assert [f.number for f, _ in placed] == [3, 4]
    assert placed[0][1] == 1_000_000.0
    assert placed[1][1] == pytest.approx(rig.clock.seconds(), abs=0.4), "of a recorded day: it has just come"


def test_scales_and_phases_are_the_exchanges() -> None:
    clock, peer, scales = Clock(), Saying(), Scales()
    line = SymbolLine("A", 1, "halted", None, 0, None, 0, None, 0, "0.05")
    peer.answers = {
        "/v1/status": {"up_s": 5.0},
        "/v1/statistics": Statistics(1, 0, 0, 0, 0, 0, {}, (line, msgspec.structs.replace(line, symbol="B")), 2),
        "/v1/books/A?depth=1": Book("A", "halted", 1, "0.05", "0.001", None, (), ()),
    }
    exchange = ExchangeFollower(peer, Link(Peer("127.0.0.1:1"), lambda: 0), scales, lambda symbol: symbol == "A", clock)
    exchange.start()
    clock.pump([1.0] * 3)
    assert exchange.phases == {"A": "halted", "B": "halted"}
    assert (scales.price("A", 3), scales.quantity("A", 3), scales.knows("B")) == ("0.15", "0.003", False)
    assert len([path for path in peer.asked if "books" in path]) == 1
