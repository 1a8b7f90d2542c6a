"""Requests to ports of running processes, an exchange's admin port and the status port of strategies among them.

Every failure is one line.
"""

from __future__ import annotations

import http.client
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from deltabook.cli._options import ConfigurationError, OptionError, address
from deltabook.wire import admin, strategies
from deltabook.wire.access import check_way_of_token
from deltabook.wire.errors import AccessError

__all__ = ["AdminPort", "LazyPort", "StatusPort", "admin_options", "ask", "print_json", "read_token", "status_options"]

ANY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
_TIMEOUT_SECONDS: Final = 30.0
_NO_TOKEN: Final = 401
_NOT_FOUND: Final = 404


def read_token(path: Path) -> str:
    """The token that a file holds; raises `ConfigurationError`."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise ConfigurationError(f"expected a token in {path}, was {reason}") from None
    if not token.isprintable():
        # Nothing of what it holds: it may be a file of other secrets.
        raise ConfigurationError(f"expected a token as the only line of {path}, was more")
    return token


def ask(
    where: str,
    path: str,
    body: bytes | None,
    token: str,
    *,
    what: str,
    ca: Path | None = None,
    timeout_s: float = _TIMEOUT_SECONDS,
) -> bytes:
    """The answer of ``what`` at HOST:PORT to a GET or, with a body, a POST; with ``ca`` over TLS.

    Raises `ConfigurationError` with the port's own words, or ours where it has none.
    """
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    scheme, extra = ("https", [_trusting(ca)]) if ca else ("http", [])
    request = urllib.request.Request(f"{scheme}://{where}{path}", data=body, headers=headers)
    # Proxies of the environment do not apply to a port of this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *extra)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            data: bytes = answer.read()
            return data
    except urllib.error.HTTPError as error:
        answer = error.read().decode("utf-8", "replace").strip() or str(error)
        if is_other_port(error.code, answer):
            raise ConfigurationError(f"expected {what} at {where}, was another port") from None
        raise ConfigurationError(f"{answer} (--token-file)" if error.code == _NO_TOKEN else answer) from None
    except http.client.HTTPException:
        raise ConfigurationError(f"expected {what} at {where}, was another port") from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigurationError(f"expected {what} at {where}, was: {reason}") from None


def is_other_port(code: int, answer: str) -> bool:
    """Return True if a refusal is that of a port of ours for another purpose: it names the paths that it has."""
    return code == _NOT_FOUND and answer.startswith(("expected one of /", "expected to get one of /"))


def _trusting(ca: Path) -> urllib.request.HTTPSHandler:
    try:
        return urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca)))
    except OSError as error:
        raise ConfigurationError(f"expected certificates in PEM in {ca}, was {error}") from None


def print_json(answer: object) -> None:
    """One JSON object."""
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


T = TypeVar("T")
_PATHS: Final = {kind: path for path, kind in admin.CHANGES.items()}


class AdminPort:
    """Client of one exchange's admin port."""

    def __init__(
        self, where: str | None, directory: Path | None, token_file: Path | None, ca_file: Path | None = None
    ) -> None:
        """``where`` is HOST:PORT; without it, the address of the exchange that runs in ``directory`` is used."""
        self.where = where if where is not None else _admin_address(directory)
        address(self.where, "--admin")
        self._token = read_token(token_file) if token_file else ""
        self._ca = ca_file
        try:
            check_way_of_token(self._token, self.where, is_encrypted=ca_file is not None)
        except AccessError as error:
            raise ConfigurationError(str(error)) from None

    def get(self, path: str, kind: type[T]) -> T:
        """Return the answer of a path."""
        return msgspec.json.decode(self._ask(path, None), type=kind)

    def change(self, change: admin.Change) -> admin.Done:
        """Make a change."""
        return msgspec.json.decode(self._ask(_PATHS[type(change)], msgspec.json.encode(change)), type=admin.Done)

    def _ask(self, path: str, body: bytes | None) -> bytes:
        return ask(self.where, path, body, self._token, what="an exchange's admin port", ca=self._ca)


def _admin_address(directory: Path | None) -> str:
    if directory is None:
        raise OptionError("expected --admin HOST:PORT or --dir DIRECTORY of a running exchange, was neither")
    path = directory / admin.PORTS_FILE
    try:
        listening = msgspec.json.decode(path.read_bytes(), type=admin.Listening)
    except OSError:
        raise ConfigurationError(f"expected an exchange that runs on {directory}, was none: no {path}") from None
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"expected the ports of an exchange in {path}, was {error}") from None
    port = listening.ports.get("admin")
    if port is None:
        raise ConfigurationError(
            f"expected an exchange with an admin port on {directory}, was one without --admin-port"
        )
    host = listening.admin_interface
    return f"{'127.0.0.1' if host in ANY_INTERFACE else host}:{port}"


