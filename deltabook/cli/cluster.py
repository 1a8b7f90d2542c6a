"""`deltabook cluster`: Spark's standalone cluster, with all processes on this machine or each on a machine of its own.

``master``, ``worker``, ``history`` and ``executor`` become one of Spark's own processes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from deltabook.cli._groups import LazyGroup
from deltabook.cli._options import given_run_id, json_option
from deltabook.cli._ports import print_json
from deltabook.cli._spark_options import MEMORY, check_pages, logs_json, parse_settings
from deltabook.cluster.daemons import DaemonConfig, DaemonRole, become, executor_launch, prepare

__all__ = ["command"]

_PLACES: Final = {"local": ("_cluster_local:local", "Run a master and workers on this machine.")}
"""Location and summary of commands that are in other modules."""


@click.group("cluster", cls=LazyGroup, places=_PLACES)
def command() -> None:
    """Run Spark's standalone cluster, here or on several machines; `deltabook runtime --master` uses it."""


_PORT: Final = click.IntRange(0, 65535)
_MASTER_PORT: Final = 7077
_MASTER_PAGE: Final = 8080
_WORKER_PAGE: Final = 8081
_HISTORY_PAGE: Final = 18080


def _interface(port: int) -> tuple[Callable[..., Any], ...]:
    return (
        click.option(
            "--interface",
            default="127.0.0.1",
            help="Address to listen on, at which others reach it; `auto` is the address of this machine's name. One "
            "other than loopback requires --secret-file.",
        ),
        click.option("--port", type=_PORT, default=port, help="Port of the process; 0 picks a free port."),
        click.option("--secret-file", default="", metavar="FILE", help="File with the secret of the cluster."),
        click.option(
            "--ui-proxy",
            is_flag=True,
            help="Serve all other pages through the master's page, for networks in which no other page is reachable.",
        ),
        click.option("--metrics/--no-metrics", default=False, help="Serve metrics on the page."),
    )


def _page(port: int) -> tuple[Callable[..., Any], ...]:
    return (
        click.option(
            "--ui-interface",
            default="127.0.0.1",
            help="Address of the page; one other than loopback requires --private-network.",
        ),
        click.option("--ui-port", type=_PORT, default=port, help="Port of the page; 0 picks a free port."),
        click.option(
            "--private-network",
            is_flag=True,
            help="Declare the network private: pages may be served on other addresses than loopback.",
        ),
        click.option("--memory", "heap", type=MEMORY, default="512m", help="Java heap of the process itself."),
        click.option(
            "--spark-conf", multiple=True, metavar="KEY=VALUE", help="Additional setting of Spark; repeatable."
        ),
    )


def _directory(what: str) -> Callable[..., Any]:
    return click.option("--dir", "directory", default="", metavar="DIR", help=f"{what}.  [default: a new one]")


def _daemon(role: DaemonRole, *options: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options to a command and makes the command become the process that the options
    describe.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(private_network: bool, ui_interface: str, heap: str, spark_conf: tuple[str, ...], **rest: Any) -> None:
            check_pages(ui_interface, is_private=private_network)
            config = DaemonConfig(
                role=role,
                ui_interface=ui_interface,
                memory=heap,
                run_id=given_run_id(),
                logs_json=logs_json(),
                settings=parse_settings(spark_conf),
                **rest,
            )
            become(prepare(config, os.environ))

        for option in reversed(options):
            run = option(run)
        return run

    return decorate


@command.command("master", short_help="Run the master of a standalone cluster.")
@_daemon(
    "master",
    *_interface(_MASTER_PORT),
    _directory("Directory of its state, read after a restart"),
    *_page(_MASTER_PAGE),
)
def master() -> None:
    """Run the master of a standalone cluster at spark://INTERFACE:PORT.

    Its log lines go to standard error. A master that restarts with the same --dir, --interface and --port recovers its
    workers and applications, which continue meanwhile.
    """


@command.command("worker", short_help="Run a worker of a standalone cluster.")
@click.argument("master", metavar="spark://HOST:PORT")
@_daemon(
    "worker",
    *_interface(0),
    _directory("Directory of its executors' logs and scratch, used by no other worker"),
    click.option(
        "--cores", type=click.IntRange(1, 4096), help="Concurrent tasks.  [default: the cores of the machine]"
    ),
    click.option(
        "--executor-memory", type=MEMORY, default="2g", help="Memory for the Java heaps of all executors of the worker."
    ),
    *_page(_WORKER_PAGE),
)
def worker() -> None:
    """Run a worker of a standalone cluster; it tries to reach its master for a day."""


@command.command("history", short_help="Serve a page of past applications from event logs.")
@click.argument("events", metavar="DIR", type=click.Path(file_okay=False))
@_daemon("history", _directory("Directory of its cache"), *_page(_HISTORY_PAGE))
def history() -> None:
    """Serve a page of past Spark applications from the event logs that `--event-log DIR` wrote."""


@command.command("executor", short_help="Run an executor on Kubernetes.")
@click.option("--dir", "directory", default="/tmp", metavar="DIR", help="Working directory.")
def executor(directory: str) -> None:
    """Run an executor of Spark on Kubernetes: the command of an executor's pod, whose environment Spark sets."""
    become(executor_launch(os.environ, Path(directory)))


@command.command("secrets", short_help="Create the secrets and certificates of a cluster.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Additional host name of the services; repeatable."
)
@json_option
def secrets(directory: Path, hosts: tuple[str, ...], as_json: bool) -> None:
    """Create tokens, certificates and Spark's secret in DIR, which only its owner can read.

    Existing files are kept. A certificate that expires within thirty days or lacks a name is renewed. The contents of
    the files are not printed.
    """
    from deltabook.cluster.secrets import make_secrets

    made = make_secrets(directory, hosts)
    if as_json:
        print_json(made)
        return
    what = f"made {len(made.made)}, kept {len(made.kept)}" if made.made else "all there"
    click.echo(f"secrets in {made.directory}: {what}; certificates until {made.expires}")
