"""The figures of a demo: sums of the children's status events, and the figures that a demo must reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from deltabook.wire.symbols import Instrument

__all__ = ["DemoFigures"]

Figure = int | float | str | None

_REQUIRED: Final = ("messages", "epochs", "view_updates", "orders_sent", "orders_filled")
_COUNTS: Final = {
    "runtime": ("messages", "epoch", "view_updates"),
    "algo": ("orders_sent", "orders_filled"),
}
"""Counts of each role, which do not decrease when the role's process is restarted."""
_PROCESS_COUNTS: Final = frozenset({"view_updates"})
"""Counts that begin at 0 when a process is restarted; all other counts continue from the process's directory."""
_MOMENTARY: Final = ("lag_ms", "express_lag_ms", "rows_per_s")
"""Figures of the runtime that are frozen when the demo's seconds are over."""
_RATE_SPAN_S: Final = 0.5
"""Least time in seconds over which rates are computed, so that a burst of status lines does not distort them."""


class DemoFigures:
    """The latest figures by role and name, and rates computed from them."""

    def __init__(self, clock: Callable[[], float], scale: Instrument | None = None) -> None:
        self._clock = clock
        self._scale = scale
        self._roles: dict[str, Mapping[str, Figure]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._lasts: dict[tuple[str, str], int] = {}
        self._statuses: dict[str, int] = {}
        self._started_at: float | None = None
        self._mark: tuple[float, int] = (clock(), 0)
        self._made_at = clock()
        self._at_finish: dict[str, str] = {}
        self.messages_per_s = 0.0
        """Messages of the feed per second, over the latest half second or more."""
        self.page = ""
        """Address of the dashboard's page."""

    def take(self, role: str, figures: Mapping[str, Figure], statuses: int) -> None:
        """Enter the figures of a role; `statuses` is the number of status events that the figures come from."""
        if not statuses or self._statuses.get(role) == statuses:
            return  # a part that was restarted and has not reported yet keeps its last figures
        self._statuses[role] = statuses
        self._roles[role] = figures
        for name in _COUNTS.get(role, ()):
            if isinstance(value := figures.get(name), int | float):
                self._add_count(role, name, int(value))
        elapsed_s = self._clock() - self._mark[0]
        if role == "runtime" and elapsed_s >= _RATE_SPAN_S and not self._at_finish:
            self.messages_per_s = max(0, self.messages - self._mark[1]) / elapsed_s
            self._mark = (self._clock(), self.messages)

    def _add_count(self, role: str, name: str, value: int) -> None:
        key = role, name
        before, last = self._counts.get(key, 0), self._lasts.get(key, 0)
        self._lasts[key] = value
        self._counts[key] = before + max(0, value - last) if name in _PROCESS_COUNTS else max(before, value)

    def start(self) -> None:
        """Start to count the demo's seconds."""
        self._started_at = self._clock()

    def finish(self) -> None:
        """Freeze the momentary figures when the demo's seconds are over; counts continue."""
        self._at_finish = {name: self.text("runtime", name) for name in _MOMENTARY}

    @property
    def waited_s(self) -> float:
        """Seconds from the creation until `start`, or until now."""
        return (self._clock() if self._started_at is None else self._started_at) - self._made_at

    @property
    def is_started(self) -> bool:
        """True once `start` has been called."""
        return self._started_at is not None

    @property
    def elapsed_s(self) -> float:
        """Seconds since `start`; 0 before."""
        return 0.0 if self._started_at is None else self._clock() - self._started_at

    @property
    def age_s(self) -> float:
        """Seconds since the creation."""
        return self._clock() - self._made_at

    @property
    def spark(self) -> str:
        """State of Spark: off, starting or up; off before the runtime has reported."""
        return str(self.value("runtime", "spark") or "off")

    def lags(self) -> str:
        """Return the lags of the lanes as readable text."""
        express = f"express {self.text('runtime', 'express_lag_ms')} ms"
        spark = {"starting": ", Spark is starting", "up": f", Spark {self.text('runtime', 'lag_ms')} ms"}
        return express + spark.get(self.spark, "")

    def text(self, role: str, name: str) -> str:
        """Return a figure as readable text."""
        if role == "runtime" and name in self._at_finish:
            return self._at_finish[name]
        return self.readable(self.value(role, name))

    @staticmethod
    def readable(value: Figure) -> str:
        """Return a value as readable text."""
        if value is None:
            return "-"
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
        return f"{value:,}" if isinstance(value, int) else value

    def position(self, value: Figure) -> str:
        """Return lots as a quantity, if the scale is known."""
        if self._scale is None or not isinstance(value, int):
            return self.readable(value)
        return f"{self._scale.quantity(value):,f}"

    def money(self, value: Figure) -> str:
        """Return ticks × lots as money, if the scale is known."""
        if self._scale is None or not isinstance(value, int):
            return self.readable(value)
        return f"{self._scale.notional(value):,.2f}"

    def value(self, role: str, name: str) -> Figure:
        """Return a figure as it was reported."""
        return self._roles.get(role, {}).get(name)

    def _count(self, role: str, name: str) -> int:
        return self._counts.get((role, name), 0)

    @property
    def messages(self) -> int:
        """Number of feed messages that the runtime has received."""
        return self._count("runtime", "messages")

    @property
    def epochs(self) -> int:
        """Number of epochs closed; the demo starts with none."""
        return self._count("runtime", "epoch")

    @property
    def view_updates(self) -> int:
        """Number of view changes that the runtime has published."""
        return self._count("runtime", "view_updates")

    @property
    def orders_sent(self) -> int:
        """Number of orders that the strategies have sent."""
        return self._count("algo", "orders_sent")

    @property
    def orders_filled(self) -> int:
        """Number of these orders that were filled completely."""
        return self._count("algo", "orders_filled")

    def strategies(self) -> dict[str, dict[str, Figure]]:
        """Return the figures of each strategy, from figures whose name is ``STRATEGY.figure``."""
        by_strategy: dict[str, dict[str, Figure]] = {}
        for name, value in self._roles.get("algo", {}).items():
            strategy, dot, figure = name.rpartition(".")
            if dot:
                by_strategy.setdefault(strategy, {})[figure] = value
        return by_strategy

    def shortfalls(self) -> list[str]:
        """Return the required figures that are missing: ``expected orders filled above 0, was 0``."""
        return [f"expected {name.replace('_', ' ')} above 0, was 0" for name in _REQUIRED if getattr(self, name) <= 0]

    def summary(self) -> str:
        """Return the figures of the last line."""
        return (
            f"{self.messages} messages, {self.epochs} epochs, {self.view_updates} view updates, "
            f"{self.orders_sent} orders sent, {self.orders_filled} filled"
        )

    def record(self) -> dict[str, object]:
        """Return all figures in a machine-readable form."""
        required = {name: getattr(self, name) for name in _REQUIRED}
        return {**required, "roles": {role: dict(figures) for role, figures in sorted(self._roles.items())}}
