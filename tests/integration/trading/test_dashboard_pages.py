"""Fifty pages of one dashboard over real sockets, ten of which stand still; and strangers that are sent away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.browser.peers import Peers
from tests.integration._processes import Running

pytestmark = pytest.mark.process

FRAMES = 25


@pytest.fixture
def board() -> Iterator[tuple[Peers, Running]]:
    with Peers() as peers:
        peers.keep("book_depth", [("ACME", "B", 9_000 + level, 5, 1) for level in range(40)])
        with Running("dashboard", "--results", peers.address, "--status-interval", "0.1") as process:
            process.figures(lambda figures: figures["symbols"] == 1, "a symbol")
            yield peers, process


def where(process: Running) -> str:
    return f"ws://127.0.0.1:{process.ready().ports['http']}/v1/frames"


class Page:
    """What a page knows."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket, self.have, self.symbol_have = socket, 0, 0
        self.sections: dict[str, Any] = {}
        self.bids: list[Any] = []

    async def ask(self) -> None:
        question = {"have": self.have, "symbol": "ACME", "symbol_have": self.symbol_have}
        await self.socket.send(json.dumps(question))

    async def pull(self) -> None:
        await self.ask()
        frame = json.loads(await self.socket.recv())
        assert frame["number"] > self.have
        self.have = self.symbol_have = frame["number"]
        self.sections |= {name: value for name, value in frame.items() if name not in {"number", "market_ms", "symbol"}}
        part = frame["symbol"].get("bids", {"count": len(self.bids), "rows": []})
        del self.bids[part["count"] :]
        self.bids += [None] * (part["count"] - len(self.bids))
        for place, row in part["rows"]:
            self.bids[place] = row


async def watch(process: Running, peers: Peers) -> list[list[Any]]:
    """The bids that forty pages know in the end, beside five that ask once and five that ask and never read."""
    url = where(process)
    sockets = [await connect(url, max_queue=1) for _ in range(50)]
    pages = [Page(socket) for socket in sockets]
    for stuck in pages[:5]:
        await stuck.ask()
    deaf = [asyncio.create_task(flood(page)) for page in pages[5:10]]

    async def follow(page: Page, number: int) -> None:
        for at in range(FRAMES):
            if number == 0:
                peers.keep("book_depth", [("ACME", "B", 9_000 + level, 5 + at, 1) for level in range(40)])
            await page.pull()

    await asyncio.gather(*(follow(page, number) for number, page in enumerate(pages[10:])))
    newest = str(4 + FRAMES)
    while any(page.bids[0][1] != newest for page in pages[10:]):
        await asyncio.gather(*(page.pull() for page in pages[10:]))
    for task in deaf:
        task.cancel()
    known = [page.bids for page in pages[10:]]
    for socket in sockets:
        socket.transport.abort()
    return known


async def flood(page: Page) -> None:
    """Ask for everything again and again, and read nothing."""
    page.socket.transport.pause_reading()
    while True:
        await asyncio.wait_for(page.ask(), 60)  # a task of its own, so that the others have their turns


def test_ten_stalled_pages_change_nothing_for_forty_others(board: tuple[Peers, Running]) -> None:
    peers, process = board
    known = asyncio.run(asyncio.wait_for(watch(process, peers), 120))
    assert all(bids == known[0] for bids in known)
    figures = process.figures(lambda figures: figures["pages"] == 0, "the end of all pages")
    assert figures["frames_sent"] >= 40 * FRAMES
    assert figures["frames_encoded"] < figures["frames_sent"] / 4, "frames are shared by pages in step"


async def refused(url: str, **more: Any) -> int:
    """Status of a socket that is not opened."""
    try:
        await connect(url, **more)
    except InvalidStatus as error:
        return error.response.status_code
    return 101


def test_pages_of_others_are_sent_away(board: tuple[Peers, Running]) -> None:
    """One whose name leads to this machine says that name as the host, another one its origin."""
    url = where(board[1])
    host = url.split("/")[2]
    assert asyncio.run(refused(url, origin="http://evil.example")) == 403
    assert asyncio.run(refused(url, additional_headers={"Host": "evil.example"})) in {400, 403}
    assert asyncio.run(refused(url, origin=f"http://{host}")) == 101


async def ended(url: str, *messages: str | bytes) -> int:
    """The code with which a socket is closed that says this."""
    async with connect(url) as socket:
        try:
            for message in messages:
                await socket.send(message)
            while True:
                await socket.recv()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006


@pytest.mark.parametrize(
    ("message", "code"),
    [("{", 1008), ('{"have":-1}', 1008), ('{"what":1}', 1008), (b"{}", 1003), ("x" * 100_000, 1009)],
    ids=["no-json", "negative", "unknown", "binary", "long"],
)
def test_what_is_no_question_ends_its_page_alone(board: tuple[Peers, Running], message: str | bytes, code: int) -> None:
    url = where(board[1])
    assert asyncio.run(asyncio.wait_for(ended(url, message), 60)) == code

    async def pull() -> dict[str, Any]:
        async with connect(url) as socket:
            page = Page(socket)
            await page.pull()
            return page.sections

    assert "links" in asyncio.run(asyncio.wait_for(pull(), 60))
