# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Status port of running strategies: `deltabook.wire.strategies` over HTTP.

```
engine, hosts, desks ──▶ Reports ──▶ HTTP ──▶ dashboard, `deltabook algo status`
 fills ──▶ FillLog ─────────┘  │  └──▶ AlgoMetrics ──▶ HTTP ──▶ a Prometheus
                 engine ◀── kill
```
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast, get_args

import msgspec
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from twisted.logger import Logger
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import Site

from algo_engine.clocks import Clock
from algo_engine.desk.order import Order
from algo_engine.desk.trades import Trade
from algo_engine.engine import Engine
from algo_engine.errors import AlgoError
from algo_engine.host import StrategyHost
from algo_engine.stages import OrderStages
from deltabook.wire import strategies
from deltabook.wire.access import Access
from deltabook.wire.metrics import METRICS_PATH, Exposition, counter, gauge, histogram, labelled
from deltabook.wire.site import MOST_BODY_BYTES, BoundedSite, refuse, reply
from deltabook.wire.strategies import (
    MOST_FILLS,
    MOST_ORDERS,
    FillLine,
    Fills,
    Kill,
    Killed,
    OrderLine,
    Orders,
    PositionLine,
    Strategies,
    StrategyLine,
    StrategyState,
)
from deltabook.wire.strict_json import decode_strictly

__all__ = ["AlgoMetrics", "FillLog", "Reports", "UnknownStrategyError", "status_site"]


class FillLog:
    """Log of the latest trades, at most ``capacity``; older ones are dropped, and their numbers are not used again.

    >>> log = FillLog(capacity=2)
    >>> for volume in (5, 6, 7):
    ...     log.add(Trade(0, 1, "sobi", 9001, "ACME", "B", volume, 100, 1, 1, "maker", 0))
    >>> [(fill.number, fill.volume_lots) for fill in log.after(0, most=9)]
    [(2, 6), (3, 7)]
    """

    def __init__(self, capacity: int, earlier: Iterable[Trade] = ()) -> None:
        """Create a log that begins with the trades of an ``earlier`` run."""
        self._fills: deque[FillLine] = deque(maxlen=capacity)
        self.last = 0
        """Number of the latest trade."""
        for trade in earlier:
            self.add(trade)

    def add(self, trade: Trade) -> None:
        """Add a trade."""
        self.last += 1
        self._fills.append(
            FillLine(
                number=self.last,
                time_ns=trade.time_ns,
                strategy=trade.strategy,
                symbol=trade.symbol,
                side="B" if trade.side == "B" else "S",
                volume_lots=trade.volume_lots,
                price_ticks=trade.price_ticks,
                liquidity=trade.liquidity,
                fee=trade.fee,
                client_id=trade.client_id,
            )
        )

    def after(self, number: int, most: int) -> tuple[FillLine, ...]:
        """Return the trades above a number, oldest first; if there are more than ``most``, the latest of them."""
        count = min(most, max(0, self.last - number), len(self._fills))
        return tuple(reversed(list(islice(reversed(self._fills), count))))


_LONGEST_REASON = 200
"""Longest reason of a kill switch in characters; a longer one is cut."""


class UnknownStrategyError(AlgoError, LookupError):
    """No strategy of this name runs here."""


