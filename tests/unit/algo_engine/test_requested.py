"""Strategies that bring views along, or ask for them while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from algo_engine.engine import Engine
from algo_engine.host import StrategyHost
from algo_engine.loader import LoadedStrategy
from algo_engine.strategy import Context, NoParameters, Strategy
from algo_engine.views.contents import ViewChange
from algo_engine.views.mirror import ViewMirror
from deltabook.wire.results import Frame, FrameHeader
from tests.generators.order_lab import LIMITS, OrderLab
from tests.unit.algo_engine.snapshots import snapshot

QUOTE = {"symbol": "ACME", "bid_price": 99, "bid_volume": 10, "ask_price": 101, "ask_volume": 10}


class Curious(Strategy[NoParameters]):
    """Writes down what it hears of views."""

    def __init__(self, **queries: str) -> None:
        super().__init__(NoParameters())
        self.queries = queries
        self.heard: list[str] = []

    def on_start(self, context: Context) -> None:
        self.heard.append("start")

    def on_view_change(self, change: ViewChange) -> None:
        self.heard.append(f"{change.view} {len(change.added)}")

    def on_view_error(self, view: str, reason: str) -> None:
        self.heard.append(f"{view}: {reason}")


class Link:
    """Keeps what it is told to; the outcome is the test's to say."""

    def __init__(self) -> None:
        self.asked: dict[str, Callable[[str], None]] = {}
        self.dropped: list[str] = []

    def add(self, view: str, sql: str, lane: str, done: Callable[[str], None]) -> None:
        assert view not in self.asked
        self.asked[view] = done

    def drop(self, view: str) -> None:
        self.dropped.append(view)


class Rig:
    """Strategies on one mirror; each has an exchange of its own."""

    def __init__(self, *strategies: Curious, keep: bool = False) -> None:
        self.link, self.failures, mirror = Link(), [], ViewMirror()  # type: ignore[var-annotated]
        labs = [OrderLab() for _ in strategies]

        def make_desk(lab: OrderLab) -> Callable[[Any], Any]:
            def made(listener: Any) -> Any:
                lab.desk._listener = listener
                return lab.desk

            return made

        self.hosts = [
            StrategyHost(
                loaded=LoadedStrategy(f"s{number}", strategy, LIMITS),
                mirror=mirror,
                quotes=lab.quotes,
                clock=lab.clock,
                now_ns=lambda: 0,
                make_desk=make_desk(lab),
            )
            for number, (strategy, lab) in enumerate(zip(strategies, labs, strict=True))
        ]
        self.engine = Engine(
            hosts=self.hosts,
            mirror=mirror,
            quotes=labs[0].quotes,
            clock=labs[0].clock,
            adopt=False,
            stale_s=2,
            on_failure=self.failures.append,
            on_synchronised=lambda: None,
            view_link=self.link,
            keep_views=keep,
        )
        self.clock = labs[0].clock
        self.engine.start()
        for lab in labs:
            lab.settle()
        self.engine.frame(snapshot("best_quote", QUOTE))


def test_a_strategy_starts_when_its_own_views_are_there() -> None:
    strategy = Curious(spread="SELECT 1")
    rig = Rig(strategy)
    rig.link.asked["spread"]("")
    assert strategy.heard == []
    rig.engine.frame(snapshot("spread"))
    assert strategy.heard == ["start"]
    assert rig.hosts[0].views == {"best_quote", "spread"}


def test_a_strategy_whose_view_is_refused_fails() -> None:
    rig = Rig(Curious(spread="SELECT"))
    rig.link.asked["spread"]("expected SQL, was less")
    assert rig.hosts[0].failure == "view spread: expected SQL, was less"
    assert "expected a strategy to run" in str(rig.failures[0])


def test_a_view_requested_later_begins_with_its_snapshot() -> None:
    strategy = Curious()
    rig = Rig(strategy)
    rig.hosts[0].add_view("spread", "SELECT 1")
    with pytest.raises(LookupError, match="expected a declared view out of best_quote, was spread"):
        rig.hosts[0].view("spread")
    rig.link.asked["spread"]("")
    rig.engine.frame(snapshot("spread", {"symbol": "ACME", "ticks": 2}))
    assert strategy.heard == ["start", "spread 1"]
    assert rig.hosts[0].view("spread").find(symbol="ACME") == {"symbol": "ACME", "ticks": 2}


