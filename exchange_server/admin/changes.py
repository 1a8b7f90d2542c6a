"""Changes to a running exchange that its operator may request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from deltabook.wire import admin
from exchange_server.admin.reports import Reports
from exchange_server.errors import ExchangeError, OperationError, UnknownNameError
from exchange_server.matching.inputs import AnyInput, Bust, Kill, MassCancel, Phase
from exchange_server.matching.order import CancelReason

__all__ = ["Changes"]


class Changes:
    """Applies the operator's changes.

    A change of the market is a request in the market's journal like any other, with a time. `stop` is called with the
    reason when the journal fails: an exchange that cannot write must not answer.
    """

    _log = Logger()

    def __init__(self, reports: Reports, snapshot: Callable[[], None], stop: Callable[[str], None]) -> None:
        """Create the changes of one exchange; ``snapshot`` is the function that writes a snapshot."""
        self._reports = reports
        self._write_snapshot = snapshot
        self._exchange = reports.exchange
        self._stop = stop
        self._makers: Final[dict[type, Callable[..., str]]] = {
            admin.SetPhase: self._phase,
            admin.CutSession: self._cut,
            admin.KillAccount: self._kill,
            admin.CancelOrders: self._cancel,
            admin.BustTrade: self._bust,
            admin.TakeSnapshot: self._snapshot,
            admin.PlayReplay: self._play,
        }

    def make(self, change: admin.Change) -> admin.Done:
        """Apply a change; if it is invalid, raise `OperationError` or `UnknownNameError` and change nothing."""
        what = self._makers[type(change)](change)
        self._log.info("operator: {what}", what=what)
        market = self._exchange.market
        return admin.Done(what, market.last_time_ns, market.inputs)

    def _submit(self, item: AnyInput) -> None:
        try:
            self._exchange.submit([item])
        except ExchangeError as error:
            self._stop(str(error))
            raise OperationError(str(error)) from error

    def _phase(self, change: admin.SetPhase) -> str:
        books = self._exchange.market.books
        if change.symbol:
            phase = self._reports.book_of(change.symbol).phase
            if phase == change.phase:
                raise OperationError(f"expected {change.symbol} in another phase than {phase}, was in it already")
            if phase == "closed":
                raise OperationError(f"expected {change.symbol} before the end of its day, was closed")
        elif all(book.phase in {change.phase, "closed"} for book in books.values()):
            raise OperationError(f"expected a symbol whose phase is not {change.phase} or closed, was none")
        self._submit(Phase(self._exchange.next_time_ns(), change.symbol, change.phase, change.reason))
        return f"{change.symbol or 'every symbol'} is {change.phase}"

    def _cut(self, change: admin.CutSession) -> str:
        for session, _, connection in self._reports.connections():
            if session == change.session:
                connection.cut(change.reason)
                return f"session {session} is cut: {change.reason}"
        raise UnknownNameError(f"expected a session as they are listed (FACE:HOST:PORT), was {change.session!r}")

    def _kill(self, change: admin.KillAccount) -> str:
        account = self._reports.account_of(change.account)
        if account.killed == change.killed:
            raise OperationError(
                f"expected an account that {'trades' if change.killed else 'is stopped'}, was {change.account}, "
                f"which {'is stopped' if change.killed else 'trades'}"
            )
        orders = len(account.orders)
        self._submit(Kill(self._exchange.next_time_ns(), account.index, change.killed))
        ended = f"is stopped, {orders} of its orders are cancelled" if change.killed else "may trade again"
        return f"account {change.account} {ended}"

    def _cancel(self, change: admin.CancelOrders) -> str:
        if change.symbol:
            self._reports.book_of(change.symbol)
        index = self._reports.account_of(change.account).index if change.account else 0
        market = self._exchange.market
        before = market.live_orders
        self._submit(MassCancel(self._exchange.next_time_ns(), index, change.symbol, CancelReason.SUPERVISORY))
        whose, where = change.account or "everybody", change.symbol or "all symbols"
        return f"{before - market.live_orders} orders of {whose} in {where} are cancelled"

    def _bust(self, change: admin.BustTrade) -> str:
        self._reports.book_of(change.symbol)
        newest = self._exchange.market.next_match_id - 1
        if change.match_id > newest:
            raise OperationError(f"expected a match from 1 to {newest}, was {change.match_id}")
        market = self._exchange.market
        parties = market.shared.parties(change.match_id)
        elsewhere = {market.rules.instruments[party.locate - 1].symbol for party in parties} - {change.symbol}
        if elsewhere:
            raise OperationError(f"expected a match of {change.symbol}, was one of {', '.join(sorted(elsewhere))}")
        self._submit(Bust(self._exchange.next_time_ns(), change.match_id, change.symbol, parties))
        owners = ", ".join(sorted({market.accounts[party.account].name for party in parties}))
        return f"match {change.match_id} of {change.symbol} is void{owners and f'; {owners} notified'}"

    def _snapshot(self, change: admin.TakeSnapshot) -> str:
        del change
        try:
            self._write_snapshot()
        except ExchangeError as error:
            raise OperationError(str(error)) from error
        return f"a snapshot after {self._exchange.market.inputs} requests is written"

    def _play(self, change: admin.PlayReplay) -> str:
        playing = self._reports.player()
        if playing.finished:
            raise OperationError(f"expected a file that is played, was {playing.file}, which has ended")
        if change.position is not None:
            playing.seek(change.position)
        if change.time_ns is not None:
            playing.seek_time(change.time_ns)
        if change.speed is not None:
            playing.set_speed(change.speed or None)
        if change.paused is not None:
            (playing.pause if change.paused else playing.resume)()
        pace = "as fast as possible" if playing.speed is None else f"at {playing.speed:g} times real time"
        return f"{playing.file} {'is paused' if playing.is_paused else f'is played {pace}'}"
