"""Simple static order book imbalance (SOBI).

The volume-weighted price of all bids and that of all asks each stand at some distance from the last price. Where the
asks stand ``factor`` times as far away as the bids, the buyers mean it more: buy at the current price; and the
reverse. After Kearns and Ortiz, *The Penn-Lehman Automated Trading Project* (2003).

All comparisons are exact: with last price L and sums PV and V, a distance is ``(PV - L·V) / V``, and two fractions are
compared by cross multiplication.
"""

from __future__ import annotations

from typing import Any

import msgspec

from algo_engine.contents import ViewChange
from algo_engine.order import Side
from algo_engine.quotes import Quote
from algo_engine.strategies._sizing import order_lots, room_lots, wants
from algo_engine.strategy import Context, Strategy

__all__ = ["SimpleSobi", "SobiParameters"]


class SobiParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set with ``--param sobi.NAME=value``."""

    symbols: tuple[str, ...] = ()
    """Symbols to trade, empty for all."""
    factor: float = 4.0
    """So many times farther must one side stand; read as thousandths."""
    size_lots: dict[str, int] = {}
    """Size of an order by symbol, ``*`` for all others."""
    size_touch_percent: int = 25
    """Where not given: part of the typical size at the touch."""
    position_orders: int = 10
    """Position limit, in orders."""
    cooldown_ms: int = 500
    """Between two orders of a symbol."""
    order_life_ms: int = 2_000
    """After which the rest of an order is cancelled."""


class SimpleSobi(Strategy[SobiParameters]):
    """Buys or sells a fixed size at the current price when one book leans."""

    views = ("vwap_book", "trades_1s")
    parameters_type = SobiParameters

    def __init__(self, parameters: SobiParameters) -> None:
        super().__init__(parameters)
        self._factor_thousandths = round(parameters.factor * 1000)
        self._last_ticks: dict[str, tuple[int, int]] = {}
        self._quiet_until_ns: dict[str, int] = {}

    def on_start(self, context: Context) -> None:
        """Learn the last prices."""
        self._learn(context.view("trades_1s").rows())

    def on_view_change(self, change: ViewChange) -> None:
        """Look again at every symbol whose book or last price changed."""
        if change.view == "trades_1s":
            self._learn(change.added)
        symbols = {str(row["symbol"]) for row in change.added}
        for symbol in sorted(symbols):
            if wants(self.parameters.symbols, symbol):
                self._consider(symbol)

    def on_timer(self, name: str) -> None:
        """The rest of an order has lived long enough."""
        self.context.cancel(int(name))

    def _learn(self, rows: Any) -> None:
        for row in rows:
            symbol, second = str(row["symbol"]), int(row["second"])
            if row["close"] is not None and second >= self._last_ticks.get(symbol, (second, 0))[0]:
                self._last_ticks[symbol] = (second, int(row["close"]))

    def _consider(self, symbol: str) -> None:
        quote, last = self.context.quote(symbol), self._last_ticks.get(symbol)
        if quote is None or last is None or not quote.is_two_sided:
            return
        if self.context.now_ns < self._quiet_until_ns.get(symbol, 0):
            return
        side = self._leaning(symbol, last[1])
        if side is not None:
            self._trade(side, symbol, quote)

    def _leaning(self, symbol: str, last_ticks: int) -> Side | None:
        """The side whose volume stands so much nearer to the last price, if one does."""
        rows = {row["side"]: row for row in self.context.view("vwap_book").select(symbol=symbol)}
        bids, asks = rows.get(Side.BUY.value), rows.get(Side.SELL.value)
        if not (bids and asks and bids["volume"] and asks["volume"]):
            return None
        bid_lots, ask_lots = int(bids["volume"]), int(asks["volume"])
        below = max(0, last_ticks * bid_lots - int(bids["price_volume"])) * ask_lots
        above = max(0, int(asks["price_volume"]) - last_ticks * ask_lots) * bid_lots
        if above * 1000 >= self._factor_thousandths * below and above > below:
            return Side.BUY
        if below * 1000 >= self._factor_thousandths * above and below > above:
            return Side.SELL
        return None

    def _trade(self, side: Side, symbol: str, quote: Quote) -> None:
        p = self.parameters
        position_lots = self.context.position_lots(symbol)
        position_lots += sum(o.side.sign * o.remaining_lots for o in self.context.open_orders(symbol))
        size_lots = order_lots(p.size_lots, p.size_touch_percent, quote)
        volume_lots = room_lots(side, position_lots, size_lots, p.position_orders)
        price_ticks = quote.ask_price_ticks if side is Side.BUY else quote.bid_price_ticks
        if not volume_lots or price_ticks is None:
            return
        send = self.context.buy if side is Side.BUY else self.context.sell
        client_id = send(symbol, volume_lots, price_ticks)
        self._quiet_until_ns[symbol] = self.context.now_ns + p.cooldown_ms * 1_000_000
        self.context.set_timer(str(client_id), p.order_life_ms)
