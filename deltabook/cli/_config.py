"""The configuration file: TOML whose tables are sub-commands and whose keys are their options.

```toml
log-format = "json"

[exchange]
port = 4711
agents = "symbols.json"
```

A key is the name of an option on the command line. Its value replaces the default of the option; the environment and
the command line override it. The table of a group with a default command holds the options of that command, too.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import click

from deltabook.cli._errors import ConfigurationError
from deltabook.cli._groups import LazyGroup
from deltabook.cli._names import former_name, option_name
from deltabook.wire.advice import did_you_mean

__all__ = ["read_defaults"]

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
            defaults[str(known[name].name)] = value
        elif name in former:
            raise ConfigurationError(
                f"expected {where + former[name]!r}, was {where + key!r}, its name up to version 0.1"
            )
        else:
            raise ConfigurationError(
                f"expected one of {', '.join(sorted(known))} or a command's table, was {where + key!r}"
                f"{did_you_mean(name, known)}"
            )
    return defaults


def read_defaults(path: Path, command: click.Command, context: click.Context) -> dict[str, object]:
    """Return the `default_map` of `command` from the file at `path`.

    Raises `ConfigurationError`, naming the file, if it cannot be read, is not TOML or has a key that no option has.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _defaults(table, command, context, "")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigurationError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
