"""Requests to the admin port of a running exchange, with every failure as one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from deltabook.cli._addresses import address
from deltabook.cli._errors import ConfigurationError, OptionError
from deltabook.cli._ports import ANY_INTERFACE, ask, read_token
from deltabook.wire import admin
from deltabook.wire.access import check_way_of_token
from deltabook.wire.errors import AccessError

__all__ = ["AdminPort", "LazyPort", "admin_options"]

T = TypeVar("T")
_PATHS: Final = {kind: path for path, kind in admin.CHANGES.items()}


class AdminPort:
    """Client of one exchange's admin port."""

    def __init__(
        self, where: str | None, directory: Path | None, token_file: Path | None, ca_file: Path | None = None
    ) -> None:
        """``where`` is HOST:PORT; without it, the address of the exchange that runs in ``directory`` is used."""
        self.where = where if where is not None else _whereabouts(directory)
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


def _whereabouts(directory: Path | None) -> str:
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
