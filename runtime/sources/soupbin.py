"""A feed over SoupBinTCP: logs in at a message, sends heartbeats and hands the packets on as raw buffers."""

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
from runtime.sources.base import Position
from runtime.sources.connection import Connection
from runtime.sources.errors import LoginRefusedError
from runtime.sources.feed import FeedConnection, FeedSource, LoginReply

__all__ = ["SoupBinFeedSource"]

_HEARTBEAT: Final = encode_packet(CLIENT_HEARTBEAT)
_HEARTBEAT_S: Final = 1.0
_END: Final = encode_packet(END_OF_SESSION)
_MOST_REPLY_BYTES: Final = 4096


class SoupBinFeedSource(FeedSource):
    """One connection to a feed over SoupBinTCP; the stream that it hands on begins with a packet.

    Packets are not looked at, but for the first one of a login: where it is the end of the session, the feed has ended
    at the position that was asked for. So a session that ends is found out by the log-in that follows the exchange's
    closing the connection.
    """

    __slots__ = ("_credentials",)

    def __init__(self, *address: Any, username: str = "", password: str = "", **options: Any) -> None:
        """``address`` and ``options`` are those of `FeedSource`."""
        super().__init__(*address, **options)
        self._credentials = (username, password)

    def make_connection(self, position: Position) -> Connection:
        """See `ConnectingSource`."""
        return _SoupBinConnection(
            self, self._origin_id, self._turn, position.offset, self._buffer_bytes, self._silence_s
        )

    def login(self, position: Position) -> bytes:
        """See `FeedSource`."""
        return encode_login(LoginRequest(*self._credentials, position.session, position.sequence))

    def read_reply(self, data: bytes) -> LoginReply | None:
        """See `FeedSource`; debug packets before the answer are passed over."""
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
            raise LoginRefusedError(self._words(reply, data))
        if self._position.sequence and reply.sequence != self._position.sequence:
            raise LoginRefusedError(
                f"expected session {reply.session} from message {self._position.sequence}, was {reply.sequence}"
            )
        return LoginReply(reply.session, reply.sequence, data)

    def _words(self, reply: LoginRejected, rest: bytes) -> str:
        """Why a login was rejected, with what the exchange says of it in a debug packet."""
        position = self._position
        asked = f"session {position.session or '(the current one)'} from message {position.sequence}"
        reason = f"no such session ({NO_SESSION})" if reply.code == NO_SESSION else f"not authorized ({reply.code})"
        try:
            said: Packet | None = PacketSplitter(_MOST_REPLY_BYTES).first(rest)[0]
        except WireError:
            said = None
        detail = f": {said.payload.decode('ascii', 'replace')}" if said and said.type == DEBUG else ""
        return f"expected a login to {asked} to be accepted, was rejected, {reason}{detail}"

    def finished(self) -> None:
        """The session is over and everything of it was read."""
        self._drop()
        if self._sink is not None and not self._closed:
            self._sink.end_of_stream(self._origin_id)


class _SoupBinConnection(FeedConnection):
    """A login's stream, and a heartbeat every second, for a listener has nothing else to send."""

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
