"""The figures of a demo: what the children's status events add up to, and what a demo has to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from deltabook.wire.symbols import Instrument

__all__ = ["Figures"]

Figure = int | float | str | None

_REQUIRED: Final = ("messages", "epochs", "view_updates", "orders_sent", "orders_filled")
_COUNTS: Final = {
    "runtime": ("messages", "epoch", "view_updates"),
    "algo": ("orders_sent", "orders_filled"),
}
"""Counts of a role, which do not go back when it is started again."""
_OF_A_PROCESS: Final = frozenset({"view_updates"})
"""Those that begin with the process; all others go on where its directory ends."""
_OF_THE_MOMENT: Final = ("lag_ms", "express_lag_ms", "rows_per_s")
_RATE_SPAN_S: Final = 0.5
"""Rates are taken over at least this time, so that a burst of status lines does not make them jump."""


class Figures:
    """The newest figure of every name and role, and the rates that follow from them."""

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
        self.page = ""
        """Where a browser can look on."""

    def take(self, role: str, figures: Mapping[str, Figure], statuses: int) -> None:
        """Take in the figures of a role; `statuses` is how many status events they come from."""
        if not statuses or self._statuses.get(role) == statuses:
            return  # a part that was started again and has not reported yet leaves what it said last
        self._statuses[role] = statuses
        self._roles[role] = figures
        for name in _COUNTS.get(role, ()):
            if isinstance(value := figures.get(name), int | float):
                self._count_on(role, name, int(value))
        elapsed_s = self._clock() - self._mark[0]
        if role == "runtime" and elapsed_s >= _RATE_SPAN_S and not self._at_finish:
            self.messages_per_s = max(0, self.messages - self._mark[1]) / elapsed_s
            self._mark = (self._clock(), self.messages)

    def _count_on(self, role: str, name: str, value: int) -> None:
        key = role, name
        before, last = self._counts.get(key, 0), self._lasts.get(key, 0)
        self._lasts[key] = value
        self._counts[key] = before + max(0, value - last) if name in _OF_A_PROCESS else max(before, value)

    def start(self) -> None:
        """The demo's seconds count from now."""
        self._started_at = self._clock()

    def finish(self) -> None:
        """The demo's seconds are over: from now on figures of the moment stay as they are, counts go on."""
        self._at_finish = {name: self.text("runtime", name) for name in _OF_THE_MOMENT}

    @property
    def waited_s(self) -> float:
        """Seconds from the beginning until `start`, or until now."""
        return (self._clock() if self._started_at is None else self._started_at) - self._made_at

    @property
    def is_started(self) -> bool:
        """True if the demo's seconds count."""
        return self._started_at is not None

    @property
    def elapsed_s(self) -> float:
        """Seconds since `start`; 0 before."""
        return 0.0 if self._started_at is None else self._clock() - self._started_at

    @property
    def age_s(self) -> float:
        """Seconds since the demo began."""
        return self._clock() - self._made_at

    @property
    def spark(self) -> str:
        """off, starting or up; off before the runtime has said."""
        return str(self.value("runtime", "spark") or "off")

    def lags(self) -> str:
        """How old what the lanes publish is, as a person reads it."""
        express = f"express {self.text('runtime', 'express_lag_ms')} ms"
        spark = {"starting": ", Spark is starting", "up": f", Spark {self.text('runtime', 'lag_ms')} ms"}
        return express + spark.get(self.spark, "")

    def text(self, role: str, name: str) -> str:
        """A figure as a person reads it."""
        if role == "runtime" and name in self._at_finish:
            return self._at_finish[name]
        return self.readable(self.value(role, name))

    @staticmethod
    def readable(value: Figure) -> str:
        """A figure as a person reads it."""
        if value is None:
            return "-"
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
        return f"{value:,}" if isinstance(value, int) else value

    def position(self, value: Figure) -> str:
        """Lots as a quantity, if the scale is known."""
        if self._scale is None or not isinstance(value, int):
            return self.readable(value)
        return f"{self._scale.quantity(value):,f}"

    def money(self, value: Figure) -> str:
        """Ticks × lots as money, if the scale is known."""
        if self._scale is None or not isinstance(value, int):
            return self.readable(value)
        return f"{self._scale.notional(value):,.2f}"

    def value(self, role: str, name: str) -> Figure:
        """A figure as it was said."""
        return self._roles.get(role, {}).get(name)

    def _count(self, role: str, name: str) -> int:
        return self._counts.get((role, name), 0)

    @property
    def messages(self) -> int:
        """Feed messages that the runtime has taken in."""
        return self._count("runtime", "messages")

    @property
    def epochs(self) -> int:
        """Epochs closed; the demo starts from none."""
        return self._count("runtime", "epoch")

    @property
    def view_updates(self) -> int:
        """Changes of views that the runtime has published."""
        return self._count("runtime", "view_updates")

    @property
    def orders_sent(self) -> int:
        """Orders that the strategies have sent."""
        return self._count("algo", "orders_sent")

    @property
    def orders_filled(self) -> int:
        """Orders of theirs that were filled in full."""
        return self._count("algo", "orders_filled")

    def strategies(self) -> dict[str, dict[str, Figure]]:
        """Strategy → its figures, for figures whose name is ``STRATEGY.figure``."""
        by_strategy: dict[str, dict[str, Figure]] = {}
        for name, value in self._roles.get("algo", {}).items():
            strategy, dot, figure = name.rpartition(".")
            if dot:
                by_strategy.setdefault(strategy, {})[figure] = value
        return by_strategy

    def shortfalls(self) -> list[str]:
        """What a demo has to show and this one does not: ``expected orders filled above 0, was 0``."""
        return [f"expected {name.replace('_', ' ')} above 0, was 0" for name in _REQUIRED if getattr(self, name) <= 0]

    def summary(self) -> str:
        """The figures of the last line."""
        return (
            f"{self.messages} messages, {self.epochs} epochs, {self.view_updates} view updates, "
            f"{self.orders_sent} orders sent, {self.orders_filled} filled"
        )

    def record(self) -> dict[str, object]:
        """All of it, for a program to read."""
        required = {name: getattr(self, name) for name in _REQUIRED}
        return {**required, "roles": {role: dict(figures) for role, figures in sorted(self._roles.items())}}
