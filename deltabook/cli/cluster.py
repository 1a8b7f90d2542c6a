"""`deltabook cluster`: Spark's standalone cluster, as processes of this machine or each by itself on its own."""

from __future__ import annotations

from typing import Final

import click

from deltabook.cli._groups import LazyGroup

__all__ = ["command"]

_PLACES: Final = {
    "executor": ("_cluster_daemons:executor", "Run an executor on Kubernetes."),
    "history": ("_cluster_daemons:history", "Serve a page of past applications from event logs."),
    "local": ("_cluster_local:local", "Run a master and workers on this machine."),
    "master": ("_cluster_daemons:master", "Run the master of a standalone cluster."),
    "secrets": ("_cluster_secrets:command", "Create the secrets and certificates of a cluster."),
    "worker": ("_cluster_daemons:worker", "Run a worker of a standalone cluster."),
}
"""Command → its location and its summary."""


@click.group("cluster", cls=LazyGroup, places=_PLACES)
def command() -> None:
    """Run Spark's standalone cluster, here or on several machines; `deltabook runtime --master` uses it."""
