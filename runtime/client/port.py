"""HTTP requests to the results service of one runtime."""

from __future__ import annotations

import http.client
import selectors
import ssl
import threading
from email.message import Message
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from deltabook.wire.access import check_way_of_token
from runtime.client.errors import ConnectionFailedError, GoneError, NotFoundError, ProtocolError, RefusedError

__all__ = ["ARROW", "Port"]

ARROW: Final = "application/vnd.apache.arrow.stream"
_T = TypeVar("_T")

_MOST_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Size limit of one answer."""
_MOST_REASON: Final = 2000
_KINDS: Final = {404: NotFoundError, 410: GoneError}


class Port:
    """Port of a runtime's results service. May be used by several threads; requests run one at a time."""

    def __init__(self, address: str, token: str, ca: str | Path | None, timeout_s: float) -> None:
        """``address`` is HOST:PORT, or ``https://HOST:PORT`` for TLS; ``ca``, a PEM file, always switches TLS on.

        Raises `ValueError` for a malformed address, and for a token that would be sent to another machine without TLS;
        `OSError` for files that cannot be read.
        """
        scheme, _, where = address.rpartition("://")
        host, _, port = where.rpartition(":")
        if scheme not in {"", "http", "https"} or not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"expected the address of a runtime as HOST:PORT, was {address!r}")
        self.where = where
        self._host, self._port = host.strip("[]"), int(port)
        is_secure = scheme == "https" or ca is not None
        check_way_of_token(token or "", where, is_encrypted=is_secure)
        self._context = ssl.create_default_context(cafile=str(ca) if ca else None) if is_secure else None
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        with self._lock:
            self._drop()

    def get(self, path: str, kind: type[_T]) -> _T:
        """Return the record of an answer; raises `ClientError`."""
        return _decoded(self.ask("GET", path)[0], kind, path)

    def change(self, method: str, path: str, record: msgspec.Struct | None, kind: type[_T], wait_s: float) -> _T:
        """Send a request that changes something, and return its answer; the runtime may take ``wait_s`` for it."""
        return _decoded(self.ask(method, path, record=record, wait_s=wait_s)[0], kind, path)

    def ask(
        self, method: str, path: str, *, record: msgspec.Struct | None = None, accept: str = "", wait_s: float = 0.0
    ) -> tuple[bytes, Message]:
        """Send a request, and return the whole answer and its headers; raises `ClientError`.

        Only a GET is sent again on a new connection, after an error other than a timeout on a kept one.
        """
        headers = {**self._headers, **({"Accept": accept} if accept else {})}
        body = None if record is None else msgspec.json.encode(record)
        if body is not None:
            headers["Content-Type"] = "application/json"
        with self._lock:
            if self._kept is not None and _is_over(self._kept):
                self._drop()
            is_fresh = self._kept is None
            while True:
                connection = self._kept or self.opened(self.timeout_s)
                self._kept = None  # kept again once the whole answer is read
                if connection.sock is not None:
                    connection.sock.settimeout(self.timeout_s + wait_s)
                try:
                    connection.request(method, path, body, headers)
                    answer = connection.getresponse()
                    data = self._read(answer)
                except (OSError, http.client.HTTPException) as error:
                    connection.close()
                    if is_fresh or method != "GET" or isinstance(error, TimeoutError):
                        raise ConnectionFailedError(self._lost(error)) from None
                    is_fresh = True
                    continue
                if answer.will_close:
                    connection.close()
                else:
                    self._kept = connection
                if answer.status >= 400:
                    raise refusal(answer.status, data)
                return data, answer.headers

    def opened(self, timeout_s: float) -> http.client.HTTPConnection:
        """Return a new connection; raises `ConnectionFailedError`."""
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
            if self._context is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)
        )
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise ConnectionFailedError(self._lost(error)) from None
        return connection

    def begin(self, path: str, timeout_s: float) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Request an endless answer on its own connection; return both; raises `ClientError`."""
        connection = self.opened(timeout_s)
        try:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise refusal(answer.status, answer.read(_MOST_REASON))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionFailedError(self._lost(error)) from None
        except BaseException:
            connection.close()
            raise
        return connection, answer

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        data = answer.read(_MOST_BYTES)
        if not answer.isclosed():
            raise http.client.HTTPException(f"an answer of more than {_MOST_BYTES} bytes")
        return data

    def _lost(self, error: Exception) -> str:
        reason = str(error) or type(error).__name__
        return f"expected a runtime's results service at {self.where}, was: {reason}"

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _is_over(connection: http.client.HTTPConnection) -> bool:
    """Return True if the runtime has closed an idle connection, which is then readable."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def refusal(status: int, body: bytes) -> RefusedError:
    """Return the error of an answer."""
    reason = body[:_MOST_REASON].decode("utf-8", "replace").strip() or f"HTTP {status}"
    return _KINDS.get(status, RefusedError)(status, reason)


def _decoded(data: bytes, kind: type[_T], path: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ProtocolError(
            f"expected {getattr(kind, '__name__', kind)} from {path}, was {data[:80]!r}: {error}"
        ) from None
