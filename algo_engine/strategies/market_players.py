"""Market players: finds a broker that hides its intention, and places orders in front of the broker's.

A broker may offer a few lots just above the market and at the same time bid for many lots below it. Such a broker wants
to buy: the small offer keeps the price down while the bids wait. A purchase in front of these bids has a limited risk,
because the lots can be sold to the broker again. So the strategy bids one tick above the largest of these bids, and
offers the lots that it bought one tick below the small offer. When the broker's orders have ended, the price has no
more support, and the strategy sells at the market. It does the reverse for a broker that bids for a few lots and offers
many.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import msgspec

from algo_engine.desk.order import OrderEvent, Side
from algo_engine.strategies._ladders import Ladders
from algo_engine.strategies._limits import AtLeastOne, AtLeastZero, Pace, order_lots, room_lots, wants
from algo_engine.strategies._resting import RestingOrders, Target
from algo_engine.strategies._taking import Factor, thousandths
from algo_engine.strategy import Context, Strategy
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import Quote
from deltabook.wire.text import OrderOptions
from queries import query_text

__all__ = ["MarketPlayers", "MarketPlayersParameters"]

LEVELS_VIEW: Final = "broker_levels"
"""View with the levels of each broker."""
_IMMEDIATE: Final = OrderOptions(immediate=True)


class MarketPlayersParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters, set with ``--param market_players.NAME=value``."""

    symbols: tuple[str, ...] = ()
    """Symbols to trade, empty for all."""
    near_bps: AtLeastZero = 10
    """Largest distance of the player's displayed order from the touch, in hundredths of a percent."""
    far_bps: AtLeastOne = 100
    """Largest distance from the touch of orders that are considered, in hundredths of a percent."""
    factor: Factor = 5.0
    """A player wants at least this many times the lots that it displays on the other side; rounded to thousandths."""
    least_touches: AtLeastZero = 3
    """A player wants at least this many times the typical size at the touch."""
    size_lots: dict[str, AtLeastOne] = {}
    """Size of an order by symbol, ``*`` for all others."""
    size_touch_percent: AtLeastOne = 25
    """Size of an order for other symbols, in percent of the typical size at the touch."""
    position_orders: AtLeastOne = 4
    """Position limit, as a multiple of the size of an order."""
    interval_ms: AtLeastOne = 200
    """Least time between two evaluations of a symbol."""


class Player(msgspec.Struct, frozen=True, gc=False):
    """A broker that wants to trade on one side and displays a small order on the other."""

    broker_id: int
    """Broker id of the player."""
    wanted_lots: int
    """Number of lots of the broker's considered orders on the side on which it wants to trade."""
    wall_ticks: int
    """Price with the most of these lots."""
    shown_ticks: int
    """The broker's best price on the other side."""


