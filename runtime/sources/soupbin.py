"""Source of a feed over SoupBinTCP: logs in at a message, sends heartbeats and forwards packets as raw buffers."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from deltabook.wire.errors import WireError
from deltabook.wire.soupbin import (
    CLIENT_HEARTBEAT,
    DEBUG,
    END_OF_SESSION,
    NO_SESSION,
    LoginRejected,
    LoginRequest,
    Packet,
    PacketSplitter,
    encode_login,
    encode_packet,
    parse_login_reply,
)
from runtime.sources.base import LoginRefusedError, Position
from runtime.sources.connection import Connection
from runtime.sources.feed import FeedConnection, FeedSource, LoginReply

__all__ = ["SoupBinFeedSource"]

_HEARTBEAT: Final = encode_packet(CLIENT_HEARTBEAT)
_HEARTBEAT_S: Final = 1.0
"""Interval in seconds of a client's heartbeats, as SoupBinTCP requires."""
_END: Final = encode_packet(END_OF_SESSION)
_MOST_REPLY_BYTES: Final = 4096
"""Greatest size in bytes of the reply to a login, and of each packet before or just after the reply."""


class SoupBinFeedSource(FeedSource):
    """Source with one connection to a feed over SoupBinTCP; the stream begins with a packet.

    The source inspects only the first packet after a login. If this packet ends the session, the feed has ended at the
    requested position. When an exchange ends a session, it closes the connection. The source then logs in again, and
    the first packet after this login ends the session.
    """

    __slots__ = ("_credentials",)

    def __init__(self, *address: Any, username: str = "", password: str = "", **options: Any) -> None:
        """Create a source; ``address`` and ``options`` are the arguments of `FeedSource`."""
        super().__init__(*address, **options)
        self._credentials = (username, password)

    def make_connection(self, position: Position) -> Connection:
        """Return a SoupBinTCP connection; see `ConnectingSource`."""
        return _SoupBinConnection(self, self._origin_id, position.offset, self._silence_s)

    def login(self, position: Position) -> bytes:
        """Return the login packet; see `FeedSource`."""
        return encode_login(LoginRequest(*self._credentials, position.session, position.sequence))

    def read_reply(self, data: bytes) -> LoginReply | None:
        """Skip debug packets and parse the reply after them; see `FeedSource`.

        Raise `LoginRefusedError` for a refusal, for another kind of packet, or for another sequence than requested.
        """
        splitter, packet = PacketSplitter(_MOST_REPLY_BYTES), None
        try:
            while packet is None or packet.type == DEBUG:
                packet, data = splitter.first(data)
                if packet is None:
                    return None
            reply = parse_login_reply(packet)
        except WireError as error:
            raise LoginRefusedError(str(error)) from None
        if isinstance(reply, LoginRejected):
            raise LoginRefusedError(self._rejection(reply, data))
        if self._position.sequence and reply.sequence != self._position.sequence:
            raise LoginRefusedError(
                f"expected session {reply.session} from message {self._position.sequence}, was {reply.sequence}"
            )
        return LoginReply(reply.session, reply.sequence, data)

    def _rejection(self, reply: LoginRejected, rest: bytes) -> str:
        """Return the reason why a login was rejected, with the text of the exchange's debug packet if there is one."""
        position = self._position
        asked = f"session {position.session or '(the current one)'} from message {position.sequence}"
        reason = f"no such session ({NO_SESSION})" if reply.code == NO_SESSION else f"not authorized ({reply.code})"
        try:
            message: Packet | None = PacketSplitter(_MOST_REPLY_BYTES).first(rest)[0]
        except WireError:
            message = None
        detail = f": {message.payload.decode('ascii', 'replace')}" if message and message.type == DEBUG else ""
        return f"expected a login to {asked} to be accepted, was rejected, {reason}{detail}"

    def finished(self) -> None:
        """Report the end of the stream, because the session has ended and was read completely."""
        self._drop()
        if self.sink is not None and not self.is_closed:
            self.sink.end_of_stream(self._origin_id)


class _SoupBinConnection(FeedConnection):
    """Connection that sends a heartbeat every second, because a client sends nothing else after its login."""

    __slots__ = ("_beat_call", "_first")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._beat_call: Any = None
        self._first: bytes | None = b""

    def connectionMade(self) -> None:
        super().connectionMade()
        self._beat_call = self._source.later(self._beat, _HEARTBEAT_S)

    def gather(self, data: bytes) -> None:
        if self._first is not None and data:
            self._first += data
            if len(self._first) < len(_END):
                return
            data, self._first = self._first, None
            source = self._source
            if data.startswith(_END) and isinstance(source, SoupBinFeedSource):
                source.finished()
                return
        super().gather(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end_beats()
        super().connectionLost(reason)

    def abandon(self) -> None:
        self._end_beats()
        super().abandon()

    def _beat(self) -> None:
        self._beat_call = self._source.later(self._beat, _HEARTBEAT_S)
        self.transport.write(_HEARTBEAT)

    def _end_beats(self) -> None:
        call, self._beat_call = self._beat_call, None
        if call is not None:
            call.cancel()
