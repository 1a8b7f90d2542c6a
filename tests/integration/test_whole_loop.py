"""The whole loop over real sockets and on real Spark: a trace goes in, and the views are what DuckDB says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from queries import query_path
from tests.integration._oracle import TRACE, Replayed
from tests.integration._processes import ITCH_BEGINNING, Results, exchange, runtime

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(400)]

SHIPPED = ("book_depth", "vwap_book", "best_quote", "imbalance", "broker_volume")
OWN = """\
-- Of brokers that stand on both sides: at how many prices, and how large their largest order is.
SELECT b.broker_id, COUNT(DISTINCT b.price) AS bid_prices, MAX(b.volume) AS largest_bid,
       (SELECT COUNT(DISTINCT a.price) FROM asks a WHERE a.broker_id = b.broker_id) AS ask_prices
FROM bids b
WHERE b.broker_id IN (SELECT a.broker_id FROM asks a)
GROUP BY b.broker_id;
"""


@pytest.mark.parametrize(
    ("feed", "beginning"), [("text", 0), pytest.param("itch", ITCH_BEGINNING, marks=pytest.mark.slow)]
)
def test_views_of_a_replayed_trace_equal_sql_on_a_plain_replay(tmp_path: Path, feed: str, beginning: int) -> None:
    """Whatever the runtime reads the market from; the trace is of the first day of 1970, from which both count time."""
    lines = TRACE.read_text().splitlines()
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(lines) + "\n")
    own = tmp_path / "both_sides.sql"
    own.write_text(OWN)
    views = [*map(query_path, SHIPPED), own]
    names = [view.stem for view in views]
    replay = ["--replay", str(file), "--replay-mode", "as-recorded", "--speed", "max", "--symbol", "TRACE"]
    oracle = Replayed().trace(lines, "TRACE")
    newest = oracle.messages + beginning
    with exchange(tmp_path / "exchange", *replay, "--start-on", "1", "--itch-port", "0") as market:
        port = market.ready().ports[feed]
        options = ["--feed-protocol", feed, "--epoch-messages", "250"]
        with runtime(tmp_path / "runtime", port, views, *options) as engine:
            results = Results(engine)
            figures = market.wait_for("sequence", oracle.messages)
            assert (figures["sequence"], figures["itch_sequence"]) == (
                oracle.messages,
                oracle.messages + ITCH_BEGINNING,
            )
            version = results.covering(names, newest)
            assert version.sequence == newest
            assert version.epoch >= oracle.messages // 250
            expected = oracle.answers(views)
            assert all(expected.values()), "every view has something to say"
            assert version.rows == expected
            for name in names:
                answer = results.get(f"views/{name}")
                assert answer["epoch"] == version.epoch
                assert Counter(map(tuple, answer["rows"])) == expected[name]
            figures = engine.stop()
            assert figures["dead_letters"] == figures["unknown_orders"] == 0
            assert figures["live_orders"] == len(oracle.orders)
