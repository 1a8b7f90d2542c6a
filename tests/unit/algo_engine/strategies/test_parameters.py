"""Parameters that would make a strategy fail in the middle of the market are refused before it starts."""

from __future__ import annotations

import pytest

from algo_engine.errors import ParameterError
from algo_engine.loader import BUILT_IN, load_strategies


@pytest.mark.parametrize(
    ("strategy", "parameter"),
    [
        ("sobi", "order_life_ms=0"),
        ("sobi", "cooldown_ms=-1"),
        ("sobi", "factor=0.5"),
        ("sobi", "factor=inf"),
        ("sobi", "depth_bps=-1"),
        ("volatile_sobi", "deviations=-1"),
        ("volatile_sobi", "deviations=nan"),
        ("volatile_sobi", "least_trades=1"),
        ("timed_sobi", "top_orders=0"),
        ("market_players", "interval_ms=0"),
        ("market_players", "far_bps=0"),
        ("market_maker", "replace_ticks=0"),
        ("market_maker", "interval_ms=0"),
        *((name, "size_lots=ACME:0") for name in sorted(BUILT_IN)),
        *((name, "size_touch_percent=0") for name in sorted(BUILT_IN)),
        *((name, "position_orders=0") for name in sorted(BUILT_IN)),
    ],
)
def test_it_is_refused(strategy: str, parameter: str) -> None:
    field = parameter.partition("=")[0]
    with pytest.raises(ParameterError, match=f"expected valid parameters of {strategy}, was .*{field}"):
        load_strategies([strategy], [f"{strategy}.{parameter}"])


def test_bounds_themselves_are_taken() -> None:
    (loaded,) = load_strategies(["sobi"], ["sobi.factor=1", "sobi.cooldown_ms=0", "sobi.order_life_ms=1"])
    assert loaded.strategy.parameters.factor == 1.0
