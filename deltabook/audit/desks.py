"""What strategies believe: their journals of orders and lists of trades, only read."""

from __future__ import annotations

from pathlib import Path

from algo_engine.blotter import Blotter
from algo_engine.journal import JOURNAL, read_journal
from algo_engine.portfolio import Holding, Portfolio
from algo_engine.records import Checkpoint, Intent, Noted, Received
from algo_engine.trades import SPOOL, Trade, read_trades

__all__ = ["Believed", "find_desks"]


class Believed:
    """The desk of one strategy, as its journal leaves it."""

    def __init__(self, folder: Path) -> None:
        """Raises `algo_engine.errors.JournalDamaged`."""
        self.name = folder.name
        records, _ = read_journal(folder / JOURNAL)
        first = records[0] if records else Checkpoint(0)
        assert isinstance(first, Checkpoint), "a journal begins with one, or reading it has failed"
        self.blotter = Blotter(first.broker_id)
        self.known_from = first.last_client_id
        """Requests with higher numbers are all in the journal, but for `lost`."""
        self.lost: list[range] = []
        """Reserved request numbers of runs that ended by a crash: a power loss may have taken their requests."""
        self.intents: dict[int, Intent] = {}
        """Requests that are in the journal, by number."""
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
        # Read after the journal and before the exchange: for running strategies it has at least what the journal has,
        # and nothing that the exchange has not published.
        self.trades: list[Trade] = list(read_trades([folder / SPOOL]))
        """Its list of trades."""

    def must_know(self, client_id: int) -> bool:
        """Return True if the journal must have the request of this number if the exchange has answered it."""
        return client_id > self.known_from and not any(client_id in numbers for numbers in self.lost)

    @property
    def sequence(self) -> int:
        """The last message of the exchange that it has heard."""
        return self.blotter.sequence


def find_desks(directory: Path) -> list[Believed]:
    """The desks of all strategies of a directory, by name."""
    return [Believed(path.parent) for path in sorted(directory.glob(f"*/{JOURNAL}"))]
