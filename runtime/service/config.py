"""Configuration of a live runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from deltabook.wire.access import PortSecurity
from runtime.engine.ingest import IngestConfig
from runtime.relations import Retention
from runtime.service.http.limits import SiteLimits
from runtime.service.inputs.protocols import FeedProtocol
from runtime.service.inputs.upstreams import UpstreamConfig
from runtime.service.results.cursors import CursorLimits
from runtime.service.results.hub import HubConfig
from runtime.service.rundir.upkeep import UpkeepConfig
from runtime.service.sandbox.limits import AskLimits
from runtime.spark.config import SparkConfig
from runtime.upstreams import Symbols

__all__ = ["LiveConfig"]


class LiveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of a live runtime; immutable."""

    directory: Path
    """Run directory with state, epochs, results, checkpoint and logs. A runtime that is started again on the same
    directory resumes from these files."""
    feed: tuple[str, int] | None = None
    """Host and port of the exchange's feed; None if this runtime does not read it."""
    feed_attempts: int = 20
    """Number of consecutive failed attempts to connect after which the feed is given up; 0 for no limit."""
    protocol: FeedProtocol = FeedProtocol()
    """Protocol of the exchange's feed."""
    interface: str = "127.0.0.1"
    """Interface on which results are served. Any interface except loopback needs a token and TLS, unless its network is
    private (`PortSecurity.private_names`)."""
    http_port: int = 0
    """Port of the results service; 0 for any free port."""
    pg_port: int | None = None
    """Port for clients of PostgreSQL on the same interface; 0 for any free port, None for no such port."""
    security: PortSecurity = PortSecurity()
    """Access control of the HTTP port and of the PostgreSQL port."""
    limits: SiteLimits = SiteLimits()
    """Limits of the HTTP port and of the PostgreSQL port, for each port on its own."""
    cursors: CursorLimits = CursorLimits()
    """Limits of cursors, which page through results."""
    asking: AskLimits = AskLimits()
    """Limits of questions."""
    hub: HubConfig = HubConfig()
    """Limits of subscribers to changes."""
    epoch_ms: int = 100
    """Interval in milliseconds after which an epoch that is not empty is closed. The interval is longer while Spark is
    busy; without Spark it is longer if the closing of an epoch takes long."""
    mode: Literal["sql", "dbtoaster"] = "sql"
    """Dialect of SQL: SUM of no rows is NULL in ``sql`` and 0 in ``dbtoaster``."""
    ingest: IngestConfig = IngestConfig()
    """Configuration of the ingest."""
    retention: Retention = Retention()
    """Retention of TRADES."""
    spark: SparkConfig = SparkConfig()
    """Configuration of the Spark lane."""
    runs_spark: bool | None = None
    """True to start Spark, False not to start it. None to start Spark if the catalogue has views of its lane, or if
    Spark has ever published in the directory."""
    stop_s: float = 10.0
    """Timeout in seconds of a clean stop, which waits until everything accepted is sealed, published and committed; 0
    to stop without waiting."""
    upkeep: UpkeepConfig = UpkeepConfig()
    """Snapshots, retention and size limit of the run directory."""
    most_views: int = 100
    """Greatest number of views and derived streams in the catalogue."""
    upstreams: tuple[UpstreamConfig, ...] = ()
    """Other runtimes whose epochs are read."""
    system: Path | None = None
    """Run directory of a downstream runtime that reads this runtime and others as upstreams. The feed of this runtime
    is refused if another of those upstreams reads the same session. None for no such check."""
    upstream_symbols: Symbols = "own"
    """Naming of the symbols of upstreams."""
    reader_directories: tuple[Path, ...] = ()
    """Directories whose files readers may read; empty to allow no files. Relative paths are resolved against the first
    directory."""
    most_readers: int = 32
    """Greatest number of readers that are added while the runtime runs."""
    run_id: str = ""
    """Name that all processes started together share; used in logs, status lines and metrics."""
