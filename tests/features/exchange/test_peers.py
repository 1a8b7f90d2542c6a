"""Rows 38 to 40 of docs/features/exchange.md: a slow and obvious model, and two independent programs, agree."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import itch.parser
import itch_book
import pytest

from deltabook.wire.itch import decode_message, frame
from exchange_server.journal import PacketFile
from exchange_server.nasdaq.mold import framed_messages
from tests.generators.itch_book import ItchBook, messages_of
from tests.generators.itch_peers import ItchMarket, PeerBook
from tests.property.exchange.driving import run_flow

LOCATES = (1, 2, 3)


@pytest.mark.parametrize("seed", range(100, 104))
def test_row_38_the_market_equals_a_slow_model(seed: int) -> None:
    pair = run_flow(seed, 400)
    assert pair.said > 400


@pytest.mark.parametrize("seed", range(4))
def test_row_38_a_book_from_the_feed_is_the_markets(seed: int) -> None:
    ours, book = ItchMarket(seed), ItchBook()
    for _ in range(1_500):
        book.take(messages_of(ours.step()))
        assert book.orders == ours.displayed()
    found = [(book.stocks_by_name[stock], price, shares, match) for match, stock, _, shares, price in book.trades]
    assert found == ours.trades
    assert len(found) > 20


@pytest.mark.parametrize("seed", range(4))
def test_row_39_itch_book_has_the_same_touch_and_trades(seed: int) -> None:
    """Live: it is fed what each request brings about."""
    ours, theirs = ItchMarket(seed), PeerBook()
    for _ in range(5_000):
        theirs.take(ours.step())
        assert {n: theirs.touch(n) for n in LOCATES} == {n: ours.touch(n) for n in LOCATES}
    assert theirs.trades == ours.trades
    assert theirs.flaws() == {}
    assert theirs.figures["live_orders"] == len(ours.displayed())
    assert len(ours.trades) > 100


def test_row_39_itch_book_reads_our_daily_file(tmp_path: Path) -> None:
    ours, records = ItchMarket(7), PacketFile(tmp_path / "feed.itch")
    for _ in range(2_000):
        packets = ours.step()
        records.append(packets, sum(1 for _ in messages_of(packets)))
    path = tmp_path / "day.itch"
    with path.open("wb") as file:
        file.write(b"".join(framed_messages(records.read(0, records.size_bytes))))
    feed = itch_book.open(str(path), date=date(2023, 11, 14), price_type="fixed")
    touch: dict[int, tuple[int, ...]] = {}
    trades: list[tuple[int, ...]] = []
    for batch in feed.batches(tables=("bbo", "trades", "noii", "halts", "symbols")):
        names = ("bid_px", "bid_sz", "bid_ct", "ask_px", "ask_sz", "ask_ct")
        columns = [batch.bbo[name].tolist() for name in names]
        touch |= {n: tuple(best) for n, *best in zip(batch.bbo["locate"].tolist(), *columns, strict=True)}
        columns = [batch.trades[name].tolist() for name in ("kind", "locate", "price", "size", "match_number")]
        trades += [tuple(row) for kind, *row in zip(*columns, strict=True) if kind != b"B"]
    assert touch == {n: ours.touch(n) for n in LOCATES}
    assert trades == ours.trades
    assert feed.stats is not None
    assert feed.stats["messages"] == records.next_number - 1
    assert feed.stats["live_orders"] == len(ours.displayed())


def test_row_40_itchfeed_decodes_every_message_that_is_sent() -> None:
    ours: list[bytes] = []
    for seed in range(3):
        market = ItchMarket(seed)
        ours += [message for _ in range(800) for message in messages_of(market.step())]
    theirs = list(itch.parser.MessageParser().parse_stream(b"".join(map(frame, ours))))
    assert {chr(message[0]) for message in ours} == set("SRHAFECXDUPQIB")
    assert [message.to_bytes() for message in theirs] == ours
    for message, our in zip(theirs, ours, strict=True):
        assert _differences(message, decode_message(our).fields) == {}


NAMES = {
    "order_reference_number": "order_reference_number", "shares": "shares", "price": "price", "stock": "stock",
    "buy_sell_indicator": "buy_sell_indicator", "executed_shares": "executed_shares", "match_number": "match_number",
    "execution_price": "execution_price", "timestamp": "timestamp", "stock_locate": "stock_locate",
    "cross_price": "cross_price", "paired_shares": "paired_shares", "attribution": "attribution",
}  # fmt: skip
"""Our names of fields → theirs."""


def _differences(theirs: Any, ours: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Fields that both have and read differently."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, value in ours.items():
        their = getattr(theirs, NAMES.get(name, ""), value)
        their = their.decode().strip() if isinstance(their, bytes) else their
        if their != value:
            found[name] = value, their
    return found
