"""Conversations as capture files (pcap), for programs that read them."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

__all__ = ["Capture", "TcpConversation"]

_FILE_HEAD: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 101)  # 101: packets begin with IP
_CLIENT, _SERVER = socket.inet_aton("10.0.0.1"), socket.inet_aton("10.0.0.2")
_SYN, _ACK, _PUSH, _FIN = 2, 16, 8, 1


def _checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Capture:
    """Packets with their times, each a millisecond after the previous one."""

    def __init__(self) -> None:
        self._packets: list[bytes] = []

    def add(self, protocol: int, source: bytes, target: bytes, payload: bytes) -> None:
        """Add an IPv4 packet."""
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, source, target)
        head = head[:10] + struct.pack(">H", _checksum(head)) + head[12:]
        self._packets.append(head + payload)

    def datagram(self, data: bytes, port: int) -> None:
        """Add a UDP datagram from the server."""
        head = struct.pack(">HHHH", port, port, 8 + len(data), 0)  # 0: without a checksum
        self.add(socket.IPPROTO_UDP, _SERVER, _CLIENT, head + data)

    def write(self, path: Path) -> None:
        """Write the file."""
        records = (
            struct.pack("<IIII", 1_700_000_000, 1_000 * number, len(packet), len(packet)) + packet
            for number, packet in enumerate(self._packets)
        )
        path.write_bytes(_FILE_HEAD + b"".join(records))


class TcpConversation:
    """TCP connection from its handshake to its end."""

    def __init__(self, capture: Capture, port: int) -> None:
        self._capture = capture
        self._ports = {_CLIENT: 40_000, _SERVER: port}
        self._next = {_CLIENT: 1_000, _SERVER: 5_000}
        self._send(_CLIENT, b"", _SYN)
        self._send(_SERVER, b"", _SYN | _ACK)
        self._send(_CLIENT, b"", _ACK)

    def _send(self, source: bytes, data: bytes, flags: int) -> None:
        target = _SERVER if source is _CLIENT else _CLIENT
        acknowledged = self._next[target] if flags & _ACK else 0
        head = struct.pack(
            ">HHIIBBHHH", self._ports[source], self._ports[target], self._next[source], acknowledged, 5 << 4, flags,
            65_535, 0, 0,
        )  # fmt: skip
        pseudo = source + target + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(head) + len(data))
        head = head[:16] + struct.pack(">H", _checksum(pseudo + head + data)) + head[18:]
        self._capture.add(socket.IPPROTO_TCP, source, target, head + data)
        self._next[source] += len(data) + bool(flags & (_SYN | _FIN))

    def client(self, data: bytes) -> None:
        """Send data from the client."""
        self._send(_CLIENT, data, _PUSH | _ACK)

    def server(self, data: bytes) -> None:
        """Send data from the server, in segments that cut packets anywhere."""
        for at in range(0, len(data), 1_300):
            self._send(_SERVER, data[at : at + 1_300], _PUSH | _ACK)

    def close(self) -> None:
        """Close both ends."""
        self._send(_SERVER, b"", _FIN | _ACK)
        self._send(_CLIENT, b"", _FIN | _ACK)
        self._send(_SERVER, b"", _ACK)
