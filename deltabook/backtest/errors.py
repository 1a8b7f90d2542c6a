"""What a backtest can refuse or fail with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltabook.backtest.result import Result

__all__ = [
    "BacktestError",
    "ConfigurationError",
    "CrossedDataError",
    "EpochPassedError",
    "PlottingError",
    "StrategyStopped",
    "SweepError",
]


class BacktestError(RuntimeError):
    """Base of all errors of backtests; the message is one line a user can act on."""


class ConfigurationError(BacktestError, ValueError):
    """What was asked for does not exist or does not fit together."""


class CrossedDataError(BacktestError, ValueError):
    """A recording's own book is crossed after more of its records than the configuration permits."""


class SweepError(BacktestError):
    """No point of a sweep could be run."""


class StrategyStopped(BacktestError):
    """A run ended before its data; ``result`` is what it found until then, and the cause what the strategy raised."""

    def __init__(self, reason: str, result: Result) -> None:
        super().__init__(reason)
        self.result = result


class EpochPassedError(BacktestError, LookupError):
    """The full result of an epoch was asked for when the replay had gone on."""


class PlottingError(BacktestError, ImportError):
    """The plotting library is not installed."""
