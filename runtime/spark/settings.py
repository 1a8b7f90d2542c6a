"""What Spark is told: the settings of the driver and, through it, of the executors.

Times on a cluster are short, because a batch waits for its slowest task: an executor whose process ends is noticed at
once by its connections, and one that says nothing (a machine without power, a stopped process) after
`SILENT_SECONDS`. What such an executor was doing is done again elsewhere; that costs time and changes no answer.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from deltabook.wire.access import is_loopback
from runtime.spark.classes import QUICK_JAVA
from runtime.spark.config import SparkConfig
from runtime.spark.errors import SparkLaneError
from runtime.spark.metrics import driver_metrics
from runtime.spark.secret import authentication

__all__ = ["SILENT_SECONDS", "check_config", "spark_settings"]

SILENT_SECONDS: Final = 20
"""An executor that is not heard of for so long is taken for lost."""
_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def check_config(config: SparkConfig) -> None:
    """Raise `SparkLaneError` for what cannot work, or would be open to strangers."""
    if not config.has_known_master:
        raise SparkLaneError(
            f"expected local[N], spark://HOST:PORT, k8s://URL or yarn as Spark's master, was {config.master!r}"
        )
    listens = config.driver_bind or config.driver_host
    if config.master.startswith("spark:") and not config.secret_file and not is_loopback(listens):
        raise SparkLaneError(f"expected a secret file for a driver that is not on loopback, was none at {listens}")
    if config.is_local and not is_loopback(listens):  # nobody would have to know a secret there
        raise SparkLaneError(f"expected a driver on loopback, as {config.master} has no executors, was {listens}")
    if said := sorted(_SAID & config.settings.keys()):
        raise SparkLaneError(f"expected {said[0]} to be said by an option of its own, was a setting")
    if owned := sorted(_OWNED & config.settings.keys()):
        raise SparkLaneError(f"expected {owned[0]} to be what it is, as results would not be right, was another value")


_SAID: Final = frozenset(
    {
        "spark.authenticate",
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.network.crypto.enabled",
        "spark.ui.killEnabled",
    }
)
"""Settings that decide who gets to the driver: what follows from the options is checked."""
_OWNED: Final = frozenset(
    {
        "spark.authenticate.secret",
        "spark.speculation",
        "spark.sql.adaptive.enabled",
        "spark.sql.shuffle.partitions",
        "spark.sql.streaming.checkpointFileManagerClass",
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "spark.sql.streaming.stateStore.providerClass",
    }
)
"""Settings on which the answers depend, and the secret, which would be in a command line."""


def spark_settings(
    config: SparkConfig,
    directory: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    java_options: str = QUICK_JAVA,
) -> dict[str, str]:
    """All settings but the secret; ``directory`` holds logs and scratch, ``environment`` is that of executors.

    ``java_options`` are the driver's.

    Measured: the checkpoint manager saves 25-60 ms a batch, the changelog and the polling delay some 10 ms each.
    """
    return {
        **_pages(config),
        "spark.driver.host": config.driver_host,
        "spark.driver.bindAddress": config.driver_bind or config.driver_host,
        "spark.driver.port": str(config.driver_port),
        "spark.driver.blockManager.port": str(config.block_manager_port),
        "spark.driver.memory": config.driver_memory,
        "spark.driver.defaultJavaOptions": java_options,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{directory / 'log4j2.properties'}",
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": str(config.shards),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        "spark.sql.streaming.pollingDelay": "1ms",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.stateStore.maintenanceInterval": "15s",  # when state of batches past these is removed
        "spark.sql.streaming.numRecentProgressUpdates": "100",
        **(driver_metrics() if config.metrics else {"spark.ui.prometheus.enabled": "false"}),
        **_secret(config),
        **({} if config.is_local else _cluster(config, directory, environment)),
        **config.settings,
    }


def _secret(config: SparkConfig) -> dict[str, str]:
    """YARN and Kubernetes make a secret up for each application, if it is not in a file that all pods have."""
    if config.is_local or (config.master.startswith("spark:") and not config.secret_file):
        return {}
    in_pods = {"spark.authenticate.secret.file": config.secret_file}
    return authentication() | (in_pods if config.secret_file and config.master.startswith("k8s:") else {})


def _pages(config: SparkConfig) -> dict[str, str]:
    """Spark's own pages, on which nothing can be ended, and what a history server shows."""
    log = Path(config.event_log).resolve() if config.event_log else None
    return {
        "spark.ui.enabled": str(config.ui).lower(),
        "spark.ui.port": str(config.ui_port),
        "spark.ui.killEnabled": "false",
        "spark.ui.reverseProxy": str(config.ui_proxy).lower(),
        "spark.ui.showConsoleProgress": "false",
        # A query that runs for days has many batches: of each as little as the pages need.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "200",
        "spark.ui.retainedTasks": "10000",
        "spark.sql.ui.retainedExecutions": "50",
        "spark.eventLog.enabled": str(log is not None).lower(),
        **({"spark.eventLog.dir": log.as_uri(), **_EVENT_LOG} if log is not None else {}),
    }


_EVENT_LOG: Final = {
    "spark.eventLog.rolling.enabled": "true",
    "spark.eventLog.rolling.maxFileSize": "64m",
    "spark.eventLog.compress": "true",
}


def _cluster(config: SparkConfig, directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What holds where executors are processes of their own."""
    # A k8s or yarn executor says its cores whatever is wanted; a standalone one has those of its worker.
    cores = {} if config.executor_cores is None else {"spark.executor.cores": str(config.executor_cores)}
    most = {} if config.max_cores is None else {"spark.cores.max": str(config.max_cores)}
    return {
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
        "spark.executor.memory": config.executor_memory,
        **cores,
        **most,
        "spark.pyspark.python": sys.executable,
        "spark.executor.defaultJavaOptions": QUICK_JAVA,
        "spark.executor.extraJavaOptions": (
            f"-Dlog4j2.configurationFile=file:{directory / 'log4j2-executor.properties'}"
        ),
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": str(16 * 1024 * 1024),
        "spark.executor.logs.rolling.maxRetainedFiles": "2",
        "spark.dynamicAllocation.enabled": "false",
        # Two attempts of one task at a time would be right, and only slower: they change the same state.
        "spark.speculation": "false",
        # An executor that is lost is a failure of each of its tasks; that a machine comes and goes ends no query.
        "spark.task.maxFailures": "16",
        # Two workers fail as easily as one: where both are left out nothing is left.
        "spark.excludeOnFailure.enabled": "false",
        # A shard's state is on the executor that had it last: to wait for a busy one is quicker than to move it.
        "spark.locality.wait": "500ms",
        "spark.executor.heartbeatInterval": "4s",
        "spark.network.timeout": f"{SILENT_SECONDS}s",
        "spark.network.timeoutInterval": "5s",
        "spark.rpc.askTimeout": "60s",
        "spark.shuffle.io.retryWait": "1s",
        "spark.shuffle.io.maxRetries": "3",
        "spark.files.fetchTimeout": "60s",
        # Shuffle blocks of past batches; what Java's collector has not found by then is found.
        "spark.cleaner.periodicGC.interval": "5min",
    }
