"""Requests to the admin port of a running exchange, with every failure as one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from deltabook.cli._errors import ConfigurationError, OptionError
from deltabook.cli._ports import ANY_INTERFACE, CliPort
from deltabook.wire import admin

__all__ = ["AdminPort", "LazyPort", "admin_options"]

T = TypeVar("T")
_PATHS: Final = {kind: path for path, kind in admin.CHANGES.items()}


class AdminPort(CliPort):
    """Client of one exchange's admin port."""

    def __init__(
        self, where: str | None, directory: Path | None, token_file: Path | None, ca_file: Path | None = None
    ) -> None:
        """``where`` is HOST:PORT; without it, the address of the exchange that runs in ``directory`` is used."""
        where = where if where is not None else _whereabouts(directory)
        super().__init__(where, "--admin", "an exchange's admin port", token_file=token_file, ca_file=ca_file)

    def get(self, path: str, kind: type[T]) -> T:
        """Return the answer of a path."""
        return msgspec.json.decode(self.ask("GET", path), type=kind)

    def change(self, change: admin.Change) -> admin.Done:
        """Make a change."""
        answer = self.ask("POST", _PATHS[type(change)], msgspec.json.encode(change))
        return msgspec.json.decode(answer, type=admin.Done)


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
