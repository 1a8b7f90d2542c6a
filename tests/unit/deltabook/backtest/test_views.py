"""The views of a backtest are those of its configuration and of the shipped files."""

from __future__ import annotations

import pytest

from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.views import find_views


def test_an_unknown_view_is_refused_with_the_views_that_there_are() -> None:
    """Declarations alone are no view."""
    with pytest.raises(ConfigurationError, match=r"expected one of the views .*vwap, .*, was nothing") as error:
        find_views(["nothing"], {})
    assert "finance_schema" not in str(error.value)


def test_a_derived_stream_is_no_view_of_a_backtest() -> None:
    with pytest.raises(ConfigurationError, match="was the derived stream bars_1s, which no backtest keeps"):
        find_views(["bars_1s"], {})
