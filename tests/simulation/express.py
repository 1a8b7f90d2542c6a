"""Check of the express lane, message by message: the views after the last message that a version covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from runtime.compiler import Program
from runtime.engine.express import Update
from runtime.epochs import Cut
from runtime.relations import Retention
from runtime.service.results.hub import Hub
from tests.simulation.audit import Audit, AuditError, add_rows, difference
from tests.simulation.book import Book, Row
from tests.simulation.market import Market
from tests.simulation.views import ANSWERS

__all__ = ["ExpressAudit"]


class ExpressAudit:
    """Follows the versions of one process from its recovery on; the next process has an audit of its own."""

    def __init__(self, audit: Audit, market: Market, retention: Retention, hub: Hub) -> None:
        """Read the lane's state from the hub at the start, which must be that of the newest epoch."""
        self._audit = audit
        self._book = Book(market.messages, retention)
        self._epoch = hub.epoch("express")
        self._step = 0
        self.updates = 0
        sequence, offset = audit.cut(self._epoch) or (0, 0)
        self._book.advance(sequence)
        self._offset = offset
        self._results: dict[str, Counter[Row]] = {}
        for view in hub.views:
            if view.lane == "express":
                add_rows(self._results.setdefault(view.name, Counter()), hub.result(view.name).rows())
        if self._epoch > 0:
            self._compare(f"epoch {self._epoch}, to begin with", self._results)

    def take(self, update: Update) -> None:
        """Check the next version."""
        self.updates += 1
        if update.step <= self._step or update.epoch < self._epoch or update.failed:
            raise AuditError(f"expected a step behind {self._step}, epoch {self._epoch} or later, was {update}")
        self._step = update.step
        if update.program is not None:
            self._adopt(update.program)
        for name, table in update.changes.items():
            add_rows(self._results[name], table)
        self._move(update.epoch, update.cuts)
        where = f"step {update.step}, message {self._book.sequence}, epoch {update.epoch}"
        self._compare(where, self._results)

    def _adopt(self, program: Program) -> None:
        names = [view.name for view in program.views]
        self._results = {name: self._results.get(name, Counter()) for name in names}

    def _move(self, epoch: int, cuts: Mapping[str, Cut]) -> None:
        sequence = cuts["feed"].sequence if "feed" in cuts else 0
        self._offset = cuts["brokers"].offset if "brokers" in cuts else 0
        if epoch > self._epoch:
            self._epoch = epoch
            closed, _ = self._audit.cut(epoch) or (sequence, 0)
            self._book.advance(closed)
        self._book.advance(sequence, expires=False)

    def _compare(self, where: str, names: Collection[str]) -> None:
        brokers = self._audit.brokers(self._offset)
        for name in sorted(names):
            found, expected = self._results[name], ANSWERS[name](self._book, brokers)
            if found != expected:
                raise AuditError(f"express view {name} at {where}: {difference(found, expected)}")
