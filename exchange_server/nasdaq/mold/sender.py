"""Sends the feed in datagrams as it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.protocol import DatagramProtocol
from twisted.logger import Logger

from deltabook.wire.mold import encode_end, encode_packet
from exchange_server.audience import SequencedStream
from exchange_server.nasdaq.mold.packing import datagrams
from exchange_server.readers import Timers

__all__ = ["MoldSender"]

_TURN_BYTES: Final = 128 * 1024
"""Bytes of the stream sent in one turn of the reactor: receivers on this machine need one too, to read."""


def _is_multicast(host: str) -> bool:
    return 224 <= int(host.partition(".")[0]) <= 239


class MoldSender(DatagramProtocol):
    """Sends every message of a stream once, from where the stream stands when it starts, to a group or one address.

    Nothing is waited for and nothing held back: what a receiver loses it asks for again (`MoldRequestServer`). A
    heartbeat follows a second of silence. After the last message of a session that has ended, the end of session takes
    its place.
    """

    _log = Logger()
    transport: Any

    def __init__(
        self,
        stream: SequencedStream,
        session: str,
        clock: Timers,
        destination: tuple[str, int],
        *,
        is_over: Callable[[], bool] = lambda: False,
        interface: str = "127.0.0.1",
        silence_s: float = 1.0,
        multicast_ttl: int = 1,
    ) -> None:
        """``destination``: an IPv4 address or group, and its port; ``interface``: the address of this machine that
        sends to a group."""
        self._stream = stream
        self._session = session
        self._clock = clock
        self._destination = destination
        self._is_over = is_over
        self._interface = interface
        self._silence_s = silence_s
        self._multicast_ttl = multicast_ttl
        self._number, self._offset = 1, 0
        self._sent_s = float("-inf")
        self._send_call: Any = None
        self._beat_call: Any = None
        self.datagrams = 0
        """Sent so far, heartbeats included."""
        self.lost = 0
        """That this machine's own network did not take."""

    def startProtocol(self) -> None:
        """Begin to send."""
        if _is_multicast(self._destination[0]):
            self.transport.setOutgoingInterface(self._interface)
            self.transport.setTTL(self._multicast_ttl)
            self.transport.setLoopbackMode(True)
        self._number, self._offset = self._stream.records.next_number, self._stream.records.size_bytes
        self._stream.on_append.append(self._news)
        self._beat()

    def stopProtocol(self) -> None:
        """Send no more."""
        if self._news in self._stream.on_append:
            self._stream.on_append.remove(self._news)
        for call in (self._send_call, self._beat_call):
            if call is not None and call.active():
                call.cancel()

    def close(self) -> None:
        """Send what is left of the stream."""
        while self._offset < self._stream.records.size_bytes:
            self._send()

    def _news(self, data: bytes) -> None:
        del data
        if self._send_call is None:
            self._send_call = self._clock.callLater(0, self._send)

    def _send(self) -> None:
        if self._send_call is not None and self._send_call.active():
            self._send_call.cancel()
        self._send_call = None
        records = self._stream.records
        packets = records.read(self._offset, _TURN_BYTES)
        for datagram, count, size in datagrams(packets, self._session, self._number):
            self._number += count
            self._offset += size
            self._write(datagram)
        if self._offset < records.size_bytes:
            self._send_call = self._clock.callLater(0, self._send)

    def _beat(self) -> None:
        self._beat_call = self._clock.callLater(self._silence_s / 4, self._beat)
        if self._send_call is None and self._clock.seconds() - self._sent_s >= self._silence_s:
            self._write(
                encode_end(self._session, self._number)
                if self._is_over()
                else encode_packet(self._session, self._number)
            )

    def _write(self, datagram: bytes) -> None:
        self._sent_s = self._clock.seconds()
        try:
            self.transport.write(datagram, self._destination)
        except OSError as error:
            self.lost += 1
            if self.lost & (self.lost - 1) == 0:  # the 1st, 2nd, 4th, 8th …: a full queue would fill the log too
                self._log.warn("mold: {lost} datagrams not sent: {error}", lost=self.lost, error=error)
        else:
            self.datagrams += 1
