"""Requests to the admin port of a running exchange, with every failure as one line."""

from __future__ import annotations

import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from deltabook.cli._addresses import address
from deltabook.cli._errors import ConfigurationError
from deltabook.wire import admin

__all__ = ["AdminPort", "LazyPort", "admin_options", "print_json"]

T = TypeVar("T")
_TIMEOUT_SECONDS: Final = 30.0
_NO_TOKEN: Final = 401
_ANY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
_PATHS: Final = {kind: path for path, kind in admin.CHANGES.items()}


class AdminPort:
    """Asks one exchange."""

    def __init__(self, where: str | None, directory: Path | None, token_file: Path | None) -> None:
        """``where`` is HOST:PORT; without it the exchange that runs on ``directory`` is asked."""
        self.where = where if where is not None else _whereabouts(directory)
        address(self.where, "--admin")
        self._token = _token(token_file) if token_file else ""

    def get(self, path: str, kind: type[T]) -> T:
        """What a path answers."""
        return msgspec.json.decode(self._ask(path, None), type=kind)

    def change(self, change: admin.Change) -> admin.Done:
        """Make a change."""
        return msgspec.json.decode(self._ask(_PATHS[type(change)], msgspec.json.encode(change)), type=admin.Done)

    def _ask(self, path: str, body: bytes | None) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(f"http://{self.where}{path}", data=body, headers=headers)
        # What the environment says of proxies is not for a port of this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                data: bytes = answer.read()
                return data
        except urllib.error.HTTPError as error:
            said = error.read().decode("utf-8", "replace").strip() or str(error)
            raise ConfigurationError(f"{said} (--token-file)" if error.code == _NO_TOKEN else said) from None
        except http.client.HTTPException:
            raise ConfigurationError(f"expected an exchange's admin port at {self.where}, was another port") from None
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ConfigurationError(f"expected an exchange's admin port at {self.where}, was: {reason}") from None


def _token(path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise ConfigurationError(f"expected a token in {path}, was {reason}") from None
    if not token.isprintable():
        # Nothing of what it holds: it may be a file of other secrets.
        raise ConfigurationError(f"expected a token as the only line of {path}, was more")
    return token


def _whereabouts(directory: Path | None) -> str:
    if directory is None:
        raise ConfigurationError("expected --admin HOST:PORT or --dir DIRECTORY of a running exchange, was neither")
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
    return f"{'127.0.0.1' if host in _ANY_INTERFACE else host}:{port}"


LazyPort = Callable[[], AdminPort]
"""The port that a command line names, made when it is asked."""


def admin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which exchange is asked.

    It gets ``port``, which makes the `AdminPort`, and ``as_json``.
    """

    def with_port(
        where: str | None, directory: Path | None, token_file: Path | None, as_json: bool, **others: Any
    ) -> None:
        command(port=lambda: AdminPort(where, directory, token_file), as_json=as_json, **others)

    with_port.__doc__ = command.__doc__
    with_port.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Callable[..., Any] = with_port
    for option in (
        click.option("--json", "as_json", is_flag=True, help="JSON, for programs."),
        click.option(
            "--token-file",
            envvar="DELTABOOK_EXCHANGE_TOKEN_FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File with the token that the exchange asks for.",
        ),
        click.option(
            "--dir",
            "directory",
            envvar="DELTABOOK_EXCHANGE_DIRECTORY",
            type=click.Path(path_type=Path, file_okay=False),
            help="Directory of the exchange's journal, in place of --admin on the same machine.",
        ),
        click.option(
            "--admin",
            "where",
            metavar="HOST:PORT",
            envvar="DELTABOOK_EXCHANGE_ADMIN",
            help="The exchange's admin port.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def print_json(answer: object) -> None:
    """One JSON object."""
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()
