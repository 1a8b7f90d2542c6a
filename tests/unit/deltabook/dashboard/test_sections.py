"""Panels of one symbol, and the symbols that have histories."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock

from deltabook.dashboard.app import Dashboard, DashboardConfig
from deltabook.dashboard.bars import Bars
from deltabook.dashboard.frames import Ask
from deltabook.dashboard.history import MOST_CHARTED, History
from deltabook.dashboard.market import DisplayedMarket
from deltabook.dashboard.peers import Peer
from deltabook.dashboard.scales import Scales
from deltabook.dashboard.sections import MOST_READ, SymbolPanels
from tests.unit.deltabook.dashboard.test_market import Row, frame
from tests.unit.deltabook.dashboard.test_pages import Wire


class SilentPeer:
    """A peer that never answers."""

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """See `deltabook.dashboard.peers.PeerRequests`."""
        answer: Deferred[bytes] = Deferred()
        return await answer

    async def listen(self, path: str, listener: Protocol) -> None:
        """See `deltabook.dashboard.peers.PeerRequests`."""
        await self.ask(path)


def tape_row(number: int, time_ns: int, price_ticks: int) -> Row:
    return "ACME", number, time_ns, price_ticks, 2


def test_an_order_of_many_trades_is_one_row_of_the_tape() -> None:
    """Its trades may be more than are read for a whole tape."""
    market = DisplayedMarket()
    count = MOST_READ + 50
    market.apply(frame("snapshot", "tape", {tape_row(n, 7, 100): 1 for n in range(1, count + 1)}))
    panels = SymbolPanels(market, Bars(History(), lambda: 1), Scales(), None)
    (row,) = panels.tape("ACME")
    assert (row.number, row.quantity, row.trades) == (1, str(2 * count), count)
    market.apply(frame("changes", "tape", {tape_row(count + 1, 8, 101): 1}))
    assert [row.number for row in panels.tape("ACME")] == [count + 1]


def test_a_page_cannot_use_up_the_histories() -> None:
    """A page may request any symbol; only those of the market have histories, of which there are few."""
    board = Dashboard(DashboardConfig(Peer("here:1")), Clock(), lambda: 10**18, lambda *_: SilentPeer())
    wire = Wire()
    page = board.pages.open(wire)
    assert page is not None

    def shown(symbol: str) -> dict[str, Any]:
        page.receive(msgspec.json.encode(Ask(symbol=symbol)))
        board.pages.tick()
        sections: dict[str, Any] = msgspec.json.decode(wire.sent[-1])["symbol"]
        return sections

    for number in range(MOST_CHARTED):
        assert "bars_1s" not in shown(f"NONE{number}")
    board.results.market.apply(frame("snapshot", "tape", {tape_row(1, 7, 100): 1}))
    assert len(shown("ACME")["bars_1s"]["rows"]) == 1
