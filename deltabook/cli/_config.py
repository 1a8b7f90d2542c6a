"""The configuration file: TOML whose tables are sub-commands and whose keys are their options.

```toml
log-format = "json"

[exchange]
port = 4711
agents = "symbols.json"
```

Its values take the place of an option's default; a flag and an environment variable win over them. The table of a group
with a default command holds the options of that, too.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from deltabook.cli._errors import ConfigurationError
from deltabook.cli._groups import LazyGroup

__all__ = ["read_defaults"]


def _defaults(
    table: dict[str, object], command: click.Command, context: click.Context, where: str
) -> dict[str, object]:
    stands_for = command.get_command(context, command.default) if isinstance(command, LazyGroup) else None
    params = [*command.params, *(stands_for.params if stands_for is not None else ())]
    known = {parameter.name: parameter for parameter in params if isinstance(parameter, click.Option)}
    defaults: dict[str, object] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        child = command.get_command(context, key) if isinstance(command, click.Group) else None
        if child is not None and isinstance(value, dict):
            inner = click.Context(child, info_name=key, parent=context)
            defaults[key] = _defaults(value, child, inner, f"{where}{key}.")
        elif name in known and name != "config" and not isinstance(value, dict):
            defaults[name] = value
        else:
            expected = sorted(
                str(option).replace("_", "-") for option in known if option not in {"config", "help", "version"}
            )
            raise ConfigurationError(f"expected one of {', '.join(expected)} or a command's table, was {where + key!r}")
    return defaults


def read_defaults(path: Path, command: click.Command, context: click.Context) -> dict[str, object]:
    """The `default_map` of `command` that the file at `path` says.

    Raises `ConfigurationError`, naming the file, if it cannot be read, is not TOML or has a key that no option has.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _defaults(table, command, context, "")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigurationError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
