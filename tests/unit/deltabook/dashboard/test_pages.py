"""Pages pull: those that stand still cost nothing, and the others notice nothing of them."""

from __future__ import annotations

import msgspec
import pytest
from twisted.internet.task import Clock

from deltabook.dashboard.frames import Ask, Frames, Scope
from deltabook.dashboard.pages import FRAME_S, MOST_PAGES, STUCK_S, Page, Pages

ALL: Scope = ("all", "")


class Wire:
    """A page's connection in memory."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed: list[int] = []
        self.aborted = 0

    def send(self, data: bytes) -> None:
        """See `deltabook.dashboard.pages.Wire`."""
        self.sent.append(data)

    def close(self, code: int, reason: str) -> None:
        """See `deltabook.dashboard.pages.Wire`."""
        assert len(reason.encode()) <= 123, "a close frame holds no more"
        self.closed.append(code)

    def abort(self) -> None:
        """See `deltabook.dashboard.pages.Wire`."""
        self.aborted += 1


class Rig:
    """Pages on a clock, whose frames say the number of the tick."""

    def __init__(self, token: str = "") -> None:
        self.clock, self.frames, self.ticks = Clock(), Frames(), 0
        self.prepared: list[set[Scope]] = []
        self.is_broken = False
        self.pages = Pages(
            self.frames,
            self.clock,
            prepare=self._prepare,
            market_ms=lambda: 0,
            refusal=lambda said: "" if said == token else "expected the token, was another",
        )
        self.pages.start()

    def _prepare(self, scopes: set[Scope]) -> None:
        if self.is_broken:
            raise KeyError("S")
        self.ticks += 1
        self.prepared.append(scopes)
        self.frames.put(ALL, "tick", self.ticks)

    def page(self) -> tuple[Page, Wire]:
        wire = Wire()
        page = self.pages.open(wire)
        assert page is not None
        return page, wire

    def run(self, ticks: int) -> None:
        self.clock.pump([FRAME_S] * ticks)


def ask(page: Page, wire: Wire, symbol: str = "S") -> None:
    have = msgspec.json.decode(wire.sent[-1])["number"] if wire.sent else 0
    page.receive(msgspec.json.encode(Ask(have=have, symbol=symbol, symbol_have=have)))


def played(pulling: int, stuck: int, full: int) -> tuple[list[list[bytes]], Rig]:
    """What pages that pull were sent in twenty ticks beside others that ask once and never again, and full ones."""
    rig = Rig()
    movers = [rig.page() for _ in range(pulling)]
    others = [rig.page() for _ in range(stuck + full)]
    for page, wire in others:
        ask(page, wire)
    rig.run(1)
    for page, wire in others[:full]:
        ask(page, wire)
        page.full(rig.clock.seconds())
    for _ in range(20):
        for page, wire in movers:
            ask(page, wire)
        rig.run(1)
    return [wire.sent for _, wire in movers], rig


def test_ten_stalled_pages_change_nothing_for_forty_others() -> None:
    beside, rig = played(pulling=40, stuck=5, full=5)
    alone, _ = played(pulling=40, stuck=0, full=0)
    fields = [msgspec.json.decode(data)["tick"] for data in beside[0]]
    assert [[msgspec.json.decode(data)["tick"] - fields[0] for data in sent] for sent in beside] == [
        [msgspec.json.decode(data)["tick"] - 1 for data in sent] for sent in alone
    ]
    assert {len(sent) for sent in beside} == {20}
    assert rig.pages.figures()["stuck_pages"] == 5
    assert rig.pages.frames_sent == 40 * 20 + 10
    assert rig.frames.encoded == 20 + 1, "a frame is put together once for all that are in step"


def test_a_page_gets_one_frame_for_each_request() -> None:
    rig = Rig()
    page, wire = rig.page()
    rig.run(3)
    assert (wire.sent, rig.ticks) == ([], 0)
    ask(page, wire)
    ask(page, wire)
    rig.run(5)
    assert (len(wire.sent), rig.ticks) == (1, 1)


def test_a_full_page_gets_the_newest_frame_after_it_drains() -> None:
    rig = Rig()
    (page, wire), (other, heard) = rig.page(), rig.page()
    ask(page, wire)
    page.full(rig.clock.seconds())
    for _ in range(5):
        ask(other, heard)
        rig.run(1)
    assert wire.sent == []
    page.drained()
    rig.run(1)
    assert [msgspec.json.decode(data)["tick"] for data in wire.sent] == [6]


def test_a_page_that_is_full_for_too_long_is_closed() -> None:
    rig = Rig()
    page, wire = rig.page()
    page.full(rig.clock.seconds())
    page.full(rig.clock.seconds() + 1.0)
    rig.clock.pump([FRAME_S] * int(STUCK_S / FRAME_S - 2))
    assert wire.aborted == 0
    rig.clock.pump([FRAME_S] * 4)
    assert wire.aborted >= 1


def test_there_are_so_many_pages_and_no_more() -> None:
    rig, last = Rig(), Wire()
    pages = [rig.page()[0] for _ in range(MOST_PAGES)]
    assert rig.pages.open(last) is None
    assert last.closed == [1013]
    rig.pages.closed(pages[0])
    assert rig.pages.open(Wire()) is not None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b"{",
        b'{"have":-1}',
        b'{"what":1}',
        b'{"symbol":"%b"}' % (b"x" * 201),
        b"\xff",
        b'{"have":1e400}',
        b'{"have":1,"have":0}',
    ],
)
def test_what_is_no_question_closes_the_page_with_the_reason(message: bytes) -> None:
    rig = Rig()
    page, wire = rig.page()
    page.receive(message)
    rig.run(2)
    assert (wire.closed, wire.sent) == ([1008], [])


def test_a_token_is_requested_once_and_not_shared_by_pages() -> None:
    rig = Rig("secret")
    (page, wire), (stranger, heard) = rig.page(), rig.page()
    stranger.receive(b'{"token":"else"}')
    stranger.receive(b"{}")
    page.receive(b'{"token":"secret"}')
    rig.run(1)
    page.receive(b"{}")
    rig.run(1)
    assert (heard.closed, heard.sent, len(wire.sent)) == ([4401, 4401], [], 2)


def test_scopes_of_all_waiting_pages_are_updated_together() -> None:
    rig = Rig()
    for symbol, more in (("S", {}), ("T", {"view": "v"}), ("S", {"strategy": "sobi"})):
        page, _ = rig.page()
        page.receive(msgspec.json.encode({"symbol": symbol, **more}))
    rig.run(1)
    assert rig.prepared == [{("symbol", "S"), ("symbol", "T"), ("view", "v"), ("strategy", "sobi")}]


def test_a_frame_that_cannot_be_made_is_not_the_last() -> None:
    rig = Rig()
    page, wire = rig.page()
    rig.is_broken = True
    ask(page, wire)
    rig.run(1)
    assert wire.sent == []
    rig.is_broken = False
    rig.run(1)
    assert len(wire.sent) == 1


def test_a_stop_closes_every_page() -> None:
    rig = Rig()
    wires = [rig.page()[1] for _ in range(3)]
    rig.pages.stop()
    assert [wire.aborted for wire in wires] == [1, 1, 1]
    ask(*rig.page())
    rig.run(3)
    assert rig.ticks == 0
