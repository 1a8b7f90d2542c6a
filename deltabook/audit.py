"""Order conservation: checks that an exchange and its traders agree on every order, every fill and every unit of money.

```
exchange's inputs ──applied again──▶ messages to each broker ──▶ Ledger (plain) ─┐
strategies' journals ──folded──▶ desks ── orders, positions, money ──────────────┼─▶ Audit ─▶ problems
strategies' lists of trades ──▶ SymbolAccount: profit (plain) ───────────────────┘
```

Nothing is changed: journals of orders and lists of trades are only read, and neither the exchange nor the strategies
need to be running. The ledger and the profit are computed here as simply as possible, and share no code with the code
that they check.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from algo_engine.desk.blotter import Blotter
from algo_engine.desk.fees import FeeSchedule
from algo_engine.desk.journal import JOURNAL, read_journal
from algo_engine.desk.order import Order
from algo_engine.desk.portfolio import Holding, Portfolio
from algo_engine.desk.records import Checkpoint, Intent, Noted, Received
from algo_engine.desk.trades import SPOOL, Trade, read_trades
from deltabook.wire.directories import refuse_special_files
from deltabook.wire.text import Response, parse_response
from exchange_server.journal.history import History
from exchange_server.journal.streams import private_name
from exchange_server.outputs import all_outputs
from exchange_server.text.protocol import PROTOCOL, account_name

__all__ = [
    "Audit",
    "AuditError",
    "AuditedStrategy",
    "Ledger",
    "SymbolAccount",
    "audit",
    "recompute",
    "replay_private_streams",
]


class StandingOrder(msgspec.Struct):
    """An order that may still trade."""

    client_id: int
    """Number of the request that created the order; replacements do not change it."""
    side: str
    """Side, B or S."""
    symbol: str
    """Instrument."""
    open_lots: int
    """Lots that may still trade."""
    price_ticks: int
    """Limit price in ticks."""


class Ledger:
    """Orders, fills and positions of one broker, from the messages of its private stream alone."""

    def __init__(self) -> None:
        self.sequence = 0
        """Number of the last message."""
        self.live: dict[int, StandingOrder] = {}
        """Live orders, by the exchange's number."""
        self.accepted: set[int] = set()
        """Numbers of the requests that became orders."""
        self.fills = 0
        """Number of executions."""
        self.filled_orders = 0
        """Number of orders executed completely."""
        self.positions: dict[str, int] = {}
        """Position in lots, by symbol."""
        self.void_trades = 0
        """Number of executions that were declared void."""
        self._void_matches: set[tuple[str, int]] = set()
        self._executed: dict[tuple[int, int, int], list[StandingOrder]] = {}
        """Orders as they were before each execution that is not void, by order number, lots and price."""
        self.problems: list[str] = []
        """Contradictions within the exchange's own messages."""

    def take(self, message: Response) -> StandingOrder | None:
        """Enter the next message; return the order that it executes or changes, as the order was before the message.

        For a void trade, return the order as it was before its execution, or None if the trade was void already.
        """
        m = message
        if m.sequence != self.sequence + 1:
            self._wrong(m, f"message {self.sequence + 1}", f"{m.sequence}")
        self.sequence = m.sequence
        if m.action == "A":
            if m.client_id in self.accepted:
                self._wrong(m, f"request {m.client_id} to become an order once", "another time")
            self.accepted.add(m.client_id)
            self.live[m.order_id] = StandingOrder(m.client_id, m.detail, m.symbol, m.volume, m.price)
            return None
        if m.action == "U":
            return self._replaced(m)
        if m.action == "B":
            return self._voided(m)
        if m.action not in ("E", "F", "X", "D"):
            return None
        order = self.live.get(m.order_id)
        if order is None:
            self._wrong(m, "an order that is live", f"order {m.order_id}")
            return None
        before = msgspec.structs.replace(order)
        order.open_lots -= m.volume
        if order.open_lots < 0 or (order.open_lots == 0) != (m.action in ("F", "D")):
            self._wrong(m, f"an order of {before.open_lots} open lots to have some or none left", f"{order.open_lots}")
        if m.action in ("E", "F"):
            self.fills += 1
            self.filled_orders += m.action == "F"
            lots = m.volume if order.side == "B" else -m.volume
            self.positions[m.symbol] = self.positions.get(m.symbol, 0) + lots
            self._executed.setdefault((m.order_id, m.volume, m.price), []).append(before)
        if m.action in ("F", "D"):
            del self.live[m.order_id]
        return before

    def _replaced(self, m: Response) -> StandingOrder | None:
        order = self.live.pop(int(m.detail), None) if m.detail.isdigit() else None
        if order is None:
            self._wrong(m, "an order that is live to be replaced", f"order {m.detail}")
            return None
        before = msgspec.structs.replace(order)
        order.open_lots, order.price_ticks = m.volume, m.price
        self.live[m.order_id] = order
        return before

    def _voided(self, m: Response) -> StandingOrder | None:
        if (m.detail, m.order_id) in self._void_matches:
            return None
        executed = self._executed.get((m.order_id, m.volume, m.price))
        if not executed:
            self._wrong(m, "an execution that is void", f"{m.volume} lots of order {m.order_id} at {m.price}")
            return None
        order = executed.pop()
        self._void_matches.add((m.detail, m.order_id))
        self.void_trades += 1
        self.positions[m.symbol] -= m.volume if order.side == "B" else -m.volume
        return order

    def _wrong(self, message: Response, expected: str, was: str) -> None:
        self.problems.append(f"message {message.sequence} of the exchange: expected {expected}, was {was}")


