"""Derived streams of a runtime that is killed at random moments: every stream is that of the whole feed.

``DELTABOOK_KILLS`` says how often in the long test, ``DELTABOOK_TEST_SEED`` which moments.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from deltabook.wire.text import FeedMessage
from queries import query_path
from runtime.epochs import EpochLogReader
from tests.integration._oracle import Replayed
from tests.integration._processes import Results, Running, exchange, feed, feed_position, runtime

pytestmark = [pytest.mark.process]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
KILLS = int(os.environ.get("DELTABOOK_KILLS", "20"))
TRACE = query_path("book_depth").with_name("trace-5000.csv")
SCRIPT = f"""
CREATE STREAM large RETAIN 50 ROWS AS
SELECT t, match_id, symbol, price * volume AS value, volume FROM trades WHERE volume >= 200;
INCLUDE '{query_path("quotes")}';
INCLUDE '{query_path("signed_trades")}';
INCLUDE '{query_path("bars_1s")}';
INCLUDE '{query_path("bars_1m")}';
INCLUDE '{query_path("spread_1s")}';
CREATE STREAM priced RETAIN 1000000 ROWS AS SELECT t, match_id, value FROM large;
CREATE VIEW totals TBLPROPERTIES ('lane' = 'express') AS
SELECT symbol, SUM(value) AS value, COUNT(*) AS n FROM large GROUP BY symbol;
"""
ORACLES = {
    "large": "SELECT t, match_id, symbol, price * volume, volume FROM trades WHERE volume >= 200 ORDER BY t, match_id",
    "priced": "SELECT t, match_id, price * volume FROM trades WHERE volume >= 200 ORDER BY t, match_id",
}
"""Stream → the same rows from all trades of the feed, in the order of the stream."""
BARS = """
SELECT symbol, t // {width} * {width} AS begin, arg_min(price, match_id), max(price), min(price),
       arg_max(price, match_id), sum(price * volume), sum(volume), count(*)
FROM trades GROUP BY 1, 2 ORDER BY 2, 1
"""
SHIPPED = {
    "signed_trades": """
SELECT trades.t, match_id, trades.symbol, price, volume, bid, ask,
       CASE WHEN 2 * price > bid + ask THEN 'B' WHEN 2 * price < bid + ask THEN 'S' ELSE tick.side END
FROM trades
ASOF LEFT JOIN (SELECT symbol, t + 1 AS t, arg_max([bid], n)[1] AS bid, arg_max([ask], n)[1] AS ask
                FROM quotes GROUP BY ALL) AS quote
ON trades.symbol = quote.symbol AND trades.t >= quote.t
ASOF LEFT JOIN (SELECT symbol, t, arg_max(CASE WHEN price > before THEN 'B' ELSE 'S' END, match_id) AS side
                FROM (SELECT *, lag(price) OVER (PARTITION BY symbol ORDER BY match_id) AS before FROM trades)
                WHERE price <> before GROUP BY ALL) AS tick
ON trades.symbol = tick.symbol AND trades.t >= tick.t ORDER BY trades.t, match_id
""",
    "bars_1s": BARS.format(width=10**9),
    "bars_1m": BARS.format(width=60 * 10**9),
    "spread_1s": """
