"""The root command: options that apply to every sub-command, lazy loading, and errors as one line.

The configuration file is TOML whose tables are sub-commands and whose keys are their options:

```toml
log-format = "json"

[exchange]
port = 4711
agents = "symbols.json"
```

A key is the name of an option on the command line. Its value replaces the default of the option; the environment and
the command line override it. The table of a group with a default command may have the options of that command, too.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

import click
from click.shell_completion import get_completion_class

from deltabook import __version__
from deltabook.cli._groups import LazyGroup, former_name, option_name
from deltabook.cli._options import RUN_ID, ConfigFileError, OptionError, check_run_id, new_run_id
from deltabook.wire.advice import did_you_mean
from deltabook.wire.errors import DamageError, RunIdError

__all__ = ["COMMANDS", "REMEDY", "install_completion", "main", "one_line"]

SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_DELTABOOK_COMPLETE"
"""Environment variable with which completion scripts call the command."""


def install_completion(command: click.Command, shell: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Write the script of a shell, and make the shell read it at its start; return the files that were written.

    A second call changes only the script. Raise `OSError` if a file cannot be written.
    """
    home = Path(environ.get("HOME") or Path.home())
    made = get_completion_class(shell)
    assert made is not None
    if shell == "fish":
        script = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions" / "deltabook.fish"
    else:
        script = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "deltabook" / f"completion.{shell}"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(made(command, {}, "deltabook", _VARIABLE).source(), encoding="utf-8")
    if shell == "fish":  # fish reads its folder by itself
        return [script]
    start = home / f".{shell}rc"
    quoted = re.sub(r'(["$\\`])', r"\\\1", str(script))
    line = f'. "{quoted}"  # completion of deltabook\n'
    known = start.read_text(encoding="utf-8") if start.exists() else ""
    if line in known:
        return [script]
    with start.open("a", encoding="utf-8") as file:
        file.write(line if not known or known.endswith("\n") else f"\n{line}")
    return [script, start]


def completion_option(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Handle ``--install-completion``."""
    del parameter
    if not value or context.resilient_parsing:
        return
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise click.UsageError(f"expected bash, zsh or fish as $SHELL, was {shell or 'nothing'!r}", context)
    for path in install_completion(context.command, shell):
        click.echo(f"wrote {path}")
    click.echo(f"completion works in the next {shell} that you start")
    context.exit()


_NOT_IN_FILE: Final = frozenset({"config", "help", "install_completion", "version"})


def _defaults(
    table: dict[str, object], command: click.Command, context: click.Context, where: str
) -> dict[str, object]:
    stands_for = command.get_command(context, command.default) if isinstance(command, LazyGroup) else None
    params = [*command.params, *(stands_for.params if stands_for is not None else ())]
    options = [each for each in params if isinstance(each, click.Option) and each.name not in _NOT_IN_FILE]
    known = {option_name(option): option for option in options}
    former = {name: option_name(option) for option in options if (name := former_name(option))}
    defaults: dict[str, object] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        child = command.get_command(context, key) if isinstance(command, click.Group) else None
        if child is not None and isinstance(value, dict):
            inner = click.Context(child, info_name=key, parent=context)
            defaults[key] = _defaults(value, child, inner, f"{where}{key}.")
        elif name in known and not isinstance(value, dict):
            defaults[str(known[name].name)] = _option_value(known[name], value, where + key)
        elif name in former:
            raise ConfigFileError(f"expected {where + former[name]!r}, was {where + key!r}, its name up to version 0.1")
        else:
            expected = [f"one of {', '.join(sorted(known))}"] if known else []
            expected += ["a command's table"] if isinstance(command, click.Group) else []
            raise ConfigFileError(f"expected {' or '.join(expected)}, was {where + key!r}{did_you_mean(name, known)}")
    return defaults


def _option_value(option: click.Option, value: object, key: str) -> object:
    """Return the value of a key as the command line would give it to the option; a number is the text of its digits.

    click would round `1.5` to an integer and count `true` as 1. Raise `ConfigFileError` for a value of another kind.
    """
    values = value if isinstance(value, list) and option.multiple else [value]
    for each in values:
        if not isinstance(each, str | int | float) or (isinstance(each, bool) and not option.is_flag):
            kinds = "true, false or text" if option.is_flag else "text or a number"
            many = ", or a list of these," if option.multiple else ""
            raise ConfigFileError(f"expected {kinds}{many} for {key!r}, was {str(each)[:80]!r}")
    given = [each if isinstance(each, bool) else str(each) for each in values]
    return given if option.multiple else given[0]


def read_defaults(path: Path, command: click.Command, context: click.Context) -> dict[str, object]:
    """Return the `default_map` of `command` from the file at `path`.

    Raise `ConfigFileError`, naming the file, if it cannot be read, is not TOML or has an unknown key.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _defaults(table, command, context, "")
    except OSError as error:
        raise ConfigFileError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigFileError) as error:
        raise ConfigFileError(f"{path}: {error}") from error


