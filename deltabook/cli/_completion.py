"""Completion of commands and options in the user's shell, by click's own scripts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

__all__ = ["SHELLS", "completion_option", "install_completion"]

SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_DELTABOOK_COMPLETE"
"""What the scripts call the command with."""


def install_completion(command: click.Command, shell: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Write the script of a shell, and have the shell read it at its start; return the files that were written.

    A second call changes nothing but the script. Raises `OSError`.
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
    if shell == "fish":  # reads its folder
        return [script]
    start = home / f".{shell}rc"
    line = f'. "{script}"  # completion of deltabook\n'
    known = start.read_text(encoding="utf-8") if start.exists() else ""
    if line in known:
        return [script]
    with start.open("a", encoding="utf-8") as file:
        file.write(line if not known or known.endswith("\n") else f"\n{line}")
    return [script, start]


def completion_option(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Callback of ``--install-completion``."""
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
