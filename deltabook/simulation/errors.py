"""Errors of simulations."""

from __future__ import annotations

from deltabook.backtest.errors import BacktestError

__all__ = ["SimulationError"]


class SimulationError(BacktestError):
    """A simulation could not be run to its end; the message is one line a user can act on."""