COMMANDS: Final = {
    "algo": ("algo:command", "Run strategies on views and send their orders."),
    "backtest": ("backtest:command", "Run strategies on recorded days."),
    "backup": ("_directories:backup_command", "Copy run directories; their processes may be running."),
    "classes": ("kernels:classes_command", "Archive the classes of Spark, so that it starts faster."),
    "cluster": ("cluster:command", "Run Spark's standalone cluster, here or on several machines."),
    "dashboard": ("dashboard:command", "Show the market, the views and the strategies in a browser."),
    "data": ("data:command", "Inspect recorded files, and convert them to Parquet."),
    "demo": ("demo:command", "Run the whole system for a while and show its figures."),
    "doctor": ("doctor:command", "Check this machine and its installation, and print how to fix what is missing."),
    "exchange": ("exchange:command", "Run the simulated exchange."),
    "health": ("health:command", "Check whether a process of the system works."),
    "inspect": ("_directories:inspect_command", "Show the contents of a run directory or a backup."),
    "kernels": ("kernels:kernels_command", "Compile the shipped queries to machine code."),
    "market-report": (
        "market_report:command",
        "Compare a live, simulated or recorded market with BTC/USD.",
    ),
    "new": ("new:command", "Write a commented, working strategy or view to start from."),
    "query": ("query:command", "Run SQL over files; add, drop, list, explain and watch views."),
    "reader": ("reader:command", "Add further files, streams and feeds to a running runtime."),
    "repair": ("_directories:repair_command", "Rebuild damaged files of a run directory."),
    "replay": ("exchange:replay_command", "Replay a recorded file through an exchange."),
    "restore": ("_directories:restore_command", "Restore a backup into an empty directory."),
    "runtime": ("runtime:command", "Maintain SQL views of a feed."),
    "simulate": ("simulate:command", "Run a simulated day of agents and strategies."),
    "sweep": ("sweep:command", "Run strategies on recorded days for every combination of parameters."),
    "upstream": ("upstream:command", "List and release the runtimes and feeds that a runtime's log is linked to."),
}
"""Location (``module:attribute`` in this package) and summary of each sub-command."""

_WITHOUT_LOG: Final = frozenset({"health"})
"""Commands that log nothing and so do not import Twisted, which takes half of their time: a container engine runs them
every few seconds in each container.
"""

REMEDY: Final = "`deltabook repair DIR` recreates the files that it can, and prints what else to do"
"""Text that follows every error about a damaged file."""
_PACKAGES: Final = frozenset({"algo_engine", "deltabook", "exchange_server", "runtime"})
"""Packages whose errors are expected: their message is shown without the name of their class."""
_ROLES: Final = frozenset({"algo", "dashboard", "exchange", "runtime"})


def one_line(error: BaseException) -> str:
    """Return an error as one line of text for the user."""
    words = str(error)
    if type(error).__module__ == "builtins" and isinstance(error, OSError) and isinstance(error.filename, str | bytes):
        words = f"expected to use {os.fsdecode(error.filename)}, was {error.strerror}"
    elif isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        words = f"expected text in UTF-8, was {ascii(error.object)[:200]}"  # bytes of an argument or of a file's name
    # Bytes of a damaged file may be part of the text.
    text = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in " ".join(words.split())
    )
    if isinstance(error, DamageError):
        return f"{text} ({REMEDY})"
    is_ours = type(error).__module__.split(".")[0] in _PACKAGES
    if text and (is_ours or isinstance(error, OSError | ValueError | RuntimeError)):
        return text
    return f"unexpected {type(error).__name__}: {text} (--debug shows where)"


