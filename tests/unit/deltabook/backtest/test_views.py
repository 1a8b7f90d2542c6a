"""The views of a backtest are those of its configuration and of the shipped files."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.views import BacktestViews, find_views
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
