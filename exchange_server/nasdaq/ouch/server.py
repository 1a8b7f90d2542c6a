"""The OUCH port: logins of users, their requests to the exchange, and the private stream of each account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IAddress

from deltabook.wire.errors import WireError
from deltabook.wire.soupbin import CLIENT_HEARTBEAT, CLIENT_PACKET_LIMIT_BYTES, DEBUG, LOGIN, LOGOUT, LoginRequest
from exchange_server.errors import ExchangeError
from exchange_server.exchange import Exchange
from exchange_server.logins import LoginGate, User
from exchange_server.matching.inputs import AnyInput, MassCancel, OpenAccount, Wire
from exchange_server.matching.order import Account, CancelReason
from exchange_server.nasdaq.soup import SoupConnection, SoupLimits, SoupServer
from exchange_server.readers import Audience, Count, Timers, peer_of

__all__ = ["OuchConnection", "OuchLimits", "OuchServer"]

_PREFIX: Final = "ouch:"
_HEAD_BYTES: Final = 3
_LONGEST: Final = CLIENT_PACKET_LIMIT_BYTES - 2
"""Largest length in the first two bytes of a packet, which do not count themselves."""
_UNSEQUENCED: Final = ord("U")
_MANY_BYTES: Final = 4096
"""Number of received bytes above which the data is first checked as a whole: fast clients send many packets of one
length.
"""


class OuchLimits(SoupLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the OUCH port; limits of an account are in the users file."""

    pending_bytes: Count = 1 << 20
    """Largest number of bytes of requests that wait for the end of the reactor's turn if the journal is synced for each
    batch; above this number the requests are carried out at once.
    """


class OuchConnection(SoupConnection):
    """Connection of a client to the OUCH port."""

    partial = b""
    """Incomplete packet received after the login."""
    index = 0
    """Index of the account in the market."""


