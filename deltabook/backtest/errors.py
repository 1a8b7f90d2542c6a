"""Errors of backtests; `StrategyStopped`, which carries a result, is defined beside `Result`."""

from __future__ import annotations

__all__ = [
    "BacktestError",
    "ConfigurationError",
    "CrossedDataError",
    "EpochPassedError",
    "PlottingError",
    "SweepError",
]


class BacktestError(RuntimeError):
    """Base of all errors of backtests; the message is one line a user can act on."""


class ConfigurationError(BacktestError, ValueError):
    """A requested thing does not exist, or options do not fit together."""


class CrossedDataError(BacktestError, ValueError):
    """A recording's own book is crossed after more of its records than the configuration permits."""


class SweepError(BacktestError):
    """No point of a sweep could be run."""


class EpochPassedError(BacktestError, LookupError):
    """The full result of an epoch was requested after the replay had advanced."""


class PlottingError(BacktestError, ImportError):
    """The plotting library is not installed."""
