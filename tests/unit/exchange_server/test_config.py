"""Settings that cannot be are refused with what was expected."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltabook.wire.symbols import Instrument
from exchange_server.config import ExchangeConfig, PortLimits, ReplayConfig, rules_of
from exchange_server.day import DaySchedule
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.journal import Journal
from exchange_server.matching import MarketRules


def replay(**settings: Any) -> ReplayConfig:
    return ReplayConfig(**{"file": "x.csv", "format": "dbtoaster", **settings})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"instruments": (Instrument("A"),), "replay": replay(stocks=("B", "A"))},
            "symbols of its own for the replay, was A",
        ),
        ({"instruments": (), "replay": replay(stocks=("B", "B"))}, "one or more different symbols"),
        ({"replay": replay(symbol="ACME")}, "symbols of its own"),
        ({"replay": replay(speed=0.0)}, "a replay speed above 0"),
        ({"replay": replay(symbol="A B")}, "no blanks or commas"),
        ({"instruments": ()}, "one or more different symbols"),
        ({"instruments": (Instrument("A"), Instrument("A"))}, "one or more different symbols"),
    ],
)
def test_contradictions_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ExchangeConfigurationError, match=words):
        rules_of(ExchangeConfig(directory="d", **settings))


def test_unknown_keys_are_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.convert({"directory": "d", "colour": "red"}, ExchangeConfig)


def test_ids_beside_a_recorded_symbol_lie_above_its_ids() -> None:
    rules = rules_of(ExchangeConfig(directory="d", replay=replay(mode="as-recorded")))
    assert rules.first_order_id > 2**53
    assert rules_of(ExchangeConfig(directory="d")).first_order_id == 1


def test_a_recording_brings_its_symbols_at_their_scale() -> None:
    rules = rules_of(ExchangeConfig(directory="d", replay=replay(format="itch", stocks=("A", "B"))))
    assert [(i.symbol, i.tick_size) for i in rules.instruments[-2:]] == [("A", "0.0001"), ("B", "0.0001")]
    assert rules.replay_symbols == ("A", "B")


def test_a_day_with_an_opening_auction_begins_in_it() -> None:
    rules = rules_of(ExchangeConfig(directory="d", day=DaySchedule(opening_s=5), collar_bps=500, max_live_orders=7))
    assert (rules.opens_with_auction, rules.collar_bps, rules.max_live_orders) == (True, 500, 7)
    assert not rules_of(ExchangeConfig(directory="d", day=DaySchedule(trading_s=5))).opens_with_auction


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ouch_port": 0}, "expected a users file for the OUCH port, was none"),
        ({"mold_port": 0}, "expected an address that datagrams are sent to"),
        ({"admin_port": 0, "admin_interface": "0.0.0.0"}, "expected a token for an admin port that is not on loopback"),
        (
            {"admin_port": 0, "admin_interface": "0.0.0.0", "admin_token_file": "t"},
            "expected TLS for an admin port that is not on loopback, was none at 0.0.0.0",
        ),
        ({"fsync_interval_s": 0.0}, "expected an fsync interval above 0, was 0"),
        ({"keep_snapshots": 1}, "expected to keep 2 snapshots or more, or 0, was 1"),
        (
            {"day": DaySchedule(opening_s=1, closing_s=5)},
            "expected an end of trading before the closing auction, was none",
        ),
        ({"rate_per_s": 0.0}, "expected a rate above 0, was 0"),
        ({"rate_per_s": math.nan}, "expected a rate above 0, was nan"),
        ({"rate_per_s": math.inf}, "expected a rate above 0, was inf"),
        ({"fsync_interval_s": math.nan}, "expected an fsync interval above 0, was nan"),
        ({"busy_poll_ms": math.nan}, "expected to poll for 0 ms or more, was nan"),
        ({"status_interval_s": math.inf}, "expected 0 seconds or more between status lines, was inf"),
        ({"snapshot_interval_s": -1.0}, "expected 0 seconds or more between snapshots, was -1"),
        ({"day": DaySchedule(opening_s=math.inf)}, "expected an opening auction of 0 seconds or more, was inf"),
        ({"day": DaySchedule(trading_s=math.nan)}, "expected 0 seconds of trading or more, was nan"),
        ({"day": DaySchedule(trading_s=1, closing_s=math.nan)}, "expected a closing auction of 0 seconds or more"),
        ({"day": DaySchedule(trading_s=1e300)}, r"expected a day of at most 1000000000 seconds, was 1e\+300"),
        ({"max_live_orders": 2**63}, "expected 1 to 9223372036854775807 live orders, was 9223372036854775808"),
        ({"max_live_orders": 0}, "expected 1 to 9223372036854775807 live orders, was 0"),
    ],
)
def test_settings_that_exclude_each_other_are_refused_at_once(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ExchangeConfigurationError, match=words):
        ExchangeConfig(directory="d", **settings)


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ({"tick_size": "0"}, "expected a tick above 0, as in 0.01, was '0' of ACME"),
        ({"tick_size": "0.000"}, "expected a tick above 0"),
        ({"tick_size": "nan"}, "expected a tick above 0"),
        ({"tick_size": "sNaN"}, "expected a tick above 0"),
        ({"tick_size": "-0.01"}, "expected a tick above 0"),
        ({"tick_size": "a cent"}, "expected a tick above 0"),
        ({"tick_size": "9" * 5_000}, "expected a tick above 0"),
        ({"lot_size": ""}, "expected a lot above 0, as in 0.01, was '' of ACME"),
        ({"lot_size": "inf"}, "expected a lot above 0"),
        ({"reference_price_ticks": 0}, "expected a reference price of 1 to 9223372036854775807 ticks, was 0 of ACME"),
        ({"reference_price_ticks": 2**63}, "expected a reference price of 1 to"),
    ],
)
def test_an_instrument_without_a_scale_is_refused(scale: dict[str, Any], words: str) -> None:
    """A tick of NaN would be found at the first price that is shown as money."""
    with pytest.raises(ExchangeConfigurationError, match=words):
        rules_of(ExchangeConfig(directory="d", instruments=(Instrument("ACME", **scale),)))


def test_the_feed_is_made_in_the_required_forms() -> None:
    forms: dict[tuple[tuple[str, Any], ...], tuple[str, ...]] = {
        (): ("text",),
        (("port", None),): (),
        (("port", None), ("itch_port", 0)): ("itch",),
        (("mold_to", "127.0.0.1:1"),): ("text", "itch"),
        (("glimpse_port", 0),): ("text", "itch"),
    }
    for settings, wanted in forms.items():
        assert ExchangeConfig(directory="d", **dict(settings)).forms == wanted


def test_a_session_goes_on_with_its_own_recording(tmp_path: Path) -> None:
    def rules(name: str) -> MarketRules:
        return rules_of(ExchangeConfig(directory="d", replay=replay(file=str(tmp_path / name))))

    (tmp_path / "one").write_bytes(b"1,2,B,3,4\n" * 9)
    (tmp_path / "copy").write_bytes(b"1,2,B,3,4\n" * 9)
    (tmp_path / "other").write_bytes(b"1,2,S,3,4\n" * 9)
    assert rules("one") == rules("copy") != rules("other")
    assert rules("missing").replay_begins == ""
    Journal(tmp_path / "journal", rules("one"), lambda: "S").close()
    with pytest.raises(
        ExchangeConfigurationError, match=r"replay_begins \w{16}\), was .*replay_begins \w{16}; another"
    ):
        Journal(tmp_path / "journal", rules("other"), lambda: "S")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"text": {"account": {"requests_per_s": 2**70}}}, "text.account.requests_per_s"),
        ({"text": {"account": {"open_orders": -1}}}, "text.account.open_orders"),
        ({"text": {"batch_inputs": 0}}, "text.batch_inputs"),
        ({"itch": {"login_timeout_s": -1}}, "itch.login_timeout_s"),
        ({"ouch": {"silence_s": 0}}, "ouch.silence_s"),
        ({"glimpse": {"snapshots": 0}}, "glimpse.snapshots"),
        ({"mold": {"hosts": 0}}, "mold.hosts"),
    ],
)
def test_a_limit_that_no_port_could_keep_is_refused(limits: object, words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert(limits, PortLimits)
