"""Requests to a port of a process that runs, with every failure as one line."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from deltabook.cli._addresses import address
from deltabook.cli._errors import ConfigurationError
from deltabook.wire.errors import AccessError
from deltabook.wire.http.blocking import BlockingPort
from deltabook.wire.http.peer import ClientError, HttpPeer, RefusedError

__all__ = ["ANY_INTERFACE", "CliPort", "print_json"]

ANY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
_TIMEOUT_SECONDS: Final = 30.0
_NO_TOKEN: Final = 401


class CliPort:
    """Client of one port that a command line names."""

    def __init__(
        self,
        where: str,
        option: str,
        what: str,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        timeout_s: float = _TIMEOUT_SECONDS,
    ) -> None:
        """``option`` names the address HOST:PORT. With ``ca_file``, a PEM file of the signers of the port's
        certificate, the connection uses TLS.

        Raises `ConfigurationError` for another address and for files that are not what they should be.
        """
        address(where, option)
        self.where = where
        try:
            peer = HttpPeer.of(what, where, token_file=str(token_file or ""), ca_file=str(ca_file or ""))
            self._port = BlockingPort(peer, timeout_s)
        except AccessError as error:
            raise ConfigurationError(str(error)) from None

    def ask(self, method: str, path: str, body: bytes | None = None, timeout: float = 0.0) -> bytes:
        """Return the whole answer, for which the service itself may take up to ``timeout`` seconds.

        Raises `ConfigurationError` with the port's own words, or ours where it has none.
        """
        with _one_line():
            return self._port.ask(method, path, body, wait_s=timeout)[0]

    @contextmanager
    def open(
        self, path: str, timeout: float | None, *, method: str = "GET", body: bytes | None = None, accept: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield a long or endless answer, to be read in pieces; raises as `ask`."""
        with _one_line():
            connection, answer = self._port.begin(path, timeout, method=method, body=body, accept=accept)
        try:
            yield answer
        finally:
            connection.close()


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except RefusedError as error:
        hint = " (--token-file)" if error.status == _NO_TOKEN else ""
        raise ConfigurationError(f"{error}{hint}") from None
    except ClientError as error:
        raise ConfigurationError(str(error)) from None


def print_json(answer: object) -> None:
    """One JSON object."""
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()
