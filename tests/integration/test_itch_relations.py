"""The relations of the ITCH feed are those of the text feed: both are of one market, and taken in."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltabook.wire import text
from deltabook.wire.soupbin import LoginRequest, encode_login
from exchange_server.matching.market import Market
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.itch import ItchEncoder
from exchange_server.text import TextEncoder, TextProtocol
from runtime.engine.ingest import EpochWriter
from runtime.epochs import Cut
from runtime.plan import EPOCH_TIME
from runtime.relations import Adaptor, FeedAdaptor, Retention
from runtime.service.inputs.protocols import FeedProtocol, make_adaptor
from runtime.sources import Position
from tests.generators.exchange_requests import START_NS, RequestFlow, opening_requests, random_rules
from tests.generators.ingest_lab import IngestLab, ListSource, footers, relations
from tests.generators.traces import trace
from tests.integration._processes import DEADLINE_S, exchange

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

DAY_NS = 86_400 * 10**9
RETENTION = Retention(rows=1_000)
Rows = dict[str, Counter[tuple[Any, ...]]]


class Feeds(msgspec.Struct):
    """Both feeds of one exchange from their first message on, as they came."""

    lines: bytes
    packets: bytes
    messages: int
    """Of the text feed."""

    @property
    def midnight_ns(self) -> int:
        """Of the day on which the first message was."""
        time_ns = text.parse_feed_message(self.lines.split(b"\n", 1)[0]).time_ns
        return time_ns - time_ns % DAY_NS


def whole_stream(port: int, login: bytes, reply: Callable[[bytes], int], end: bytes) -> bytes:
    """What follows the answer to a login up to the first heartbeat, which comes when there is nothing else."""
    data = b""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        connection.sendall(login)
        while not data.endswith(end):
            data += connection.recv(1 << 16)
    return data[reply(data) :]


def read_feeds(directory: Path, *options: str, messages: int) -> Feeds:
    """Let an exchange say so much, and read all of it once it has become quiet."""
    with exchange(directory, "--itch-port", "0", *options) as market:
        market.wait_for("sequence", messages)
        market.stop()
    quiet = [option for option in options if option not in {"--rate", "4000"}]
    with exchange(
        directory, "--itch-port", "0", *quiet, *([] if "--replay" in quiet else ["--agents", "none"])
    ) as market:
        ports, figures = market.ready().ports, market.figures()
        lines = whole_stream(
            ports["text"],
            text.encode_login(text.PassiveLogin("", 1)),
            lambda data: data.index(b"\n") + 1,
            b",0,0,H,0,0,\n",
        )
        packets = whole_stream(
            ports["itch"], encode_login(LoginRequest()), lambda data: 2 + (data[0] << 8 | data[1]), b"\x00\x01H"
        )
        assert figures["sequence"] == lines.count(b"\n") - 1
        return Feeds(lines, packets, int(figures["sequence"]))


def take_in(directory: Path, source: ListSource, make: Callable[[EpochWriter, Cut], Adaptor]) -> Rows:
    """The relations of the market at the end; two workers, small epochs.

    The time of epochs is left out: it is that of a feed's messages, and each feed has messages that the other lacks.
    """
    lab = IngestLab(directory, [(source, make)], workers=2, epoch_messages=200)
    assert lab.run() == "finished"
    return {name: rows for name, rows in relations(directory).items() if name != EPOCH_TIME.name}


def cuts(data: bytes, chance: random.Random) -> list[int]:
    return sorted(chance.sample(range(1, len(data)), 60))


def text_relations(directory: Path, feeds: Feeds, chance: random.Random) -> Rows:
    def make(writer: EpochWriter, cut: Cut) -> Adaptor:
        return FeedAdaptor(writer.space, "feed", RETENTION, cut.sequence + 1)

    return take_in(directory, ListSource(0, feeds.lines, cuts(feeds.lines, chance)), make)


def itch_relations(directory: Path, feeds: Feeds, chance: random.Random, tick_units: int) -> Rows:
    """Over a connection that breaks twice; each time the exchange sends from the number that it is asked for."""
    places = starts(feeds.packets)

    def make(writer: EpochWriter, cut: Cut) -> Adaptor:
        protocol = FeedProtocol("itch", midnight_ns=feeds.midnight_ns, tick_units=tick_units)
        return make_adaptor(protocol, writer.space, "feed", RETENTION, cut)

    def at(position: Position) -> int:
        return places[position.sequence - 1]

    source = ListSource(0, feeds.packets, cuts(feeds.packets, chance), lost_after=[20, 25], at=at)
    found = take_in(directory, source, make)
    assert len(source.positions) == 3
    assert footers(directory)[-1].cuts["origin-0"].sequence == len(places) - 1
    assert sum(footer.messages for footer in footers(directory)) == len(places) - 1
    return found


def starts(packets: bytes) -> list[int]:
    """Where each sequenced packet starts, and at last where the next one would."""
    found, at = [], 0
    while at < len(packets):
        if packets[at + 2 : at + 3] == b"S":
            found.append(at)
        at += 2 + (packets[at] << 8 | packets[at + 1])
    return [*found, at]


def letters(packets: bytes) -> list[str]:
    return [chr(packets[at + 3]) for at in starts(packets)[:-1]]


def in_order(rows: Rows) -> dict[str, Any]:
    """Books, and the trades in their order: the numbers of their messages are those of a feed."""
    assert set(rows["trades"].values()) <= {1}
    trades = [(t, *rest) for t, _, *rest in sorted(rows["trades"], key=lambda row: row[1])]
    return {**rows, "trades": trades}


def session(chance: random.Random, requests: int) -> tuple[Feeds, Counter[str]]:
    """Both feeds of a market that gets random requests of every kind, and how often each kind of thing happened."""
    now = Now()
    rules = msgspec.structs.replace(random_rules(chance), max_live_orders=1_000_000)
    encoders = TextEncoder(rules, now), ItchEncoder(rules, now)
    market = Market(rules, encoders, [TextProtocol(rules)], now)
    accounts = opening_requests(chance, START_NS, ["text"])
    flow = RequestFlow(chance, rules, accounts, START_NS + 100)
    lines, packets, told = b"", b"", Counter[str]()
    for account in accounts:
        market.apply(account)
    for _ in range(requests):
        market.apply(flow.next([order for book in market.books.values() for order in book.orders.values()]))
        lines += encoders[0].take()[0]
        packets += encoders[1].take()[0]
        for teller in market.touched:
            told.update(line.split(b",")[4].decode() for line in teller.take()[0].splitlines())
        market.touched.clear()
    messages = encoders[0].next_sequence - 1
    return Feeds(lines + f"{messages + 1},{now.time_ns},0,0,H,0,0,\n".encode(), packets + b"\x00\x01H", messages), told


SEEDS = range(4, 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_all_orders_through_auctions_halts_and_recordings(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    feeds, _ = session(chance, 3_000)
    lines = text_relations(tmp_path / "text", feeds, chance)
    packets = itch_relations(tmp_path / "itch", feeds, chance, tick_units=100)
    assert lines["trades"]
    assert in_order(packets) == in_order(lines)


def test_those_markets_have_everything_between_them() -> None:
    said, sent = set(), set()
    for seed in SEEDS:
        feeds, told = session(random.Random(seed), 3_000)
        said |= set(told)
        sent |= set(letters(feeds.packets))
    assert set("AEFXDUNTR") <= said, "icebergs that refresh, stops that are reached, replacements, refusals"
    assert set("SRHFECXDUPQI") <= sent, "crosses, imbalances, hidden executions"


def test_of_simulated_traders(tmp_path: Path) -> None:
    chance = random.Random(5)
    feeds = read_feeds(tmp_path / "exchange", "--rate", "4000", messages=6_000)
    lines = text_relations(tmp_path / "text", feeds, chance)
    packets = itch_relations(tmp_path / "itch", feeds, chance, tick_units=100)
    assert all(len(rows) > 50 for rows in lines.values())
    assert in_order(packets) == in_order(lines)


def test_of_a_recording_with_executions_at_other_prices(tmp_path: Path) -> None:
    chance = random.Random(6)
    file = tmp_path / "trace.csv"
    recorded = [line.split(",") for line in trace(6, 3_000)]
    for record in recorded:
        if record[2] in "EF" and chance.random() < 0.5:
            record[4] = str(chance.randint(249_000, 251_000))
    file.write_text("".join(",".join(record) + "\n" for record in recorded))
    replay = ["--replay", str(file), "--replay-mode", "as-recorded", "--speed", "max", "--symbol", "TRACE"]
    feeds = read_feeds(tmp_path / "exchange", *replay, messages=2_000)
    lines = text_relations(tmp_path / "text", feeds, chance)
    packets = itch_relations(tmp_path / "itch", feeds, chance, tick_units=1)
    assert all(len(rows) > 20 for rows in lines.values())
    assert set(letters(feeds.packets)) == set("SRHFECXDP") - {"X"}
    assert in_order(packets) == in_order(lines)
