"""OUCH 4.2: requests carried out in the market as they came."""

from __future__ import annotations

import struct
from typing import Final

from deltabook.wire.ouch42 import RejectReason
from exchange_server.matching.account import Account
from exchange_server.matching.inputs import Wire
from exchange_server.matching.market import Market
from exchange_server.matching.outputs import Now, Touched
from exchange_server.matching.reasons import RefuseReason
from exchange_server.nasdaq.ouch.orders42 import order_of
from exchange_server.nasdaq.ouch.protocol import HEAD_BYTES, OuchProtocol
from exchange_server.nasdaq.ouch.reasons import Refusal
from exchange_server.nasdaq.ouch.scale import LARGEST_QUANTITY
from exchange_server.nasdaq.ouch.teller42 import Teller42

__all__ = ["REMEMBERED_TOKENS", "Ouch42"]

REMEMBERED_TOKENS: Final = 1 << 16
"""An account's newest tokens, at least so many, that are known again as repetitions."""

_REPLACE: Final = struct.Struct(">14s14sI8s1s1s4s")
"""Old token, new token, shares, price and time in force, display, sweep, minimum."""
_CANCEL: Final = struct.Struct(">14sI").unpack_from
_MODIFY: Final = struct.Struct(">14ssI").unpack_from
_LENGTHS: Final = {b"O": 49, b"U": 47, b"X": 19, b"M": 20, b"N": 15}


class Ouch42(OuchProtocol):
    """Reads packets of OUCH 4.2 and tells accounts in it.

    A token names one order of the account's session: one that was used is a repetition. The account remembers the
    newest `REMEMBERED_TOKENS` and those of its live orders. Trade Now has no effect: there is no midpoint to wait for.
    """

    name = "ouch42"
    side_at = 14

    def teller(self, account: Account, now: Now, touched: Touched) -> Teller42:
        """Writes OUCH 4.2 for an account."""
        return Teller42(account, now, touched, self._scales)

    def apply(self, market: Market, account: Account, item: Wire) -> str:
        """Carry the messages out; returns why the session must be closed."""
        data, time_ns, size, at = item.data, item.time_ns, len(item.data), 0
        now = market.now
        while at < size:
            if size - at <= HEAD_BYTES or (end := at + 2 + (data[at] << 8 | data[at + 1])) > size:
                return f"expected whole packets, was {data[at : at + 16]!r}"
            now.time_ns = time_ns
            time_ns += 1
            message = data[at + HEAD_BYTES : end]
            letter = message[:1]
            if _LENGTHS.get(letter) != len(message):
                return f"expected a message O U X M or N of its length, was {message[:16]!r} of {len(message)} bytes"
            if letter == b"O":
                self._enter(market, account, message[1:48])
            elif letter == b"X":
                self._cancel(market, account, *_CANCEL(message, 1))
            elif letter == b"U":
                self._replace(market, account, message)
            elif letter == b"M":
                self._modify(market, account, *_MODIFY(message, 1))
            at = end
        return ""

    def _enter(self, market: Market, account: Account, echo: bytes) -> None:
        token = echo[:14]
        if _is_used(account, token):
            return
        _use(account, token)
        try:
            order = order_of(echo, account, self._scales, market.now.time_ns)
        except Refusal as refusal:
            self._refuse(market, account, token, refusal, echo)
        else:
            market.enter(order)

    def _replace(self, market: Market, account: Account, message: bytes) -> None:
        existing, token, shares, numbers, display, sweep, minimum = _REPLACE.unpack_from(message, 1)
        old = market.order_of(account, existing)
        if old is None or _is_used(account, token):
            return
        was = old.echo
        # The number of shares that are still open is what the answer says and what the order now is.
        still_open = max(shares - old.executed * self._lot_of(old), 0).to_bytes(4)
        echo = b"".join(
            (
                token,
                was[14:15],
                still_open,
                was[19:27],
                numbers,
                was[35:39],
                display,
                was[40:41],
                sweep,
                minimum,
                was[46:],
            )
        )
        try:
            order = order_of(echo, account, self._scales, market.now.time_ns)
            if shares > LARGEST_QUANTITY:
                raise Refusal(RefuseReason.BAD_VOLUME, RejectReason.SHARES_EXCEED_THRESHOLD, "expected fewer shares")
        except Refusal:
            self._end(market, old)
            return
        _use(account, token)
        order.executed = old.executed
        market.replace(old, order)


def _is_used(account: Account, token: bytes) -> bool:
    return token in account.tokens or token in account.older_tokens or token in account.orders


def _use(account: Account, token: bytes) -> None:
    """Two generations: when the newer one is full it becomes the older, and that is forgotten."""
    if len(account.tokens) >= REMEMBERED_TOKENS:
        account.older_tokens, account.tokens = account.tokens, {}
    account.tokens[token] = None
