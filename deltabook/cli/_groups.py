"""A group of commands that are loaded when they are named, with one that runs when none is."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from deltabook.cli._names import align_names
from deltabook.cli._sections import group_help
from deltabook.wire.advice import did_you_mean

__all__ = ["DefaultCommand", "LazyGroup", "check_command", "tidy_command"]


class DefaultCommand(click.Command):
    """The command that its group stands for: it takes the group's place in the environment and in the TOML file."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is not None:
            extra = {"auto_envvar_prefix": parent.auto_envvar_prefix, "default_map": parent.default_map, **extra}
        return super().make_context(info_name, args, parent, **extra)


def tidy_command(command: click.Command) -> None:
    """Prepare a command that was loaded: help in sections and without empty defaults, aligned names of options."""
    group_help(command)
    align_names(command)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.default == "":
            parameter.show_default = False
    if isinstance(command, click.Group):
        for part in command.commands.values():
            tidy_command(part)


def check_command(group: click.Group, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise `click.UsageError` for a name that is no command of a group, with the one that was meant."""
    name = args[0]
    known = group.list_commands(ctx)
    if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
        raise click.UsageError(
            f"expected one of the commands {', '.join(known)}, was {name!r}{did_you_mean(name, known)}", ctx
        )


class LazyGroup(click.Group):
    """Commands by name: a module of this package and an attribute of it, and what each does in one line.

    Without a command's name the command line is that of `default`.
    """

    def __init__(
        self, *arguments: Any, places: Mapping[str, tuple[str, str]] | None = None, default: str = "", **options: Any
    ) -> None:
        """``places``: command → ``module:attribute`` and its line."""
        super().__init__(*arguments, **options)
        self.default = default
        """Name of the command that runs when none is named; empty for none."""
        self._places = places or {}
        self.no_args_is_help = not default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.default and (not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        check_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._places, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._places[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"deltabook.cli.{module}"), attribute)
        tidy_command(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines: Sequence[tuple[str, str]] = [
            (name, self._places[name][1]) if name in self._places else (name, self.commands[name].get_short_help_str())
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(lines)
