"""State of one desk, folded from the records of its journal: orders, holdings, memories, and the list of own trades.

```
record ─▶ blotter, portfolio, memories ─▶ events for the strategy
      └─▶ list of trades, journal (append); a journal that has grown large is compacted
```

`desk` decides which records are entered, and sends requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from twisted.logger import Logger

from algo_engine.desk.blotter import Blotter
from algo_engine.desk.journal import Journal
from algo_engine.desk.memories import Memories
from algo_engine.desk.order import OrderEvent, Side
from algo_engine.desk.order_sync import Background
from algo_engine.desk.portfolio import Portfolio
from algo_engine.desk.records import Checkpoint, Memory, Noted, Received, Record, VoidTrade
from algo_engine.desk.trades import TradeSpool, trade_of
from algo_engine.desk.void_trades import TradeHistory
from algo_engine.errors import JournalDamaged, LoginRefused

__all__ = ["COMPACT_BYTES", "DeskState"]

COMPACT_BYTES = 4 * 1024 * 1024
"""Size of the journal in bytes from which on it is compacted."""


class DeskState:
    """Orders, holdings and memories of one broker; the state is completely in the journal.

    ``on_failure`` receives the first error after which nothing more is written. ``background`` compacts the journal in
    a thread; without it the journal is compacted within the call.
    """

    _log = Logger()

    def __init__(
        self,
        *,
        broker_id: int,
        journal: Journal,
        spool: TradeSpool,
        on_failure: Callable[[Exception], None],
        compact_bytes: int,
        background: Background | None,
    ) -> None:
        """Restore the state from the journal; raise `LoginRefused` for the journal of another broker."""
        self._broker_id = broker_id
        self._journal, self._spool, self._on_failure = journal, spool, on_failure
        self._compact_bytes = self._compact_at_bytes = compact_bytes
        self._background = background or _at_once
        self.blotter = Blotter(broker_id)
        """All orders."""
        self.memories = Memories()
        """Memories of the strategy."""
        self.portfolio = Portfolio()
        """Holdings of all symbols."""
        self._history: TradeHistory | None = None
        """Own trades, loaded when a trade is first declared void."""
        self._is_broken = self._is_compacting = False
        self._recover()

    @property
    def is_broken(self) -> bool:
        """True once a write has failed: nothing more is written."""
        return self._is_broken

    def enter(self, record: Record) -> list[OrderEvent]:
        """Apply and write a record; return the events for the strategy.

        A message that is known already is not written, and has no events.
        """
        before = self.blotter.sequence
        events = self._fold(record)
        if isinstance(record, Received) and record.sequence and self.blotter.sequence == before:
            return []
        self._append(record, events)
        return events

    def write(self) -> None:
        """Write the appended records, so that they survive the end of the process; raise `OSError` on failure."""
        self._journal.write()

    def with_trade(self, message: Received) -> Received:
        """Return a B message with the trade that it declares void, unless the trade was void before or is unknown."""
        m = message
        if self._is_broken or m.sequence != self.blotter.sequence + 1 or self.blotter.is_void(m):
            return m
        try:
            if self._history is None:
                # A crash may have left rows of later messages in the list.
                self._history = TradeHistory(row for row in self._spool.rows() if row.sequence < m.sequence)
        except (OSError, JournalDamaged) as error:
            self.fail(error)
            return m
        trade = self._history.find(m.order_id, m.volume_lots, m.price_ticks)
        if trade is None:
            self._log.warn(
                "expected the void trade {match} of order {order} in the list of trades of broker {broker}, was none: "
                "the position keeps it",
                match=m.detail,
                order=m.order_id,
                broker=self._broker_id,
            )
            return m
        holding = self._history.holding(trade.symbol, without=trade)
        return msgspec.structs.replace(m, void=VoidTrade(trade.client_id, Side(trade.side), trade.fee, holding))

    def fail(self, error: Exception) -> None:
        """Write nothing more because of this error; the first error is reported."""
        if not self._is_broken:
            self._is_broken = True
            self._on_failure(error)

    def compact_if_large(self) -> None:
        """Begin to replace a large journal by one with a single checkpoint, unless a compaction is running."""
        is_busy = self._is_compacting or self._is_broken or self.memories.is_recovering
        if is_busy or self._journal.size_bytes < self._compact_at_bytes:
            return
        state = msgspec.structs.replace(
            self.blotter.checkpoint(), holdings=self.portfolio.holdings, memories=dict(self.memories.data)
        )
        try:
            sync_trades, replace_journal = self._spool.begin_sync(), self._journal.begin_compaction(state)
        except OSError as error:
            self.fail(error)
            return

        def work() -> float:
            sync_trades()  # the journal drops a fill only after the list of trades is on disk
            replace_journal()
            return 0.0

        self._is_compacting = True
        self._background(work, self._compacted)

    def _compacted(self, result: float | OSError) -> None:
        self._is_compacting = False
        if isinstance(result, OSError):
            self.fail(result)
            return
        self._journal.end_compaction()
        # Twice the size of the new journal: otherwise a large state would be written again after a few messages.
        self._compact_at_bytes = max(self._compact_bytes, 2 * self._journal.size_bytes)

    def close_journal(self) -> None:
        """Make the records durable, and close the journal; raise `OSError` on failure."""
        self._journal.close()

    def close_trades(self) -> None:
        """Make the list of trades durable, and close it; raise `OSError` on failure."""
        self._spool.close()

    def _recover(self) -> None:
        records = self._journal.read()
        if not records:
            self._journal.compact(Checkpoint(self._broker_id))
        for record in records:
            self._keep_trades(self._fold(record))
        if self.blotter.reserved_client_id > self.blotter.last_client_id:
            # Requests with these numbers may have been sent, and lost on disk.
            self.enter(Noted(self.blotter.reserved_client_id))
        self.blotter.lost()

    def _fold(self, record: Record) -> list[OrderEvent]:
        if isinstance(record, Memory):
            self.memories.enter(record)
            return []
        if isinstance(record, Checkpoint):
            if record.broker_id != self._broker_id:
                raise LoginRefused(
                    f"expected a journal of broker {self._broker_id}, was one of broker {record.broker_id}"
                )
            self.portfolio = Portfolio(record.holdings)
            self.memories.restore(record.memories)
        events = self.blotter.apply(record)
        self.memories.received(events)
        for event in events:
            if event.is_fill:
                order = event.order
                self.portfolio.fill(order.symbol, order.side, event.volume_lots, event.price_ticks, event.fee)
            elif isinstance(record, Received) and record.void is not None:
                self.portfolio.restate(record.symbol, record.void.holding)
        return events

    def _append(self, record: Record, events: Iterable[OrderEvent]) -> None:
        """Write a record and its trades, unless an earlier write failed.

        After a failure nothing more is written: the exchange will resend the messages after the last one on disk, so
        none of the earlier messages may be missing.
        """
        if self._is_broken:
            return
        try:
            self._keep_trades(events)
            self._journal.append(record)
        except OSError as error:
            self.fail(error)

    def _keep_trades(self, events: Iterable[OrderEvent]) -> None:
        for event in events:
            if event.changes_position:
                self._spool.add(event)
                if self._history is not None:
                    self._history.add(trade_of(event, "", self._broker_id))


def _at_once(work: Callable[[], float], ended: Callable[[float | OSError], None]) -> None:
    """Run work of a `Background` at once, on the calling thread."""
    try:
        result: float | OSError = work()
    except OSError as error:
        result = error
    ended(result)