class AuditedTrade(Protocol):
    """Fields that `recompute` needs of a trade; money is ticks × lots."""

    @property
    def symbol(self) -> str:
        """Instrument."""
        ...

    @property
    def side(self) -> str:
        """Side, B or S."""
        ...

    @property
    def volume_lots(self) -> int:
        """Executed lots."""
        ...

    @property
    def price_ticks(self) -> int:
        """Price in ticks."""
        ...

    @property
    def fee(self) -> int:
        """Fee paid for the trade."""
        ...


class SymbolAccount(msgspec.Struct):
    """Result of all trades of a symbol."""

    position_lots: int = 0
    """Lots bought less lots sold."""
    cash: int = 0
    """Money received less money paid, before fees."""
    cost: int = 0
    """Cost of the open position at average prices; negative for a short position."""
    realised: int = 0
    """Profit of closed positions, at average cost; the remainder of a division stays in the cost."""
    fees: int = 0
    """Fees paid."""
    trades: int = 0
    """Number of trades."""

    def worth(self, mark_ticks: int) -> int:
        """Return the profit after fees if a lot of the open position is worth ``mark_ticks``; the result does not
        depend on how profit is split between closed and open positions.
        """
        return self.cash + self.position_lots * mark_ticks - self.fees


def recompute(trades: Iterable[AuditedTrade]) -> dict[str, SymbolAccount]:
    """Return the account of each symbol, from trades in the order in which they were made.

    >>> from types import SimpleNamespace as Row
    >>> buy = Row(symbol="ACME", side="B", volume_lots=3, price_ticks=100, fee=1)
    >>> sell = Row(symbol="ACME", side="S", volume_lots=2, price_ticks=110, fee=1)
    >>> account = recompute([buy, sell])["ACME"]
    >>> account.position_lots, account.realised, account.cost, account.worth(120)
    (1, 20, 100, 38)
    """
    accounts: dict[str, SymbolAccount] = {}
    for trade in trades:
        account = accounts.setdefault(trade.symbol, SymbolAccount())
        lots = trade.volume_lots if trade.side == "B" else -trade.volume_lots
        account.trades += 1
        account.fees += trade.fee
        account.cash -= lots * trade.price_ticks
        position = account.position_lots
        if position == 0 or (position > 0) == (lots > 0):
            account.cost += lots * trade.price_ticks
        else:
            closed = min(abs(position), abs(lots))
            part = abs(account.cost) * closed // abs(position)
            if position > 0:
                account.realised += closed * trade.price_ticks - part
                account.cost -= part
            else:
                account.realised += part - closed * trade.price_ticks
                account.cost += part
            left = abs(lots) - closed
            account.cost += (left if lots > 0 else -left) * trade.price_ticks
        account.position_lots = position + lots
    return accounts


class AuditError(RuntimeError):
    """There is nothing to compare; the message has the expected and the actual value."""