class Reports:
    """Reports on the engine, made at the moment of the request."""

    def __init__(self, engine: Engine, fills: FillLog, clock: Clock, now_ns: Callable[[], int]) -> None:
        self._engine, self._fills, self._clock, self._now_ns = engine, fills, clock, now_ns
        self._began_s = clock.seconds()
        self._run = f"{now_ns():x}"

    def strategies(self) -> Strategies:
        """Return the report on all strategies, in the order in which they were given."""
        return Strategies(
            up_s=round(self._clock.seconds() - self._began_s, 3),
            now_ns=self._now_ns(),
            run=self._run,
            views_connected=self._engine.has_views,
            last_fill=self._fills.last,
            strategies=tuple(map(self._line, self._engine.hosts)),
        )

    @property
    def view_changes(self) -> int:
        """Number of view changes that have arrived."""
        return self._engine.view_changes

    def fills(self, after: int) -> Fills:
        """Return the own trades above a number."""
        return Fills(self._run, self._fills.after(after, MOST_FILLS), self._fills.last)

    def orders(self, strategy: str) -> Orders:
        """Return at most `MOST_ORDERS` own orders of one strategy, or of all for an empty name.

        Ended orders come before open ones. Raise `UnknownStrategyError` for an unknown name.
        """
        hosts = self._chosen((strategy,) if strategy else ())
        live = [_order(host, order) for host in hosts for order in host.desk.blotter.open_orders()][-MOST_ORDERS:]
        each = (MOST_ORDERS - len(live)) // len(hosts)
        ended = [_order(host, order) for host in hosts if each for order in host.desk.blotter.ended_orders()[-each:]]
        return Orders((*ended, *live))

    def kill(self, kill: Kill) -> Killed:
        """Trigger the kill switch; raise `UnknownStrategyError` for an unknown name, and then do nothing."""
        hosts = self._chosen(kill.strategies)
        self._engine.kill(kill.reason[:_LONGEST_REASON], hosts)
        open_orders = sum(len(host.desk.blotter.open_orders()) for host in hosts)
        return Killed(tuple(host.name for host in hosts), open_orders)

    def _chosen(self, names: tuple[str, ...]) -> list[StrategyHost]:
        hosts = {host.name: host for host in self._engine.hosts}
        unknown = [name for name in names if name not in hosts]
        if unknown:
            raise UnknownStrategyError(f"expected a strategy out of {', '.join(hosts)}, was {unknown[0][:80]}")
        return [hosts[name] for name in names] if names else list(hosts.values())

    def _line(self, host: StrategyHost) -> StrategyLine:
        state, reason = self._engine.standing(host)
        blotter = host.desk.blotter
        positions = tuple(_position(host, symbol) for symbol in sorted(host.desk.portfolio.holdings))
        return StrategyLine(
            name=host.name,
            broker_id=host.desk.broker_id,
            state=state,
            reason=reason,
            is_connected=host.desk.is_synchronised,
            parameters={
                name: msgspec.Raw(msgspec.json.encode(getattr(host.parameters, name)))
                for name in host.parameters.__struct_fields__
            },
            views=tuple(sorted(host.views)),
            orders_sent=blotter.sent,
            orders_filled=blotter.filled_orders,
            orders_open=len(blotter.open_orders()),
            orders_rejected=blotter.rejected,
            orders_refused=blotter.refused,
            fills=blotter.fills,
            void_trades=blotter.void_trades,
            realised=sum(position.realised for position in positions),
            unrealised=sum(position.unrealised for position in positions),
            fees=sum(position.fees for position in positions),
            positions=positions,
        )


def _position(host: StrategyHost, symbol: str) -> PositionLine:
    profit, position_lots = host.profit(symbol), host.position_lots(symbol)
    return PositionLine(
        symbol=symbol,
        position_lots=position_lots,
        mark_ticks=host.desk.quotes.mark_ticks(symbol, position_lots),
        realised=profit.realised,
        unrealised=profit.unrealised,
        fees=profit.fees,
    )


def _order(host: StrategyHost, order: Order) -> OrderLine:
    return OrderLine(
        strategy=host.name,
        client_id=order.client_id,
        order_id=order.order_id,
        symbol=order.symbol,
        side="B" if order.side == "B" else "S",
        volume_lots=order.volume_lots,
        filled_lots=order.filled_lots,
        price_ticks=order.price_ticks,
        status=str(order.status),
        reason=order.reason,
    )


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


_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    strategies.STATUS_PATH: (),
    strategies.FILLS_PATH: ("after",),
    strategies.ORDERS_PATH: ("strategy",),
    strategies.KILL_PATH: (),
    METRICS_PATH: (),
}
"""Query arguments that each path accepts."""


