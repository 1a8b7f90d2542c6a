"""Bytes that leave at once, over sockets of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.testing import StringTransport

from deltabook.wire.prompt import prompt_write


class Connection:
    """What `prompt_write` knows of a TCP transport of Twisted, around a real socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.connected = True
        self.disconnecting = False
        self.dataBuffer = b""
        self._tempDataLen = 0
        self.written: list[bytes] = []

    def getHandle(self) -> socket.socket:
        return self._end

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self._tempDataLen += len(data)


@pytest.fixture
def ends() -> Iterator[tuple[Any, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.settimeout(10)
    with near, far:
        yield Connection(near), far


def test_bytes_are_with_the_peer_before_the_reactor_turns(ends: tuple[Any, socket.socket]) -> None:
    transport, far = ends
    write = prompt_write(transport)
    write(b"one ")
    write(b"two")
    assert far.recv(100) == b"one two"
    assert transport.written == []


def test_bytes_refused_by_the_socket_wait_in_order(
    ends: tuple[Any, socket.socket],
) -> None:
    transport, far = ends
    write = prompt_write(transport)
    sent = [bytes([number]) * 100_000 for number in range(100)]
    for data in sent:
        write(data)
    assert transport.written
    got = b""
    waiting = b"".join(transport.written)
    while len(got) < 100 * 100_000 - len(waiting):
        got += far.recv(1 << 20)
    write(b"last")
    assert got + b"".join(transport.written) == b"".join(sent) + b"last"


@pytest.mark.parametrize(("name", "value"), [("dataBuffer", b"x"), ("connected", False), ("disconnecting", True)])
def test_the_transport_has_its_way_when_something_is_the_matter(
    ends: tuple[Any, socket.socket], name: str, value: object
) -> None:
    transport, _ = ends
    setattr(transport, name, value)
    prompt_write(transport)(b"data")
    assert transport.written == [b"data"]


def test_a_broken_socket_is_left_to_the_reactor(ends: tuple[Any, socket.socket]) -> None:
    transport, far = ends
    far.close()
    write = prompt_write(transport)
    write(b"data")
    write(b"more")
    assert transport.written == [b"data", b"more"]


def test_transports_without_sockets_are_written_directly() -> None:
    transport: Any = StringTransport()  # type: ignore[no-untyped-call]
    prompt_write(transport)(b"data")
    assert transport.value() == b"data"