class JournalledDesk:
    """State of one strategy's desk, folded from its journal, with its list of trades."""

    def __init__(self, folder: Path) -> None:
        """Read the journal and the trades of a strategy's folder.

        Raise `algo_engine.errors.JournalDamaged` if either is damaged.
        """
        self.name = folder.name
        records, _ = read_journal(folder / JOURNAL)
        first = records[0] if records else Checkpoint(0)
        assert isinstance(first, Checkpoint), "read_journal accepts only a journal that begins with a checkpoint"
        self.blotter = Blotter(first.broker_id)
        self.known_from = first.last_client_id
        """Highest request number before the journal's first entry: the journal has all later requests, except those in
        `lost`.
        """
        self.lost: list[range] = []
        """Request numbers reserved by runs that ended in a crash: a power loss may have destroyed the requests with
        these numbers.
        """
        self.intents: dict[int, Intent] = {}
        """Requests in the journal, by number."""
        portfolio = Portfolio(first.holdings)
        for record in records:
            if isinstance(record, Intent):
                self.intents[record.client_id] = record
            elif isinstance(record, Noted) and record.client_id <= self.blotter.reserved_client_id:
                self.lost.append(range(self.blotter.last_client_id + 1, record.client_id + 1))
            for event in self.blotter.apply(record):
                if event.is_fill:
                    order = event.order
                    portfolio.fill(order.symbol, order.side, event.volume_lots, event.price_ticks, event.fee)
                elif isinstance(record, Received) and record.void is not None:
                    portfolio.restate(record.symbol, record.void.holding)
        self.holdings: dict[str, Holding] = portfolio.holdings
        """Holdings by symbol."""
        # The trades are read after the journal and before the exchange. So, even if the strategy is running, the list
        # has every trade that is in the journal, and none that the exchange has not published.
        self.trades: list[Trade] = list(read_trades([folder / SPOOL]))
        """Trades of the strategy, in the order of its list."""

    def must_know(self, client_id: int) -> bool:
        """Return True if the journal must have a request with this number once the exchange has answered it."""
        return client_id > self.known_from and not any(client_id in numbers for numbers in self.lost)

    @property
    def sequence(self) -> int:
        """Number of the last message of the exchange that the strategy has received."""
        return self.blotter.sequence


def find_desks(directory: Path) -> list[JournalledDesk]:
    """Return the desks of all strategies of a directory, sorted by name."""
    return [JournalledDesk(path.parent) for path in sorted(directory.glob(f"*/{JOURNAL}"))]


def replay_private_streams(directory: Path, brokers: Collection[int], take: Callable[[int, Response], None]) -> str:
    """Apply every input of a journal again, and pass each message for these brokers to ``take``; return the session.

    The messages follow from the inputs alone; the files of the streams are not read. Raise
    `exchange_server.errors.JournalError` if there is no journal, or if the journal is damaged or has lost its
    beginning.
    """
    history = History(directory, all_outputs)
    names = {private_name(account_name(broker), PROTOCOL): broker for broker in brokers}
    walk = history.walk(lambda _: False, forms=())

    def on_output(name: str, data: bytes) -> None:
        broker = names.get(name)
        if broker is not None:
            for line in data.splitlines():
                take(broker, parse_response(line))

    walk.on_output = on_output
    for _ in walk.each():
        pass
    return history.reader.head.session


_MOST_PROBLEMS = 20
"""Greatest number of problems listed for each strategy; further problems are only counted."""


class AuditedStrategy(msgspec.Struct, frozen=True):
    """Result of the comparison for one strategy."""

    name: str
    """Name of the strategy."""
    broker_id: int
    """Broker as which the strategy traded."""
    messages: int
    """Number of messages that the exchange has sent to the strategy."""
    unreceived: int
    """Number of messages that are not in the strategy's journal yet: the strategy was killed, or is still running."""
    orders: int
    """Number of orders that the exchange has accepted."""
    fills: int
    """Number of executions of these orders."""
    void_trades: int
    """Number of executions that were later declared void."""
    open_orders: int
    """Number of orders that are still in the market."""
    accounts: dict[str, SymbolAccount]
    """Account of each symbol, recomputed from the strategy's list of trades."""
    problems: tuple[str, ...]
    """Differences between the exchange's messages and the strategy's files; empty if there are none."""


class Audit(msgspec.Struct, frozen=True):
    """Result of an audit."""

    session: str
    """Session of the exchange."""
    strategies: tuple[AuditedStrategy, ...]
    """Results of the strategies, sorted by name."""

    @property
    def agrees(self) -> bool:
        """True if no strategy has a problem."""
        return not any(strategy.problems for strategy in self.strategies)


def audit(directory: Path, exchange: Path, fees: FeeSchedule | None = None, *, is_running: bool = False) -> Audit:
    """Compare the strategies of a directory with the journal of the exchange at which they traded.

    With ``fees``, every fee is compared with the schedule. Unless ``is_running``, messages that a strategy has not
    received yet are a problem. Raise `AuditError` if there is nothing to compare, and the errors of damaged journals.
    """
    for each in (directory, exchange):
        refuse_special_files(each)
    desks = find_desks(directory)
    if not desks:
        raise AuditError(f"expected journals of orders in {directory}, was none")
    sides = {desk.blotter.broker_id: _Side(desk, fees) for desk in desks}
    session = replay_private_streams(exchange, sides, lambda broker, message: sides[broker].take(message))
    return Audit(session, tuple(side.finish(session, is_running=is_running) for side in sides.values()))


