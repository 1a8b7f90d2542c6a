"""The feed in ITCH is the feed in text: same orders, same trades, and the same bytes whenever it is made."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import itch.parser
import itch_book
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.attribution import LARGEST_BROKER, attribution_of
from deltabook.wire.itch import MESSAGES, decode_message, encode_message, frame
from deltabook.wire.symbols import Instrument
from exchange_server.inputs import AGENT, RECORDING, Input, MarketRules
from exchange_server.journal import PacketFile
from exchange_server.market import Market
from exchange_server.nasdaq import ItchFeed, Translator, list_instruments
from exchange_server.nasdaq.translator import _packer
from tests.generators.itch_book import ItchBook, messages_of
from tests.generators.market import Step, inputs_of, steps

SCALES = (Instrument("ACME", "0.01", "1"), Instrument("GLOBEX", "0.0025", "100"))
RULES = MarketRules(instruments=SCALES)
PLAYED = MarketRules(
    (Instrument("PAST", "0.0001"),), replay_symbol="PAST", replay_mode="as-recorded", first_order_id=99
)
MIDNIGHT = 1_700_006_400 * 10**9
UNITS = {"ACME": (100, 1), "GLOBEX": (25, 100), "PAST": (1, 1)}


def translator(rules: MarketRules = RULES) -> Translator:
    listed, _ = list_instruments(rules.instruments)
    return Translator(listed, rules.replay_symbol)


def lines(*told: str, time: int = MIDNIGHT + 7, first: int = 1) -> list[str]:
    """Feed lines of one time from `order,broker,action,volume,price,symbol`."""
    return [f"{first + place},{time},{line}\n" for place, line in enumerate(told)]


def letters(packets: list[bytes]) -> str:
    return "".join(message[:1].decode() for message in messages_of(b"".join(packets)))


def fields(packet: bytes) -> dict[str, Any]:
    (message,) = messages_of(packet)
    return decode_message(message).fields


def rests(market: Market) -> dict[int, dict[str, Any]]:
    """The market's live orders as ITCH has them."""
    return {
        order.order_id: {
            "stock": symbol,
            "side": order.side,
            "shares": order.volume * UNITS[symbol][1],
            "price": order.price_ticks * UNITS[symbol][0],
            "attribution": attribution_of(order.broker_id),
        }
        for symbol, book in market.books.items()
        for order in book.orders.values()
    }


def trades_of(told: list[str]) -> list[tuple[int, str, int, int, int]]:
    rows = [line.strip().split(",") for line in told]
    return [
        (int(r[0]), r[7], int(r[2]), int(r[5]) * UNITS[r[7]][1], int(r[6]) * UNITS[r[7]][0])
        for r in rows
        if r[4] in "EFT"
    ]


@given(steps, st.integers(1, 9))
def test_books_and_trades_are_the_markets(requests: list[Step], burst: int) -> None:
    market = Market(RULES)
    for item in inputs_of(requests, time_ns=MIDNIGHT):
        market.apply(item)
    told, _ = market.take_output()
    itch = translator()
    packets = [packet for at in range(0, len(told), burst) for packet in itch.translate(told[at : at + burst])]
    book = ItchBook().take(messages_of(b"".join(packets)))
    assert book.orders == rests(market)
    assert book.trades == trades_of(told)
    assert packets == translator().translate(told), "however the lines are cut into bursts"


records = st.lists(
    st.tuples(st.sampled_from("BSBSEFXDTV"), st.integers(1, 9), st.integers(0, 9), st.sampled_from([0, 95, 100, 105]))
)


@given(records)
def test_books_and_trades_of_a_recording_are_the_markets(played: list[tuple[str, int, int, int]]) -> None:
    """Its executions may have prices of their own, its books may be crossed."""
    market = Market(PLAYED)
    for place, (action, order, volume, price) in enumerate(played, 1):
        market.apply(Input(RECORDING, MIDNIGHT + place, place, order, order % 3, action, volume, price, "PAST"))
    told, _ = market.take_output()
    itch = translator(PLAYED)
    book = ItchBook().take(messages_of(b"".join(itch.translate(told))))
    assert book.orders == rests(market)
    assert book.trades == trades_of(told)
    assert set(itch._prices) == set(map(str, book.orders)), "it holds what is live and nothing else"


def test_the_session_begins_with_events_the_directory_and_trading_states() -> None:
    itch = translator()
    packets = itch.translate(lines("1,7,B,5,10000,GLOBEX", time=MIDNIGHT + 34_200_000_000_001))
    assert letters(packets) == "SRRSHHSF"
    first, acme, globex, *_, last = (decode_message(m).fields for m in messages_of(b"".join(packets)))
    assert (first["event_code"], first["timestamp"]) == ("O", 34_200_000_000_001)
    assert (acme["stock"], acme["stock_locate"], acme["round_lot_size"], acme["round_lots_only"]) == ("ACME", 1, 1, "N")
    assert (globex["stock"], globex["stock_locate"], globex["round_lot_size"]) == ("GLOBEX", 2, 100)
    assert last == {
        "stock_locate": 2,
        "tracking_number": 0,
        "timestamp": 34_200_000_000_001,
        "order_reference_number": 1,
        "buy_sell_indicator": "B",
        "shares": 500,
        "stock": "GLOBEX",
        "price": 250_000,
        "attribution": "7",
    }
    assert letters(itch.translate(lines("1,7,X,2,10000,GLOBEX", "1,7,D,3,10000,GLOBEX"))) == "XD"


