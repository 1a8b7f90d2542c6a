"""`deltabook classes`: archive the classes that Spark's Java loads, so that it starts in half the time."""

from __future__ import annotations

import time
from typing import Final

import click

from runtime.spark.requirements import check_requirements

__all__ = ["command"]

_MIB: Final = 1024 * 1024


@click.command("classes")
def command() -> None:
    """Archive the classes that Spark's Java loads.

    A small view is run on Spark, and what its Java has loaded is kept in the virtual environment, some 170 MB: with it
    Spark starts in half the time. Set-up runs this command; nothing happens where the archive is there already.
    """
    check_requirements()
    from runtime.service.classarchive import make_archive

    begun_s = time.monotonic()
    path, is_new = make_archive()
    done = f"archived in {time.monotonic() - begun_s:.0f} s" if is_new else "there already"
    click.echo(f"classes of Spark {done}: {path.stat().st_size / _MIB:.0f} MB in {path}")