class _Side:
    """One strategy, compared with the messages that the exchange sent to it."""

    def __init__(self, desk: JournalledDesk, fees: FeeSchedule | None) -> None:
        self._desk, self._fees = desk, fees
        self._ledger = Ledger()
        self._trades: Iterator[Trade] = iter(desk.trades)
        self._matched: list[Trade] = []
        self._problems: list[str] = []
        if desk.sequence == 0:
            self._compare_state()

    def take(self, message: Response) -> None:
        """Compare the next message with the journal and the list of trades."""
        before = self._ledger.take(message)
        if message.action == "A":
            self._compare_request(message)
        elif message.action in ("E", "F", "B") and before is not None:
            self._compare_trade(message, before)
        if message.sequence == self._desk.sequence:
            self._compare_state()

    def finish(self, session: str, *, is_running: bool) -> AuditedStrategy:
        """Return the result, after the last message."""
        desk, ledger = self._desk, self._ledger
        if desk.blotter.session not in ("", session):
            self._wrong("session", session, desk.blotter.session)
        if desk.sequence > ledger.sequence:
            self._wrong("messages received", f"at most {ledger.sequence}", desk.sequence)
        unreceived = max(0, ledger.sequence - desk.sequence)
        if unreceived and not is_running:
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
            unreceived=unreceived,
            orders=len(ledger.accepted),
            fills=ledger.fills,
            void_trades=ledger.void_trades,
            open_orders=len(ledger.live),
            accounts=recompute(self._matched),
            problems=tuple(problems),
        )

    def _compare_request(self, message: Response) -> None:
        """Check that an accepted order equals its request in the journal, and that the request is there."""
        intent = self._desk.intents.get(message.client_id)
        if intent is not None:
            expected = (intent.action, intent.symbol, intent.volume_lots, intent.price_ticks)
            was = (message.detail, message.symbol, message.volume, message.price)
            if expected != was:
                self._wrong(f"order {message.client_id}", expected, was)
        elif self._desk.must_know(message.client_id) and message.sequence <= self._desk.sequence:
            self._wrong(f"order {message.client_id}", "a request in the journal", "none")

    def _compare_trade(self, message: Response, order: StandingOrder) -> None:
        """Check that the next line of the list of trades is this execution, or its reversal if the trade is void."""
        trade = next(self._trades, None)
        if trade is None:
            if message.sequence <= self._desk.sequence:
                self._wrong(f"execution {message.sequence}", "a line in the list of trades", "none")
            return
        is_void = message.action == "B"
        lots, detail = (-message.volume, "void") if is_void else (message.volume, message.detail)
        expected = (message.sequence, message.time_ns, message.symbol, order.side, lots, message.price)
        was = (trade.sequence, trade.time_ns, trade.symbol, trade.side, trade.volume_lots, trade.price_ticks)
        ids = (message.order_id, order.client_id, detail)
        if expected != was or ids != (trade.order_id, trade.client_id, trade.liquidity):
            self._wrong(f"execution {message.sequence}", (*expected, *ids), msgspec.structs.astuple(trade))
        if is_void:
            self._remove_void(trade)
            return
        self._matched.append(trade)
        if self._fees is not None:
            fee = self._fees.fee(message.symbol, message.detail, message.volume, message.price)
            if fee != trade.fee:
                self._wrong(f"fee of trade {trade.sequence}", fee, trade.fee)

    def _remove_void(self, void: Trade) -> None:
        """Remove the newest trade that a void trade reverses, and check that its fee is refunded."""
        wanted = (void.order_id, -void.volume_lots, void.price_ticks)
        for place in range(len(self._matched) - 1, -1, -1):
            trade = self._matched[place]
            if (trade.order_id, trade.volume_lots, trade.price_ticks) == wanted:
                del self._matched[place]
                if void.fee != -trade.fee:
                    self._wrong(f"fee of trade {void.sequence}", -trade.fee, void.fee)
                return

    def _compare_state(self) -> None:
        """Compare the desk's orders, counters and accounts with the ledger, at the last message that the desk has
        received.
        """
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
        accounts = recompute(trade for trade in self._matched if trade.sequence <= ledger.sequence)
        for symbol in sorted({*accounts, *self._desk.holdings, *ledger.positions}):
            self._compare_money(symbol, accounts.get(symbol, SymbolAccount()))

    def _compare_money(self, symbol: str, account: SymbolAccount) -> None:
        """Compare the position and the profit of a symbol according to the journal, the list of trades and the
        exchange.
        """
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


def _standing(order: Order) -> StandingOrder:
    return StandingOrder(order.client_id, str(order.side), order.symbol, order.remaining_lots, order.price_ticks)
