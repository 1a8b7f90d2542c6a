"""What a backtest is told."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import msgspec

from exchange_server.replay import QueueModel, RecordingFormat

__all__ = ["BacktestConfig", "DataFile", "RunConfig"]


class DataFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded file that is played as orders."""

    path: Path
    """Path of the file, perhaps compressed (gzip, xz, bzip2)."""
    format: RecordingFormat | Literal[""] = ""
    """What it is written in; empty: found out by name and beginning."""
    symbol: str = "REPLAY"
    """What its instrument is called here; of ITCH the stocks that are played, with commas between."""
    day: str = ""
    """The day (2012-06-21) whose midnight its times count from, where its name does not say."""
    tick: str = ""
    """What a tick of its instruments is worth (0.01), of whole ticks of the format; empty: the format's own."""
    orderbook: Path | None = None
    """LOBSTER's order book file of the same messages, by which their book is mended."""
    trades: Path | None = None
    """Trades of the same time as a file of depth."""
    queue: QueueModel = "back"
    """Which orders of a level of depth are cancelled when it shrinks: see `exchange_server.replay.depth`."""


class RunConfig(Protocol):
    """What the configurations of a backtest and of a simulation have in common."""

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names or files of the strategies."""
        ...

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters of the strategies."""
        ...

    @property
    def views(self) -> dict[str, str]:
        """Name → SQL of views beside those that ship."""
        ...

    @property
    def latency(self) -> str:
        """Latency model."""
        ...

    @property
    def seed(self) -> int:
        """Seed of everything that is drawn."""
        ...

    @property
    def step_us(self) -> int:
        """Market time between two steps of the views."""
        ...

    @property
    def fees(self) -> str:
        """Fees of the strategies."""
        ...


class BacktestConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the result depends on; equal configurations of equal files give equal bytes."""

    strategies: tuple[str, ...]
    """Built-in names, paths to files, or names of classes that are given beside the configuration."""
    data: tuple[DataFile, ...] = ()
    """Files of different symbols are merged by time; files of one symbol are days that follow one another."""
    parameters: tuple[str, ...] = ()
    """As of `deltabook algo run`: STRATEGY.field=value, or field=value where there is one strategy."""
    views: dict[str, str] = {}
    """Name → SQL of views beside those that ship."""
    latency: str = "zero"
    """See `deltabook.backtest.latency`."""
    seed: int = 1
    """Seed of the latencies that are drawn."""
    step_us: int = 0
    """0: views change with every request; else so often in market time."""
    fees: str = ""
    """As of `deltabook algo run`: a text or a TOML file; empty: none."""
    first_broker_id: int = 9001
    """Broker of the first strategy; the others have the following numbers."""
    warm_up_records: int = 0
    """So many records make the books before the strategies see anything."""
    limit_records: int = 0
    """So many records are played at most; 0: all."""
    max_crossed_percent: float | None = None
    """A run fails if a recording's own book is crossed after a larger share of its records. Without it the limit is 5
    for LOBSTER and ITCH, which come from books that are matched, and there is none for other formats, whose orders may
    be meant to trade when they are played."""
    trades_rows: int = 20_000
    """So many trades stay in TRADES …"""
    trades_time_s: int = 300
    """… and none that is older."""
    points: int = 2_000
    """The curves of the result have at least half as many points and at most so many, where there is enough data."""
    orders_kept: int = 100_000
    """So many orders are listed in the result, the first ones; all are counted."""