def test_an_execution_at_another_price_names_it() -> None:
    itch = translator(PLAYED)
    told = lines("1,7,S,5,100,PAST", "1,7,E,2,100,PAST", "1,7,E,1,98,PAST", "1,7,F,2,101,PAST", "0,0,T,9,99,PAST")
    *_, same, other, last, hidden = itch.translate(told)
    assert letters([same, other, last, hidden]) == "ECCP"
    assert fields(same)["match_number"] == 2
    assert (fields(other)["executed_shares"], fields(other)["execution_price"], fields(other)["printable"]) == (
        1,
        98,
        "Y",
    )
    assert (fields(last)["match_number"], fields(last)["executed_shares"]) == (4, 2)
    assert (fields(hidden)["match_number"], fields(hidden)["shares"], fields(hidden)["price"]) == (5, 9, 99)


@pytest.mark.parametrize("too_large", ["4294967296,1", "1,42949673"], ids=["shares", "price"])
def test_an_order_beyond_the_fields_is_not_displayed(too_large: str) -> None:
    itch = translator()
    itch.translate(lines("1,7,B,1,1,ACME"))
    assert itch.translate(lines(f"2,7,S,{too_large},ACME", "2,7,X,1,1,ACME")) == []
    (traded,) = itch.translate(lines("2,7,E,3,500,ACME", first=40))
    assert letters([traded]) == "P"
    assert (fields(traded)["buy_sell_indicator"], fields(traded)["match_number"]) == ("S", 40)
    assert itch.translate(lines("2,7,D,1,1,ACME", f"3,7,S,{too_large},ACME")) == []
    assert letters(itch.translate(lines("3,7,F,1,500,ACME"))) == "P"
    assert itch.undisplayed == 2
    assert itch._undisplayed == {}


def test_a_broker_without_an_attribution_adds_without_one() -> None:
    packets = translator().translate(lines(f"1,{LARGEST_BROKER},B,1,1,ACME", f"2,{LARGEST_BROKER + 1},B,1,1,ACME"))
    assert letters(packets[-2:]) == "FA"
    assert fields(packets[-2])["attribution"] == "ZZZZ"


def test_the_messages_end_where_timestamps_do() -> None:
    itch = translator()
    last = MIDNIGHT + 2**48 - 1
    assert letters(itch.translate(lines("1,7,B,1,1,ACME"))).endswith("F")
    assert letters(itch.translate(lines("2,7,B,1,1,ACME", time=last))) == "F"
    (end,) = itch.translate(lines("3,7,B,1,1,ACME", "4,7,B,1,1,ACME", time=last + 1))
    assert (fields(end)["event_code"], fields(end)["timestamp"]) == ("C", 2**48 - 1)
    assert itch.is_over
    assert itch.translate(lines("5,7,B,1,1,ACME", time=last + 2)) == []


@pytest.mark.parametrize(
    ("instrument", "words"),
    [
        (Instrument("BTCUSD", "0.01", "0.00000001"), "expected a lot of whole shares, was 0.00000001"),
        (Instrument("TINY", "0.00005", "1"), "expected a tick of whole ten-thousandths, was 0.00005"),
        (Instrument("HUGE", "1000000", "1"), "expected a tick of whole ten-thousandths"),
        (Instrument("NINE_LONG", "0.01", "1"), "expected a symbol of at most 8 characters, was 9"),
    ],
)
def test_what_does_not_fit_is_not_listed_and_said_so(instrument: Instrument, words: str) -> None:
    listed, unlisted = list_instruments([Instrument("ACME"), instrument, Instrument("GLOBEX")])
    assert {symbol: listing.locate for symbol, listing in listed.items()} == {"ACME": 1, "GLOBEX": 2}
    assert words in unlisted[instrument.symbol]
    told = lines(f"1,7,B,1,1,{instrument.symbol}", "2,7,B,1,1,ACME")
    assert letters(Translator(listed).translate(told)) == "SRRSHHSF"


@pytest.mark.parametrize("letter", "AFECXDP")
def test_packed_messages_are_the_encoded_ones(letter: str) -> None:
    """The fast way and the way that checks give the same bytes."""
    values: list[Any] = []
    named: dict[str, Any] = {}
    for place, field in enumerate(MESSAGES[letter].fields, 1):
        if field.kind == "timestamp":
            named[field.name] = (3 << 32) + 5
            values += [3, 5]
        elif field.kind == "alpha":
            named[field.name] = "Q" * field.width
            values.append(b"Q" * field.width)
        else:
            named[field.name] = place
            values.append(place)
    message = encode_message(letter, **named)
    assert _packer(letter)(*values) == bytes([0, len(message) + 1]) + b"S" + message


