"""The views of a backtest are those of its configuration and of the shipped files."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.deltas import Delta
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.views import BacktestViews, RunViews, find_views
from runtime.compiler import NamedSelect


def test_an_unknown_view_is_refused_with_the_known_views() -> None:
    """Declarations alone are no view."""
    with pytest.raises(ConfigurationError, match=r"expected one of the views .*vwap, .*, was nothing") as error:
        find_views(["nothing"], {})
    assert "finance_schema" not in str(error.value)


def test_a_derived_stream_is_no_view_of_a_backtest() -> None:
    with pytest.raises(
        ConfigurationError, match="was the derived stream bars_1s, which neither a backtest nor a replay keeps"
    ):
        find_views(["bars_1s"], {})


def test_dependencies_of_a_view_are_found_and_reused(tmp_path: Path) -> None:
    (tmp_path / "low.sql").write_text("SELECT symbol, SUM(volume) AS lots FROM bids GROUP BY symbol")
    given = {"high": "SELECT symbol, lots FROM middle", "middle": "SELECT * FROM low WHERE lots > 2"}
    found = find_views(["high"], given, tmp_path)
    assert sorted(select.name for select in found) == ["high", "low", "middle"]
    views = BacktestViews(found)
    rows = [("bids", (1, 1, 7, 5, 100, "ACME"), 1)]
    views.step(rows)
    assert views.snapshot("high") == ([("ACME", 5)], [1])
    views.add([NamedSelect("over", "SELECT COUNT(*) AS n FROM high")], rows)
    assert views.snapshot("over") == ([(1,)], [1])


def test_an_unknown_relation_has_its_place() -> None:
    with pytest.raises(ConfigurationError, match="mine:1:15: unknown relation 'bog'"):
        BacktestViews(find_views(["mine"], {"mine": "SELECT 1 FROM bog"}))


class ViewedRun:
    """A run without a market, and the views that it has shown to strategies."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.views = BacktestViews(find_views(["levels"], {"levels": "SELECT symbol, price FROM asks"}))
        self.shown: list[str] = []

    def seen_rows(self) -> list[Delta]:
        """See `deltabook.backtest.views.ViewedRun`."""
        return [("bids", (1, 1, 7, 5, 100, "ACME"), 1)]

    def show(self, name: str) -> None:
        """See `deltabook.backtest.views.ViewedRun`."""
        self.shown.append(name)


def test_a_view_dropped_while_being_added_does_not_stay() -> None:
    """The strategy that requested it may fail in the same turn; its name is free for other SQL then."""
    run = ViewedRun()
    link, outcomes = RunViews(run, []), list[str]()
    link.add("mine", "SELECT symbol FROM bids", "express", outcomes.append)
    link.drop("mine")
    run.clock.run_turn()
    assert ("mine" in run.views, outcomes, run.shown) == (False, [], [])
    link.add("mine", "SELECT price FROM bids", "express", outcomes.append)
    run.clock.run_turn()
    assert (run.views.snapshot("mine"), outcomes, run.shown) == (([(100,)], [1]), [""], ["mine"])


def test_links_of_a_run_share_a_view() -> None:
    """The participants of a simulation have a link each: a view exists while one of them uses it."""
    run = ViewedRun()
    first, second = RunViews(run, []), RunViews(run, ["levels"])
    outcomes: list[str] = []
    first.add("mine", "SELECT symbol FROM bids", "express", outcomes.append)
    second.add("mine", "SELECT symbol FROM bids;", "express", outcomes.append)
    run.clock.run_turn()
    assert (outcomes, run.shown) == (["", ""], ["mine", "mine"])
    second.add("levels", "SELECT 1 AS one FROM asks", "express", outcomes.append)
    run.clock.run_turn()
    assert outcomes[2:] == ["expected the SQL that levels has, was another"]
    first.drop("mine")
    assert "mine" in run.views
    second.drop("mine")
    assert "mine" not in run.views


def test_a_view_shown_from_the_start_is_not_shown_again() -> None:
    run = ViewedRun()
    link, outcomes = RunViews(run, ["levels"]), list[str]()
    link.add("levels", "SELECT symbol, price FROM asks", "express", outcomes.append)
    run.clock.run_turn()
    link.drop("levels")
    assert (outcomes, run.shown, "levels" in run.views) == ([""], [], True)


def test_a_view_of_the_configuration_keeps_its_name() -> None:
    """A runtime that has the view refuses other SQL of its name, whether a strategy reads the view or not."""
    views = BacktestViews([], given={"levels": "SELECT symbol, price FROM asks"})
    with pytest.raises(ConfigurationError, match="expected the SQL that levels has, was another"):
        views.request("levels", "SELECT symbol FROM bids", list)
    assert "levels" not in views
    views.request("levels", "SELECT symbol, price FROM asks;", list)
    assert "levels" in views
