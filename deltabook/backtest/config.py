"""Configuration of a backtest."""

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
    """Format of the file; empty: detected by its name and beginning."""
    symbol: str = "REPLAY"
    """Symbol of its instrument in the backtest; for ITCH, the stocks to play, separated by commas."""
    day: str = ""
    """Date (2012-06-21) from whose midnight the file's times count; empty: the date in the file's name."""
    tick: str = ""
    """Value of a tick of the file's instruments, such as 0.01: a multiple of the format's tick; empty: the format's
    tick.
    """
    orderbook: Path | None = None
    """LOBSTER's order book file of the same messages, by which the book is corrected."""
    trades: Path | None = None
    """File of the trades in the period of a depth file."""
    queue: QueueModel = "back"
    """Model that determines which orders of a depth level are cancelled when the level shrinks: see
    `exchange_server.replay.depth`.
    """


class RunConfig(Protocol):
    """Fields that the configurations of a backtest and of a simulation share."""

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
        """SQL of views in addition to those that ship, by name."""
        ...

    @property
    def latency(self) -> str:
        """Latency model."""
        ...

    @property
    def seed(self) -> int:
        """Seed of all random draws."""
        ...

    @property
    def step_us(self) -> int:
        """Market time between two steps of the views, in microseconds."""
        ...

    @property
    def fees(self) -> str:
        """Fees of the strategies."""
        ...


class BacktestConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the result depends on; equal configurations with equal files give equal bytes."""

    strategies: tuple[str, ...]
    """Strategies: built-in names, paths to files, or names of classes that are passed with the configuration."""
    data: tuple[DataFile, ...] = ()
    """Data files: those of different symbols are merged by time; those of one symbol are consecutive days."""
    parameters: tuple[str, ...] = ()
    """Parameters as in `deltabook algo run`: STRATEGY.field=value, or field=value if there is only one strategy."""
    views: dict[str, str] = {}
    """SQL of views in addition to those that ship, by name."""
    latency: str = "zero"
    """Latency model: see `deltabook.backtest.latency`."""
    seed: int = 1
    """Seed of random latencies."""
    step_us: int = 0
    """Market time between two steps of the views, in microseconds; 0: the views change with every request."""
    fees: str = ""
    """Fees as in `deltabook algo run`: a text or a TOML file; empty: none."""
    first_broker_id: int = 9001
    """Broker of the first strategy; the other strategies have the following numbers."""
    warm_up_records: int = 0
    """Number of records that fill the books before the strategies receive anything."""
    limit_records: int = 0
    """Largest number of records to play; 0: all."""
    max_crossed_percent: float | None = None
    """Largest percentage of records after which a recording's own book may be crossed; above this percentage the run
    fails. None means 5 for LOBSTER and ITCH, whose records come from books that were matched already. For other formats
    it means no limit, because their orders may trade with each other in the replay.
    """
    trades_rows: int = 20_000
    """Greatest number of trades that stay in TRADES."""
    trades_time_s: int = 300
    """Age in seconds after which a trade leaves TRADES."""
    points: int = 2_000
    """Largest number of points of the result's curves; with enough data the curves have at least half as many. The end
    of each UTC day is always a point, even if there are more days than points.
    """
    orders_kept: int = 100_000
    """Largest number of orders that the result lists, beginning with the first; all orders are counted."""