SELECT symbol, t // 1000000000 * 1000000000 AS begin, sum(spread * lasted), sum(lasted), count(*)
FROM (SELECT symbol, t, lag(ask - bid) OVER (ORDER BY n) AS spread, t - lag(t) OVER (ORDER BY n) AS lasted FROM quotes)
WHERE spread IS NOT NULL GROUP BY 1, 2 ORDER BY 2, 1
""",
}
"""The same of the shipped streams, from all trades and quotes; rows of the end of the feed are pending."""
MOST_PENDING = 20
OPTIONS = ["--no-spark", "--retain-epochs", "1000000", "--retain-megabytes", "1000"]
KILLED_MESSAGES, LAST_MESSAGES = 2, 20
"""Messages of an epoch: few while the runtime is killed, so that kills come between them; more at the end, as the whole
feed in epochs of two is 2,400 commits, which on a busy disk take longer than any process is waited for."""


def quotes(messages: Sequence[FeedMessage]) -> list[tuple[Any, ...]]:
    """Every change of the touch, by an obvious book of levels, message by message."""
    orders: dict[int, list[Any]] = {}
    levels: dict[str, Counter[int]] = {"B": Counter(), "S": Counter()}
    rows: list[tuple[Any, ...]] = []
    last: tuple[Any, ...] = (None, None, None, None)
    for m in messages:
        if m.action in "BS":
            orders[m.order_id] = [m.action, m.price, m.volume]
            levels[m.action][m.price] += m.volume
        elif m.order_id in orders and m.action in "EXFD":
            side, price, volume = order = orders[m.order_id]
            gone = volume if m.action in "FD" else min(volume, m.volume)
            order[2] -= gone
            levels[side][price] -= gone
            if not order[2]:
                del orders[m.order_id]
        bids, asks = (+levels[side] for side in "BS")
        bid, ask = max(bids, default=None), min(asks, default=None)
        touch = (bid, None if bid is None else bids[bid], ask, None if ask is None else asks[ask])
        if touch != last:
            rows.append((m.time_ns, m.symbol, *touch))
            last = touch
    return rows


def answers(messages: Sequence[FeedMessage]) -> dict[str, list[tuple[Any, ...]]]:
    """What each stream must have brought: quotes, and by DuckDB those over the trades of a replay of the whole feed."""
    trades = Replayed().feed(messages).trades
    with duckdb.connect() as database:
        database.execute(
            "CREATE TABLE trades (t BIGINT, match_id BIGINT, symbol VARCHAR, price BIGINT, volume BIGINT, "
            "side VARCHAR, resting_id BIGINT, aggressor_id BIGINT, broker_id BIGINT)"
        )
        database.executemany("INSERT INTO trades VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", trades)
        touched = quotes(messages)
        database.execute(
            "CREATE TABLE quotes (n BIGINT, t BIGINT, symbol VARCHAR, bid BIGINT, bid_volume BIGINT, ask BIGINT, "
            "ask_volume BIGINT)"
        )
        database.executemany(
            "INSERT INTO quotes VALUES (?, ?, ?, ?, ?, ?, ?)", [(n, *row) for n, row in enumerate(touched)]
        )
        found = {name: database.execute(sql).fetchall() for name, sql in {**ORACLES, **SHIPPED}.items()}
    return {**found, "quotes": touched}


def sealed(directory: Path, name: str, weight: int = 1) -> list[tuple[Any, ...]]:
    """The rows that a stream has brought, or lost, in the order of the log."""
    log = EpochLogReader(directory / "epochs")
    found: list[tuple[Any, ...]] = []
    for epoch in range(log.latest() + 1):
        table = log.read(epoch).rows(name)
        rows = table.to_pylist() if table is not None else []
        found += [tuple(row.values()) for row in rows if row.pop("weight") == weight]
    return found


def torment(directory: Path, kills: int, chance: random.Random, options: Sequence[str]) -> None:
    """Kill the runtime so often while an exchange replays, let it finish, and compare every stream."""
    script = directory / "streams.sql"
    script.write_text(SCRIPT)
    held = directory / "runtime"

    def start(port: int, epoch_messages: int) -> Running:
        return runtime(held, port, [script], "--epoch-messages", str(epoch_messages), *options)

    replay = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE"]
    with exchange(directory / "exchange", *replay, "--speed", "max", "--start-on", "1") as market:
        port = market.ready().ports["text"]
        for number in range(kills):
            with start(port, KILLED_MESSAGES) as engine:
                if chance.random() < 0.3:
                    after = chance.uniform(0.5, 3.0)
                else:
                    engine.ready()
                    after = chance.uniform(0, 1.0)
                engine.runs_for(after)
                engine.kill()
            sys.stderr.write(f"kill {number} after {after:.2f} s\n")
        with start(port, LAST_MESSAGES) as engine:
            results = Results(engine)
            market.figures(lambda _: "ended at line" in market.errors(), "the end of the replay")
            newest = feed_position(port)
            engine.wait_for("messages", newest)
            line = {view["name"]: view for view in results.get("views")}
            shown = results.get("views/large")["rows"]
            totals = results.get("views/totals")["rows"]
            figures = results.get("status")["streams"]
            engine.stop()
        messages = feed(port, newest)
    expected = answers(messages)
    last = messages[-1].time_ns
    assert len(expected["large"]) > 100
    for name in SHIPPED:
        rows, brought = expected.pop(name), sealed(held, name)
        assert brought == rows[: len(brought)], name
        assert len(rows) - len(brought) <= MOST_PENDING, name
    for name, rows in expected.items():
        # What is of the feed's last moment may wait for the time to go on.
        assert sealed(held, name) in ([row for row in rows if row[0] < last], rows), name
    kept = sealed(held, "large")[-50:]
    assert sorted(map(tuple, shown)) == sorted(kept)
    gone = Counter(sealed(held, "large", -1))
    assert gone == Counter(sealed(held, "large")[:-50])
    assert totals == [["TRACE", sum(row[3] for row in kept), 50]]
    assert (line["large"]["class"], line["large"]["lane"], line["large"]["failed"]) == ("stream", "stream", None)
    assert figures["large"]["rows"] == 50
    assert figures["large"]["late"] == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_streams_survive_a_few_kills(tmp_path: Path) -> None:
    sys.stderr.write(f"DELTABOOK_TEST_SEED={SEED}\n")
    torment(tmp_path, 2, random.Random(SEED), OPTIONS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_streams_survive_many_kills(tmp_path: Path) -> None:
    sys.stderr.write(f"DELTABOOK_TEST_SEED={SEED} DELTABOOK_KILLS={KILLS}\n")
    torment(tmp_path, KILLS, random.Random(SEED), OPTIONS)
