"""``deltabook runtime``: maintain views of a live feed on Spark and in the express lane."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred

from deltabook.cli._logging import log_with
from deltabook.cli._options import (
    ConfigFileError,
    FloatRange,
    OptionError,
    address,
    given_run_id,
    security_options,
    status_interval_options,
)
from deltabook.cli._spark_options import spark_options
from deltabook.wire.access import PortSecurity
from deltabook.wire.process import Reporter, SupervisedProcess, allow_files, stop_on_signals
from runtime.compiler import Lane, NamedSelect, StreamSelect, read_script
from runtime.engine.ingest import IngestConfig
from runtime.epochs import RetentionConfig
from runtime.service.config import LiveConfig
from runtime.service.http import SiteLimits
from runtime.service.inputs.feed import FEED
from runtime.service.inputs.protocols import FeedProtocol
from runtime.service.inputs.upstreams import UpstreamConfig
from runtime.service.interpreter import give_memory_back, quicken
from runtime.service.live import LiveRuntime
from runtime.service.results.cursors import CursorLimits
from runtime.service.results.hub import HubConfig
from runtime.service.rundir.upkeep import SnapshotConfig, UpkeepConfig
from runtime.service.sandbox import AskLimits
from runtime.spark.config import SparkConfig
from runtime.upstreams import Symbols

__all__ = ["command"]


_FILES_BESIDE: Final = 1024
"""Open files in addition to connections: logs, segments, state, and files of readers."""


def _scripts(files: str, option: str, lane: Lane | None = None) -> tuple[list[NamedSelect], list[StreamSelect]]:
    """Return the views and the derived streams of files; the views are in `lane` if it is given."""
    selects: list[NamedSelect] = []
    streams: list[StreamSelect] = []
    for name in filter(None, files.split(",")):
        path = Path(name)
        if not path.is_file():
            raise ConfigFileError(f"expected a file of views, was {name}, which does not exist")
        script = read_script(path)
        if script.streams:
            raise ConfigFileError(
                f"expected views over the live relations in {name}, was CREATE STREAM with columns; see `query run`"
            )
        selects += script.selects
        streams += [each for each in script.derived if each not in streams]
    if files and not (selects or streams):
        raise OptionError(f"expected at least one SELECT in {option}, was none in {files!r}")
    return [replace(select, lane=lane) for select in selects] if lane is not None else selects, streams


def _tick_units(tick: str) -> int:
    """Return the number of ten-thousandths in a tick; raise `OptionError` unless the number is whole and positive."""
    try:
        units = Decimal(tick) * 10_000
    except InvalidOperation:
        units = Decimal(0)
    if not units.is_finite() or units < 1 or units != units.to_integral_value():
        raise OptionError(f"expected a tick of whole ten-thousandths for --feed-tick, was {tick!r}")
    return int(units)


def _protocol(name: Literal["text", "itch"], tick: str, day: datetime | None) -> FeedProtocol:
    if name == "text":
        return FeedProtocol()
    midnight_ns = 0 if day is None else int(day.replace(tzinfo=UTC).timestamp()) * 10**9
    return FeedProtocol(name, midnight_ns=midnight_ns, tick_units=_tick_units(tick))


def _upstreams(given: Sequence[str]) -> tuple[UpstreamConfig, ...]:
    upstreams = []
    for each in given:
        name, _, directory = each.partition("=")
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or name == FEED or not directory:
            raise OptionError(
                f"expected NAME=DIR for --upstream, with a name of lower-case letters, digits and _ that is not "
                f"{FEED!r}, was {each!r}"
            )
        upstreams.append(UpstreamConfig(name, Path(directory)))
    return tuple(upstreams)


@click.command()
@click.option(
    "--feed", metavar="HOST:PORT", help="Feed of the exchange. At least one --feed or --upstream is required."
)
@click.option(
    "--upstream",
    multiple=True,
    metavar="NAME=DIR",
    help="Read the epochs of another runtime from its --dir; repeatable.",
)
@click.option(
    "--system",
    type=click.Path(path_type=Path, file_okay=False),
    help="--dir of the runtime that has this one as --upstream; it refuses a second upstream for the same feed.",
)
@click.option(
    "--upstream-symbols",
    type=click.Choice(["own", "prefixed", "shared"]),
    default="own",
    help="Symbols belong to one upstream, are prefixed with its NAME, or are added up over all upstreams.",
)
@click.option(
    "--feed-attempts",
    type=click.IntRange(0),
    default=20,
    help="Give up after this many attempts to connect; 0 never gives up.",
)
@click.option(
    "--feed-protocol",
    type=click.Choice(["text", "itch"]),
    default="text",
    help="Protocol of --feed; itch is ITCH 5.0 over SoupBinTCP.",
)
@click.option("--feed-tick", default="0.0001", help="Price of one tick of an ITCH feed, for all symbols.")
@click.option(
    "--feed-day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="First day (UTC) of the session of an ITCH feed; without it times count from midnight.",
)
@click.option(
    "--dir", "directory", required=True, type=click.Path(path_type=Path, file_okay=False), help="Run directory."
)
@click.option(
    "--views",
    default="",
    metavar="A.sql,B.sql",
    help="Files of views over bids, asks and trades, added when --dir is new.",
)
@click.option(
    "--express",
    default="",
    metavar="A.sql,B.sql",
    help="Files of views that the express lane publishes message by message; they need no Spark and no Java.",
)
@click.option(
    "--spark/--no-spark", "runs_spark", default=None, help="Start Spark or not.  [default: start it if a view needs it]"
)
@click.option(
    "--http-port", type=click.IntRange(0, 65535), default=0, help="Port of the results service; 0 picks a free port."
)
@click.option(
    "--pg-port",
    type=click.IntRange(0, 65535),
    help="Port for PostgreSQL clients such as psql; 0 picks a free port.  [default: closed]",
)
@click.option(
    "--interface",
    default="127.0.0.1",
    help="Address to serve results on; one other than loopback requires a token and TLS.",
)
@security_options("the results service")
@click.option(
    "--allow-origin", multiple=True, metavar="URL", help="Origin of web pages that may use the service; repeatable."
)
@click.option("--requests-per-s", type=FloatRange(1), default=1000.0, help="Requests per second of one client address.")
@click.option("--most-subscribers", type=click.IntRange(1), default=1000, help="Maximum number of subscribers.")
@click.option(
    "--tuple-queues",
    type=click.Choice(["shared", "own"]),
    default="shared",
    help="Keep the unread changes of slow subscribers in one copy for all, or in a copy for each.",
)
@click.option(
    "--queue-kilobytes", type=click.IntRange(1), default=4096, help="Size of the queue of changes of one view."
)
@click.option("--most-cursors", type=click.IntRange(1), default=200, help="Maximum number of open cursors.")
@click.option("--cursor-megabytes", type=click.IntRange(1), default=1024, help="Memory of all open cursors.")
@click.option(
    "--cursor-seconds",
    type=FloatRange(1),
    default=60.0,
    help="Close a cursor that has not been used for this long.",
)
@click.option(
    "--questions",
    type=click.IntRange(0, 8),
    default=2,
    help="Maximum number of concurrent ad-hoc questions; 0 refuses them.",
)
@click.option("--question-seconds", type=FloatRange(0.1, 600), default=10.0, help="Time limit of a question.")
@click.option("--question-megabytes", type=click.IntRange(16), default=512, help="Memory limit of a question.")
@click.option("--question-rows", type=click.IntRange(1), default=100_000, help="Maximum number of rows of an answer.")
@click.option(
    "--reader-dir",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory whose files readers may read; repeatable.  [default: readers read no files]",
)
@click.option("--most-readers", type=click.IntRange(0, 1000), default=32, help="Maximum number of readers.")
@spark_options()
@click.option(
    "--epoch-ms",
    type=click.IntRange(1, 60_000),
    default=100,
    help="Shortest time between epochs; up to ten times as long while Spark publishes an epoch.",
)
@click.option(
    "--epoch-messages",
    type=click.IntRange(0),
    default=0,
    help="Close an epoch after this many messages; 0 closes it by time alone.",
)
@click.option(
    "--max-epochs-per-batch",
    type=click.IntRange(1),
    default=64,
    help="Maximum number of epochs that Spark publishes as one version.",
)
@click.option("--most-views", type=click.IntRange(1, 1000), default=100, help="Maximum number of views.")
@click.option(
    "--snapshot-epochs",
    type=click.IntRange(0),
    default=1000,
    help="Epochs between snapshots of the relations; 0 writes none.",
)
@click.option(
    "--snapshot-megabytes",
    type=click.IntRange(1),
    default=64,
    help="Megabytes of the log between snapshots of the relations.",
)
@click.option(
    "--snapshot-results", type=click.IntRange(1), default=500, help="Versions between full results of the views."
)
@click.option(
    "--retain-epochs",
    type=click.IntRange(0),
    default=10_000,
    help="Number of newest epochs to keep for replays, within --retain-megabytes.",
)
@click.option(
    "--retain-megabytes",
    type=click.IntRange(0),
    default=256,
    help="Maximum size of the epochs that --retain-epochs keeps.",
)
@click.option(
    "--disk-limit-megabytes",
    type=click.IntRange(200),
    default=64_000,
    help="Pause the feed when --dir reaches this size.",
)
@click.option(
    "--threads",
    "workers",
    type=click.IntRange(1, 64),
    help="Threads that parse messages.  [default: 2, with --express 1]",
)
@click.option(
    "--mode",
    type=click.Choice(["sql", "dbtoaster"]),
    default="sql",
    help="SQL dialect; in dbtoaster SUM of no rows is 0 and SUBSTRING counts from 0.",
)
@click.option(
    "--stop-seconds",
    type=FloatRange(0, 3600),
    default=10.0,
    help="Time limit of a clean stop, which commits and publishes all accepted messages; 0 skips it.",
)
@status_interval_options()
def command(
    feed: str | None,
    upstream: tuple[str, ...],
    system: Path | None,
    upstream_symbols: Symbols,
    feed_attempts: int,
    feed_protocol: Literal["text", "itch"],
    feed_tick: str,
    feed_day: datetime | None,
    directory: Path,
    views: str,
    express: str,
    runs_spark: bool | None,
    http_port: int,
    pg_port: int | None,
    interface: str,
    token_file: str,
    tls_cert: str,
    tls_key: str,
    allow_origin: tuple[str, ...],
    requests_per_s: float,
    most_subscribers: int,
    tuple_queues: Literal["shared", "own"],
    queue_kilobytes: int,
    most_cursors: int,
    cursor_megabytes: int,
    cursor_seconds: float,
    questions: int,
    question_seconds: float,
    question_megabytes: int,
    question_rows: int,
    reader_dir: tuple[Path, ...],
    most_readers: int,
    spark: SparkConfig,
    epoch_ms: int,
    epoch_messages: int,
    max_epochs_per_batch: int,
    most_views: int,
    snapshot_epochs: int,
    snapshot_megabytes: int,
    snapshot_results: int,
    retain_epochs: int,
    retain_megabytes: int,
    disk_limit_megabytes: int,
    workers: int | None,
    mode: Literal["sql", "dbtoaster"],
    stop_seconds: float,
    status_interval: float,
    exit_with_stdin: bool,
) -> None:
    """Read a feed, maintain SQL views of it on Spark or in the express lane, and serve their results.

    Several runtimes can share several feeds: each reads one feed, with or without views of its own, and one more
    runtime names all of them as --upstream and maintains the views over all feeds. Their directories must be on one
    volume.
    """
    if feed is None and not upstream:
        raise OptionError("expected --feed or --upstream, was neither")
    # Steps over few messages hold the interpreter lock, so a second thread would only compete for it.
    most_workers = workers or (1 if express else 2)
    limits = SiteLimits(
        connections=2 * most_subscribers,
        connections_per_client=2 * most_subscribers - most_subscribers // 2,
        requests_per_s=requests_per_s,
        burst=int(2 * requests_per_s),
    )
    allow_files(limits.connections * (1 if pg_port is None else 2) + _FILES_BESIDE)
    config = LiveConfig(
        directory=directory,
        feed=address(feed, "--feed") if feed else None,
        upstreams=_upstreams(upstream),
        system=system,
        upstream_symbols=upstream_symbols,
        feed_attempts=feed_attempts,
        protocol=_protocol(feed_protocol, feed_tick, feed_day),
        interface=interface,
        http_port=http_port,
        pg_port=pg_port,
        security=PortSecurity(token_file, tls_cert, tls_key, allow_origin),
        limits=limits,
        cursors=CursorLimits(cursors=most_cursors, held_bytes=cursor_megabytes << 20, unused_s=cursor_seconds),
        asking=AskLimits(
            at_once=questions,
            seconds=question_seconds,
            memory_bytes=question_megabytes << 20,
            growth_bytes=max(AskLimits().growth_bytes, AskLimits().read_bytes + 2 * (question_megabytes << 20)),
            answer_rows=question_rows,
        ),
        reader_directories=reader_dir,
        most_readers=most_readers,
        hub=HubConfig(most_subscribers, tuple_queues, queue_kilobytes),
        epoch_ms=epoch_ms,
        mode=mode,
        ingest=IngestConfig(workers=most_workers, epoch_messages=epoch_messages),
        spark=msgspec.structs.replace(spark, max_epochs_per_batch=max_epochs_per_batch),
        upkeep=UpkeepConfig(
            snapshots=SnapshotConfig(snapshot_epochs, snapshot_megabytes, snapshot_results),
            retention=RetentionConfig(retain_epochs, retain_megabytes),
            limit_megabytes=disk_limit_megabytes,
        ),
        most_views=most_views,
        runs_spark=runs_spark,
        stop_s=stop_seconds,
        run_id=given_run_id(),
    )
    selects, streams = _scripts(views, "--views")
    express_selects, express_streams = _scripts(express, "--express", "express")
    streams += [each for each in express_streams if each not in streams]
    reason = _RuntimeProcess(config, selects + express_selects, streams, status_interval, exit_with_stdin).run()
    if reason is not None:
        raise RuntimeError(reason)


class _RuntimeProcess(SupervisedProcess):
    """Process of a live runtime."""

    def __init__(
        self,
        config: LiveConfig,
        selects: list[NamedSelect],
        streams: list[StreamSelect],
        status_interval: float,
        exit_with_stdin: bool,
    ) -> None:
        super().__init__(_reactor, exit_with_stdin=exit_with_stdin)
        # Spark's JVM is launched with an output of its own. Status lines go to the standard output of this process.
        self._runtime = LiveRuntime(self._reactor, config, selects, self._fail, streams)
        self._reporter = Reporter(
            "runtime",
            sys.stdout.buffer,
            self._reactor,
            status_interval,
            self._runtime.figures,
            run_id=config.run_id,
        )
        log_with(lambda: {"epoch": self._runtime.epoch})

    def run(self) -> str | None:
        """Run until the end; return the reason of a failure, or None."""
        give_memory_back()
        # The handlers of signals are installed first: otherwise an interrupt during the start would end only the start,
        # and the process would continue.
        self._reactor.callWhenRunning(stop_on_signals, self._reactor, self._stop_on_signal)
        self._reactor.callWhenRunning(self._start)
        self._reactor.run(installSignalHandlers=False)
        return self._failure

    def _begin(self) -> Deferred[int]:
        return self._runtime.start()

    def _ready(self, ports: int) -> None:
        quicken()
        postgres = self._runtime.pg_port
        self._reporter.ready({"http": ports} if postgres is None else {"http": ports, "postgres": postgres})

    def _end(self) -> Deferred[Any]:
        return self._runtime.stop(is_clean=self._failure is None)

    def _stop_on_signal(self, reason: str) -> None:
        """Stop cleanly on the first signal and immediately on the second."""
        if self._stopping:
            self._runtime.hurry()
        self._stop(reason)
