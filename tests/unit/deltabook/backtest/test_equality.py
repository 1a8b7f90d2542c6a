"""The same strategy on the same flow and clock sends the same orders live, on a replay and in a backtest."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from deltabook.backtest import Backtest, BacktestConfig
from deltabook.wire.symbols import Instrument
from deltabook.wire.text import Request, encode_request, parse_response
from exchange_server.replay import DbtoasterLoader, Player, Record
from tests.generators.trading_loop import TradingLoop

UNIT_NS = 7_812_500  # 1/128 s, which a float of seconds has exactly
BEGIN = 1_000
BROKER = 7  # of all recorded orders: their ids end in it

RUNS = [
    ("market_maker", ("interval_ms=333", "risk.max_order_touches=1000"), 1),
    ("sobi", ("factor=1.5", "cooldown_ms=111", "order_life_ms=777", "risk.max_order_touches=1000"), 2),
]


def flow(seed: int, count: int = 250) -> list[Record]:
    """Orders that come, trade and go around a price that wanders."""
    rng = random.Random(seed)
    middle, at = 10_000, BEGIN
    live: list[int] = []
    records = []
    for n in range(count):
        at += rng.choice([1, 1, 2, 3, 5])
        middle += rng.choice([-1, 0, 0, 1])
        if len(live) > 12 and rng.random() < 0.35:
            order_id = live.pop(rng.randrange(len(live)))
            action, volume, price = "D", 0, 0
        else:
            order_id, action = 10 * n + BROKER, rng.choice("BS")
            away = rng.randint(-2, 12)
            volume, price = rng.randint(1, 50), middle - away if action == "B" else middle + away
            live.append(order_id)
        records.append(Record(n + 1, at * UNIT_NS, order_id, BROKER, action, volume, price, "ACME"))
    return records


def in_backtest(strategy: str, parameters: tuple[str, ...], records: list[Record]) -> tuple[list[bytes], list[Any]]:
    config = BacktestConfig((strategy,), parameters=parameters)
    backtest = Backtest(config, records=records, instruments=(Instrument("ACME"),))
    sent: list[bytes] = []
    (session,) = backtest._sessions
    send = session._send

    def spy(data: bytes) -> None:
        sent.append(data)
        send(data)

    session._send = spy  # type: ignore[method-assign]
    result = backtest.run()
    return sent, [(t.symbol, t.side, t.volume_lots, t.price_ticks, t.order_id, t.liquidity) for t in result.fills]


def done(loop: TradingLoop) -> tuple[list[bytes], list[Any]]:
    trades = loop.finish()
    return loop.requests, [(t.symbol, t.side, t.volume_lots, t.price_ticks, t.order_id, t.liquidity) for t in trades]


def live(
    path: Path, strategy: str, parameters: tuple[str, ...], records: list[Record]
) -> tuple[list[bytes], list[Any]]:
    """A client sends the flow over the text protocol, each order at its time."""
    loop = TradingLoop(path, strategy, parameters, records[0].time_ns - UNIT_NS)
    client, wire = loop.connect(f"0,{BROKER}")
    loop.settle()
    wire.take()
    known: dict[int, int] = {}
    for number, r in enumerate(records, 1):
        loop.advance(r.time_ns)
        order_id = known.get(r.order_id, 0)
        request = Request(number, order_id, BROKER, r.action, r.volume, r.price_ticks, "ACME")
        client.dataReceived(encode_request(request))
        loop.settle()
        for line in wire.take().splitlines():
            told = parse_response(line)
            if told.action == "A" and told.client_id == number:
                known[r.order_id] = told.order_id
    return done(loop)


def replayed(
    path: Path, strategy: str, parameters: tuple[str, ...], records: list[Record]
) -> tuple[list[bytes], list[Any]]:
    """The exchange plays the flow out of a file, at its own speed."""
    path.mkdir()
    file = path / "trace.csv"
    file.write_text(
        "".join(f"{r.time_ns // UNIT_NS},{r.order_id},{r.action},{r.volume},{r.price_ticks}\n" for r in records)
    )
    loop = TradingLoop(path, strategy, parameters, records[0].time_ns - UNIT_NS)
    loader = DbtoasterLoader(file, "ACME", unit_ns=UNIT_NS)
    player = Player(loader, loop.exchange, loop.clock, speed=1.0, stop=loop.failures.append)
    player.start()
    for r in records:
        loop.advance(r.time_ns)
    assert player.finished
    return done(loop)


@pytest.mark.parametrize(("strategy", "parameters", "seed"), RUNS, ids=[name for name, _, _ in RUNS])
def test_live_replay_and_backtest_send_the_same_orders(
    tmp_path: Path, strategy: str, parameters: tuple[str, ...], seed: int
) -> None:
    records = flow(seed)
    expected = in_backtest(strategy, parameters, records)
    assert len(expected[0]) > 8
    assert expected[1]
    assert live(tmp_path / "live", strategy, parameters, records) == expected
    assert replayed(tmp_path / "replay", strategy, parameters, records) == expected
