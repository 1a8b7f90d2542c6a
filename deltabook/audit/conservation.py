"""Exchange and strategies, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from algo_engine.fees import FeeSchedule
from algo_engine.order import Order
from algo_engine.trades import Trade
from deltabook.audit.desks import Believed, find_desks
from deltabook.audit.errors import AuditError
from deltabook.audit.exchange import replay_private_streams
from deltabook.audit.ledger import Ledger, Standing
from deltabook.audit.profit import Account, recompute
from deltabook.wire.text import Response

__all__ = ["Audit", "AuditedStrategy", "audit"]

_MOST_PROBLEMS = 20
"""Problems listed for each strategy; the rest is counted."""


class AuditedStrategy(msgspec.Struct, frozen=True):
    """What was compared of one strategy."""

    name: str
    """Its name."""
    broker_id: int
    """As which broker it traded."""
    messages: int
    """That the exchange has told it."""
    unheard: int
    """Answers that are not in its journal yet: it was killed, or still runs."""
    orders: int
    """That the exchange has accepted."""
    fills: int
    """Executions of them."""
    void_trades: int
    """Executions that were declared void later."""
    open_orders: int
    """Orders that are still in the market."""
    accounts: dict[str, Account]
    """By symbol, recomputed from its list of trades."""
    problems: tuple[str, ...]
    """What does not agree, where; none if all does."""


class Audit(msgspec.Struct, frozen=True):
    """The outcome."""

    session: str
    """Session of the exchange."""
    strategies: tuple[AuditedStrategy, ...]
    """By name."""

    @property
    def agrees(self) -> bool:
        """True if nothing was found."""
        return not any(strategy.problems for strategy in self.strategies)


def audit(directory: Path, exchange: Path, fees: FeeSchedule | None = None, *, is_running: bool = False) -> Audit:
    """Compare the strategies of a directory with the journal of the exchange at which they traded.

    With ``fees`` every fee is compared with the schedule. Unless ``is_running``, messages that a strategy has not
    heard yet are a problem. Raises `AuditError` where there is nothing to compare, and what reading a damaged journal
    raises.
    """
    desks = find_desks(directory)
    if not desks:
        raise AuditError(f"expected journals of orders in {directory}, was none")
    sides = {desk.blotter.broker_id: _Side(desk, fees) for desk in desks}
    session = replay_private_streams(exchange, sides, lambda broker, message: sides[broker].take(message))
    return Audit(session, tuple(side.finish(session, is_running=is_running) for side in sides.values()))


class _Side:
    """One strategy beside the messages that it was told."""

    def __init__(self, desk: Believed, fees: FeeSchedule | None) -> None:
        self._desk, self._fees = desk, fees
        self._ledger = Ledger()
        self._trades: Iterator[Trade] = iter(desk.trades)
        self._heard: list[Trade] = []
        self._problems: list[str] = []
        if desk.sequence == 0:
            self._compare_state()

    def take(self, message: Response) -> None:
        """One message, in order."""
        before = self._ledger.take(message)
        if message.action == "A":
            self._compare_request(message)
        elif message.action in ("E", "F", "B") and before is not None:
            self._compare_trade(message, before)
        if message.sequence == self._desk.sequence:
            self._compare_state()

    def finish(self, session: str, *, is_running: bool) -> AuditedStrategy:
        """The outcome, after the last message."""
        desk, ledger = self._desk, self._ledger
        if desk.blotter.session not in ("", session):
            self._wrong("session", session, desk.blotter.session)
        if desk.sequence > ledger.sequence:
            self._wrong("messages received", f"at most {ledger.sequence}", desk.sequence)
        unheard = max(0, ledger.sequence - desk.sequence)
        if unheard and not is_running:
            self._wrong(
                "messages received", f"{ledger.sequence} (a start of the strategies fetches them)", desk.sequence
            )
        for trade in self._trades:
            self._wrong(f"trade {trade.sequence}", "a message of the exchange", "none")
        problems = ledger.problems + self._problems
        if len(problems) > _MOST_PROBLEMS:
            problems = [*problems[:_MOST_PROBLEMS], f"and {len(problems) - _MOST_PROBLEMS} more"]
        return AuditedStrategy(
            name=desk.name,
            broker_id=desk.blotter.broker_id,
            messages=ledger.sequence,
            unheard=unheard,
            orders=len(ledger.accepted),
            fills=ledger.fills,
            void_trades=ledger.void_trades,
            open_orders=len(ledger.live),
            accounts=recompute(self._heard),
            problems=tuple(problems),
        )

    def _compare_request(self, message: Response) -> None:
        """The exchange took what was asked for, and nothing that was not written down before."""
        asked = self._desk.intents.get(message.client_id)
        if asked is not None:
            wanted = (asked.action, asked.symbol, asked.volume_lots, asked.price_ticks)
            was = (message.detail, message.symbol, message.volume, message.price)
            if wanted != was:
                self._wrong(f"order {message.client_id}", wanted, was)
        elif self._desk.must_know(message.client_id) and message.sequence <= self._desk.sequence:
            self._wrong(f"order {message.client_id}", "a request in the journal", "none")

    def _compare_trade(self, message: Response, order: Standing) -> None:
        """The next line of the list of trades is this execution, or takes back the one that is void."""
        trade = next(self._trades, None)
        if trade is None:
            if message.sequence <= self._desk.sequence:
                self._wrong(f"execution {message.sequence}", "a line in the list of trades", "none")
            return
        is_void = message.action == "B"
        lots, detail = (-message.volume, "void") if is_void else (message.volume, message.detail)
        there = (message.sequence, message.time_ns, message.symbol, order.side, lots, message.price)
        here = (trade.sequence, trade.time_ns, trade.symbol, trade.side, trade.volume_lots, trade.price_ticks)
        which = (message.order_id, order.client_id, detail)
        if there != here or which != (trade.order_id, trade.client_id, trade.liquidity):
            self._wrong(f"execution {message.sequence}", (*there, *which), msgspec.structs.astuple(trade))
        if is_void:
            self._take_back(trade)
            return
        self._heard.append(trade)
        if self._fees is not None:
            fee = self._fees.fee(message.symbol, message.detail, message.volume, message.price)
            if fee != trade.fee:
                self._wrong(f"fee of trade {trade.sequence}", fee, trade.fee)

    def _take_back(self, void: Trade) -> None:
        """Forget the newest trade of these lots and this price; its fee is given back."""
        wanted = (void.order_id, -void.volume_lots, void.price_ticks)
        for place in range(len(self._heard) - 1, -1, -1):
            trade = self._heard[place]
            if (trade.order_id, trade.volume_lots, trade.price_ticks) == wanted:
                del self._heard[place]
                if void.fee != -trade.fee:
                    self._wrong(f"fee of trade {void.sequence}", -trade.fee, void.fee)
                return

    def _compare_state(self) -> None:
        """What the desk believes, at the last message that it has heard."""
        blotter, ledger = self._desk.blotter, self._ledger
        here = {order.order_id: _standing(order) for order in blotter.open_orders() if order.order_id}
        for order_id in sorted({*here, *ledger.live}):
            if here.get(order_id) != ledger.live.get(order_id):
                self._wrong(f"open order {order_id}", ledger.live.get(order_id), here.get(order_id))
        for name in ("fills", "filled_orders", "void_trades"):
            if getattr(blotter, name) != getattr(ledger, name):
                self._wrong(name.replace("_", " "), getattr(ledger, name), getattr(blotter, name))
        if blotter.unmatched:
            self._wrong("messages that fit no order", 0, blotter.unmatched)
        accounts = recompute(trade for trade in self._heard if trade.sequence <= ledger.sequence)
        for symbol in sorted({*accounts, *self._desk.holdings, *ledger.positions}):
            self._compare_money(symbol, accounts.get(symbol, Account()))

    def _compare_money(self, symbol: str, account: Account) -> None:
        """Position and profit, of the journal, of the list of trades and of the exchange."""
        holding = self._desk.holdings.get(symbol)
        position_lots = self._ledger.positions.get(symbol, 0)
        if account.position_lots != position_lots:
            self._wrong(f"position of {symbol} by its trades", position_lots, account.position_lots)
        was = (holding.position_lots, holding.realised, holding.cost, holding.fees) if holding else (0, 0, 0, 0)
        expected = (position_lots, account.realised, account.cost, account.fees)
        if was != expected:
            self._wrong(f"position, profit, cost and fees of {symbol}", expected, was)
        if account.realised - account.cost != account.cash:
            self._wrong(f"money of {symbol}", account.cash, account.realised - account.cost)

    def _wrong(self, what: str, expected: object, was: object) -> None:
        self._problems.append(f"{what}: expected {expected}, was {was}")


def _standing(order: Order) -> Standing:
    return Standing(order.client_id, str(order.side), order.symbol, order.remaining_lots, order.price_ticks)
