"""Requests to ports of running processes: an exchange's admin port, the status port of strategies, a runtime's results.

Every failure is reported in one line.
"""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import click
import msgspec

from deltabook.cli._options import ConfigFileError, OptionError, access_options, address, json_option
from deltabook.wire import admin, strategies
from deltabook.wire.errors import AccessError
from deltabook.wire.http.blocking import BlockingPort, decode_answer
from deltabook.wire.http.peer import ClientError, HttpPeer, RefusedError

__all__ = [
    "AdminPort",
    "CliPort",
    "LazyPort",
    "LazyResults",
    "ResultsPort",
    "StatusPort",
    "admin_options",
    "print_json",
    "results_options",
    "status_options",
]

ANY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
"""Interfaces with which a process listens on every address of its machine."""
_TIMEOUT_SECONDS: Final = 30.0
"""Time limit of a request, in addition to the time that the service may take."""
_NO_TOKEN: Final = 401
"""Status of an answer to a request without the right token."""
_PATHS: Final = {kind: path for path, kind in admin.CHANGES.items()}
"""Path of each kind of change on the admin port."""

T = TypeVar("T")
File: TypeAlias = Path | str | None
"""Path of a file; empty or None for none."""


class CliPort:
    """Client of one port that a command line names."""

    def __init__(
        self,
        where: str,
        option: str,
        what: str,
        *,
        token_file: File = None,
        ca_file: File = None,
        timeout_s: float = _TIMEOUT_SECONDS,
    ) -> None:
        """Make a client; ``option`` is the option that has the address HOST:PORT, and ``what`` names the port in
        errors. With ``ca_file``, a PEM file of the certificate authorities of the port's certificate, the connection
        uses TLS.

        Raise `ConfigFileError` for an invalid address and for invalid files.
        """
        address(where, option)
        self.where = where
        try:
            peer = HttpPeer.of(what, where, token_file=str(token_file or ""), ca_file=str(ca_file or ""))
            self._port = BlockingPort(peer, timeout_s)
        except AccessError as error:
            raise ConfigFileError(str(error)) from None

    def ask(self, method: str, path: str, body: bytes | None = None, timeout: float = 0.0) -> bytes:
        """Return the whole answer, for which the service itself may take up to ``timeout`` seconds.

        Raise `ConfigFileError` with the port's own message, or with a general one if the port sent none.
        """
        with _one_line():
            return self._port.ask(method, path, body, wait_s=timeout)[0]

    def get(self, path: str, kind: type[T]) -> T:
        """Return the decoded answer to a GET; raise the errors of `ask`, also for an answer of another form."""
        answer = self.ask("GET", path)
        with _one_line():
            return decode_answer(answer, kind, path)

    def post(self, path: str, record: msgspec.Struct, kind: type[T]) -> T:
        """Send a record, and return the decoded answer; raise the errors of `get`."""
        answer = self.ask("POST", path, msgspec.json.encode(record))
        with _one_line():
            return decode_answer(answer, kind, path)

    @contextmanager
    def open(
        self, path: str, timeout: float | None, *, method: str = "GET", body: bytes | None = None, accept: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield a long or endless answer, to be read in pieces; raise the errors of `ask`."""
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
        raise ConfigFileError(f"{error}{hint}") from None
    except ClientError as error:
        raise ConfigFileError(str(error)) from None


def print_json(answer: object) -> None:
    """Print one JSON object."""
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


class AdminPort(CliPort):
    """Client of one exchange's admin port."""

    def __init__(
        self, where: str | None, directory: Path | None, token_file: File = None, ca_file: File = None
    ) -> None:
        """Make a client; ``where`` is HOST:PORT. Without it, the address of the exchange that runs in ``directory`` is
        used.
        """
        where = where if where is not None else _admin_address(directory)
        super().__init__(where, "--admin", "an exchange's admin port", token_file=token_file, ca_file=ca_file)

    def change(self, change: admin.Change) -> admin.Done:
        """Request a change; return the answer."""
        return self.post(_PATHS[type(change)], change, admin.Done)


def _admin_address(directory: Path | None) -> str:
    if directory is None:
        raise OptionError("expected --admin HOST:PORT or --dir DIRECTORY of a running exchange, was neither")
    path = directory / admin.PORTS_FILE
    try:
        listening = msgspec.json.decode(path.read_bytes(), type=admin.Listening)
    except OSError:
        raise ConfigFileError(f"expected an exchange that runs on {directory}, was none: no {path}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"expected the ports of an exchange in {path}, was {error}") from None
    port = listening.ports.get("admin")
    if port is None:
        raise ConfigFileError(f"expected an exchange with an admin port on {directory}, was one without --admin-port")
    return _reachable(listening.admin_interface, port)


class StatusPort(CliPort):
    """Client of one process's status port."""

    def __init__(
        self, where: str | None, directory: Path | None, token_file: File = None, ca_file: File = None
    ) -> None:
        """Make a client; ``where`` is HOST:PORT. Without it, the address of the strategies that run in ``directory`` is
        used.
        """
        where = where if where is not None else _status_address(directory)
        super().__init__(where, "--algo", "a status port of strategies", token_file=token_file, ca_file=ca_file)

    def kill(self, kill: strategies.Kill) -> strategies.Killed:
        """Trigger the kill switch."""
        return self.post(strategies.KILL_PATH, kill, strategies.Killed)


def _status_address(directory: Path | None) -> str:
    if directory is None:
        raise OptionError("expected --algo HOST:PORT or --dir DIRECTORY of running strategies, was neither")
    path = directory / strategies.PORTS_FILE
    try:
        listening = msgspec.json.decode(path.read_bytes(), type=strategies.Listening)
    except OSError:
        raise ConfigFileError(
            f"expected strategies with a status port (--http-port) that run on {directory}, was none: no {path}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"expected the port of strategies in {path}, was {error}") from None
    return _reachable(listening.interface, listening.port)


def _reachable(interface: str, port: int) -> str:
    """Return the address at which a process that listens on an interface of this machine can be reached."""
    return f"{'127.0.0.1' if interface in ANY_INTERFACE else interface}:{port}"


class ResultsPort(CliPort):
    """Client of one runtime's results service."""

    def __init__(self, where: str | None, token_file: File = None, ca_file: File = None) -> None:
        """Make a client; raise the errors of `CliPort`, and `OptionError` without an address."""
        if where is None:
            raise OptionError("expected --results HOST:PORT of a running runtime (it prints its port at start)")
        super().__init__(where, "--results", "a runtime's results service", token_file=token_file, ca_file=ca_file)


LazyPort = Callable[[], AdminPort]
"""Function that creates the client of the port that the command line names. Commands call it at the first use of the
port, so that other errors of the command line are reported first.
"""
LazyResults = Callable[[], ResultsPort]
"""Function that creates the client of a runtime's port, like `LazyPort`."""
Command = Callable[..., Any]
_DIRECTORY: Final = click.Path(path_type=Path, file_okay=False)


def _with_port(
    command: Command,
    name: str,
    make: Callable[..., CliPort],
    *options: Command,
    address_option: str = "where",
    is_optional: bool = False,
) -> Command:
    """Add options to a command, which receives ``name``: a function that creates the port that the options select.

    The values of the options are the arguments of ``make``; the first argument is the value of ``address_option``. With
    ``is_optional``, the command receives None if no address is given.
    """

    def with_port(token_file: str, ca_file: str, **others: Any) -> None:
        where = others.pop(address_option)
        place = (others.pop("directory"),) if "directory" in others else ()
        port = partial(make, where, *place, token_file, ca_file)
        command(**{name: None if is_optional and where is None else port}, **others)

    with_port.__doc__ = command.__doc__
    with_port.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Command = with_port
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def admin_options(command: Command) -> Command:
    """Add the options that select an exchange to a command.

    The command receives ``port``, a `LazyPort`, and ``as_json``.
    """
    return _with_port(
        command,
        "port",
        AdminPort,
        click.option(
            "--admin",
            "where",
            metavar="HOST:PORT",
            envvar="DELTABOOK_EXCHANGE_ADMIN",
            help="Admin port of the exchange.",
        ),
        click.option(
            "--dir",
            "directory",
            envvar="DELTABOOK_EXCHANGE_DIR",
            type=_DIRECTORY,
            help="Directory of the exchange's journal on this machine, instead of --admin.",
        ),
        access_options("the port", variable="DELTABOOK_EXCHANGE"),
        json_option,
    )


def status_options(command: Command) -> Command:
    """Add the options that select running strategies to a command.

    The command receives ``port``, which creates the `StatusPort`.
    """
    return _with_port(
        command,
        "port",
        StatusPort,
        click.option(
            "--algo",
            "where",
            envvar="DELTABOOK_STRATEGIES",
            metavar="HOST:PORT",
            help="Status port of the strategies (--http-port of `algo run`).",
        ),
        click.option(
            "--dir",
            "directory",
            type=_DIRECTORY,
            help="Directory of the strategies on this machine, instead of --algo.",
        ),
        access_options("the port", variable="DELTABOOK_STRATEGIES"),
    )


def results_options(*, optional: bool = False) -> Callable[[Command], Command]:
    """Add the options that select a runtime to a command.

    The command receives ``results``, a `LazyResults`; or None if no address is given and the option is ``optional``.
    """
    option = click.option(
        "--results", envvar="DELTABOOK_RESULTS", metavar="HOST:PORT", help="Results service of a running runtime."
    )
    access = access_options("the service", variable="DELTABOOK_RESULTS")
    return lambda command: _with_port(
        command, "results", ResultsPort, option, access, address_option="results", is_optional=optional
    )