def test_itchfeed_decodes_every_message_that_is_sent(tmp_path: Path) -> None:
    """A parser that we did not write."""
    market = Market(RULES)
    for number in range(400):
        side, price = ("B", 96 + number % 5) if number % 2 else ("S", 98 + number % 5)
        rested = market.apply(Input(AGENT, MIDNIGHT + number, 0, 0, 4, side, 2 + number % 7, price, "ACME"))
        if rested and number % 3 == 0:
            market.apply(Input(AGENT, MIDNIGHT + number, 0, rested, 4, "DX"[number % 2], 1, 0, "ACME"))
    feed, played = ItchFeed(tmp_path / "feed.itch", RULES), translator(PLAYED)
    feed.take(market.take_output()[0])
    told = lines("1,7,S,5,100,PAST", "1,7,E,1,98,PAST", "0,0,T,9,99,PAST", f"2,{LARGEST_BROKER + 1},B,1,90,PAST")
    ours = [*messages_of((tmp_path / "feed.itch").read_bytes()), *messages_of(b"".join(played.translate(told)))]
    theirs = list(itch.parser.MessageParser().parse_stream(b"".join(map(frame, ours))))
    assert {chr(message[0]) for message in ours} == set("SRHAFECXDP")
    assert [message.to_bytes() for message in theirs] == ours
    adds = [message for message in theirs if message.message_type in b"AF"]
    assert len(adds) > 100
    for message, our in zip(theirs, ours, strict=True):
        said = decode_message(our).fields
        assert message.timestamp == said["timestamp"]
        if message.message_type in b"AF":
            assert (message.order_reference_number, message.shares, message.price, message.stock.decode().strip()) == (
                said["order_reference_number"],
                said["shares"],
                said["price"],
                said["stock"],
            )
    feed.close()


def test_the_books_of_a_builder_that_we_did_not_write_are_the_markets(tmp_path: Path) -> None:
    """Best prices with their quantity and number of orders, live orders, and trades."""
    chance, market = random.Random(11), Market(RULES)
    for number in range(3_000):
        symbol, broker = chance.choice(sorted(market.books)), chance.randint(1, 9)
        price, volume = 1_000 + chance.randrange(-20, 20), chance.randrange(2, 100)
        item = Input(AGENT, MIDNIGHT + number, 0, 0, broker, chance.choice("BS"), volume, price, symbol)
        rested = market.apply(item)
        if rested and chance.random() < 0.3:
            market.apply(Input(AGENT, MIDNIGHT + number, 0, rested, broker, chance.choice("XD"), 1, 0, symbol))
    path = tmp_path / "day.itch"
    packets = translator().translate(market.take_output()[0])
    path.write_bytes(b"".join(map(frame, messages_of(b"".join(packets)))))
    feed = itch_book.open(str(path), date=date(2023, 11, 15))
    newest: dict[int, tuple[float, ...]] = {}
    trades = 0
    for batch in feed.batches(tables=("bbo", "trades")):
        columns = [batch.bbo[name] for name in ("bid_px", "bid_sz", "bid_ct", "ask_px", "ask_sz", "ask_ct")]
        for locate, *best in zip(batch.bbo["locate"], *columns, strict=True):
            newest[int(locate)] = tuple(map(float, best))
        trades += len(batch.trades["size"])
    assert feed.stats is not None
    assert (feed.stats["unknown"], feed.stats["malformed"], feed.stats["missing_ref"], feed.stats["dup_ref"]) == (
        0,
    ) * 4
    assert (feed.stats["live_orders"], trades) == (market.live_orders, market.trades)
    for locate, (symbol, book) in enumerate(market.books.items(), 1):
        units, shares = UNITS[symbol]
        best = [next(book.levels(side)) for side in ("B", "S")]
        assert newest[locate] == tuple(
            n for price, size, count in best for n in (price * units / 1e4, size * shares, count)
        )


def test_any_packet_is_found_again_however_small_the_index(tmp_path: Path) -> None:
    packets = PacketFile(tmp_path / "packets", index_limit=4)
    for burst in range(200):
        numbers = range(packets.next_number, packets.next_number + burst % 7 + 90)
        packets.append(b"".join(frame(b"%d" % number) for number in numbers), len(numbers))
    for number in [*range(1, packets.next_number, 97), packets.next_number - 1]:
        one = frame(b"%d" % number)
        assert packets.read(packets.offset_of(number), len(one)) == one
        assert packets.read(packets.offset_of(number), len(one) + 1) == one, "whole packets only"
    assert packets.offset_of(packets.next_number) == packets.size_bytes
    assert len(packets._numbers) <= 4
    packets.close()
