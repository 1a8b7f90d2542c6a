"""Settings that cannot be are refused with what was expected."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from deltabook.wire.symbols import Instrument
from exchange_server.config import ExchangeConfig, ReplayConfig, rules_of
from exchange_server.errors import ExchangeConfigurationError


def replay(**settings: Any) -> ReplayConfig:
    return ReplayConfig(**{"file": "x.csv", "format": "dbtoaster", **settings})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replay": replay(symbol="ACME")}, "a symbol of its own"),
        ({"replay": replay(speed=0.0)}, "a replay speed above 0"),
        ({"replay": replay(symbol="A B")}, "no blanks or commas"),
        ({"instruments": ()}, "one or more different symbols"),
        ({"instruments": (Instrument("A"), Instrument("A"))}, "one or more different symbols"),
        ({"rate_per_s": 0.0}, "a rate above 0"),
    ],
)
def test_contradictions_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ExchangeConfigurationError, match=words):
        rules_of(ExchangeConfig(directory="d", **settings))


def test_unknown_keys_are_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.convert({"directory": "d", "colour": "red"}, ExchangeConfig)


def test_ids_given_beside_a_symbol_that_is_played_as_recorded_lie_above_the_recorded_ones() -> None:
    rules = rules_of(ExchangeConfig(directory="d", replay=replay(mode="as-recorded")))
    assert rules.first_order_id > 2**53
    assert rules_of(ExchangeConfig(directory="d")).first_order_id == 1
