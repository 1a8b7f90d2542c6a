"""Configuration of a simulation, and the parts of the live exchange's configuration that follow from it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from deltabook.backtest.errors import ConfigurationError
from deltabook.wire.advice import did_you_mean
from deltabook.wire.strict_json import decode_strictly
from deltabook.wire.symbols import Instrument
from exchange_server.agents import PRESETS, AgentSettings
from exchange_server.config import DEFAULT_INSTRUMENTS, ExchangeConfig
from exchange_server.day import DaySchedule
from exchange_server.errors import ExchangeError

__all__ = [
    "NO_AGENTS",
    "Halt",
    "SimulationConfig",
    "agent_settings",
    "checked",
    "exchange_config",
    "parse_halt",
    "parse_span_s",
]

NO_AGENTS: Final = "none"
_UNITS_S: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(us|ms|s|m|h)?")
_LONGEST_HOURS: Final = 24.0
_LONGEST_S: Final = _LONGEST_HOURS * 3600
_END_NS: Final = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp()) * 10**9
"""First time that is refused as a start: nanoseconds since 1970 fit into 64 bits until 2262."""


class SimulationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All inputs on which the result depends; equal configurations give equal bytes."""

    strategies: tuple[str, ...] = ()
    """Built-in names, paths to files, or names of classes that are passed with the configuration; may be empty."""
    hours: float = 6.5
    """Length of continuous trading in hours of market time."""
    seed: int = 1
    """Seed of the agents and of random latencies."""
    agents: str = "day"
    """Preset of the background agents, path to a JSON file of `AgentSettings`, or ``none``."""
    settings: tuple[str, ...] = ()
    """Single settings of the agents in place of the preset's: ``noise.market=0.1``."""
    rate_per_s: float = 160.0
    """Requests per second of all agents together."""
    agent_delay: str = "0us"
    """Time between the agents' reading of the books and the arrival of their decisions."""
    instruments: tuple[Instrument, ...] = DEFAULT_INSTRUMENTS[:1]
    """Instruments that are traded."""
    opening_s: float = 0.0
    """Length of the opening auction before the hours, in seconds; 0 for none."""
    closing_s: float = 0.0
    """Length of the closing auction after the hours, in seconds; 0 for none."""
    halts: tuple[str, ...] = ()
    """Halts of trading, see `parse_halt`."""
    collar_bps: int = 0
    """Greatest distance of executions from the reference price, in hundredths of a percent; 0 for any distance."""
    start: str = "2026-01-05T09:30:00"
    """Market time of the beginning, in UTC."""
    warm_up_s: float = 0.0
    """Seconds of market time that pass before strategies connect."""
    parameters: tuple[str, ...] = ()
    """Parameters as for `deltabook algo run`: STRATEGY.field=value, or field=value if there is one strategy."""
    views: dict[str, str] = {}
    """SQL of views in addition to those that ship, by name."""
    latency: str = "zero"
    """Latency model of strategies, see `deltabook.backtest.latency`."""
    latencies: dict[str, str] = {}
    """Latency models of single strategies, by name."""
    compute: str = "0us"
    """Computation delay: time that a strategy takes for each event."""
    computes: dict[str, str] = {}
    """Computation delays of single strategies, by name."""
    step_us: int = 0
    """Interval at which views change, in microseconds of market time; 0 for a change with every batch of requests."""
    fees: str = ""
    """Fees as for `deltabook algo run`: a text or a TOML file; empty for none."""
    first_broker_id: int = 9001
    """Broker number of the first strategy; the other strategies have the following numbers."""
    trades_rows: int = 20_000
    """Greatest number of trades in TRADES."""
    trades_time_s: int = 300
    """Greatest age of trades in TRADES, in seconds."""
    points: int = 2_000
    """Greatest number of points of the result's curves; with enough data the curves have at least half as many."""
    orders_kept: int = 100_000
    """Largest number of orders that the result lists, beginning with the first; all orders are counted."""

    @property
    def begin_ns(self) -> int:
        """Beginning of the simulation in nanoseconds since the UTC epoch.

        Raises `ConfigurationError` if `start` is not in ISO 8601, is before 1970 or is after 2199.
        """
        try:
            moment = datetime.fromisoformat(self.start)
        except ValueError:
            raise ConfigurationError(f"expected a start as in 2026-01-05T09:30:00, was {self.start!r}") from None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        begin_ns = int(moment.timestamp() * 1_000_000) * 1_000
        if not 0 <= begin_ns < _END_NS:
            raise ConfigurationError(f"expected a start from 1970 to 2199, was {self.start!r}")
        return begin_ns

    @property
    def length_s(self) -> float:
        """Market time from the beginning to the end of the day, in seconds."""
        return self.opening_s + self.hours * 3600 + self.closing_s

    @property
    def session(self) -> str:
        """Name of the exchange's session; equal seeds give equal names."""
        return f"SIM{self.seed % 10**7:07d}"

    def report_rows(self) -> list[tuple[str, object]]:
        """Return the inputs that a report lists in addition to those of every run."""
        rows: list[tuple[str, object]] = [
            ("agents", f"{self.agents}, {self.rate_per_s:g} requests/s, arriving after {self.agent_delay}"),
            ("hours", f"{self.hours:g}"),
            ("opening, closing auction", f"{self.opening_s:g} s, {self.closing_s:g} s"),
            ("computation delay", self.compute),
        ]
        rows += [(f"latency of {name}", model) for name, model in self.latencies.items()]
        rows += [(f"computation delay of {name}", delay) for name, delay in self.computes.items()]
        rows += [("halt", halt) for halt in self.halts]
        return rows + [("agents", setting) for setting in self.settings]

    def command(self) -> str:
        """Return the command line; views in the configuration appear as a folder that the reader must fill in."""
        words = ["deltabook", "simulate", *self.strategies]
        plain = SimulationConfig()
        for option, name in _OPTIONS.items():
            if getattr(self, name) != getattr(plain, name):
                words += [f"--{option}", str(getattr(self, name))]
        if self.instruments != plain.instruments:
            words += ["--instruments", ",".join(instrument.symbol for instrument in self.instruments)]
        for option, several in (("set", self.settings), ("halt", self.halts), ("param", self.parameters)):
            for each in several:
                words += [f"--{option}", each]
        for option, by_name in (("latency", self.latencies), ("compute", self.computes)):
            for name, each in by_name.items():
                words += [f"--{option}", f"{name}={each}"]
        words += ["--views", "FOLDER"] if self.views else []
        return shlex.join(words)


