"""`deltabook cluster secrets`: the files with which the parts of a cluster know each other."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._ports import print_json

__all__ = ["command"]


@click.command("secrets")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Additional host name of the services; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(directory: Path, hosts: tuple[str, ...], as_json: bool) -> None:
    """Create tokens, certificates and Spark's secret in DIR, which only its owner can read.

    Files that are there are kept. A certificate that ends within thirty days or lacks a name is made again. What the
    files hold is not shown.
    """
    from deltabook.cluster.secrets import make_secrets

    made = make_secrets(directory, hosts)
    if as_json:
        print_json(made)
        return
    what = f"made {len(made.made)}, kept {len(made.kept)}" if made.made else "all there"
    click.echo(f"secrets in {made.directory}: {what}; certificates until {made.expires}")
