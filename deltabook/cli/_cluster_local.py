"""``deltabook cluster local``: Spark's standalone cluster as processes of this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred

from deltabook.cli._options import given_run_id, status_interval_options
from deltabook.cli._spark_options import MEMORY, logs_json
from deltabook.cluster.local import LocalCluster, LocalConfig
from deltabook.wire.process import Reporter, SupervisedProcess, stop_on_signals

__all__ = ["local"]


@click.command("local")
@click.option("--workers", type=click.IntRange(1, 64), default=2, help="Number of workers.")
@click.option("--cores", type=click.IntRange(1, 256), default=1, help="Concurrent tasks of each worker.")
@click.option(
    "--executor-memory",
    "memory",
    type=MEMORY,
    default="1g",
    help="Memory of each worker for the Java heaps of its executors.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the master; 0 picks a free port.")
@click.option(
    "--ui-port", type=click.IntRange(0, 65535), default=0, help="Port of the master's page; 0 picks a free port."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the cluster's files.  [default: a temporary one]",
)
@click.option("--secret-file", default="", metavar="FILE", help="File with the secret of the cluster.")
@click.option("--metrics/--no-metrics", default=False, help="Serve metrics on the pages.")
@status_interval_options(default=5.0)
def local(  # noqa: PLR0917 - click passes every option by name
    workers: int,
    cores: int,
    memory: str,
    port: int,
    ui_port: int,
    directory: Path | None,
    secret_file: str,
    metrics: bool,
    status_interval: float,
    exit_with_stdin: bool,
) -> None:
    """Run a master and workers on loopback until a signal; `--master spark://127.0.0.1:PORT` uses them.

    The events `ready`, which has the ports, and `status` are written to standard output. A worker that ends is reported
    and not restarted. All processes of the cluster end with this one.
    """
    with _place(directory) as place:
        config = LocalConfig(
            directory=place.resolve(),
            workers=workers,
            cores=cores,
            executor_memory=memory,
            port=port,
            ui_port=ui_port,
            secret_file=str(Path(secret_file).resolve()) if secret_file else "",
            metrics=metrics,
            run_id=given_run_id(),
            logs_json=logs_json(),
        )
        reason = _ClusterProcess(config, status_interval, exit_with_stdin).run()
    if reason is not None:
        raise RuntimeError(reason)


@contextmanager
def _place(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory
    else:
        with tempfile.TemporaryDirectory(prefix="deltabook-cluster-", ignore_cleanup_errors=True) as place:
            yield Path(place)


class _ClusterProcess(SupervisedProcess):
    """Process of a master and workers."""

    def __init__(self, config: LocalConfig, status_interval: float, exit_with_stdin: bool) -> None:
        super().__init__(_reactor, exit_with_stdin=exit_with_stdin)
        self._is_json = config.logs_json
        self._cluster = LocalCluster(self._reactor, config, os.environ, self._fail, self._log_line)
        self._reporter = Reporter(
            "cluster",
            sys.stdout.buffer,
            self._reactor,
            status_interval,
            self._cluster.figures,
            run_id=config.run_id,
        )

    def run(self) -> str | None:
        """Run the reactor; return the reason of a failure, None for a clean end."""
        # The reactor needs its own handler of SIGCHLD, so the handlers of stop signals are installed once it runs.
        self._reactor.callWhenRunning(stop_on_signals, self._reactor, self._stop)
        self._reactor.callWhenRunning(self._start)
        self._reactor.run()
        return self._failure

    def _begin(self) -> Any:
        return self._cluster.start()

    def _ready(self, ports: Any) -> None:
        self._reporter.ready(ports)

    def _end(self) -> Deferred[Any]:
        return self._cluster.stop()

    def _log_line(self, name: str, line: bytes) -> None:
        """Write a log line of a process; a JSON line, which has the process's name, is written unchanged."""
        sys.stderr.buffer.write(line + b"\n" if self._is_json else f"{name}: ".encode() + line + b"\n")
        sys.stderr.buffer.flush()
