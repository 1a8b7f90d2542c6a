"""The run id of a command, which the root command has been given or has made."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["RUN_ID", "given_run_id"]

RUN_ID: Final = "deltabook.run_id"
"""Its place in `click.Context.meta`, which a command shares with the root."""


def given_run_id() -> str:
    """The run id; empty for a command that was not called through the root command."""
    return str(click.get_current_context().meta.get(RUN_ID, ""))