class _Root(LazyGroup):
    """Loads a sub-command's module when it is named, and turns every error into one line and an exit code.

    The exit code is 2 for a wrong command line, 130 for an interrupt and 1 for all other errors.
    """

    _role = ""
    """Name of the running sub-command, if it is a long-running process of the system."""
    is_debug = False
    """True if errors are shown with their traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        self._role = name if name in _ROLES else ""
        return name, command, rest

    def main(self, *args: Any, **kwargs: Any) -> Any:
        run: Callable[..., Any] = super().main
        self._role = ""
        self.is_debug = "--debug" in sys.argv  # for errors that come before the options are read
        if not kwargs.pop("standalone_mode", True):
            return run(*args, standalone_mode=False, **kwargs)
        _escape_unencodable(sys.stdout)
        try:
            result = run(*args, standalone_mode=False, **{**kwargs, "prog_name": "deltabook"})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(2)
        except click.UsageError as error:
            self._fail(_with_help(error), error, code=2)
        except click.ClickException as error:
            self._fail(error.format_message(), error)
        except OptionError as error:
            self._fail(one_line(error), error, role=self._role, code=2)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(130)
        except Exception as error:  # noqa: BLE001 - the outermost frame: a person reads a line, not a traceback
            self._fail(one_line(error), error, role=self._role)
        sys.exit(result if isinstance(result, int) else 0)

    def _fail(self, reason: str, error: BaseException, *, role: str = "", code: int = 1) -> NoReturn:
        if self.is_debug:
            traceback.print_exception(error)
        click.echo(f"deltabook {role}: failed: {reason}" if role else f"deltabook: error: {reason}", err=True)
        sys.exit(code)


def _escape_unencodable(output: TextIO) -> None:
    """Make standard output write a character that its encoding lacks as an escape, such as ``\\xd7`` for a
    multiplication sign, as standard error does: a sign in a table is no reason to fail.
    """
    if isinstance(output, io.TextIOWrapper) and output.errors == "strict":
        output.reconfigure(errors="backslashreplace")


def _with_help(error: click.UsageError) -> str:
    """Return the message of a wrong command line in one line, with a hint at the command's help."""
    text = " ".join(error.format_message().split())
    if error.ctx is None:
        return text
    return f"{text} (`{error.ctx.command_path} --help` lists commands and options)"


def _read_config(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    del parameter
    if value is not None:
        try:
            context.default_map = read_defaults(value, context.command, context)
        except ConfigFileError as error:
            raise click.UsageError(str(error)) from error
    return value


@click.group(
    cls=_Root,
    places=COMMANDS,
    context_settings={"auto_envvar_prefix": "DELTABOOK", "help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="TOML file with default values: a table per command, a key per option.",
)
@click.option("--debug", is_flag=True, help="Log debug events; show tracebacks.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Format of log lines.")
@click.option(
    "--run-id",
    default="",
    show_default="a new one",
    metavar="ID",
    help="Run ID in every log line, the same for all processes that are started together.",
)
@click.option(
    "--install-completion",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=completion_option,
    help="Install completion of commands and options for the shell, and exit.",
)
@click.version_option(__version__, prog_name="deltabook")
@click.pass_context
def main(context: click.Context, debug: bool, log_format: str, run_id: str) -> None:
    """A simulated exchange, SQL views of its order books, and strategies that trade on them.

    The value of an option is read from the command line, then the environment (DELTABOOK_COMMAND_OPTION), then the file
    of --config; else it is the default shown.
    """
    try:
        given = check_run_id(run_id) if run_id else new_run_id(datetime.now(UTC))
    except RunIdError as error:
        raise click.UsageError(str(error)) from None
    context.meta[RUN_ID] = given
    if isinstance(context.command, _Root):
        context.command.is_debug |= debug
    if context.invoked_subcommand in _WITHOUT_LOG:
        return
    from deltabook.cli._logging import start_logging

    start_logging(
        "json" if log_format == "json" else "text",
        debug=debug,
        run_id=given,
        role=context.invoked_subcommand or "",
        is_named=bool(run_id),
    )
