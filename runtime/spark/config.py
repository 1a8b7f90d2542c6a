"""Configuration and error of the Spark lane; this module imports nothing of Spark."""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["SparkConfig", "SparkLaneError"]


class SparkLaneError(RuntimeError):
    """Spark cannot start, or its streaming query cannot continue; the message is the reason in one line."""


_LOCAL: Final = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")
_MASTER: Final = re.compile(r"spark://[^/\s,:]+:\d+(,[^/\s,:]+:\d+)*|k8s://\S+|yarn")


class SparkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of the Spark lane."""

    master: str = "local[2]"
    """URL of the master: ``local[N]``, ``spark://HOST:PORT``, ``k8s://URL`` or ``yarn``."""
    shards: int = 2
    """Number of shards of the view program, fixed per checkpoint; also the number of Spark's shuffle partitions."""
    max_epochs_per_batch: int = 64
    """Greatest number of epochs in a micro-batch; 1 publishes every epoch."""
    quiet_ms: int = 750
    """Shortest time in milliseconds between the beginnings of two batches while there are no subscribers; for a local
    master."""
    niceness: int = 4
    """Number by which the niceness of Spark's processes on this machine exceeds that of this process, for a local
    master."""
    driver_memory: str = "1g"
    """Heap size of the driver's Java."""
    driver_host: str = "127.0.0.1"
    """Host name by which executors reach the driver."""
    driver_bind: str = ""
    """Address on which the driver listens; empty for the address of ``driver_host``."""
    driver_port: int = 0
    """Port of the driver for calls; 0 for any free port."""
    block_manager_port: int = 0
    """Port of the driver for blocks; 0 for any free port."""
    executor_memory: str = "1g"
    """Heap size of an executor's Java; the shards' maps need further memory, in its Python workers."""
    executor_cores: int | None = None
    """Number of concurrent tasks in an executor; None for all cores of its worker (on Kubernetes and YARN: one)."""
    max_cores: int | None = None
    """Total number of cores to use on a standalone cluster; None for all cores of the cluster."""
    secret_file: str = ""
    """File with the secret that master, workers, driver and executors share; empty for no secret."""
    ui: bool = False
    """True to serve Spark's own pages of the application."""
    ui_port: int = 0
    """Port of the pages; 0 for any free port."""
    ui_interface: str = "127.0.0.1"
    """Interface of the pages, which need no token."""
    ui_proxy: bool = False
    """True if the pages are reached through the master's page."""
    event_log: str = ""
    """Directory of the logs for a history server; empty for no logs."""
    metrics: bool = False
    """True to serve Spark's own metrics as well, beside its pages."""
    run_id: str = ""
    """Identifier of all processes that were started together; written in every log line."""
    logs_json: bool = False
    """True if Spark's log lines are JSON."""
    settings: dict[str, str] = {}
    """Further Spark settings, which override those of this project."""

    @property
    def is_local(self) -> bool:
        """True if the executors are threads of the driver."""
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def has_known_master(self) -> bool:
        """True if Spark supports ``master``."""
        return self.is_local or _MASTER.fullmatch(self.master) is not None