_OPTIONS: Final = {
    "hours": "hours",
    "seed": "seed",
    "agents": "agents",
    "rate": "rate_per_s",
    "agent-delay": "agent_delay",
    "opening-auction": "opening_s",
    "closing-auction": "closing_s",
    "collar-bps": "collar_bps",
    "start": "start",
    "warm-up-seconds": "warm_up_s",
    "latency": "latency",
    "compute": "compute",
    "step-us": "step_us",
    "fees": "fees",
    "broker": "first_broker_id",
}
"""Field for each option of the command line whose value is written unchanged."""


def checked(config: SimulationConfig) -> SimulationConfig:
    """Return the configuration with every value converted to its field's type (2 or ``2`` hours to 2.0); raise
    `ConfigurationError` if that is not possible.
    """
    try:
        return msgspec.convert(msgspec.to_builtins(config), SimulationConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"expected a configuration of a simulation, was {error}") from None


class Halt(msgspec.Struct, frozen=True):
    """Halt of trading, as an operator would declare it."""

    at_s: float
    """Seconds of continuous trading before the halt."""
    halted_s: float
    """Seconds for which orders are refused."""
    auction_s: float
    """Seconds for which the auction that ends the halt collects orders; 0 for none."""
    symbol: str
    """Symbol that is halted; empty for all."""


def parse_halt(text: str) -> Halt:
    """Parse ``[SYMBOL:]AT+HALTED[+AUCTION]``; raise `ConfigurationError` for other text.

    >>> parse_halt("ACME:2h+5m+30s")
    Halt(at_s=7200.0, halted_s=300.0, auction_s=30.0, symbol='ACME')
    """
    symbol, _, rest = text.rpartition(":")
    spans = rest.split("+")
    if len(spans) not in {2, 3}:
        raise ConfigurationError(f"expected a halt as in 2h+5m or ACME:2h+5m+30s, was {text!r}")
    seconds = [parse_span_s(span) for span in spans]
    return Halt(seconds[0], seconds[1], seconds[2] if len(seconds) == 3 else 0.0, symbol)


