"""Names of options in the environment and in the configuration file: those of the command line.

``--start-on`` of ``deltabook exchange run`` is ``DELTABOOK_EXCHANGE_START_ON`` in the environment and ``start-on`` in
the table ``[exchange]`` of the file. Click would take the name of the function's parameter, which the code chooses.
Names of earlier versions are refused, and the error contains the name to use.
"""

from __future__ import annotations

import os
from types import MethodType

import click

__all__ = ["align_names", "former_name", "option_name"]


def option_name(option: click.Option) -> str:
    """The name of an option in the configuration file, such as ``start-on``."""
    long = next((name for name in option.opts if name.startswith("--")), f"--{option.name}")
    return long.removeprefix("--").replace("_", "-")


def former_name(option: click.Option) -> str:
    """The name that an option had there up to version 0.1; empty if it is still its name."""
    name = str(option.name).replace("_", "-")
    return name if name != option_name(option) else ""


def align_names(command: click.Command) -> None:
    """Have the options of a command read from the environment under their names on the command line."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and former_name(parameter):
            parameter.resolve_envvar_value = MethodType(_from_environment, parameter)  # type: ignore[method-assign]


def _from_environment(option: click.Option, context: click.Context) -> str | None:
    """The value of an option in the environment; raises `click.UsageError` for a former name of it."""
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
