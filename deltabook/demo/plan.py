"""Plan of a demo: its folder, and its processes with their command lines, in the order in which they start."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from deltabook.demo.errors import DemoError
from deltabook.wire.symbols import Instrument
from queries import query_path

__all__ = [
    "KEPT_RUNS",
    "PARAMETERS",
    "PEERS_FILE",
    "SCALES",
    "STRATEGIES",
    "STREAMS",
    "VIEWS",
    "Feed",
    "Flow",
    "SparkPlace",
    "Stage",
    "make_run_folder",
    "make_stages",
]

KEPT_RUNS: Final = 5
"""Number of runs that stay under the default folder, the new one included."""
_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(\d+)")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _prune(base: Path, kept: int) -> None:
    """Remove the oldest runs, but no other files, and no run whose supervisor is alive."""
    runs = sorted(path for path in base.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
    for path in runs[: max(0, len(runs) - kept)]:
        match = _NAME.fullmatch(path.name)
        if match and not _is_running(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)


def make_run_folder(given: Path | None, *, now: datetime, base: Path = Path("runs"), pid: int | None = None) -> Path:
    """Return the folder `given`, which must be empty or missing; without `given`, a new folder ``BASE/UTC-PID``.

    If `base` is not writable, the system's temporary folder is used. Raises `DemoError` if ``given`` has content, or no
    folder can be created.
    """
    if given is not None:
        try:
            given.mkdir(parents=True, exist_ok=True)
            if any(given.iterdir()):
                raise DemoError(f"expected an empty folder for the run, was {given} with something in it")
        except OSError as error:
            raise DemoError(f"expected a folder for the run, was {given}: {error.strerror}") from error
        return given.resolve()
    name = f"{now:%Y%m%dT%H%M%SZ}-{os.getpid() if pid is None else pid}"
    for parent in (base, Path(tempfile.gettempdir()) / "deltabook-runs"):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _prune(parent, KEPT_RUNS - 1)
            (parent / name).mkdir()
        except OSError:
            continue
        return (parent / name).resolve()
    raise DemoError(f"expected a folder to write to, was neither {base} nor {tempfile.gettempdir()}; name one: --dir")


Flow = Literal["agents", "capture"]
Feed = Literal["text", "itch"]
Ports = Mapping[str, int]
"""Port by ``ROLE.purpose``; a process that is restarted also gets its own previous ports."""

VIEWS: Final = (
    "book_depth",
    "best_quote",
    "tape",
    "vwap_trades",
    "vwap_book",
    "imbalance",
    "broker_volume",
    "trades_1s",
)
"""Views that the express lane publishes early and Spark maintains for comparison. No client waits for Spark's rows, so
Spark pauses between batches, which halves its share of the processor.
"""
STREAMS: Final = ("quotes", "signed_trades", "bars_1s", "bars_1m", "spread_1s")
"""Derived streams that the runtime maintains in addition to the views."""
STRATEGIES: Final = ("sobi", "volatile_sobi", "timed_sobi", "market_players", "market_maker")
PARAMETERS: Final[dict[Flow, tuple[str, ...]]] = {
    "agents": (),
    "capture": ("sobi.depth_bps=10", "sobi.factor=1.2", "volatile_sobi.depth_bps=100"),
}
"""Parameters of the strategies, by flow. The book of the capture has orders down to a price of 0, and the whole book is
less one-sided than its part near the best prices. So the strategies compare only the orders near the last price.
"""
SCALES: Final[dict[Flow, Instrument]] = {
    "agents": Instrument("default", tick_size="0.01", lot_size="1"),
    "capture": Instrument("BTCUSD", tick_size="0.01", lot_size="0.00000001"),
}
"""Worth of a tick and of a lot, by flow; all symbols of the flow ``agents`` have the same."""
FEEDS: Final[dict[Flow, Feed]] = {"agents": "itch", "capture": "text"}
"""Default feed of each flow: ITCH, unless an ITCH feed cannot list the flow's symbols."""
PEERS_FILE: Final = "peers.json"
"""File of the run folder: HOST:PORT of each process that is up, by the dashboard's name for the process; ``NAME.news``
has the reason why a process is absent.
"""
_COMMON: Final = ("--exit-with-stdin", "--status-interval", "1")
_CAPTURE: Final = (
    "--format",
    "bitstamp",
    "--replay-mode",
    "as-orders",
    "--speed",
    "20",
    "--symbol",
    SCALES["capture"].symbol,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """One process of the demo."""

    role: str
    """Role, which names its log and its status events: dashboard, cluster, exchange, runtime or algo."""
    command: Callable[[Ports], Sequence[str]]
    """Returns the command line of the process; the argument has the ports of the running processes and, for a restart,
    its own previous ports.
    """
    stop_order: int
    """Position in the order of stopping; lower numbers are stopped first."""
    peer: tuple[str, str] | None = None
    """The dashboard's name for the process, and the purpose of the port that the dashboard connects to."""
    page: str = ""
    """Purpose of the port that serves a page."""


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """Place where a demo's Spark runs; by default the runtime's own process."""

    workers: int = 0
    """Number of workers of a cluster that the demo starts and stops itself."""
    master: str = ""
    """Master of an existing cluster."""
    secret_file: str = ""
    """File with the secret of that cluster."""

    def options(self, ports: Ports) -> list[str]:
        """Return the options of the runtime's command."""
        if self.workers:
            # A shard is the unit of work: each core of the workers gets two.
            shards = ["--shards", str(2 * self.workers)]
            return ["--master", f"spark://127.0.0.1:{ports['cluster.master']}", *shards]
        secret = ["--spark-secret-file", self.secret_file] if self.secret_file else []
        return ["--master", self.master, *secret] if self.master else []


def make_stages(
    folder: Path,
    flow: Flow,
    capture: Path | None = None,
    feed: Feed | None = None,
    *,
    run_id: str = "",
    spark: SparkPlace | None = SparkPlace(),
    pg_port: int | None = None,
) -> list[Stage]:
    """Return the stages of a demo in the order of their start: dashboard, a cluster if the demo has workers, exchange,
    runtime and strategies. Each has a folder of its own under `folder`.

    The dashboard starts first; it reads the addresses of the others from `PEERS_FILE` as they come up.

    The flow of orders begins when the runtime listens and every strategy is logged in. `capture` is the file to replay
    if `flow` is ``capture``. `feed` is the feed that the runtime reads, by default that of `FEEDS`; orders are text in
    any case. ``run_id`` is the run id of all processes. ``spark`` is the place of Spark; None: the express lane alone
    maintains all views. ``pg_port`` is the runtime's port for clients of PostgreSQL. Raises `DemoError` for a capture
    with an ITCH feed.
    """
    feed = feed or FEEDS[flow]
    if feed == "itch" and flow == "capture":
        raise DemoError(f"expected a text feed for the capture, was itch, which cannot list {SCALES[flow].symbol}")
    source = ["--replay", str(capture), *_CAPTURE] if flow == "capture" else []
    views = [str(query_path(view)) for view in VIEWS]
    # The exchange's session begins with the flow, a few seconds from now.
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    streams = [str(query_path(stream)) for stream in STREAMS]

    def deltabook(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "deltabook", *(("--run-id", run_id) if run_id else ()), *arguments]

    def port(ports: Ports, option: str, name: str) -> list[str]:
        return [option, str(ports.get(name, 0))]

    def exchange(ports: Ports) -> list[str]:
        start = ["--start-on", "1", "--start-on-brokers", str(len(STRATEGIES))]
        ports_wanted = [*port(ports, "--port", "exchange.text"), *port(ports, "--admin-port", "exchange.admin")]
        ports_wanted += port(ports, "--itch-port", "exchange.itch") if feed == "itch" else []
        style = [] if source else ["--agent-style", "calm"]
        where = ["--dir", str(folder / "exchange"), *ports_wanted]
        return deltabook("exchange", *where, *start, *source, *style, *_COMMON)

    def runtime(ports: Ports) -> list[str]:
        address = f"127.0.0.1:{ports[f'exchange.{feed}']}"
        where = ["--dir", str(folder / "runtime"), *port(ports, "--http-port", "runtime.http")]
        where += [] if pg_port is None else ["--pg-port", str(ports.get("runtime.postgres", pg_port))]
        lanes = ["--views", ",".join(streams), "--express", ",".join(views)]
        lanes += ["--no-spark"] if spark is None else ["--spark", *spark.options(ports)]
        return deltabook("runtime", "--feed", address, *protocol(), *where, *lanes, *_COMMON)

    def cluster(ports: Ports) -> list[str]:
        assert spark is not None
        where = ["--workers", str(spark.workers), "--dir", str(folder / "cluster")]
        where += port(ports, "--port", "cluster.master")
        return deltabook("cluster", "local", *where, *_COMMON)

    def protocol() -> list[str]:
        if feed == "text":
            return []
        return ["--feed-protocol", "itch", "--feed-tick", SCALES[flow].tick_size, "--feed-day", day]

    def algo(ports: Ports) -> list[str]:
        results, orders = f"127.0.0.1:{ports['runtime.http']}", f"127.0.0.1:{ports['exchange.text']}"
        ends = ["--results", results, "--orders", orders, "--dir", str(folder / "algo")]
        ends += port(ports, "--http-port", "algo.http")
        parameters = [part for each in PARAMETERS[flow] for part in ("--param", each)]
        return deltabook("algo", "run", *STRATEGIES, *parameters, *ends, *_COMMON)

    def dashboard(ports: Ports) -> list[str]:
        where = ["--peers", str(folder / PEERS_FILE), *port(ports, "--http-port", "dashboard.http")]
        return deltabook("dashboard", *where, *_COMMON)

    # The strategies stop before the exchange, so that they can cancel their orders. The runtime stops after the
    # exchange, so that it receives the feed's end, and the cluster stops after the runtime.
    return [
        Stage("dashboard", dashboard, 0, page="http"),
        *([Stage("cluster", cluster, 4)] if spark is not None and spark.workers else []),
        Stage("exchange", exchange, 2, ("exchange", "admin")),
        Stage("runtime", runtime, 3, ("results", "http")),
        Stage("algo", algo, 1, ("algo", "http")),
    ]
