"""Reports for the operator of an exchange.

A report changes nothing in the market, and every report is bounded in size. A sum of lots or of notional above 2⁶³ - 1
is reported as that number, since readers of JSON may have no larger integers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Protocol

from deltabook.wire import admin
from exchange_server.errors import OperationError, UnknownNameError
from exchange_server.matching.market_state import INT64_MAX
from exchange_server.matching.order import RefuseReason

__all__ = ["MOST_HASHED", "Connection", "Face", "Playing", "Reports"]

MOST_HASHED: Final = 200_000
"""Largest number of live orders for which the state of a running market is hashed; hashing takes some tenths of a
second, in which the market does nothing else.
"""


class Connection(Protocol):
    """Connection of a client to a server of the exchange."""

    @property
    def peer(self) -> str:
        """Address of the client as HOST:PORT."""

    @property
    def account(self) -> str:
        """Name of the account that the client is logged in to; empty for none."""

    @property
    def reader(self) -> Any:
        """State of the stream that is sent to the client (`exchange_server.readers.Reader`)."""

    def cut(self, reason: str, *, flush: bool = False) -> None:
        """Close the connection for the given reason."""


class Face(Protocol):
    """Server with connections."""

    @property
    def readers(self) -> Any:
        """Connections of the server (`exchange_server.readers.Readers`)."""


class Playing(Protocol):
    """Replay of a recorded file."""

    file: str
    symbol: str
    finished: bool

    @property
    def position(self) -> int:
        """Position of the last replayed record."""

    @property
    def speed(self) -> float | None:
        """Recorded seconds replayed per real second; None: as fast as possible."""

    @property
    def is_seeking(self) -> bool:
        """True while the replay runs as fast as possible to the target of a seek."""

    @property
    def is_paused(self) -> bool:
        """True if the replay is paused."""

    def pause(self) -> None:
        """Pause the replay."""

    def resume(self) -> None:
        """Resume the replay."""

    def set_speed(self, speed: float | None) -> None:
        """Change the speed, in recorded seconds per real second; None: as fast as possible. A pause continues."""

    def seek(self, position: int) -> None:
        """Skip to this record, also during a pause; raise `OperationError` if the record does not lie ahead."""

    def seek_time(self, time_ns: int) -> None:
        """Skip to the first record at or after this time, also during a pause.

        Raise `OperationError` if the time does not lie ahead.
        """


class Reports:
    """Makes reports on an exchange, its servers and its replay."""

    def __init__(
        self,
        exchange: Any,
        directory: str,
        faces: Mapping[str, Face],
        figures: Callable[[], dict[str, int | float | str | None]],
        seconds: Callable[[], float],
        *,
        playing: Playing | None = None,
    ) -> None:
        """Create the reports.

        ``faces`` are the servers with connections, by name; ``figures`` returns the figures of the status lines;
        ``seconds`` is a monotonic clock.
        """
        self.exchange = exchange
        self.directory = directory
        self.faces = faces
        self.figures = figures
        self.playing = playing
        self.ports: dict[str, int] = {}
        """Ports by purpose, set once all of them are open."""
        self._seconds = seconds
        self._since_s = seconds()

    @property
    def up_s(self) -> float:
        """Seconds since the process began."""
        return round(self._seconds() - self._since_s, 3)

    def status(self) -> admin.Status:
        """Return the report on the exchange as a whole."""
        return admin.Status(
            session=self.exchange.session,
            time_ns=self.exchange.heartbeat_time_ns(),
            up_s=self.up_s,
            pid=os.getpid(),
            directory=self.directory,
            ports=self.ports,
            phases=dict(Counter(book.phase for book in self.exchange.market.books.values())),
            figures=self.figures(),
        )

    def refused(self) -> dict[str, int]:
        """Return the number of requests refused since the process began, by reason."""
        counts = self.exchange.market.refused
        return {reason.name.lower(): counts[reason] for reason in RefuseReason if counts.get(reason)}

    def statistics(self, after: str = "") -> admin.Statistics:
        """Return the totals of the session, and a line for each symbol after ``after``."""
        market = self.exchange.market
        return admin.Statistics(
            time_ns=market.last_time_ns,
            inputs=market.inputs,
            orders=market.orders,
            trades=market.trades,
            live_orders=market.live_orders,
            accounts=len(market.accounts) - 1,
            refused=self.refused(),
            symbols=tuple(self._symbols(self.book_of(after).locate if after else 0)),
            total_symbols=len(market.books),
        )

    def _symbols(self, after: int) -> Iterator[admin.SymbolLine]:
        """Yield a summary of each symbol after number ``after``, in the order of the symbols' numbers."""
        market = self.exchange.market
        for book in market.book_at[after + 1 : after + 1 + admin.MOST_SYMBOLS]:
            instrument = market.rules.instruments[book.locate - 1]
            bid, ask = next(book.levels("B"), None), next(book.levels("S"), None)
            yield admin.SymbolLine(
                symbol=book.symbol,
                locate=book.locate,
                phase=book.phase,
                bid_ticks=bid[0] if bid else None,
                bid_volume=min(bid[1], INT64_MAX) if bid else 0,
                ask_ticks=ask[0] if ask else None,
                ask_volume=min(ask[1], INT64_MAX) if ask else 0,
                last_ticks=book.last_trade_ticks or None,
                live_orders=len(book.orders),
                tick_size=instrument.tick_size,
            )

    def book_of(self, symbol: str) -> Any:
        """Return the book of a symbol; raise `UnknownNameError` for an unknown symbol."""
        book = self.exchange.market.books.get(symbol)
        if book is None:
            known = ", ".join(islice(self.exchange.market.books, 20))
            raise UnknownNameError(f"expected one of the symbols {known}, was {symbol!r}")
        return book

    def book(self, symbol: str, depth: int) -> admin.Book:
        """Return the displayed book of a symbol, ``depth`` levels of each side at most.

        Raise `OperationError` for a depth that the port does not allow.
        """
        if not 1 <= depth <= admin.MOST_DEPTH:
            raise OperationError(f"expected a depth from 1 to {admin.MOST_DEPTH}, was {depth}")
        book = self.book_of(symbol)
        instrument = self.exchange.market.rules.instruments[book.locate - 1]
        return admin.Book(
            symbol=symbol,
            phase=book.phase,
            time_ns=self.exchange.market.last_time_ns,
            tick_size=instrument.tick_size,
            lot_size=instrument.lot_size,
            last_ticks=book.last_trade_ticks or None,
            bids=_levels(book.levels("B"), depth),
            asks=_levels(book.levels("S"), depth),
        )

    def connections(self) -> Iterator[tuple[str, str, Connection]]:
        """Yield each connection as its name, the name of its server, and the connection."""
        for name, face in self.faces.items():
            for connection in face.readers.connections:
                yield f"{name}:{connection.peer}", name, connection

    def sessions(self) -> admin.Sessions:
        """Return the report on the current connections."""
        total = sum(len(face.readers.connections) for face in self.faces.values())
        lines = [
            admin.SessionLine(
                session=session,
                face=face,
                peer=connection.peer,
                account=connection.account,
                follows=connection.reader.tail is not None,
                lag_bytes=connection.reader.tail.lag_bytes if connection.reader.tail is not None else 0,
            )
            for session, face, connection in islice(self.connections(), admin.MOST_SESSIONS)
        ]
        return admin.Sessions(tuple(sorted(lines, key=lambda line: line.session)), total)

    def accounts(self, after: str = "") -> admin.Accounts:
        """Return the accounts in order of appearance; if ``after`` is given, only those after that account."""
        market = self.exchange.market
        first = 1 if not after else self.account_of(after).index + 1
        lines = tuple(
            admin.AccountLine(
                name=account.name,
                protocol=account.protocol,
                broker_id=account.broker_id,
                killed=account.killed,
                open_orders=len(account.orders),
                open_notional=min(account.open_notional, INT64_MAX) if account.limits.open_notional else None,
                self_trade=account.self_trade,
                cancel_on_disconnect=account.cancel_on_disconnect,
                messages=self.exchange.stream(account).records.next_number - 1,
            )
            for account in market.accounts[first : first + admin.MOST_ACCOUNTS]
        )
        return admin.Accounts(lines, len(market.accounts) - 1)

    def account_of(self, name: str) -> Any:
        """Return the account with this name; raise `UnknownNameError` if there is none."""
        account = self.exchange.market.account_named(name)
        if account is None:
            raise UnknownNameError(f"expected the name of an account, such as text:7 or ouch:ALPHA, was {name!r}")
        return account

    def state_hash(self) -> admin.StateHash:
        """Return the hash of the market's state.

        Raise `OperationError` above `MOST_HASHED` live orders, since hashing them would stop the market for too long.
        """
        market = self.exchange.market
        if market.live_orders > MOST_HASHED:
            raise OperationError(
                f"expected at most {MOST_HASHED} live orders for the hash of a running market, was "
                f"{market.live_orders}; `deltabook exchange hash DIR` computes it from the journal"
            )
        return admin.StateHash(market.inputs, market.last_time_ns, market.state_hash())

    def player(self) -> Playing:
        """Return the replay, running or finished; raise `UnknownNameError` if the exchange has none."""
        if self.playing is None:
            raise UnknownNameError("expected an exchange that plays a recorded file, was one without --replay")
        return self.playing

    def replay(self) -> admin.Replay:
        """Return the report on the replayed file."""
        playing = self.player()
        return admin.Replay(
            file=playing.file,
            symbol=playing.symbol,
            position=playing.position,
            time_ns=self.exchange.clock.now_ns(),
            speed=playing.speed,
            paused=playing.is_paused,
            seeking=playing.is_seeking,
            finished=playing.finished,
            counts=dict(self.exchange.market.replay_counts),
        )


def _levels(levels: Iterable[tuple[int, int, int]], depth: int) -> tuple[admin.Level, ...]:
    return tuple(admin.Level(price, min(volume, INT64_MAX), orders) for price, volume, orders in islice(levels, depth))