def parse_span_s(text: str) -> float:
    """Return the seconds of a span of time; a number without a unit is in seconds.

    Raise `ConfigurationError` for other text.

    >>> parse_span_s("250us"), parse_span_s("1.5h"), parse_span_s("30")
    (0.00025, 5400.0, 30.0)
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"expected a time as in 20us, 5ms, 30s, 5m or 2h, was {text!r}")
    seconds = float(match[1]) * _UNITS_S[match[2] or "s"]
    if seconds > _LONGEST_S:
        raise ConfigurationError(f"expected a time of at most {_LONGEST_HOURS:g} hours, was {text!r}")
    return seconds


def agent_settings(name: str, settings: Sequence[str]) -> AgentSettings:
    """Return the settings of a preset or a JSON file, with single settings replaced.

    Raise `ConfigurationError` for unknown or invalid settings.

    >>> agent_settings("calm", ["noise.market=0.2", "clip_lots=10"]).noise.market
    0.2
    """
    if name in PRESETS:
        chosen = PRESETS[name]
    elif name.endswith(".json"):
        try:
            chosen = decode_strictly(Path(name).read_bytes(), AgentSettings)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigurationError(f"expected a JSON file of settings of agents, was {error}, at {name}") from error
    else:
        known = [*PRESETS, NO_AGENTS]
        raise ConfigurationError(
            f"expected agents out of {', '.join(known)} or a .json file, was {name}{did_you_mean(name, known)}"
        )
    plain = msgspec.to_builtins(chosen)
    for setting in settings:
        _set(plain, setting)
    try:
        return msgspec.convert(plain, AgentSettings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"expected valid settings of agents, was {', '.join(settings)}: {error}") from None


def _set(plain: dict[str, Any], setting: str) -> None:
    key, equals, value = setting.partition("=")
    *groups, name = key.split(".")
    target: Any = plain
    for group in groups:
        target = target.get(group) if isinstance(target, dict) else None
    if not equals or not isinstance(target, dict) or name not in target or isinstance(target[name], dict):
        fields = [key if not isinstance(value, dict) else f"{key}.…" for key, value in plain.items()]
        raise ConfigurationError(
            f"expected a setting of agents as in noise.market=0.1, out of {', '.join(fields)}, was {setting!r}"
        )
    target[name] = value


def exchange_config(config: SimulationConfig, directory: Path | None) -> ExchangeConfig:
    """Return the configuration that a live exchange of this simulation would have.

    Raise `ConfigurationError` if it is invalid.
    """
    if not 0 < config.hours <= _LONGEST_HOURS:
        raise ConfigurationError(f"expected more than 0 and at most {_LONGEST_HOURS:g} hours, was {config.hours:g}")
    for what, seconds in (
        ("an opening auction", config.opening_s),
        ("a closing auction", config.closing_s),
        ("a warm-up", config.warm_up_s),
    ):
        if not 0 <= seconds <= _LONGEST_S:
            raise ConfigurationError(f"expected {what} of 0 to {_LONGEST_S:g} seconds, was {seconds:g}")
    has_agents = config.agents != NO_AGENTS
    if not has_agents and config.settings:
        raise ConfigurationError(f"expected no settings of agents without agents, was {', '.join(config.settings)}")
    try:
        settings = agent_settings(config.agents, config.settings) if has_agents else AgentSettings()
        settings.check()
        return ExchangeConfig(
            directory="" if directory is None else str(directory),
            instruments=config.instruments,
            agents=has_agents,
            agent_settings=settings,
            seed=config.seed,
            rate_per_s=config.rate_per_s,
            day=DaySchedule(opening_s=config.opening_s, trading_s=config.hours * 3600, closing_s=config.closing_s),
            collar_bps=config.collar_bps,
            fsync="never",
            session=config.session,
        )
    except ExchangeError as error:
        raise ConfigurationError(str(error)) from error
