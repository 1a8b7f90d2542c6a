"""Views that strategies add while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from algo_engine.view_link import Lane
from deltabook.backtest.errors import ConfigurationError
from runtime.compiler import NamedSelect

if TYPE_CHECKING:
    from deltabook.backtest.clock import SimulatedClock
    from deltabook.backtest.deltas import Delta
    from deltabook.backtest.views import BacktestViews

__all__ = ["RunViews"]


class ViewedRun(Protocol):
    """Run whose views `RunViews` adds to: a backtest, or one participant of a simulation."""

    @property
    def clock(self) -> SimulatedClock:
        """Clock of the run."""
        ...

    @property
    def views(self) -> BacktestViews:
        """Views of the run."""
        ...

    def seen_rows(self) -> list[Delta]:
        """Return the rows of all relations as the views know them: additions, and what has not arrived taken away.

        `EPOCH_TIME` is among the relations from now on.
        """
        ...

    def show(self, name: str) -> None:
        """Send a snapshot of a view to the strategies that may read it."""
        ...


class RunViews:
    """Adds them to the views of a run, filled with what the other views have seen; whatever lane they name.

    What strategies bring along is there from the beginning, and stays. The answer comes in the next turn, as no service
    answers within the call.
    """

    def __init__(self, backtest: ViewedRun) -> None:
        self._backtest = backtest
        self._added: set[str] = set()

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """See `algo_engine.view_link.ViewLink.add`."""
        del lane
        if view in self._backtest.views:
            self._backtest.clock.callLater(0, done, "")
        else:
            self._backtest.clock.callLater(0, self._add, view, sql, done)

    def drop(self, view: str) -> None:
        """See `algo_engine.view_link.ViewLink.drop`."""
        if view in self._added:
            self._added.remove(view)
            self._backtest.views.drop(view)

    def _add(self, view: str, sql: str, done: Callable[[str], None]) -> None:
        backtest = self._backtest
        try:
            backtest.views.add([NamedSelect(view, sql, lane="express")], backtest.seen_rows())
        except ConfigurationError as error:
            done(str(error))
            return
        self._added.add(view)
        done("")
        backtest.show(view)
