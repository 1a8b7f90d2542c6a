"""Requests to a running runtime, with every failure as one line."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from deltabook.cli._options import ConfigurationError, OptionError, address
from deltabook.cli._ports import is_other_port
from deltabook.wire.access import check_way_of_token, read_token
from deltabook.wire.errors import AccessError

__all__ = ["LazyResults", "ResultsPort", "results_options"]

_TIMEOUT_SECONDS: Final = 30.0
_NO_TOKEN: Final = 401
_OPTIONS: Final = (
    click.option(
        "--ca-file",
        envvar="DELTABOOK_RESULTS_CA_FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="PEM file with the CA of the service's certificate; connects with TLS.",
    ),
    click.option(
        "--token-file",
        envvar="DELTABOOK_RESULTS_TOKEN_FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File with the token of the service.",
    ),
    click.option(
        "--results", envvar="DELTABOOK_RESULTS", metavar="HOST:PORT", help="Results service of a running runtime."
    ),
)


class ResultsPort:
    """Client of one runtime's results service."""

    def __init__(self, where: str | None, token_file: Path | None = None, ca_file: Path | None = None) -> None:
        """``where`` is HOST:PORT. With ``ca_file``, a PEM file of the signers of its certificate, the connection uses
        TLS.

        Raises `ConfigurationError` for no address and for files that are not what they should be.
        """
        if where is None:
            raise OptionError("expected --results HOST:PORT of a running runtime (it prints its port at start)")
        address(where, "--results")
        self.where = where
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        try:
            self._token = read_token(str(token_file)) if token_file else ""
            check_way_of_token(self._token, where, is_encrypted=bool(ca_file))
            if ca_file:
                handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca_file))))
        except AccessError as error:
            raise ConfigurationError(f"{error} (--token-file)") from None
        except OSError as error:  # of OpenSSL too
            raise ConfigurationError(f"expected certificates in {ca_file}, was: {error.strerror or error}") from None
        self._base = f"{'https' if ca_file else 'http'}://{where}"
        # Proxies of the environment do not apply to a port of this machine.
        self._opener = urllib.request.build_opener(*handlers)

    def open(
        self,
        path: str,
        timeout: float | None = _TIMEOUT_SECONDS,
        *,
        method: str = "GET",
        body: bytes | None = None,
        accept: str = "",
    ) -> http.client.HTTPResponse:
        """An answer, to be read and closed; raises `ConfigurationError` with its refusal."""
        headers = {"Content-Type": "application/json"} if body else {}
        if accept:
            headers["Accept"] = accept
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            request = urllib.request.Request(f"{self._base}{path}", method=method, data=body, headers=headers)
            answer: http.client.HTTPResponse = self._opener.open(request, timeout=timeout)
            return answer
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace").strip() or str(error)
            if is_other_port(error.code, text):
                raise ConfigurationError(
                    f"expected a runtime's results service at {self.where}, was another port"
                ) from None
            raise ConfigurationError(f"{text} (--token-file)" if error.code == _NO_TOKEN else text) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ConfigurationError(f"expected a runtime's results service at {self.where}, was: {reason}") from None

    def get(self, path: str) -> bytes:
        """The whole answer to a GET."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: bytes | None = None, timeout: float = 0.0) -> bytes:
        """The whole answer, for which the service itself may take up to ``timeout`` seconds."""
        with self.open(path, timeout + _TIMEOUT_SECONDS, method=method, body=body) as response:
            return response.read()


LazyResults = Callable[[], ResultsPort]
"""The port that a command line names, made when it is asked: what else is wrong with the line is said first."""


def results_options(*, optional: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options that select a runtime to a command.

    It gets ``results``, a `LazyResults`; or None where no address is given and it is ``optional``.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        def with_port(results: str | None, token_file: Path | None, ca_file: Path | None, **others: Any) -> None:
            port = partial(ResultsPort, results, token_file, ca_file)
            command(results=None if optional and results is None else port, **others)

        with_port.__doc__ = command.__doc__
        with_port.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        decorated: Callable[..., Any] = with_port
        for option in _OPTIONS:
            decorated = option(decorated)
        return decorated

    return decorate
