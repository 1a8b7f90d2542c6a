"""Groups of commands that are loaded when they are named, and rules for every command's help and option names.

An option has one meaning in all commands, so one table assigns options to the sections of long help texts.

``--start-on`` of ``deltabook exchange run`` is ``DELTABOOK_EXCHANGE_START_ON`` in the environment and ``start-on`` in
the table ``[exchange]`` of the file. By default click derives both names from the name of the function's parameter,
which is not part of the interface. Names of earlier versions are refused, and the error contains the name to use.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from types import MethodType
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from deltabook.wire.advice import did_you_mean

__all__ = [
    "MANY_OPTIONS",
    "SECTIONS",
    "DefaultCommand",
    "LazyGroup",
    "former_name",
    "option_name",
]


def option_name(option: click.Option) -> str:
    """Return the name of an option in the configuration file, such as ``start-on``."""
    long = next((name for name in option.opts if name.startswith("--")), f"--{option.name}")
    return long.removeprefix("--").replace("_", "-")


def former_name(option: click.Option) -> str:
    """Return the name that an option had in the configuration file up to version 0.1; empty if it has not changed."""
    name = str(option.name).replace("_", "-")
    return name if name != option_name(option) else ""


def align_names(command: click.Command) -> None:
    """Make click read a command's options from environment variables that are named like the options."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and former_name(parameter):
            parameter.resolve_envvar_value = MethodType(_from_environment, parameter)  # type: ignore[method-assign]


def _from_environment(option: click.Option, context: click.Context) -> str | None:
    """Return the value of an option in the environment; raise `click.UsageError` for a former name of the option."""
    value = click.Parameter.resolve_envvar_value(option, context)
    if value is not None or context.auto_envvar_prefix is None or not option.allow_from_autoenv:
        return value
    prefix = f"{context.auto_envvar_prefix}_"
    name = prefix + option_name(option).replace("-", "_").upper()
    former = prefix + str(option.name).upper()
    if os.environ.get(former) and former != option.envvar:
        raise click.UsageError(
            f"expected {option.envvar or name} in the environment, was {former}, its name up to version 0.1", context
        )
    return os.environ.get(name) or None


MANY_OPTIONS: Final = 12
"""Number of options above which a command's help has sections."""
SECTIONS: Final[Mapping[str, str]] = {
    "What it reads": (
        "--feed --upstream --system --upstream-symbols --feed-attempts --feed-protocol --feed-tick --feed-day "
        "--reader-dir --most-readers --data --data-dir --file --connect --format --symbol --stocks --day --tick "
        "--at-most-once --capture --results --results-token-file --results-ca-file --algo --algo-token-file "
        "--algo-ca-file --exchange --exchange-token-file --exchange-ca-file --peers --scale --ca-file --warm-up "
        "--limit --step --orderbook --trades --queue --max-crossed"
    ),
    "Views and rows": (
        "--views --express --spark --lane --mode --most-views --every-epoch --adaptor --column --option --relation "
        "--keep-rows --keep-time --step-us"
    ),
    "Strategies and orders": (
        "--orders --param --grid --fees --latency --compute --seed --broker --on-restart --order-fsync --keep-views"
    ),
    "The market": (
        "--instruments --hours --start --warm-up-seconds --agents --agent-style --set --agent-delay --rate --users "
        "--limits --opening-auction --trading --closing-auction --halt "
        "--collar-bps --max-live-orders --start-on --start-on-brokers"
    ),
    "Replay of a recording": "--replay --replay-mode --speed",
    "Where it listens": (
        "--port --itch-port --ouch-port --glimpse-port --mold-to --mold-port --admin-port --http-port --pg-port "
        "--interface --admin-interface --ui-interface --ui-port --ui-proxy --private-network --private-name "
        "--token-file --tls-cert --tls-key --admin-token-file --admin-tls-cert --admin-tls-key --allow-origin "
        "--secret-file"
    ),
    "Limits of its clients": (
        "--requests-per-s --most-subscribers --tuple-queues --queue-kilobytes --most-cursors --cursor-megabytes "
        "--cursor-seconds --questions --question-seconds --question-megabytes --question-rows"
    ),
    "Epochs, disk and speed": (
        "--dir --epoch-ms --epoch-messages --max-epochs-per-batch --snapshot-epochs --snapshot-megabytes "
        "--snapshot-results --retain-epochs --retain-megabytes --disk-limit-megabytes --threads --fsync "
        "--fsync-interval --snapshot-inputs --snapshot-interval --keep-snapshots --reactor --busy-poll-ms"
    ),
    "Spark": (
        "--master --shards --driver-host --driver-bind --driver-port --block-manager-port --spark-niceness "
        "--spark-quiet-ms --driver-memory --executor-memory --executor-cores --max-cores --spark-secret-file "
        "--spark-ui --spark-ui-port --spark-ui-interface --spark-ui-proxy --event-log --spark-metrics --spark-conf "
        "--cores --memory --metrics"
    ),
    "Running and output": (
        "--jobs --out --keep-results --json --stop-seconds --status-interval --exit-with-stdin --help"
    ),
}  # fmt: skip
"""Title and options of each section, in the order of a help text."""
_OTHERS: Final = "Other options"


