"""Configuration of the algorithm engine's process."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from algo_engine.desk.fees import FREE, FeeSchedule
from algo_engine.links.backoff import LinkTimes
from deltabook.wire.access import PortSecurity

__all__ = ["AlgoConfig", "ResultsAccess"]


class ResultsAccess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Access to a runtime's service that is not on loopback. Paths are empty for none."""

    token_file: str = ""
    """File with the token that the service requires."""
    ca_file: str = ""
    """PEM file with the certificates of the service's authority; the service is then reached over TLS."""


class AlgoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of the engine's process."""

    strategies: tuple[str, ...]
    """Strategies, as built-in names or paths to files."""
    results: str
    """HOST:PORT of the runtime's HTTP service."""
    orders: str
    """HOST:PORT of the exchange's text port."""
    directory: Path
    """Directory of journals and trades; the same directory continues the same orders."""
    parameters: tuple[str, ...] = ()
    """Parameters as STRATEGY.field=value, or field=value for a single strategy."""
    fees: FeeSchedule = FREE
    """Fees of executions."""
    first_broker_id: int = 9001
    """Broker id of the first strategy; the others have the following numbers."""
    on_restart: Literal["cancel", "adopt"] = "cancel"
    """Policy for orders that an earlier run left in the market."""
    order_fsync: Literal["before", "behind"] = "behind"
    """Policy of fsync: before requests are sent, or after (see `algo_engine.desk.order_sync`)."""
    keep_views: bool = False
    """True if views that strategies have added stay in the runtime when the strategies stop."""
    http_port: int | None = None
    """Number of the status port, 0 for any free one; None for no status port."""
    http_interface: str = "127.0.0.1"
    """Address that the status port listens at."""
    security: PortSecurity = PortSecurity()
    """Access to the status port."""
    results_access: ResultsAccess = ResultsAccess()
    """Access to the runtime."""
    status_interval_s: float = 1.0
    """Time between two status lines in seconds, 0 for none."""
    run_id: str = ""
    """Name of the run that all processes started together share, in logs, status lines and metrics."""
    exit_with_stdin: bool = False
    """True if the engine stops when standard input ends."""
    stop_s: float = 3.0
    """Longest wait for cancellations at the end, in seconds."""
    stale_s: float = 2.0
    """Time without views after which orders are cancelled, in seconds."""
    links: LinkTimes = LinkTimes()
    """Delays and time limits of the connections to exchange and runtime."""