class _Refused(Exception):
    """Answer with an error status and one line of text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Root(Resource):
    """Resource that answers every path of the status port."""

    _log = Logger()
    isLeaf = True

    def __init__(self, reports: Reports, metrics: AlgoMetrics, access: Access) -> None:
        super().__init__()
        self._reports, self._metrics, self._access = reports, metrics, access
        self._answers: Final[dict[str, Callable[[dict[str, str]], object]]] = {
            strategies.STATUS_PATH: lambda _: reports.strategies(),
            strategies.FILLS_PATH: lambda arguments: reports.fills(_number(arguments.get("after", "0"))),
            strategies.ORDERS_PATH: lambda arguments: reports.orders(arguments.get("strategy", "")),
        }

    def render(self, request: Request) -> bytes:
        """Answer a request with status 200, or with an error status and one line of text."""
        try:
            return reply(request, 200, *self._answer(request))
        except _Refused as error:
            return refuse(request, error.status, str(error))
        except UnknownStrategyError as error:
            return refuse(request, 404, str(error))
        except Exception as error:  # noqa: BLE001 - a page of Twisted's is for people, and this port for programs
            self._log.failure("status: {path} failed", path=request.path)
            return refuse(request, 500, f"expected an answer, was {type(error).__name__}: see the log")

    def _answer(self, request: Request) -> tuple[bytes, str]:
        self._admit(request)
        path, method = request.path.decode("ascii", "replace"), request.method
        if path not in _ARGUMENTS:
            raise _Refused(404, f"expected one of {', '.join(_ARGUMENTS)}, was {path[:80]}")
        allowed = {b"POST"} if path == strategies.KILL_PATH else {b"GET", b"HEAD"}
        if method not in allowed:
            request.setHeader("allow", b", ".join(sorted(allowed)).decode("ascii"))
            raise _Refused(
                405, f"expected {'POST' if b'POST' in allowed else 'GET'}, was {method[:20].decode('latin-1')}"
            )
        arguments = _arguments(request, _ARGUMENTS[path])
        if path == METRICS_PATH:
            return self._metrics.answer(request.getHeader("accept") or "")
        answer = self._kill(request) if path == strategies.KILL_PATH else self._answers[path](arguments)
        return msgspec.json.encode(answer), "application/json"

    def _admit(self, request: Request) -> None:
        refusal = self._access.refusal_of(request)
        if refusal is not None:
            if refusal[0] == 401:
                request.setHeader("www-authenticate", "Bearer")
            raise _Refused(*refusal)

    def _kill(self, request: Request) -> strategies.Killed:
        body = cast(Any, request.content).read()
        if len(body) > MOST_BODY_BYTES:
            raise _Refused(413, f"expected a body of at most {MOST_BODY_BYTES} bytes, was a longer one")
        try:
            kill = decode_strictly(body or b"{}", strategies.Kill)
        except msgspec.DecodeError as error:
            raise _Refused(400, f"expected a Kill as JSON, was {body[:80]!r}: {error}") from None
        return self._reports.kill(kill)


def _arguments(request: Request, names: tuple[str, ...]) -> dict[str, str]:
    given = cast(dict[bytes, list[bytes]], request.args or {})
    arguments = {name.decode("utf-8", "replace"): values for name, values in given.items()}
    for name, values in arguments.items():
        if name not in names:
            raise _Refused(400, f"expected {' or '.join(names) or 'no parameter'}, was {name[:80]}")
        if len(values) != 1:
            raise _Refused(400, f"expected {name} once, was {len(values)} times")
    return {name: values[0].decode("utf-8", "replace") for name, values in arguments.items()}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise _Refused(400, f"expected a whole number as after, was {text[:80]!r}")
    return int(text)


def status_site(reports: Reports, metrics: AlgoMetrics, access: Access) -> Site:
    """Return the web site of the status port."""
    return BoundedSite(_Root(reports, metrics, access))
