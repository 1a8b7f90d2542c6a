"""State of strategies as records, their latest trades, numbered, and the kill switch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from algo_engine.clocks import Clock
from algo_engine.engine import Engine
from algo_engine.errors import AlgoError
from algo_engine.host import StrategyHost
from algo_engine.order import Order
from algo_engine.trades import Trade
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
)

__all__ = ["FillLog", "Reports", "UnknownStrategyError"]


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
