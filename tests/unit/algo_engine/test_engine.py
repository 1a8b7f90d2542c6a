"""When strategies start, hear, fail and stop."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

import pytest

from algo_engine.desk.order import Side
from algo_engine.desk.risk import RiskLimits
from algo_engine.engine import Engine
from algo_engine.host import StrategyHost
from algo_engine.loader import LoadedStrategy
from algo_engine.strategy import Context, NoParameters, Strategy
from algo_engine.views.mirror import ViewMirror
from deltabook.wire.results import Frame, FrameHeader
from tests.generators.order_lab import LIMITS, OrderLab
from tests.unit.algo_engine.snapshots import snapshot
from tests.unit.algo_engine.test_requested import Curious
from tests.unit.algo_engine.test_requested import Rig as ViewsRig

QUOTE = {"symbol": "ACME", "bid_price": 99, "bid_volume": 10, "ask_price": 101, "ask_volume": 10}


class Diary(Strategy[NoParameters]):
    """Writes down what it hears; raises where it is told to."""

    views = ("vwap_book",)

    def __init__(self) -> None:
        super().__init__(NoParameters())
        self.heard: list[str] = []
        self.raises_at = ""
        self.error: BaseException = ZeroDivisionError("by mistake")

    def _hear(self, what: str) -> None:
        self.heard.append(what)
        if what == self.raises_at:
            raise self.error

    def on_start(self, context: Context) -> None:
        self._hear("start")

    def on_view_change(self, change: Any) -> None:
        self._hear(change.view)

    def on_order_event(self, event: Any) -> None:
        self._hear(event.kind)

    def on_timer(self, name: str) -> None:
        self._hear(name)

    def on_stop(self) -> None:
        self._hear("stop")


class Rig:
    def __init__(self, *, adopt: bool = False, limits: RiskLimits = LIMITS) -> None:
        self.lab = OrderLab(limits=limits)
        self.strategy = Diary()
        self.failures: list[Exception] = []
        self.stages = self.lab.stages
        mirror = ViewMirror()
        self.host = StrategyHost(
            loaded=LoadedStrategy("diary", self.strategy, limits),
            mirror=mirror,
            quotes=self.lab.quotes,
            clock=self.lab.clock,
            now_ns=lambda: int(self.lab.clock.seconds() * 1e9),
            make_desk=self._desk,
        )
        self.engine = Engine(
            hosts=[self.host],
            mirror=mirror,
            quotes=self.lab.quotes,
            clock=self.lab.clock,
            adopt=adopt,
            stale_s=2,
            on_failure=self.failures.append,
            on_synchronised=lambda: None,
            stages=self.stages,
        )

    def _desk(self, listener: Any) -> Any:
        self.lab.desk._listener = listener
        return self.lab.desk

    def views(self) -> None:
        self.engine.frame(snapshot("best_quote", QUOTE))
        self.engine.frame(snapshot("vwap_book"))

    def started(self) -> Rig:
        self.lab.settle()
        self.views()
        self.strategy.heard.clear()
        return self


def test_a_strategy_starts_when_its_views_and_orders_are_known() -> None:
    rig = Rig()
    rig.views()
    assert rig.strategy.heard == []
    rig.lab.settle()
    assert rig.strategy.heard == ["start"]


@pytest.mark.parametrize("adopt", [False, True])
def test_earlier_orders_end_or_are_adopted_before_the_start(adopt: bool) -> None:
    rig = Rig(adopt=adopt)
    rig.lab.settle()
    rig.lab.desk.submit(Side.BUY, "ACME", 10, 100)
    rig.lab.settle()
    rig.lab.desk.lost()
    rig.lab.drop()
    rig.views()
    assert rig.strategy.heard == []
    rig.lab.settle()
    rig.engine.frame(Frame(FrameHeader("heartbeat", ""), None))
    assert rig.strategy.heard == ["start"]
    assert len(rig.host.open_orders()) == (1 if adopt else 0)
    rig.lab.check_settled()


def test_events_caused_inside_a_call_come_after_it() -> None:
    rig = Rig().started()

    def buy(name: str) -> None:
        rig.host.buy("ACME", 5, 100)
        rig.strategy.heard.append(name)

    rig.strategy.on_timer = buy  # type: ignore[method-assign] # a test's shortcut
    rig.host.set_timer("t", 100)
    rig.lab.clock.advance(0.1)
    assert rig.strategy.heard == ["t", "submitted"]


def test_views_that_were_not_declared_are_refused_and_not_heard() -> None:
    rig = Rig().started()
    rig.engine.frame(snapshot("trades_1s"))
    assert rig.strategy.heard == []
    with pytest.raises(LookupError, match="expected a declared view out of best_quote, vwap_book, was trades_1s"):
        rig.host.view("trades_1s")
    assert len(rig.host.view("best_quote")) == 1


@pytest.mark.parametrize("where", ["start", "vwap_book", "accepted", "t"])
def test_a_raising_strategy_is_stopped_and_its_orders_cancelled(where: str) -> None:
    rig = Rig()
    rig.strategy.raises_at = where
    rig.lab.settle()
    rig.views()
    rig.host.set_timer("t", 100)
    rig.host.buy("ACME", 5, 100)
    rig.lab.settle()
    rig.engine.frame(snapshot("vwap_book", epoch=2))
    rig.lab.clock.advance(0.1)
    rig.lab.settle()
    assert rig.host.failure == "ZeroDivisionError: by mistake"
    assert not rig.lab.exchange.resting
    assert "expected a strategy to run, was none left: diary: ZeroDivisionError" in str(rig.failures[0])


@pytest.mark.parametrize("error", [SystemExit(3), CancelledError("by mistake")])
def test_errors_that_are_no_exceptions_stop_a_strategy_too(error: BaseException) -> None:
    """The loop of events would log them, and the strategy's orders would stay in the market."""
    rig = Rig().started()
    rig.strategy.raises_at, rig.strategy.error = "accepted", error
    rig.host.buy("ACME", 5, 100)
    rig.lab.settle()
    assert rig.host.failure == f"{type(error).__name__}: {error}"
    assert not rig.lab.exchange.resting


