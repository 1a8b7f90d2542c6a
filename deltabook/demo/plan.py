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
"""How many runs stay under the default folder, the new one included."""
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
    """Remove the oldest runs; never anything else that lies there, nor a run whose supervisor is alive."""
    runs = sorted(path for path in base.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
    for path in runs[: max(0, len(runs) - kept)]:
        match = _NAME.fullmatch(path.name)
        if match and not _is_running(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)


def make_run_folder(given: Path | None, *, now: datetime, base: Path = Path("runs"), pid: int | None = None) -> Path:
    """The folder `given`, which must be empty or not there yet, else a fresh one ``BASE/UTC-PID``.

    Where `base` cannot be written to, the system's temporary folder serves. Raises `DemoError`.
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
"""``ROLE.purpose`` → port; of a process that is started again also its own of before."""

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
"""Published early by the express lane and kept by Spark for the record. Spark's batches rest then between one another,
which halves its share of the processor: nobody waits for them."""
STREAMS: Final = ("quotes", "signed_trades", "bars_1s", "bars_1m", "spread_1s")
"""Derived streams that the runtime keeps beside the views."""
STRATEGIES: Final = ("sobi", "volatile_sobi", "timed_sobi", "market_players", "market_maker")
PARAMETERS: Final[dict[Flow, tuple[str, ...]]] = {
    "agents": (),
    "capture": ("sobi.depth_bps=10", "sobi.factor=1.2", "volatile_sobi.depth_bps=100"),
}
"""Parameters of the strategies. A book with orders down to a price of 0 leans less than its part near the touch."""
SCALES: Final[dict[Flow, Instrument]] = {
    "agents": Instrument("default", tick_size="0.01", lot_size="1"),
    "capture": Instrument("BTCUSD", tick_size="0.01", lot_size="0.00000001"),
}
"""What a tick and a lot are worth in a flow; all symbols of the default agents have the same."""
FEEDS: Final[dict[Flow, Feed]] = {"agents": "itch", "capture": "text"}
"""What the runtime reads a flow from, if nobody says so: ITCH where it can list the symbols."""
PEERS_FILE: Final = "peers.json"
"""File of the run folder: the dashboard's name of a process → its HOST:PORT, for those that were up; ``NAME.news``: why
a process is absent now."""
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
    """dashboard, exchange, runtime or algo: names its log and its status events."""
    command: Callable[[Ports], Sequence[str]]
    """Its command line, given the ports of the processes that are up, and its own if it is started again."""
    stop_order: int
    """Those with a lower number are stopped first."""
    peer: tuple[str, str] | None = None
    """What the dashboard calls it, and the port at which it asks it."""
    page: str = ""
    """The port of a page to look at."""


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """Where a demo's Spark runs; without anything in the runtime's own process."""

    workers: int = 0
    """Workers of a cluster that the demo starts and stops itself."""
    master: str = ""
    """Master of a cluster that exists already."""
    secret_file: str = ""
    """Secret of that cluster."""

    def options(self, ports: Ports) -> list[str]:
        """Return the options of the runtime's command."""
        if self.workers:
            # A shard is the unit of work: two for each of the workers' cores.
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
    """Dashboard, exchange, runtime and strategies, with folders of their own under `folder`.

    The dashboard is there first; it learns from `PEERS_FILE` where the others are when they are.

    The flow of orders begins when the runtime listens and every strategy is logged in. `capture` is the file to
    replay when `flow` is ``capture``. `feed` is what the runtime reads, by default that of `FEEDS`; orders are text in
    any case. ``run_id`` is the name that all of them go by. ``spark`` is where the views are kept; None: all of them in
    the express lane alone. ``pg_port`` is where the runtime listens for clients of PostgreSQL. Raises `DemoError` for a
    capture as ITCH.
    """
    feed = feed or FEEDS[flow]
    if feed == "itch" and flow == "capture":
        raise DemoError(f"expected a text feed for the capture, was itch, which cannot list {SCALES[flow].symbol}")
    source = ["--replay", str(capture), *_CAPTURE] if flow == "capture" else []
    views = [str(query_path(view)) for view in VIEWS]
    # The exchange's session begins with the flow, some seconds from now.
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

    # Strategies stop first, so that they can take their orders back; the runtime after the exchange, so that it sees
    # the feed's end, and its cluster after it.
    return [
        Stage("dashboard", dashboard, 0, page="http"),
        *([Stage("cluster", cluster, 4)] if spark is not None and spark.workers else []),
        Stage("exchange", exchange, 2, ("exchange", "admin")),
        Stage("runtime", runtime, 3, ("results", "http")),
        Stage("algo", algo, 1, ("algo", "http")),
    ]
