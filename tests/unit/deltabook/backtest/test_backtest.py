"""What a strategy meets in a backtest: real queues, its own latencies, views of every request, and the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from algo_engine import Context, OrderEvent, Strategy, ViewChange
from algo_engine.strategy import NoParameters
from deltabook.backtest import Backtest, BacktestConfig, BacktestError, ConfigurationError, DataFile
from deltabook.wire.symbols import Instrument
from queries import QUERIES_DIR
from tests.generators.backtests import MS, adds, backtest

TRACE = QUERIES_DIR / "trace-5000.csv"
BOOK = ((1, "B", 10, 99), (2, "S", 10, 101))


def ran(run: Backtest) -> Any:
    """The strategy of a backtest."""
    return run.hosts[0].loaded.strategy


class Joins(Strategy[NoParameters]):
    """Rests 5 lots at 99 as soon as the book has two sides, behind who is there."""

    sent = 0

    def on_view_change(self, change: ViewChange) -> None:
        quote = self.context.quote("ACME")
        if not self.sent and quote is not None and quote.is_two_sided:
            self.sent = self.context.buy("ACME", 5, 99)

    heard: tuple[tuple[str, int], ...] = ()

    def on_order_event(self, event: OrderEvent) -> None:
        self.heard = (*self.heard, (str(event.kind), self.context.now_ns))


def test_an_order_waits_its_turn_in_the_queue() -> None:
    done = backtest(Joins, adds(*BOOK, (3, "S", 12, 99), (4, "S", 2, 99))).run()
    assert [(t.time_ns // MS, t.volume_lots, t.price_ticks, t.liquidity) for t in done.fills] == [
        (3, 2, 99, "maker"),
        (4, 2, 99, "maker"),
    ]
    (figures,) = done.strategies
    assert (figures.position_lots, figures.orders.partially_filled) == ({"ACME": 4}, 1)
    # Sold at nothing better than the best bid that is left: none, so the position is marked at the ask.
    assert figures.profit == figures.realised + figures.unrealised - figures.fees


def test_an_order_under_way_ranks_after_faster_orders() -> None:
    flow = adds(*BOOK, (3, "B", 4, 99), (9, "S", 14, 99), (10, "S", 3, 99))
    slow = backtest(Joins, flow, latency="fixed:order=5ms").run()
    assert [(t.time_ns // MS, t.volume_lots) for t in slow.fills] == [(10, 3)]
    fast = backtest(Joins, flow).run()
    assert [(t.time_ns // MS, t.volume_lots) for t in fast.fills] == [(9, 4), (10, 1)]


def test_each_way_takes_its_time() -> None:
    run = backtest(Joins, adds(*BOOK, (99, "B", 1, 50)), latency="fixed:feed=3ms,order=4ms,answer=5ms")
    run.run()
    strategy = ran(run)
    assert strategy.heard[:2] == (("submitted", 5 * MS), ("accepted", 14 * MS))


def test_timers_come_at_their_time_between_records() -> None:
    class Waits(Strategy[NoParameters]):
        times: tuple[int, ...] = ()

        def on_start(self, context: Context) -> None:
            context.set_timer("tick", 2, repeat=True)

        def on_timer(self, name: str) -> None:
            self.times = (*self.times, self.context.now_ns)

    run = backtest(Waits, adds(*BOOK, (6, "B", 1, 90)))
    run.run()
    assert ran(run).times == (3 * MS, 5 * MS)


def test_views_change_once_for_a_request_or_once_for_a_step() -> None:
    class Counts(Strategy[NoParameters]):
        views = ("book_depth",)
        changes: tuple[int, ...] = ()

        def on_view_change(self, change: ViewChange) -> None:
            if change.view == "book_depth":
                self.changes = (*self.changes, self.context.now_ns // MS)

    flow = adds(*BOOK, (3, "S", 2, 102), (4, "S", 2, 103), (5, "B", 12, 102), (40, "B", 1, 98), (70, "B", 1, 97))
    run = backtest(Counts, flow)
    run.run()
    assert ran(run).changes == (1, 2, 3, 4, 5, 40, 70)
    run = backtest(Counts, flow, step_us=10_000)
    run.run()
    assert ran(run).changes == (10, 50)


def test_a_strategy_is_told_nothing_of_the_records_that_warm_up() -> None:
    class Looks(Strategy[NoParameters]):
        first: Any = None

        def on_start(self, context: Context) -> None:
            self.first = context.quote("ACME")

    run = backtest(Looks, adds(*BOOK, (3, "B", 1, 100)), warm_up_records=2)
    run.run()
    quote = ran(run).first
    assert (quote.bid_price_ticks, quote.ask_price_ticks) == (99, 101)


def test_an_added_view_holds_what_other_views_have_seen() -> None:
    class Adds(Strategy[NoParameters]):
        rows: tuple[Any, ...] = ()
        refused = ""

        def on_view_change(self, change: ViewChange) -> None:
            if change.view == "mine":
                self.rows = (*self.rows, *self.context.view("mine").rows())
            elif len(self.context.symbols()) and not self.refused:
                self.refused = "asked"
                self.context.add_view("mine", "SELECT COUNT(*) AS orders FROM bids")
                self.context.add_view("bad", "SELECT nothing FROM nowhere")

        def on_view_error(self, view: str, reason: str) -> None:
            self.refused = f"{view}: {reason}"

    flow = adds((1, "B", 10, 99), (2, "B", 10, 98), (3, "B", 10, 97), (90, "B", 1, 1))
    run = backtest(Adds, flow, latency="fixed:feed=1500us")
    run.run()
    strategy = ran(run)
    assert [row["orders"] for row in strategy.rows] == [1, 2, 3]
    assert strategy.refused.startswith("bad: ")


@pytest.mark.parametrize(
    ("sql", "refused"), [("SELECT COUNT(*) AS orders FROM bids ;", ""), ("SELECT 1", "was another")]
)
def test_a_view_that_is_there_already_is_shared_or_refused(sql: str, refused: str) -> None:
    class Asks(Strategy[NoParameters]):
        queries = MappingProxyType({"mine": "SELECT COUNT(*) AS orders FROM bids"})
        refused = ""
        counts: tuple[int, ...] = ()

        def on_start(self, context: Context) -> None:
            context.add_view("mine", sql)

        def on_view_change(self, change: ViewChange) -> None:
            if change.view == "mine":
                self.counts = (*self.counts, *(row["orders"] for row in self.context.view("mine").rows()))

        def on_view_error(self, view: str, reason: str) -> None:
            self.refused = reason

    run = backtest(Asks, adds((1, "B", 10, 99), (2, "B", 10, 98), (3, "B", 10, 97)))
    result = run.run()
    assert refused in (result.strategies[0].failure or "none")
    assert ran(run).counts == (() if refused else (0, 1, 2, 3))


@pytest.mark.parametrize("name", ["", "two words", "Upper", "a/b"])
def test_a_name_that_a_runtime_refuses_is_refused(name: str) -> None:
    """The same file would otherwise trade in a backtest and stop live."""

    class Asks(Strategy[NoParameters]):
        refused = ""

        def on_start(self, context: Context) -> None:
            context.add_view(name, "SELECT COUNT(*) AS orders FROM bids")

        def on_view_error(self, view: str, reason: str) -> None:
            self.refused = reason

    run = backtest(Asks, adds((1, "B", 10, 99), (2, "B", 10, 98)))
    run.run()
    assert ran(run).refused == f"expected the name of a view in lower case without blanks, was {name!r}"


def test_a_refused_request_leaves_the_view_that_others_read() -> None:
    counts = "SELECT symbol, COUNT(*) AS n FROM bids GROUP BY symbol"

    class Asks(Strategy[NoParameters]):
        views = ("total",)
        refused = ""
        seen: tuple[int, ...] = ()

        def on_view_change(self, change: ViewChange) -> None:
            if change.view == "counts":
                self.seen = (*self.seen, *(row["n"] for row in change.added))
            elif not change.is_snapshot and not self.refused:
                self.context.add_view("counts", "SELECT 1 AS n FROM bids")

        def on_view_error(self, view: str, reason: str) -> None:
            self.refused = reason
            self.context.add_view(view, counts)

    views = {"total": "SELECT SUM(n) AS n FROM counts", "counts": counts}
    run = backtest(Asks, adds((1, "B", 10, 99), (2, "B", 10, 98), (3, "B", 10, 97)), views=views)
    run.run()
    assert "expected the SQL that counts has" in ran(run).refused
    assert ran(run).seen[-1] == 3


def test_a_strategy_that_fails_ends_the_run_and_is_named() -> None:
    class Fails(Strategy[NoParameters]):
        def on_view_change(self, change: ViewChange) -> None:
            raise ValueError("no idea")

    result = backtest(Fails, adds(*BOOK, (3, "B", 1, 90))).run()
    assert "no idea" in result.failure
    assert "no idea" in result.strategies[0].failure
    assert result.figures.records < 3


def test_profit_is_what_the_list_of_trades_says() -> None:
    config = BacktestConfig(("market_maker",), (DataFile(TRACE),), fees="maker=-20,taker=50;REPLAY:taker_per_lot=1")
    result = Backtest(config).run()
    cash = held = fees = 0
    for trade in result.fills:
        sign = 1 if trade.side == "B" else -1
        cash -= sign * trade.volume_lots * trade.price_ticks
        held += sign * trade.volume_lots
        fees += trade.fee
    (figures,) = result.strategies
    (bid, ask), mark = result.curve[-1].quotes[0], 0
    if held:
        mark = (bid if held > 0 else ask) or bid or ask or 0
    assert len(result.fills) > 100
    assert figures.profit == result.figures.profit == cash + held * mark - fees
    assert (figures.position_lots, figures.fees) == ({"REPLAY": held}, fees)
    assert result.curve[-1].profits == (((figures.realised, figures.unrealised, figures.fees),),)


def test_the_curve_stays_within_its_points() -> None:
    config = BacktestConfig(("market_maker",), (DataFile(TRACE),), points=50)
    result = Backtest(config).run()
    assert 25 <= len(result.curve) <= 50
    times = [sample.time_ns for sample in result.curve]
    assert times == sorted(set(times))


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    command = ["-m", "deltabook", "backtest", "market_maker", "sobi", "--data", str(TRACE), "--limit", "1000"]
    command += ["--latency", "lognormal:feed=1ms~2,order=1ms~2", "--out"]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, *command, str(tmp_path / seed)], env=environment, check=True, timeout=300,
                       capture_output=True)  # fmt: skip
    files = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert files == ["daily.csv", "orders.csv", "report.html", "result.json", "trades.csv", "trades.parquet"]
    for name in files:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name
    result = msgspec.json.decode((tmp_path / "1" / "result.json").read_bytes())
    assert "elapsed_s" not in result
    assert result["figures"]["records"] == 1000
    lines = (tmp_path / "1" / "trades.csv").read_text().splitlines()
    assert len(lines) == 1 + len(result["trades"]) > 10


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"latency": "never"}, "expected a latency"),
        ({"views": {"best_quote": "SELECT nothing FROM bids"}}, "nothing"),
        ({"fees": "cheap"}, "expected"),
        ({"parameters": ("mine.x=1",)}, "mine"),
    ],
    ids=["latency", "sql", "fees", "parameter"],
)
def test_what_cannot_be_used_is_refused(changes: dict[str, Any], words: str) -> None:
    config = msgspec.structs.replace(BacktestConfig(("sobi",)), **changes)
    with pytest.raises((BacktestError, RuntimeError), match=words):
        Backtest(config, records=adds(*BOOK), instruments=(Instrument("ACME"),))


def test_data_must_be_there() -> None:
    with pytest.raises(ConfigurationError, match="expected data"):
        Backtest(BacktestConfig(("sobi",)))
    with pytest.raises(BacktestError, match="none that can be used"):
        backtest(Joins, []).run()
