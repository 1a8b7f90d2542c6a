"""`deltabook exchange`: which command runs, and what an exchange is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from deltabook.cli import main
from exchange_server.agents import PRESETS
from exchange_server.config import DEFAULT_INSTRUMENTS, ExchangeConfig, agent_instruments
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.nasdaq.itch import ItchLimits

Invoke = Callable[..., ExchangeConfig]
REFUSED = {
    "users": (["--ouch-port", "0"], "expected a users file for the OUCH port, was none"),
    "mold": (["--mold-port", "0"], "expected an address that datagrams are sent to for --mold-port, was none"),
    "token": (["--admin-interface", "0.0.0.0"], "expected a token for an admin port that is not on loopback"),
    "port": (["--port", "x"], "expected a port from 0 to 65535 or `none`, was 'x'"),
    "large port": (["--itch-port", "65536"], "expected a port from 0 to 65535 or `none`, was '65536'"),
    "snapshots": (["--keep-snapshots", "1"], "expected to keep 2 snapshots or more, or 0, was 1"),
    "instruments": (
        ["--instruments", "nothing.json"],
        "expected a JSON file of instruments for --instruments, was nothing.json",
    ),
    "limits": (["--limits", "nothing.json"], "expected a JSON file of limits for --limits, was nothing.json"),
    "style": (
        ["--agent-style", "wild"],
        "expected lively, calm, calibrated, day or a JSON file for --agent-style, was wild",
    ),
    "speed": (["--speed", "0"], "expected `max` or a number above 0, was '0'"),
}


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
        told: list[ExchangeConfig] = []
        monkeypatch.setattr("exchange_server.app.run", told.append)
        result = CliRunner().invoke(main, ["--run-id", "r", "exchange", *arguments], env=env)
        result.told = told  # type: ignore[attr-defined]
        return result

    return run


@pytest.fixture
def told(invoke: Callable[..., Result]) -> Invoke:
    def run(*arguments: str, **more: Any) -> ExchangeConfig:
        result = invoke(*arguments, **more)
        assert result.exit_code == 0, result.output
        config: ExchangeConfig = result.told[0]  # type: ignore[attr-defined]
        return config

    return run


def test_run_is_what_is_run_without_a_name(told: Invoke) -> None:
    assert told("--dir", "d") == told("run", "--dir", "d") == told("--port", "0", "--dir", "d")


def test_the_default_is_text_and_admin_ports_on_loopback(told: Invoke) -> None:
    config = told("--dir", "d")
    assert (config.port, config.admin_port) == (0, 0)
    assert (config.itch_port, config.ouch_port, config.glimpse_port, config.mold_port) == (None, None, None, None)
    assert (config.interface, config.admin_interface) == ("127.0.0.1", "127.0.0.1")
    assert (config.agents, config.instruments, config.forms) == (True, DEFAULT_INSTRUMENTS, ("text",))
    assert config == ExchangeConfig(directory="d", admin_port=0, agent_settings=PRESETS["lively"], run_id="r")


def test_every_face_can_be_had_or_left(told: Invoke) -> None:
    config = told("--dir", "d", "--port", "none", "--admin-port", "none", "--itch-port", "1", "--users", "u")
    assert (config.port, config.admin_port, config.itch_port, config.forms) == (None, None, 1, ("itch",))
    config = told("--dir", "d", "--ouch-port", "2", "--users", "u", "--mold-to", "239.1.1.1:9", "--mold-port", "3")
    assert (config.ouch_port, config.mold_to, config.mold_port, config.forms) == (2, "239.1.1.1:9", 3, ("text", "itch"))
    assert told("--dir", "d", "--glimpse-port", "4", "--port", "none").forms == ("itch",)


def test_flags_win_over_environment_file_and_default(told: Invoke, tmp_path: Path) -> None:
    toml = tmp_path / "deltabook.toml"
    toml.write_text('[exchange]\nport = 2\nitch-port = "none"\nrate = 5.0\n[exchange.status]\nadmin = "x:1"\n')
    where = {"DELTABOOK_CONFIG": str(toml)}
    both = {**where, "DELTABOOK_EXCHANGE_PORT": "3"}
    assert told("--dir", "d", env=where).port == 2
    assert told("--dir", "d", env=where).rate_per_s == 5.0
    assert told("--dir", "d", env=both).port == 3
    assert told("run", "--dir", "d", env=both).port == 3
    assert told("run", "--dir", "d", "--port", "4", env=both).port == 4


def test_former_names_are_refused_with_the_name_to_write(invoke: Callable[..., Result], tmp_path: Path) -> None:
    toml = tmp_path / "deltabook.toml"
    toml.write_text("[exchange]\nrate-per-s = 5.0\n")
    result = invoke("--dir", "d", env={"DELTABOOK_CONFIG": str(toml)})
    assert (result.exit_code, "expected 'exchange.rate', was 'exchange.rate-per-s'" in result.output) == (2, True)
    result = invoke("run", env={"DELTABOOK_EXCHANGE_DIRECTORY": "d"})
    assert result.exit_code == 2
    assert "expected DELTABOOK_EXCHANGE_DIR in the environment, was DELTABOOK_EXCHANGE_DIRECTORY" in result.output
    result = invoke("--dir", "d", env={"DELTABOOK_CONFIG": str(toml.with_name("none.toml"))})
    assert result.exit_code == 2


def test_a_mistyped_key_is_answered_with_the_one_that_was_meant(invoke: Callable[..., Result], tmp_path: Path) -> None:
    toml = tmp_path / "deltabook.toml"
    toml.write_text("[exchange]\nstart_onn = 2\n")
    result = invoke("--dir", "d", env={"DELTABOOK_CONFIG": str(toml)})
    assert (result.exit_code, "did you mean 'start-on'?" in result.output) == (2, True)


def test_a_key_that_neither_the_group_nor_run_has_is_an_error(invoke: Callable[..., Result], tmp_path: Path) -> None:
    toml = tmp_path / "deltabook.toml"
    toml.write_text("[exchange]\nprot = 2\n")
    result = invoke("--dir", "d", env={"DELTABOOK_CONFIG": str(toml)})
    assert (result.exit_code, "'exchange.prot'" in result.output) == (2, True)


def test_what_is_traded_is_named_or_in_a_file(told: Invoke, tmp_path: Path) -> None:
    instruments = [{"symbol": "BTC", "tick_size": "0.5"}]
    (tmp_path / "i.json").write_text(json.dumps(instruments))
    config = told("--dir", "d", "--instruments", "A,B", "--agents", "none")
    assert ([i.symbol for i in config.instruments], config.agents) == (["A", "B"], False)
    for flag in ("--instruments", "--agents"):
        config = told("--dir", "d", flag, str(tmp_path / "i.json"))
        assert (config.instruments[0].symbol, config.instruments[0].tick_size, config.agents) == ("BTC", "0.5", True)


def test_agents_trade_the_symbols_of_their_file_alone(told: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "agents.json"
    file.write_text('[{"symbol": "A"}, {"symbol": "B"}]')
    config = told("--dir", "d", "--instruments", "A,B,C", "--agents", str(file))
    assert [i.symbol for i in agent_instruments(config)] == ["A", "B"]
    assert [i.symbol for i in agent_instruments(told("--dir", "d", "--instruments", "A,C"))] == ["A", "C"]
    assert agent_instruments(told("--dir", "d", "--agents", "none")) == ()
    config = told("--dir", "d", "--instruments", "A,C", "--agents", str(file))
    with pytest.raises(ExchangeConfigurationError, match="expected symbols of the agents out of A, C, was B"):
        agent_instruments(config)


def test_a_replay_has_its_symbols_and_agents_on_request(told: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "day"
    file.touch()
    config = told("--dir", "d", "--replay", str(file), "--format", "itch", "--stocks", "A,B", "--speed", "max")
    assert config.replay is not None
    assert (config.replay.symbols, config.replay.speed, config.agents, config.instruments) == (
        ("A", "B"),
        None,
        False,
        (),
    )
    config = told("--dir", "d", "--replay", str(file), "--agents", "default", "--symbol", "X")
    assert config.replay is not None
    assert (config.replay.symbols, config.agents, config.instruments) == (("X",), True, DEFAULT_INSTRUMENTS)


def test_a_day_has_its_auctions(told: Invoke) -> None:
    day = told("--dir", "d", "--opening-auction", "30", "--trading", "600", "--closing-auction", "20.5").day
    assert (day.opening_s, day.trading_s, day.closing_s) == (30, 600, 20.5)


def test_agents_have_a_style_of_their_own_if_a_file_says_it(told: Invoke, tmp_path: Path) -> None:
    assert told("--dir", "d", "--agent-style", "calibrated").agent_settings == PRESETS["calibrated"]
    (tmp_path / "s.json").write_bytes(msgspec.json.encode(PRESETS["calibrated"]))
    assert told("--dir", "d", "--agent-style", str(tmp_path / "s.json")).agent_settings == PRESETS["calibrated"]


def test_what_the_ports_put_up_with_is_in_a_file(told: Invoke, tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text('{"text":{"brokers":5,"account":{"open_orders":3}},"itch":{"connections":7}}')
    limits = told("--dir", "d", "--limits", str(tmp_path / "l.json")).limits
    assert (limits.text.brokers, limits.text.account.open_orders, limits.itch.connections) == (5, 3, 7)
    assert limits.itch.burst_interval_s == ItchLimits().burst_interval_s > 0
    assert limits.connections == 7 + 3 * 256


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_cannot_be_are_one_line(invoke: Callable[..., Result], name: str) -> None:
    flags, words = REFUSED[name]
    result = invoke("--dir", "d", *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "words"), [(["stauts"], "was 'stauts'; did you mean 'status'?"), ([], "Missing option '--dir'")]
)
def test_a_command_that_is_none_is_one_line(invoke: Callable[..., Result], arguments: list[str], words: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_help_names_every_command_without_the_exchange() -> None:
    code = "import sys; from deltabook.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
    code += "print(any(name.split('.')[0] in ('exchange_server', 'pyarrow', 'twisted.web') for name in sys.modules))"
    for arguments in (["exchange", "--help"], ["exchange", "halt", "--help"], ["exchange", "run", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False", arguments
        assert "Usage: deltabook exchange" in done.stdout
