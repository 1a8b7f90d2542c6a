"""Prometheus metrics of the strategies of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, get_args

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from algo_engine.stages import OrderStages
from algo_engine.status.reports import Reports
from deltabook.wire.metrics import Exposition, counter, gauge, histogram, labelled
from deltabook.wire.strategies import PositionLine, StrategyLine, StrategyState

__all__ = ["MOST_POSITIONS", "AlgoMetrics"]

MOST_POSITIONS: Final = 200
"""Greatest number of positions that are published one by one, in the order of strategies and symbols."""
_PREFIX: Final = "deltabook_algo"
_COUNTED: Final = (
    ("orders_sent", "Orders that were sent.", "orders_sent"),
    ("orders_filled", "Orders that were filled completely.", "orders_filled"),
    ("orders_rejected", "Orders that the exchange has rejected.", "orders_rejected"),
    ("orders_refused", "Orders that were refused by a limit of the strategy and never sent.", "orders_refused"),
    ("fills", "Executions of own orders.", "fills"),
    ("void_trades", "Executions of own orders that the exchange has declared void.", "void_trades"),
)
_GAUGES: Final = (
    ("orders_open", "Orders that may still trade.", "orders_open"),
    ("realised_tick_lots", "Profit of closed parts before fees, ticks x lots.", "realised"),
    ("unrealised_tick_lots", "Profit of open positions at their marks, ticks x lots.", "unrealised"),
    ("fees_tick_lots", "Fees minus rebates, ticks x lots.", "fees"),
    (
        "connected",
        "1 while the strategy is logged in to the exchange and the state of all its orders is known.",
        "is_connected",
    ),
)
"""Name, help text and field of each strategy's figures."""


class AlgoMetrics:
    """Collects the metrics of ``/metrics``. Called on the reactor's thread."""

    def __init__(
        self,
        reports: Reports,
        reconnects: Callable[[], Mapping[str, int]],
        stages: OrderStages,
        run_id: str = "",
    ) -> None:
        """Create the metrics; ``reconnects`` returns the number of lost connections by peer."""
        self._reports, self._reconnects, self._stages = reports, reconnects, stages
        self.answer = Exposition("algo", run_id, self._collect).answer
        """Function that returns the body of ``/metrics`` and its content type, for the types that a monitor accepts."""

    def _collect(self) -> Iterator[Metric]:
        report = self._reports.strategies()
        what = "1 while the changes of all views that strategies read arrive."
        yield gauge(f"{_PREFIX}_views_connected", what, report.views_connected)
        yield counter(f"{_PREFIX}_view_changes", "Changes of views that arrived.", self._reports.view_changes)
        lost = [((peer,), float(count)) for peer, count in self._reconnects().items()]
        what = "Times that the connection to a peer was lost."
        yield labelled(CounterMetricFamily, f"{_PREFIX}_reconnects", what, ("peer",), lost)
        yield from self._of_stages()
        yield from _of_strategies(report.strategies)
        positions = [(line.name, position) for line in report.strategies for position in line.positions]
        yield from _of_positions(list(islice(positions, MOST_POSITIONS)))

    def _of_stages(self) -> Iterator[Metric]:
        stages = self._stages
        what = "Time from reading a frame's last bytes until strategies are called with its change."
        yield histogram(f"{_PREFIX}_frame_seconds", what, stages.frame)
        what = "Time from the call of strategies, or from another cause of a request, until requests are journalled."
        yield histogram(f"{_PREFIX}_journal_seconds", what, stages.journal)
        what = "Time from the end of the stage journal until the requests are passed to the exchange's socket."
        yield histogram(f"{_PREFIX}_wire_seconds", what, stages.wire)
        what = "Duration of each fsync of a journal of orders, before or after the sending."
        yield histogram(f"{_PREFIX}_fsync_seconds", what, stages.fsync)


def _of_strategies(lines: tuple[StrategyLine, ...]) -> Iterator[Metric]:
    own = ("strategy",)
    for name, what, field in _COUNTED:
        counts = [((line.name,), float(getattr(line, field))) for line in lines]
        yield labelled(CounterMetricFamily, f"{_PREFIX}_{name}", what, own, counts)
    for name, what, field in _GAUGES:
        values = [((line.name,), float(getattr(line, field))) for line in lines]
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_{name}", what, own, values)
    states = [((line.name, state), float(line.state == state)) for line in lines for state in get_args(StrategyState)]
    yield labelled(
        GaugeMetricFamily, f"{_PREFIX}_state", "1 for the state of a strategy.", ("strategy", "state"), states
    )


def _of_positions(positions: list[tuple[str, PositionLine]]) -> Iterator[Metric]:
    values = [((name, position.symbol), float(position.position_lots)) for name, position in positions]
    what = "Position of a strategy in a symbol, below 0 if it is short."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_position_lots", what, ("strategy", "symbol"), values)
