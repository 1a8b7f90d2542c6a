"""The root command: options that hold for every sub-command, lazy loading, and errors as one line."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from deltabook import __version__
from deltabook.cli._completion import completion_option
from deltabook.cli._config import read_defaults
from deltabook.cli._errors import ConfigurationError, OptionError
from deltabook.cli._groups import check_command, tidy_command
from deltabook.cli._logging import start_logging
from deltabook.cli._run_id import RUN_ID
from deltabook.wire.errors import DamageError, RunIdError
from deltabook.wire.runid import check_run_id, new_run_id

__all__ = ["COMMANDS", "REMEDY", "main", "one_line"]

COMMANDS: Final = {
    "algo": "Run strategies on views and send their orders.",
    "backtest": "Run strategies on recorded days.",
    "backup": "Copy run directories; their processes may be running.",
    "classes": "Archive the classes of Spark, so that it starts faster.",
    "cluster": "Run Spark's standalone cluster, here or on several machines.",
    "dashboard": "Show the market, the views and the strategies in a browser.",
    "data": "Inspect recorded files, and convert them to Parquet.",
    "demo": "Run the whole system for a while and show its figures.",
    "doctor": "Check this machine and its installation, and print how to fix what is missing.",
    "exchange": "Run the simulated exchange.",
    "health": "Check whether a process of the system works.",
    "inspect": "Show the contents of a run directory or a backup.",
    "kernels": "Compile the shipped queries to machine code.",
    "market-report": "Measure a market, live, simulated or recorded, beside BTC/USD.",
    "new": "Write a commented, working strategy or view to start from.",
    "query": "Run SQL over files; add, drop, list, explain and watch views.",
    "reader": "Add further files, streams and feeds to a running runtime.",
    "repair": "Make damaged files of a run directory again.",
    "replay": "Replay a recorded file through an exchange.",
    "restore": "Restore a backup into an empty directory.",
    "runtime": "Maintain SQL views of a feed.",
    "simulate": "Run a simulated day of agents and strategies.",
    "sweep": "Run strategies on recorded days for every combination of parameters.",
    "upstream": "List and release the runtimes and feeds that a runtime's log is linked to.",
}
"""Sub-command → what it does in one line; its code is `deltabook.cli.NAME.command`, with _ for a hyphen."""

REMEDY: Final = "`deltabook repair DIR` makes again what it can, and says what else to do"
"""Follows every error about a damaged file."""
_PACKAGES: Final = frozenset({"algo_engine", "deltabook", "exchange_server", "runtime"})
"""Where expected errors are defined; built-in ones that say what is wrong with the input count as expected too."""
_ROLES: Final = frozenset({"algo", "dashboard", "exchange", "runtime"})


def one_line(error: BaseException) -> str:
    """What a person reads of an error."""
    text = " ".join(str(error).split())
    if isinstance(error, DamageError):
        return f"{text} ({REMEDY})"
    is_ours = type(error).__module__.split(".")[0] in _PACKAGES
    if text and (is_ours or isinstance(error, OSError | ValueError | RuntimeError)):
        return text
    return f"unexpected {type(error).__name__}: {text} (--debug shows where)"


class _Root(click.Group):
    """Loads a sub-command's module when it is named, and turns every error into one line and an exit code.

    The code is 2 for a command line that is wrong, 1 for everything else.
    """

    _role = ""
    """The sub-command that runs, if it is a long-running process of the system."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        check_command(self, ctx, args)
        name, command, rest = super().resolve_command(ctx, args)
        self._role = name if name in _ROLES else ""
        return name, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"deltabook.cli.{cmd_name.replace('-', '_')}").command
        tidy_command(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The summaries are known here, so that help need not import what the sub-commands import.
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        run: Callable[..., Any] = super().main
        self._role = ""
        if not kwargs.pop("standalone_mode", True):
            return run(*args, standalone_mode=False, **kwargs)
        try:
            result = run(*args, standalone_mode=False, **{**kwargs, "prog_name": "deltabook"})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(2)
        except click.UsageError as error:
            _fail(_with_help(error), error, role="", code=2)
        except click.ClickException as error:
            _fail(error.format_message(), error, role="")
        except OptionError as error:
            _fail(one_line(error), error, role=self._role, code=2)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(130)
        except Exception as error:  # noqa: BLE001 - the outermost frame: a person reads a line, not a traceback
            _fail(one_line(error), error, role=self._role)
        sys.exit(result if isinstance(result, int) else 0)


def _with_help(error: click.UsageError) -> str:
    """The message of a wrong command line in one line, and what shows the right ones."""
    text = " ".join(error.format_message().split())
    if error.ctx is None:
        return text
    return f"{text} (`{error.ctx.command_path} --help` shows what there is)"


def _fail(reason: str, error: BaseException, *, role: str, code: int = 1) -> NoReturn:
    if "--debug" in sys.argv:
        traceback.print_exception(error)
    click.echo(f"deltabook {role}: failed: {reason}" if role else f"deltabook: error: {reason}", err=True)
    sys.exit(code)


def _read_config(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    del parameter
    if value is not None:
        try:
            context.default_map = read_defaults(value, context.command, context)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from error
    return value


@click.group(
    cls=_Root,
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
    """An exchange, SQL views of its order books on Spark, and strategies that trade on them.

    The value of an option is read from the command line, then the environment (DELTABOOK_COMMAND_OPTION), then the file
    of --config; else it is the default shown.
    """
    try:
        given = check_run_id(run_id) if run_id else new_run_id(datetime.now(UTC))
    except RunIdError as error:
        raise click.UsageError(str(error)) from None
    context.meta[RUN_ID] = given
    start_logging(
        "json" if log_format == "json" else "text",
        debug=debug,
        run_id=given,
        role=context.invoked_subcommand or "",
        is_named=bool(run_id),
    )