def test_a_refusal_of_a_later_view_is_an_event() -> None:
    strategy = Curious()
    rig = Rig(strategy)
    rig.hosts[0].add_view("spread", "SELECT")
    rig.link.asked.pop("spread")("expected SQL, was less")
    rig.hosts[0].add_view("best_quote", "SELECT 1")
    assert strategy.heard[1:] == [
        "spread: expected SQL, was less",
        "best_quote: expected a name that no strategy has in `views`, was best_quote; `queries` needs no entry there",
    ]
    assert not rig.hosts[0].failure
    rig.hosts[0].add_view("spread", "SELECT 1")
    assert "spread" in rig.link.asked, "it may be asked for again"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("spread", 5), TypeError),
        ((5, "SELECT 1"), TypeError),
        (("spread", None), TypeError),
        (("spread", "SELECT 1", "slow"), ValueError),
    ],
)
def test_a_view_of_wrong_types_is_not_requested(arguments: Any, error: type[Exception]) -> None:
    """The link would keep the request, and fail at every later one, also those of other strategies."""
    rig = Rig(Curious())
    with pytest.raises(error, match=r"expected (the name and the SQL of a view as str|a lane out of .*), was"):
        rig.hosts[0].add_view(*arguments)
    assert not rig.link.asked


def test_the_same_sql_is_shared_and_another_refused() -> None:
    first, second, third = Curious(spread="SELECT  1"), Curious(), Curious()
    rig = Rig(first, second, third)
    rig.link.asked["spread"]("")
    rig.engine.frame(snapshot("spread", {"symbol": "ACME", "ticks": 2}))
    rig.hosts[1].add_view("spread", "SELECT 1;")
    rig.hosts[2].add_view("spread", "SELECT 2")
    assert second.heard == ["start", "spread 1"]
    assert third.heard == ["start", "spread: expected the SQL that spread has in the lane express, was another"]


@pytest.mark.parametrize("keep", [False, True])
def test_an_unused_view_is_dropped_unless_it_is_to_be_kept(keep: bool) -> None:
    rig = Rig(Curious(spread="SELECT 1"), Curious(spread="SELECT 1"), keep=keep)
    rig.link.asked["spread"]("")
    rig.engine.frame(snapshot("spread"))
    rig.hosts[0].fail("by mistake")
    assert rig.link.dropped == []
    rig.engine.stop()
    assert rig.link.dropped == ([] if keep else ["spread"])


def test_the_end_of_a_view_notifies_users_and_fails_its_owner() -> None:
    adder, bringer = Curious(), Curious(spread="SELECT 1")
    rig = Rig(adder, bringer)
    rig.link.asked["spread"]("")
    rig.engine.frame(snapshot("spread"))
    rig.hosts[0].add_view("spread", "SELECT 1")
    rig.engine.frame(Frame(FrameHeader("error", "spread", reason="dropped"), None))
    assert adder.heard[-1] == "spread: dropped"
    assert rig.link.dropped == ["spread"], "or it would be asked for again and again"
    assert rig.hosts[1].failure == "view spread: dropped"
    assert rig.hosts[0].views == {"best_quote"}


def test_views_that_are_lost_do_not_make_others_stale() -> None:
    rig = Rig(Curious(spread="SELECT 1"), Curious())
    rig.link.asked["spread"]("")
    rig.engine.frame(snapshot("spread"))
    rig.engine.views_lost(["spread"])
    rig.clock.advance(2)
    assert [rig.engine.standing(host)[0] for host in rig.hosts] == ["suspended", "running"]
    rig.engine.frame(snapshot("spread", epoch=2))
    assert [rig.engine.standing(host)[0] for host in rig.hosts] == ["running", "running"]


def test_an_immediate_refusal_is_delivered_after_the_call() -> None:
    strategy = Curious()
    rig = Rig(strategy)

    def ask(name: str) -> None:
        rig.hosts[0].add_view("best_quote", "SELECT 1")
        strategy.heard.append("asked")

    strategy.on_timer = ask  # type: ignore[method-assign] # a test's shortcut
    rig.hosts[0].set_timer("t", 100)
    rig.clock.advance(0.1)
    assert [what.partition(":")[0] for what in strategy.heard] == ["start", "asked", "best_quote"]