class MarketPlayers(Strategy[MarketPlayersParameters]):
    """Places orders in front of players, which hide their intention."""

    queries = MappingProxyType({LEVELS_VIEW: query_text(LEVELS_VIEW)})
    parameters_type = MarketPlayersParameters

    def __init__(self, parameters: MarketPlayersParameters) -> None:
        super().__init__(parameters)
        self._factor_thousandths = thousandths(parameters.factor)
        self._ladders = Ladders(("symbol", "broker_id", "side"), ("volume",))
        self._orders = RestingOrders()
        self._pace = Pace(parameters.interval_ms)
        self._exits: dict[tuple[str, Side], int] = {}
        """Client id of the last immediate order that closes a position, by symbol and side of the position."""

    def on_start(self, context: Context) -> None:
        """Read the levels of all brokers, and cancel the orders of an earlier run."""
        self._ladders.add(context.view(LEVELS_VIEW).rows())
        context.cancel_all()
        for symbol in context.symbols():
            self._evaluate(symbol)

    def on_view_change(self, change: ViewChange) -> None:
        """Evaluate the symbols whose orders or best prices have changed."""
        if change.view == LEVELS_VIEW:
            self._ladders.apply(change)
        for symbol in sorted({str(row["symbol"]) for row in (*change.added, *change.removed)}):
            self._evaluate(symbol)

    def on_order_event(self, event: OrderEvent) -> None:
        """Evaluate the symbol again when an order has ended or was executed."""
        if not event.order.is_open:
            self._orders.ended(event.order)
        if event.is_fill or not event.order.is_open:
            self._evaluate(event.order.symbol)

    def on_timer(self, name: str) -> None:
        """Evaluate the symbol after the interval."""
        self._pace.timer_due(name)
        self._evaluate(name)

    def _evaluate(self, symbol: str) -> None:
        quote = self.context.quote(symbol)
        if quote is None or not quote.is_two_sided or not wants(self.parameters.symbols, symbol):
            return
        if not self._pace.is_due(self.context, symbol):
            return
        self._pace.rest(self.context, symbol)
        for side in Side:
            self._enter(quote, side)
            self._leave(quote, side)

    def _enter(self, quote: Quote, side: Side) -> None:
        """Keep an order one tick in front of a player's wall; cancel it without a player."""
        p, symbol = self.parameters, quote.symbol
        player = self._player(quote, side, behind_ticks=1)
        size_lots = order_lots(p.size_lots, p.size_touch_percent, quote)
        position_lots = self.context.position_lots(symbol)
        lots = room_lots(side, position_lots, size_lots, p.position_orders) if player else 0
        price_ticks = player.wall_ticks + side.sign if player else 0
        most_lots = p.position_orders * size_lots - side.sign * position_lots
        target = Target(symbol, side, lots, price_ticks, most_lots)
        self._orders.move(self.context, (symbol, side, "enter"), target)

    def _leave(self, quote: Quote, side: Side) -> None:
        """Close the position of this side: one tick in front of the player's small order, or at the market if there is
        no player.

        Here a wall at the touch itself counts too, because it still supports the price.
        """
        symbol, back = quote.symbol, Side.SELL if side is Side.BUY else Side.BUY
        held_lots = max(0, side.sign * self.context.position_lots(symbol))
        player = None
        if held_lots and not self._is_leaving(symbol, side):
            player = self._player(quote, side, behind_ticks=0)
        near_ticks = _touch(quote, side)
        price_ticks = 0
        if player is not None:
            # The price is at least a tick away from the best price of the other side, so that the order rests.
            price_ticks = side.sign * max(side.sign * player.shown_ticks - 1, side.sign * near_ticks + 1)
        target = Target(symbol, back, held_lots if player else 0, price_ticks, held_lots)
        is_waiting = self._orders.move(self.context, (symbol, side, "leave"), target)
        if held_lots and player is None and not is_waiting and not self._is_leaving(symbol, side):
            send = self.context.sell if side is Side.BUY else self.context.buy
            self._exits[symbol, side] = send(symbol, held_lots, near_ticks, options=_IMMEDIATE)

    def _is_leaving(self, symbol: str, side: Side) -> bool:
        order = self.context.order(self._exits.get((symbol, side), 0))
        return order is not None and order.is_open

    def _player(self, quote: Quote, side: Side, behind_ticks: int) -> Player | None:
        """Return a broker with a wall on this side, ``behind_ticks`` or more from the touch, and an order on the other.

        If there are several such brokers, return the one whose wall is nearest to the market.
        """
        brokers = {key[1] for key in self._ladders if key[0] == quote.symbol and key[2] == side.value}
        others = sorted(brokers - {self.context.broker_id})
        judged = [self._judged(quote, side, behind_ticks, broker_id) for broker_id in others]
        players = [player for player in judged if player is not None]
        return max(players, key=lambda player: (side.sign * player.wall_ticks, player.wanted_lots), default=None)

    def _judged(self, quote: Quote, side: Side, behind_ticks: int, broker_id: int) -> Player | None:
        """Return the broker as a player; None if it is not one."""
        p, back = self.parameters, Side.SELL if side is Side.BUY else Side.BUY
        touch, other = _touch(quote, side), _touch(quote, back)
        shown = self._levels(quote.symbol, broker_id, back, other, p.far_bps)
        if not shown or abs(shown[0][0] - other) * 10_000 > p.near_bps * other:
            return None
        wanted = self._levels(quote.symbol, broker_id, side, touch - side.sign * behind_ticks, p.far_bps)
        wanted_lots, shown_lots = sum(lots for _, lots in wanted), sum(lots for _, lots in shown)
        if wanted_lots * 1000 < self._factor_thousandths * shown_lots:
            return None
        if not wanted or wanted_lots < p.least_touches * quote.typical_lots:
            return None
        wall_ticks = max(wanted, key=lambda level: level[1])[0]  # of equal levels the first, which is the best
        return Player(broker_id, wanted_lots, wall_ticks, shown[0][0])

    def _levels(self, symbol: str, broker_id: int, side: Side, from_ticks: int, away_bps: int) -> list[tuple[int, int]]:
        """Return prices and lots of a broker's side, best first, from a price to ``away_bps`` behind it."""
        worst_ticks = from_ticks - side.sign * (from_ticks * away_bps // 10_000)
        best = self._ladders.best((symbol, broker_id, side.value), side, worst_ticks)
        return [(price, lots) for price, (lots,) in best if side.sign * price <= side.sign * from_ticks]


def _touch(quote: Quote, side: Side) -> int:
    """Return the best price of a side of a two-sided quote."""
    price = quote.bid_price_ticks if side is Side.BUY else quote.ask_price_ticks
    assert price is not None
    return price