LazyPort = Callable[[], AdminPort]
"""Creates the port of a command line, when it is used."""


def admin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select an exchange to a command.

    The command receives ``port``, which creates the `AdminPort`, and ``as_json``.
    """

    def with_port(
        where: str | None,
        directory: Path | None,
        token_file: Path | None,
        ca_file: Path | None,
        as_json: bool,
        **others: Any,
    ) -> None:
        command(port=lambda: AdminPort(where, directory, token_file, ca_file), as_json=as_json, **others)

    with_port.__doc__ = command.__doc__
    with_port.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Callable[..., Any] = with_port
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--ca-file",
            envvar="DELTABOOK_EXCHANGE_CA_FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="PEM file with the CA of the port's certificate; connects with TLS.",
        ),
        click.option(
            "--token-file",
            envvar="DELTABOOK_EXCHANGE_TOKEN_FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File with the token of the port.",
        ),
        click.option(
            "--dir",
            "directory",
            envvar="DELTABOOK_EXCHANGE_DIR",
            type=click.Path(path_type=Path, file_okay=False),
            help="Directory of the exchange's journal on this machine, instead of --admin.",
        ),
        click.option(
            "--admin",
            "where",
            metavar="HOST:PORT",
            envvar="DELTABOOK_EXCHANGE_ADMIN",
            help="Admin port of the exchange.",
        ),
    ):
        decorated = option(decorated)
    return decorated


_WHAT: Final = "a status port of strategies"


class StatusPort:
    """Client of one process's status port."""

    def __init__(self, where: str | None, directory: Path | None, token_file: Path | None, ca: Path | None) -> None:
        """``where`` is HOST:PORT; without it, the address of the strategies that run in ``directory`` is used."""
        self.where = where if where is not None else _status_address(directory)
        address(self.where, "--algo")
        self._token = read_token(token_file) if token_file else ""
        self._ca = ca
        try:
            check_way_of_token(self._token, self.where, is_encrypted=ca is not None)
        except AccessError as error:
            raise ConfigurationError(str(error)) from None

    def get(self, path: str, kind: type[T]) -> T:
        """Return the answer of a path."""
        return msgspec.json.decode(ask(self.where, path, None, self._token, what=_WHAT, ca=self._ca), type=kind)

    def kill(self, kill: strategies.Kill) -> strategies.Killed:
        """Trigger the kill switch."""
        body = msgspec.json.encode(kill)
        answer = ask(self.where, strategies.KILL_PATH, body, self._token, what=_WHAT, ca=self._ca)
        return msgspec.json.decode(answer, type=strategies.Killed)


def _status_address(directory: Path | None) -> str:
    if directory is None:
        raise OptionError("expected --algo HOST:PORT or --dir DIRECTORY of running strategies, was neither")
    path = directory / strategies.PORTS_FILE
    try:
        listening = msgspec.json.decode(path.read_bytes(), type=strategies.Listening)
    except OSError:
        raise ConfigurationError(
            f"expected strategies with a status port (--http-port) that run on {directory}, was none: no {path}"
        ) from None
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"expected the port of strategies in {path}, was {error}") from None
    return f"{'127.0.0.1' if listening.interface in ANY_INTERFACE else listening.interface}:{listening.port}"


def status_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select running strategies to a command, which receives ``port``, a function."""

    def with_port(
        where: str | None, directory: Path | None, token_file: Path | None, ca: Path | None, **others: Any
    ) -> None:
        command(port=lambda: StatusPort(where, directory, token_file, ca), **others)

    with_port.__doc__ = command.__doc__
    with_port.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Callable[..., Any] = with_port
    file = click.Path(path_type=Path, dir_okay=False)
    folder = click.Path(path_type=Path, file_okay=False)
    for option in (
        click.option(
            "--ca-file",
            "ca",
            envvar="DELTABOOK_STRATEGIES_CA_FILE",
            type=file,
            help="PEM file with the CA of the port's certificate; connects with TLS.",
        ),
        click.option(
            "--token-file",
            envvar="DELTABOOK_STRATEGIES_TOKEN_FILE",
            type=file,
            help="File with the token of the port.",
        ),
        click.option(
            "--dir", "directory", type=folder, help="Directory of the strategies on this machine, instead of --algo."
        ),
        click.option(
            "--algo",
            "where",
            envvar="DELTABOOK_STRATEGIES",
            metavar="HOST:PORT",
            help="Status port of the strategies (--http-port of `algo run`).",
        ),
    ):
        decorated = option(decorated)
    return decorated
