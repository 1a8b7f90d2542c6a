"""What a backtest can refuse or fail with."""

from __future__ import annotations

__all__ = ["BacktestError", "ConfigurationError", "SweepError"]


class BacktestError(RuntimeError):
    """Base of all errors of backtests; the message is one line a user can act on."""


class ConfigurationError(BacktestError, ValueError):
    """What was asked for does not exist or does not fit together."""


class SweepError(BacktestError):
    """No point of a sweep could be run."""