def group_help(command: click.Command) -> None:
    """Make the help of a command show its options in sections if there are many."""
    if sum(isinstance(parameter, click.Option) for parameter in command.params) > MANY_OPTIONS:
        command.format_options = MethodType(_format_options, command)  # type: ignore[method-assign]


def _format_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    title_of = {option: title for title, options in SECTIONS.items() for option in options.split()}
    if any("--ca-file" in parameter.opts for parameter in command.params):
        title_of["--token-file"] = title_of["--ca-file"]  # the token of a port that the command connects to
    rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, _OTHERS)}
    for parameter in command.get_params(context):
        # Arguments, which click 8.5 lists too, are left out: the usage line has them.
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            titles = [title_of[option] for option in parameter.opts if option in title_of]
            rows[titles[0] if titles else _OTHERS].append(record)
    for title, records in rows.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


class DefaultCommand(click.Command):
    """Default command of a group: in the environment and in the TOML file, its options are those of the group."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is not None:
            extra = {"auto_envvar_prefix": parent.auto_envvar_prefix, "default_map": parent.default_map, **extra}
        return super().make_context(info_name, args, parent, **extra)


def _tidy_command(command: click.Command) -> None:
    """Prepare a loaded command: sections in a long help text, no empty defaults, and names of options in the
    environment as on the command line.
    """
    group_help(command)
    align_names(command)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.default == "":
            parameter.show_default = False
    if isinstance(command, click.Group):
        for part in command.commands.values():
            _tidy_command(part)


def _check_command(group: click.Group, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise `click.UsageError` for a name that is not a command of a group, with the closest command's name."""
    name = args[0]
    known = group.list_commands(ctx)
    if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
        raise click.UsageError(
            f"expected one of the commands {', '.join(known)}, was {name!r}{did_you_mean(name, known)}", ctx
        )


_SUMMARY: Final = 110
"""Largest number of characters in the summary of a command; click's own 45 cut off sentences."""


class LazyGroup(click.Group):
    """Group of commands by name: each is an attribute of a module of this package, and has a summary.

    A command line without a command's name runs `default`.
    """

    def __init__(
        self, *arguments: Any, places: Mapping[str, tuple[str, str]] | None = None, default: str = "", **options: Any
    ) -> None:
        """Make a group; ``places`` maps a command to ``module:attribute`` and its summary."""
        super().__init__(*arguments, **options)
        self.default = default
        """Name of the command that runs if none is named; empty for none."""
        self._places = places or {}
        self.no_args_is_help = not default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args:
            names_no_command = args[0].startswith("-") and args[0] not in ctx.help_option_names
        else:
            names_no_command = not ctx.resilient_parsing  # a shell completes the next word, which may name any command
        if self.default and names_no_command:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with ``incomplete``, with the options of the default command."""
        items = super().shell_complete(ctx, incomplete)
        default = self.get_command(ctx, self.default) if self.default and incomplete.startswith("-") else None
        if default is not None:
            known = {item.value for item in items}
            of_default = default.shell_complete(click.Context(default, parent=ctx), incomplete)
            items += [item for item in of_default if item.value not in known]
        return items

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _check_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._places, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._places[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"deltabook.cli.{module}"), attribute)
        _tidy_command(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines: Sequence[tuple[str, str]] = [
            (name, self._places[name][1])
            if name in self._places
            else (name, self.commands[name].get_short_help_str(_SUMMARY))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(lines)
