"""Requests to a running runtime, with every failure as one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from deltabook.cli._options import OptionError
from deltabook.cli._ports import CliPort

__all__ = ["LazyResults", "ResultsPort", "results_options"]

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


class ResultsPort(CliPort):
    """Client of one runtime's results service."""

    def __init__(self, where: str | None, token_file: Path | None = None, ca_file: Path | None = None) -> None:
        """Make a client; raise the errors of `CliPort`, and `ConfigurationError` without an address."""
        if where is None:
            raise OptionError("expected --results HOST:PORT of a running runtime (it prints its port at start)")
        super().__init__(where, "--results", "a runtime's results service", token_file=token_file, ca_file=ca_file)


LazyResults = Callable[[], ResultsPort]
"""Creates the port that a command line names when it is first used, so that other errors of the line are reported
first.
"""


def results_options(*, optional: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options that select a runtime to a command.

    The command receives ``results``, a `LazyResults`; or None if no address is given and the option is ``optional``.
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
