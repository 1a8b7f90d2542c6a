"""``python -m bench.trading.listeners_process``: subscribers of the view ``touch``, each on its own socket.

The process prints a line of JSON when every subscriber has its snapshot, and a second line when every subscriber has
received the last version: the number of frames, of changed rows, and of frames that sum several versions.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import struct
import time
from typing import Final

import msgspec

from bench.processes import print_line
from deltabook.wire.results import FrameDecoder, FrameHeader

__all__ = ["main"]

_TIMEOUT_S: Final = 300.0
_LENGTHS: Final = struct.Struct("!II")
_header = msgspec.json.Decoder(FrameHeader)


class _Listener:
    """Subscriber that reads frames, of which it decodes only the header and, in a sum of several versions, the rows."""

    def __init__(self, port: int, rows: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)
        # HTTP/1.0 has no chunks: the end of the connection ends the answer.
        self.socket.sendall(b"GET /v1/changes?views=touch HTTP/1.0\r\nHost: localhost\r\n\r\n")
        self._buffer = bytearray()
        self._is_open = False
        self._rows = rows
        self.version = -1
        self.frames = self.changed = self.summed = 0

    def read(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise RuntimeError(f"expected further frames, was the end of the stream at version {self.version}")
        self._buffer += data
        if not self._is_open:
            head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not found:
                return
            if b" 200 " not in head.split(b"\r\n", 1)[0]:
                raise RuntimeError(f"expected a stream of changes, was {head[:200]!r}")
            self._is_open, self._buffer = True, bytearray(rest)
        place = 0
        while len(self._buffer) - place >= _LENGTHS.size:
            head_bytes, body_bytes = _LENGTHS.unpack_from(self._buffer, place)
            end = place + _LENGTHS.size + head_bytes + body_bytes
            if len(self._buffer) < end:
                break
            self._frame(bytes(self._buffer[place:end]), head_bytes)
            place = end
        del self._buffer[:place]

    def _frame(self, data: bytes, head_bytes: int) -> None:
        header = _header.decode(data[_LENGTHS.size : _LENGTHS.size + head_bytes])
        if header.kind == "snapshot":
            self.version = max(self.version, header.step)
            return
        if header.kind != "changes":
            return
        self.frames += 1
        if header.step == self.version + 1:
            self.changed += self._rows
        else:
            self.summed += 1
            (frame,) = FrameDecoder().feed(data)
            assert frame.rows is not None
            self.changed += frame.rows.num_rows
        self.version = header.step


def main() -> None:
    """Subscribe, read until the last version, and print the counts."""
    parser = argparse.ArgumentParser()
    for name in ("port", "subscribers", "last", "rows"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    listeners = [_Listener(options.port, options.rows) for _ in range(options.subscribers)]
    selector = selectors.DefaultSelector()
    for listener in listeners:
        selector.register(listener.socket, selectors.EVENT_READ, listener)
    deadline = time.monotonic() + _TIMEOUT_S
    is_ready = False
    while any(listener.version < options.last for listener in listeners):
        for key, _ in selector.select(1.0):
            key.data.read()
        if not is_ready and all(listener.version >= 0 for listener in listeners):
            is_ready = True
            print_line({"ready": len(listeners)})
        if time.monotonic() > deadline:
            raise RuntimeError(f"expected version {options.last}, was {min(each.version for each in listeners)}")
    print_line({name: sum(vars(each)[name] for each in listeners) for name in ("frames", "changed", "summed")})


if __name__ == "__main__":
    main()
