"""The status port of strategies that run, as the command line names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from deltabook.cli._errors import ConfigurationError, OptionError
from deltabook.cli._ports import ANY_INTERFACE, CliPort
from deltabook.wire import strategies

__all__ = ["StatusPort", "status_options"]

T = TypeVar("T")


class StatusPort(CliPort):
    """Client of one process's status port."""

    def __init__(self, where: str | None, directory: Path | None, token_file: Path | None, ca: Path | None) -> None:
        """``where`` is HOST:PORT; without it, the address of the strategies that run in ``directory`` is used."""
        where = where if where is not None else _whereabouts(directory)
        super().__init__(where, "--algo", "a status port of strategies", token_file=token_file, ca_file=ca)

    def get(self, path: str, kind: type[T]) -> T:
        """Return the answer of a path."""
        return msgspec.json.decode(self.ask("GET", path), type=kind)

    def kill(self, kill: strategies.Kill) -> strategies.Killed:
        """Trigger the kill switch."""
        answer = self.ask("POST", strategies.KILL_PATH, msgspec.json.encode(kill))
        return msgspec.json.decode(answer, type=strategies.Killed)


def _whereabouts(directory: Path | None) -> str:
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
