"""Simple receiver of MoldUDP64: rebuilds the stream from datagrams that come late, twice, in any
order or not at all.
"""

from __future__ import annotations

from deltabook.wire.mold import MoldRequest, parse_packet

__all__ = ["MoldReceiver"]


class MoldReceiver:
    """Processes datagrams and returns the requests for missing messages."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        """All messages from number 1, without a gap."""
        self.session = ""
        self.is_over = False
        """True once the end of the session was received, with everything before it."""
        self._early: dict[int, bytes] = {}
        self._known = 1
        self._end: int | None = None

    @property
    def next_number(self) -> int:
        """Number of the first missing message."""
        return len(self.messages) + 1

    def take(self, datagram: bytes) -> None:
        """Process one datagram, of the feed or an answer."""
        packet = parse_packet(datagram)
        assert self.session in {"", packet.session}, "another session"
        self.session = packet.session
        self._known = max(self._known, packet.next_sequence)
        if packet.is_end:
            self._end = packet.sequence
        for number, message in enumerate(packet.messages, packet.sequence):
            known = self._early.get(number) or (self.messages[number - 1] if number < self.next_number else message)
            assert known == message, f"two messages have the number {number}"
            if number >= self.next_number:
                self._early[number] = message
        while (following := self._early.pop(self.next_number, None)) is not None:
            self.messages.append(following)
        self.is_over = self._end == self.next_number

    def wanted(self) -> MoldRequest | None:
        """Return the request for the first gap; None if there is none."""
        first = self.next_number
        if first >= self._known:
            return None
        until = min(self._early, default=self._known)
        return MoldRequest(self.session, first, min(until - first, 65_535))
