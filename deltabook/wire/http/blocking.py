"""HTTP requests that block the calling thread."""

from __future__ import annotations

import http.client
import selectors
import ssl
import threading
from email.message import Message
from typing import Final, TypeVar

import msgspec

from deltabook.wire.errors import AccessError
from deltabook.wire.http.peer import MOST_REASON_BYTES, ClientError, HttpPeer, ProtocolError

__all__ = ["BlockingPort", "decode_answer"]

_T = TypeVar("_T")

_MOST_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Greatest size of one answer in bytes."""
_PIECE_BYTES: Final = 1 << 20
_NOT_HTTP: Final = (http.client.BadStatusLine, http.client.LineTooLong, http.client.UnknownProtocol)


class BlockingPort:
    """Client of one port. Several threads may use it; requests run one at a time, on one connection."""

    def __init__(self, peer: HttpPeer, timeout_s: float) -> None:
        """Make a client; raise `AccessError` for a file without certificates."""
        self.peer = peer
        self.timeout_s = timeout_s
        self._context = _context(peer.ca_file) if peer.is_secure else None
        self._lock = threading.Lock()
        self._kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        with self._lock:
            self._drop()

    def get(self, path: str, kind: type[_T]) -> _T:
        """Return the decoded answer to a GET of a path.

        Raise `ClientError` if there is no answer, or if the answer is a refusal or not a `kind`.
        """
        return decode_answer(self.ask("GET", path)[0], kind, path)

    def change(self, method: str, path: str, record: msgspec.Struct | None, kind: type[_T], wait_s: float = 0.0) -> _T:
        """Send a request that changes something, and return its answer, which may take ``wait_s`` seconds."""
        body = None if record is None else msgspec.json.encode(record)
        return decode_answer(self.ask(method, path, body, wait_s=wait_s)[0], kind, path)

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, accept: str = "", wait_s: float = 0.0
    ) -> tuple[bytes, Message]:
        """Send a request, and return the whole answer and its headers; raise `ClientError` if there is no answer, or if
        the answer is a refusal.

        A GET that fails on a kept connection is sent once more on a new connection, because the port may have closed
        the kept one. A GET that failed by a timeout, and requests of other methods, are never sent twice.
        """
        headers = self.peer.headers(has_body=body is not None, accept=accept)
        with self._lock:
            if self._kept is not None and _is_over(self._kept):
                self._drop()
            is_fresh = self._kept is None
            while True:
                connection = self._kept or self._opened(self.timeout_s)
                self._kept = None  # stored again once the whole answer is read
                if connection.sock is not None:
                    connection.sock.settimeout(self.timeout_s + wait_s)
                try:
                    connection.request(method, path, body, headers)
                    answer = connection.getresponse()
                    data = self._read(answer)
                except (OSError, http.client.HTTPException) as error:
                    connection.close()
                    if is_fresh or method != "GET" or isinstance(error, TimeoutError):
                        raise self._lost(error) from None
                    is_fresh = True
                    continue
                if answer.will_close:
                    connection.close()
                else:
                    self._kept = connection
                if answer.status >= 300:
                    raise self.peer.refusal(answer.status, data)
                return data, answer.headers

    def begin(
        self,
        path: str,
        timeout_s: float | None,
        *,
        method: str = "GET",
        body: bytes | None = None,
        accept: str = "",
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Request a long or endless answer on a connection of its own, and return the connection and the answer.

        Raise `ClientError` if there is no answer, or if the answer is a refusal.
        """
        connection = self._opened(timeout_s)
        try:
            connection.request(method, path, body, self.peer.headers(has_body=body is not None, accept=accept))
            answer = connection.getresponse()
            if answer.status >= 300:
                raise self.peer.refusal(answer.status, answer.read(MOST_REASON_BYTES))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._lost(error) from None
        except BaseException:
            connection.close()
            raise
        return connection, answer

    def _opened(self, timeout_s: float | None) -> http.client.HTTPConnection:
        where = self.peer.where
        connection = (
            http.client.HTTPConnection(where, timeout=timeout_s)
            if self._context is None
            else http.client.HTTPSConnection(where, timeout=timeout_s, context=self._context)
        )
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise self._lost(error) from None
        return connection

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        if answer.length is not None and answer.length <= _MOST_BYTES:
            return answer.read()
        data = bytearray()
        while piece := answer.read(_PIECE_BYTES):
            data += piece
            if len(data) > _MOST_BYTES:
                raise http.client.HTTPException(f"an answer of more than {_MOST_BYTES} bytes")
        return bytes(data)

    def _lost(self, error: Exception) -> ClientError:
        if isinstance(error, _NOT_HTTP) and not isinstance(error, OSError):
            return self.peer.wrong_port()
        return self.peer.lost(str(error) or type(error).__name__)

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def decode_answer(data: bytes, kind: type[_T], path: str) -> _T:
    """Return the record in the answer of a path; raise `ProtocolError` for anything else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except ValueError as error:  # msgspec's, or that of text that is not UTF-8
        raise ProtocolError(
            f"expected {getattr(kind, '__name__', kind)} from {path}, was {data[:80]!r}: {error}"
        ) from None


def _is_over(connection: http.client.HTTPConnection) -> bool:
    """Return True if the peer has closed an idle connection, which is then readable."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # including those of OpenSSL
        raise AccessError(f"expected certificates in PEM in {ca_file}, was: {error.strerror or error}") from None