def test_a_view_that_ends_stops_the_strategies_that_declare_it() -> None:
    rig = Rig().started()
    rig.engine.frame(Frame(FrameHeader("error", "trades_1s", reason="dropped"), None))
    failures = [rig.host.failure]
    rig.engine.frame(Frame(FrameHeader("error", "vwap_book", reason="dropped"), None))
    failures.append(rig.host.failure)
    assert failures == ["", "view vwap_book ended: dropped"]


def test_without_views_orders_end_and_new_orders_are_refused() -> None:
    rig = Rig().started()
    rig.host.buy("ACME", 5, 100)
    rig.lab.settle()
    rig.engine.views_lost()
    rig.lab.clock.advance(1.9)
    assert rig.lab.exchange.resting
    rig.lab.clock.advance(0.1)
    rig.lab.settle()
    assert not rig.lab.exchange.resting
    rig.host.buy("ACME", 5, 100)
    assert rig.strategy.heard[-1] == "refused"
    rig.views()
    rig.host.buy("ACME", 5, 100)
    assert rig.strategy.heard[-1] == "submitted"


def test_a_view_lost_again_is_stale_from_the_later_loss() -> None:
    """The connection came back in between: the time without views begins again."""
    rig = Rig().started()
    rig.host.buy("ACME", 5, 100)
    rig.lab.settle()
    rig.engine.views_lost()
    rig.lab.clock.advance(1)
    rig.views()
    rig.engine.views_lost()
    rig.lab.clock.advance(1)
    rig.lab.settle()
    assert rig.lab.exchange.resting
    rig.engine.views_lost()
    rig.lab.clock.advance(1)
    rig.lab.settle()
    assert not rig.lab.exchange.resting, "lost without a break since the second loss"


