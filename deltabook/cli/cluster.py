"""`deltabook cluster`: Spark's standalone cluster, as processes of this machine or each by itself on its own."""

from __future__ import annotations

from typing import Final

import click

from deltabook.cli._groups import LazyGroup

__all__ = ["command"]

_PLACES: Final = {
    "executor": ("_cluster_daemons:executor", "Be an executor of Kubernetes, as Spark's variables say."),
    "history": ("_cluster_daemons:history", "Show what ran, from the event logs."),
    "local": ("_cluster_local:local", "Run a master and workers as processes of this machine."),
    "master": ("_cluster_daemons:master", "Be the master of a standalone cluster."),
    "secrets": ("_cluster_secrets:command", "Make the secrets and certificates that a cluster's processes share."),
    "worker": ("_cluster_daemons:worker", "Be a worker of a standalone cluster."),
}
"""Command → where it is, and what it does."""


@click.group("cluster", cls=LazyGroup, places=_PLACES)
def command() -> None:
    """Run Spark's standalone cluster, here or on several machines; `deltabook runtime --master` uses it."""
