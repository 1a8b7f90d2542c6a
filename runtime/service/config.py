"""What a live runtime is configured with."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from deltabook.wire.access import PortSecurity
from runtime.engine.ingest import IngestConfig
from runtime.relations import Retention
from runtime.service.asking.limits import AskLimits
from runtime.service.http.limits import SiteLimits
from runtime.service.inputs.protocols import FeedProtocol
from runtime.service.inputs.upstreams import UpstreamConfig
from runtime.service.results.cursors import CursorLimits
from runtime.service.results.hub import HubConfig
from runtime.service.rundir.upkeep import UpkeepConfig
from runtime.spark.config import SparkConfig
from runtime.upstreams import Symbols

__all__ = ["LiveConfig"]


class LiveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a live runtime runs."""

    directory: Path
    """Run directory: state, epochs, results, checkpoint, logs. Starting on it again goes on where it ended."""
    feed: tuple[str, int] | None = None
    """Host and port of the exchange's feed; None: it is not read here."""
    feed_attempts: int = 20
    """Attempts to connect in a row before the feed is given up, 0: never."""
    protocol: FeedProtocol = FeedProtocol()
    """What that feed looks like."""
    interface: str = "127.0.0.1"
    """Where results are served; another than loopback needs a token and TLS."""
    http_port: int = 0
    """Port of the results service, 0 for any."""
    pg_port: int | None = None
    """Port for clients of PostgreSQL on the same interface, 0 for any; None: there is none."""
    security: PortSecurity = PortSecurity()
    """Who may use these ports."""
    limits: SiteLimits = SiteLimits()
    """What each of the ports puts up with."""
    cursors: CursorLimits = CursorLimits()
    """Results that are looked at page by page."""
    asking: AskLimits = AskLimits()
    """What questions may cost."""
    hub: HubConfig = HubConfig()
    """What subscribers of changes may cost."""
    epoch_ms: int = 100
    """Close an epoch so often, if there is anything in it; less often while Spark has one to publish."""
    mode: Literal["sql", "dbtoaster"] = "sql"
    """What SUM of nothing is."""
    ingest: IngestConfig = IngestConfig()
    """Sizes of the ingest."""
    retention: Retention = Retention()
    """How long trades stay in TRADES."""
    spark: SparkConfig = SparkConfig()
    """The Spark lane."""
    runs_spark: bool | None = None
    """Whether Spark is started; None: if there are views of its lane, or were in the directory."""
    stop_s: float = 10.0
    """How long a clean stop may wait until everything accepted is sealed, published and committed."""
    upkeep: UpkeepConfig = UpkeepConfig()
    """When snapshots are taken, what is kept and how large the run directory may be."""
    most_views: int = 100
    """Views that the catalogue may have."""
    upstreams: tuple[UpstreamConfig, ...] = ()
    """Other runtimes, whose epochs come in."""
    system: Path | None = None
    """Run directory of the runtime that this one feeds: no other log of it may have the session of this feed."""
    upstream_symbols: Symbols = "own"
    """Whose the symbols of upstreams are."""
    reader_directories: tuple[Path, ...] = ()
    """Where readers may read files; none: nowhere. Names of files begin at the first."""
    most_readers: int = 32
    """Readers that may be added."""
    run_id: str = ""
    """Name of all that was started together, in logs, status lines and metrics."""
