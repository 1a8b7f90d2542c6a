"""How the Spark lane runs; nothing of Spark is imported here."""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["SparkConfig"]

_LOCAL: Final = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")
_MASTER: Final = re.compile(r"spark://[^/\s,:]+:\d+(,[^/\s,:]+:\d+)*|k8s://\S+|yarn")


class SparkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the Spark lane runs."""

    master: str = "local[2]"
    """``local[N]``, ``spark://HOST:PORT``, ``k8s://URL`` or ``yarn``."""
    shards: int = 2
    """Shards of the view program, fixed per checkpoint; also Spark's shuffle partitions."""
    max_epochs_per_batch: int = 64
    """Most epochs in a micro-batch; 1 publishes every epoch."""
    quiet_ms: int = 500
    """Of a local master: from the beginning of a batch to that of the next, at least, while nobody listens."""
    niceness: int = 4
    """By how much the priority of Spark's processes on this machine is below ours, of a local master; 0: not at all."""
    driver_memory: str = "1g"
    """Heap of the driver's Java."""
    driver_host: str = "127.0.0.1"
    """What executors call the driver."""
    driver_bind: str = ""
    """The address at which it listens; empty for that of ``driver_host``."""
    driver_port: int = 0
    """Of the driver's calls, 0 for any."""
    block_manager_port: int = 0
    """Of the driver's blocks, 0 for any."""
    executor_memory: str = "1g"
    """Heap of an executor's Java; the shards' maps are beside it, in its Python workers."""
    executor_cores: int | None = None
    """Tasks at a time in an executor; None for all cores of its worker (of Kubernetes and YARN: one)."""
    max_cores: int | None = None
    """Cores in all, on a standalone cluster; None for all that it has."""
    secret_file: str = ""
    """The secret that master, workers, driver and executors have in common; empty for none."""
    ui: bool = False
    """Whether Spark's own pages of the application are served."""
    ui_port: int = 0
    """Where, 0 for any."""
    ui_interface: str = "127.0.0.1"
    """Where; the pages have no token."""
    ui_proxy: bool = False
    """Whether they are reached through the master's page."""
    event_log: str = ""
    """Directory of what a history server shows; empty for none."""
    metrics: bool = False
    """Whether Spark's own figures are served as well, beside its pages."""
    run_id: str = ""
    """Of all that was started together; in every log line."""
    logs_json: bool = False
    """Whether Spark's log lines are JSON."""
    settings: dict[str, str] = {}
    """Further Spark settings, the last word."""

    @property
    def is_local(self) -> bool:
        """Whether the executors are threads of the driver."""
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def has_known_master(self) -> bool:
        """Whether Spark would know what to do with ``master``."""
        return self.is_local or _MASTER.fullmatch(self.master) is not None