def test_a_loss_past_its_limit_throws_the_kill_switch() -> None:
    rig = Rig(limits=RiskLimits(max_loss=50, price_band_bps=9000)).started()
    rig.host.buy("ACME", 10, 100)
    rig.lab.settle()
    rig.lab.exchange.fill(1, 10, 100)
    rig.lab.told()
    rig.lab.settle()
    rig.engine.frame(snapshot("best_quote", {**QUOTE, "bid_price": 95}))
    killed = [rig.lab.desk.is_killed]
    rig.engine.frame(snapshot("best_quote", {**QUOTE, "bid_price": 94}))
    killed.append(rig.lab.desk.is_killed)
    assert killed == [False, True]
    assert rig.host.profit().total == -60


def test_a_stop_tells_the_strategy_and_cancels_its_orders() -> None:
    rig = Rig().started()
    rig.host.buy("ACME", 5, 100)
    rig.lab.settle()
    rig.engine.stop()
    rig.lab.settle()
    assert rig.strategy.heard[-1] == "stop"
    assert rig.engine.open_orders() == 0


def test_a_failure_in_on_stop_is_named_as_one() -> None:
    """The strategy did not end early, so the error must not read as if it had."""
    rig = Rig().started()
    rig.strategy.raises_at = "stop"
    rig.engine.stop()
    assert rig.host.failure == "on_stop: ZeroDivisionError: by mistake"
    assert str(rig.failures[0]).startswith("expected a strategy to stop without an error, was none: diary: on_stop:")


def test_figures_sum_over_strategies() -> None:
    rig = Rig().started()
    rig.host.buy("ACME", 5, 100)
    rig.host.sell("ACME", 3, 101)
    rig.lab.settle()
    rig.lab.exchange.fill(1, 5, 100)
    rig.lab.told()
    rig.lab.settle()
    assert rig.engine.figures() == {
        "orders_sent": 2,
        "orders_filled": 1,
        "orders_open": 1,
        "fills": 1,
        "position_lots": 5,
        "pnl": -5,
        "view_changes": 2,
    }


def test_a_strategy_resumes_when_the_lost_view_is_not_its_own() -> None:
    rig = ViewsRig(Curious())
    rig.hosts[0].add_view("spread", "SELECT 1")
    rig.link.asked["spread"]("")
    rig.engine.frame(snapshot("spread"))
    rig.engine.views_lost(["spread"])
    rig.clock.advance(2)
    assert rig.engine.standing(rig.hosts[0])[0] == "suspended"
    rig.engine.frame(Frame(FrameHeader("error", "spread", reason="dropped"), None))
    assert rig.engine.standing(rig.hosts[0]) == ("running", "")


def test_a_cancellation_is_open_until_its_outcome_is_known() -> None:
    rig = Rig().started()
    assert rig.engine.unanswered_requests() == 0
    rig.host.buy("ACME", 5, 100)
    rig.lab.settle()
    rig.engine.stop()
    assert rig.engine.unanswered_requests() == 1
    rig.lab.settle()
    assert rig.engine.unanswered_requests() == rig.engine.open_orders() == 0


def test_a_view_change_is_timed_from_its_bytes_to_the_socket() -> None:
    """Each stage begins where the one before it ends."""
    rig = Rig().started()
    clock, stages = rig.lab.clock, rig.stages
    frames, journals, sent = stages.frame.count, stages.journal.count, stages.wire.count
    before_s = stages.frame.total_s

    def trade(change: Any) -> None:
        clock.advance(0.004)
        rig.host.buy("ACME", 5, 100)
        rig.host.buy("ACME", 6, 100)

    rig.strategy.on_view_change = trade  # type: ignore[method-assign] # a test's shortcut
    stages.frame_read()
    clock.advance(0.002)
    rig.engine.frame(snapshot("vwap_book"))
    clock.advance(0.008)
    assert stages.frame.count - frames == 1
    assert stages.frame.total_s - before_s == pytest.approx(0.002)
    assert (stages.journal.count - journals, stages.wire.count - sent) == (1, 1), "once for all requests of a turn"
    assert stages.journal.total_s == pytest.approx(0.012)
    rig.lab.settle()
    journals, journal_s = stages.journal.count, stages.journal.total_s
    rig.host.buy("ACME", 7, 100)
    clock.advance(0.016)
    assert stages.journal.count - journals == 1
    assert stages.journal.total_s - journal_s == pytest.approx(0.016), "from the request, where no frame caused it"
