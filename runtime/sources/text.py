"""A text feed over TCP: logs in as a passive listener and turns what arrives into raw buffers."""

from __future__ import annotations

from deltabook.wire.text import (
    LINE_LIMIT_BYTES,
    PassiveLogin,
    Refused,
    WireError,
    encode_login,
    parse_login_reply,
)
from runtime.sources.base import Position
from runtime.sources.errors import LoginRefusedError
from runtime.sources.feed import FeedSource, LoginReply

__all__ = ["TextFeedSource"]


class TextFeedSource(FeedSource):
    """One connection to an exchange's text feed."""

    __slots__ = ()

    def login(self, position: Position) -> bytes:
        """See `FeedSource`."""
        return encode_login(PassiveLogin(position.session, position.sequence))

    def read_reply(self, data: bytes) -> LoginReply | None:
        """See `FeedSource`."""
        line, delimiter, rest = data.partition(b"\n")
        if not delimiter:
            if len(line) > LINE_LIMIT_BYTES:
                raise LoginRefusedError(f"expected a login reply within {LINE_LIMIT_BYTES} bytes, was {line[:80]!r}")
            return None
        try:
            reply = parse_login_reply(line)
        except WireError as error:
            raise LoginRefusedError(str(error)) from None
        if isinstance(reply, Refused):
            raise LoginRefusedError(f"expected a login to be accepted, was refused ({reply.code}): {reply.reason}")
        return LoginReply(reply.session, reply.sequence, rest)
