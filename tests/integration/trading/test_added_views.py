"""A strategy brings a view along and asks for another while it runs, at a real runtime; both go when it stops."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from queries import query_path
from tests.integration._processes import Running, exchange

pytestmark = pytest.mark.process

STRATEGY = '''
from algo_engine import Strategy

class Curious(Strategy):
    """Buys a lot for every view that it sees, so that the test can count them."""

    queries = {"by_broker": "SELECT symbol, broker_id, SUM(volume) AS lots FROM BIDS GROUP BY symbol, broker_id"}

    def on_start(self, context):
        assert len(context.view("by_broker")) > 0
        context.add_view("offers", "SELECT symbol, COUNT(*) AS n FROM ASKS GROUP BY symbol")
        context.add_view("nonsense", "SELECT nothing FROM nowhere")

    def on_view_change(self, change):
        if change.view == "offers" and change.is_snapshot:
            self.context.log("VIEW", name=change.view, rows=len(change.added))
            self.context.buy("ACME", 1, self.context.quote("ACME").bid_price_ticks)

    def on_view_error(self, view, reason):
        self.context.log("REFUSED", view=view, reason=reason)
        self.context.buy("ACME", 1, self.context.quote("ACME").bid_price_ticks)
'''


def names(port: int) -> set[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/views", timeout=20) as answer:
        return {view["name"] for view in json.loads(answer.read())}


def test_views_of_a_strategy_come_and_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "curious.py").write_text(STRATEGY)
    with exchange(tmp_path / "exchange", "--rate", "200", "--start-on", "1") as market:
        port = market.ready().ports["text"]
        lanes = ["--no-spark", "--express", str(query_path("best_quote"))]
        where = ["--feed", f"127.0.0.1:{port}", "--dir", str(tmp_path / "runtime"), "--epoch-ms", "50"]
        with Running("runtime", *where, *lanes, "--status-interval", "0.1") as engine:
            http = engine.ready().ports["http"]
            peers = ["--results", f"127.0.0.1:{http}", "--orders", f"127.0.0.1:{port}", "--dir", str(tmp_path / "algo")]
            run = ["algo", "run", str(tmp_path / "curious.py"), *peers, "--status-interval", "0.1"]
            with Running(*run) as strategies:
                strategies.wait_for("orders_sent", 2)
                assert names(http) == {"best_quote", "by_broker", "offers"}
            # Killed: what it has added is still there, and is the next one's to drop.
            assert names(http) == {"best_quote", "by_broker", "offers"}
            with Running(*run) as strategies:
                strategies.wait_for("orders_sent", 4)
                strategies.stop()
            assert names(http) == {"best_quote"}
            with Running(*run, "--keep-views") as strategies:
                strategies.wait_for("orders_sent", 6)
                strategies.stop()
            assert names(http) == {"best_quote", "by_broker", "offers"}