class OuchServer(SoupServer):
    """Carries out the requests of users, and sends every session of an account the same stream.

    Requests are carried out as soon as they are received. If the journal is synced for each batch, however, all
    requests of a turn of the reactor form one batch, and so wait for the disk only once. `stop` is called with the
    reason when the journal fails: an exchange that cannot write must not answer.
    """

    name = "ouch"

    def __init__(
        self, exchange: Exchange, gate: LoginGate, clock: Timers, limits: OuchLimits, stop: Callable[[str], None]
    ) -> None:
        super().__init__(clock, limits)
        self._exchange = exchange
        self._gate = gate
        self._stop = stop
        self._pending_limit_bytes = limits.pending_bytes
        self._pending: list[tuple[OuchConnection, bytes, int]] = []
        self._pending_bytes = 0
        self._first_read_s = 0.0
        self._left: set[int] = set()
        self._flush_call: Any = None
        self._sessions: dict[int, int] = {}
        self._is_closing = self._is_submitting = False

    def buildProtocol(self, addr: IAddress | None) -> OuchConnection:
        """Return a connection for a new client."""
        return OuchConnection(self, peer_of(addr))

    @property
    def clients(self) -> int:
        """Number of sessions that may trade."""
        return sum(self._sessions.values())

    def start(self) -> None:
        """Prepare the accounts; call once, before the first login.

        Accounts get the settings of the users file. The orders of accounts that cancel on disconnect are cancelled,
        since the connections ended with the previous process.
        """
        self.apply_user_settings()
        market = self._exchange.market
        self._left.update(
            account.index for account in market.accounts if account.name.startswith(_PREFIX) and account.orders
        )
        self._flush()

    def apply_user_settings(self) -> None:
        """Give the existing accounts the settings of the users file."""
        for user in self._gate.users.values():
            account = self._exchange.market.account_named(user.account)
            if account is not None and user.protocol == account.protocol:
                self._account_of(user, account)

    # -- logins --------------------------------------------------------------------------------------------------

    def log_in(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Accept a user, who is sent the account's stream from the requested message on, or reject the login."""
        host = connection.peer.rpartition(":")[0]

        def then(user: User | None, reason: str) -> None:
            if connection.reader.is_closed:
                return
            if user is None:
                connection.reject("A", reason)
            else:
                self._admit(connection, login, user)

        self._gate.check(login.username, login.password, host, then)

    def _admit(self, connection: SoupConnection, login: LoginRequest, user: User) -> None:
        assert isinstance(connection, OuchConnection)
        if user.protocol == "itch":
            connection.reject("A", "this user may listen to the feed and not trade")
            return
        account = self._exchange.market.account_named(user.account)
        if account is None or user.protocol == account.protocol:
            account = self._account_of(user, account)
        if account is None:
            return  # the journal has failed: the exchange ends
        if user.protocol != account.protocol:
            connection.reject("A", f"expected {account.protocol}, which the account began the session with")
            return
        try:
            stream = self._exchange.stream(account)
        except ExchangeError as error:
            self._stop(str(error))
            return
        number = self.position(connection, login, self._exchange.session, stream.records)
        if number is None:
            return
        connection.account, connection.index = account.name, account.index
        self._sessions[account.index] = self._sessions.get(account.index, 0) + 1
        self.follow(connection, stream, self._exchange.session, number)

    def _account_of(self, user: User, account: Account | None) -> Account | None:
        """Return the user's account with the settings of the users file; None if the journal fails."""
        wanted = (user.broker_id, user.limits, user.self_trade, user.cancel_on_disconnect)
        if account is not None and wanted == (
            account.broker_id,
            account.limits,
            account.self_trade,
            account.cancel_on_disconnect,
        ):
            return account
        time_ns = self._exchange.next_time_ns()
        self._submit([OpenAccount(time_ns, user.account, user.protocol, *wanted)])
        return self._exchange.market.account_named(user.account)

    def finish(self) -> None:
        """Carry out the pending requests of all clients, and send the answers."""
        self._flush()
        super().finish()

    def left(self, connection: SoupConnection) -> None:
        """Note that a session ended; the last session of an account may end the account's orders."""
        assert isinstance(connection, OuchConnection)
        index = connection.index
        self._sessions[index] -= 1
        if not self._sessions[index]:
            del self._sessions[index]
            self._left.add(index)
            self._flush_soon()

    # -- requests ------------------------------------------------------------------------------------------------

    def take(self, connection: SoupConnection, data: bytes) -> None:
        """Split bytes into packets; runs of requests are passed on in one piece.

        Raise `WireError` for an invalid packet.
        """
        assert isinstance(connection, OuchConnection)
        if connection.partial:
            data = connection.partial + data
        begin, size = 0, len(data)
        count, at = _equal_requests(data) if size >= _MANY_BYTES else (0, 0)
        while size - at >= _HEAD_BYTES:
            length = data[at] << 8 | data[at + 1]
            end = at + 2 + length
            if end > size or not 1 <= length <= _LONGEST:
                break
            if data[at + 2] == _UNSEQUENCED:
                count += 1
            else:
                if count:
                    self._carry_out(connection, data[begin:at], count)
                _take_other(connection, data[at + 2 : at + 3])
                if connection.reader.is_closed:
                    return
                begin, count = end, 0
            at = end
        connection.partial = data[at:]
        if count:
            self._carry_out(connection, data[begin:at], count)
        if size - at >= 2 and not 1 <= (length := data[at] << 8 | data[at + 1]) <= _LONGEST:
            raise WireError(f"expected packets of 3 to {CLIENT_PACKET_LIMIT_BYTES} bytes, was {length + 2}")

    def _carry_out(self, connection: OuchConnection, requests: bytes, count: int) -> None:
        exchange = self._exchange
        if not self._pending:
            self._first_read_s = self.clock.seconds()
        if exchange.is_group_commit:
            self._pending.append((connection, requests, count))
            self._pending_bytes += len(requests)
            if self._pending_bytes >= self._pending_limit_bytes:
                self._flush()
            else:
                self._flush_soon()
            return
        results = self._submit([Wire(exchange.next_time_ns(0, count), connection.index, requests)])
        self.readers.requests.add(self.clock.seconds() - self._first_read_s)
        if results and results[0]:
            connection.cut(str(results[0]), flush=True)

    def _flush_soon(self) -> None:
        if self._flush_call is None and not self._is_closing:
            self._flush_call = self.clock.callLater(0, self._flush)

    def _flush(self) -> None:
        """Carry out the pending requests, then the cancels for accounts whose last session ended."""
        if self._flush_call is not None and self._flush_call.active():
            self._flush_call.cancel()
        self._flush_call = None
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        next_time_ns = self._exchange.next_time_ns
        batch: list[AnyInput] = [Wire(next_time_ns(0, count), c.index, data) for c, data, count in pending]
        left, self._left = self._left, set()
        batch += [
            MassCancel(next_time_ns(), index, "", CancelReason.DISCONNECT)
            for index in sorted(left - self._sessions.keys())
            if self._exchange.market.accounts[index].cancel_on_disconnect
        ]
        if not batch:
            return
        results = self._submit(batch)
        if pending:
            self.readers.requests.add(self.clock.seconds() - self._first_read_s)
        for (connection, _, _), reason in zip(pending, results, strict=False):
            if reason:
                connection.cut(str(reason), flush=True)

    def _submit(self, batch: list[AnyInput]) -> list[int | str]:
        """Submit a batch, send the answers, and return the results; an empty list if the exchange must end.

        The answers are sent before the feed, which waits for the end of this turn of the reactor.
        """
        self._is_submitting = True
        try:
            results = self._exchange.submit(batch)
        except ExchangeError as error:
            self._stop(str(error))
            return []
        finally:
            self._is_submitting = False
        self.deliver()
        return results

    def announce(self, audience: Audience[SoupConnection]) -> None:
        """Register new messages for delivery, after the batch that is being submitted or at the end of the turn."""
        self.news.append(audience)
        if not self._is_submitting:
            self.readers.deliver_soon()

    def close(self) -> None:
        """Carry out pending requests, send all answers, and close every connection.

        Orders of accounts that cancel on disconnect are cancelled by the next `start`.
        """
        self._flush()
        self._is_closing = True
        super().close()


def _equal_requests(data: bytes) -> tuple[int, int]:
    """Return the number of whole packets and the end of the last one if all are requests of one length; else zeros."""
    length = data[0] << 8 | data[1]
    if not 1 <= length <= _LONGEST:
        return 0, 0
    stride = 2 + length
    count = len(data) // stride
    end = count * stride
    for at, byte in ((0, data[0]), (1, data[1]), (2, _UNSEQUENCED)):
        if data[at:end:stride].count(byte) != count:
            return 0, 0
    return count, end


def _take_other(connection: OuchConnection, type_: bytes) -> None:
    """Process a packet that is not a request."""
    if type_ == LOGOUT:
        connection.cut("logged out", flush=True)
    elif type_ not in {CLIENT_HEARTBEAT, DEBUG}:
        words = "a second login" if type_ == LOGIN else f"a packet {type_!r}"
        raise WireError(f"expected heartbeats, messages or a logout, was {words}")
