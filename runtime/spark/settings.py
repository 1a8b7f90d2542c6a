"""Settings of Spark's driver and, through it, of the executors.

Timeouts on a cluster are short, because a batch waits for its slowest task: the end of an executor's process is noticed
at once, by its connections. A silent executor (a machine without power, a stopped process) counts as lost after
`SILENT_SECONDS`. The work of such an executor is repeated elsewhere, which costs time and changes no answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from deltabook.wire.access import is_loopback, misuse_of_trusted
from runtime.spark.config import SparkConfig, SparkLaneError
from runtime.spark.java import QUICK_JAVA

__all__ = [
    "SECRET_VARIABLE",
    "SILENT_SECONDS",
    "DaemonRole",
    "SparkLogLevel",
    "authentication",
    "check_config",
    "daemon_metrics",
    "driver_metrics",
    "log4j_properties",
    "read_secret",
    "spark_settings",
    "write_private",
]

SILENT_SECONDS: Final = 20
"""Time of silence in seconds after which an executor counts as lost."""
_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
DaemonRole = Literal["master", "worker"]

_SERVLET: Final = "org.apache.spark.metrics.sink.PrometheusServlet"
_JVM: Final = "org.apache.spark.metrics.source.JvmSource"
NAMESPACE: Final = "deltabook"
"""Namespace of metrics in place of the application's id, which would change every name with every start."""
SparkLogLevel = Literal["error", "warn", "info", "debug"]

_FILE_MEGABYTES: Final = 16
_OLD_FILES: Final = 2
_TEXT: Final = """\
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""
_FILE: Final = """\
appender.out.type = RollingFile
appender.out.name = out
appender.out.fileName = {path}
appender.out.filePattern = {path}.%i
appender.out.policies.type = Policies
appender.out.policies.size.type = SizeBasedTriggeringPolicy
appender.out.policies.size.size = {megabytes}MB
appender.out.strategy.type = DefaultRolloverStrategy
appender.out.strategy.max = {old}
"""
_STANDARD_ERROR: Final = """\
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
"""
SECRET_VARIABLE: Final = "_SPARK_AUTH_SECRET"
"""Variable in which Spark's processes look for the secret before they read their settings."""
_SHORTEST: Final = 16
"""Least length of a secret in characters."""
_LONGEST: Final = 1024
"""Greatest length of a secret in characters."""


def check_config(config: SparkConfig) -> None:
    """Raise `SparkLaneError` for settings that cannot work, or would give other users access."""
    if not config.has_known_master:
        raise SparkLaneError(
            f"expected local[N], spark://HOST:PORT, k8s://URL or yarn as Spark's master, was {config.master!r}"
        )
    listens = config.driver_bind or config.driver_host
    if config.master.startswith("spark:") and not config.secret_file and not is_loopback(listens):
        raise SparkLaneError(f"expected a secret file for a driver that is not on loopback, was none at {listens}")
    if config.is_local and not is_loopback(listens):  # on loopback no secret is needed
        raise SparkLaneError(f"expected a driver on loopback, as {config.master} has no executors, was {listens}")
    if reserved := sorted(_RESERVED & config.settings.keys()):
        raise SparkLaneError(f"expected {reserved[0]} to be set by its own option, was among the settings")
    if owned := sorted(_OWNED & config.settings.keys()):
        raise SparkLaneError(f"expected {owned[0]} to be left out, as results or the secret depend on it, was set")


_RESERVED: Final = frozenset(
    {
        "spark.authenticate",
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.network.crypto.enabled",
        "spark.ui.killEnabled",
    }
)
"""Settings that determine access to the driver; they follow from options, which are checked."""
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
"""Settings on which the answers depend, and the secret, which would otherwise be visible in a command line."""


def spark_settings(
    config: SparkConfig,
    directory: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    java_options: str = QUICK_JAVA,
    python: str = sys.executable,
) -> dict[str, str]:
    """Return all settings except the secret.

    ``directory`` is the folder of logs and scratch files, ``environment`` the environment of executors.

    ``java_options`` are the Java options of the driver and of executors; ``python`` is the command that starts their
    Python. On a standalone cluster, the files that these two name have the same paths as on the driver's machine.

    By measurement, the checkpoint manager saves 25 to 60 ms per batch, and the changelog and the polling delay save
    some 10 ms each.
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
        # Interval at which state of earlier batches is removed.
        "spark.sql.streaming.stateStore.maintenanceInterval": "15s",
        "spark.sql.streaming.numRecentProgressUpdates": "100",
        **(driver_metrics() if config.metrics else {"spark.ui.prometheus.enabled": "false"}),
        **_secret(config),
        **({} if config.is_local else _cluster(config, directory, environment, java_options, python)),
        **config.settings,
    }


def _secret(config: SparkConfig) -> dict[str, str]:
    """Return the settings of the secret: YARN and Kubernetes create one per application, unless pods have a file."""
    if config.is_local or (config.master.startswith("spark:") and not config.secret_file):
        return {}
    in_pods = {"spark.authenticate.secret.file": config.secret_file}
    return authentication() | (in_pods if config.secret_file and config.master.startswith("k8s:") else {})


def _pages(config: SparkConfig) -> dict[str, str]:
    """Return the settings of Spark's own pages, which cannot end jobs, and of the logs for a history server."""
    log = Path(config.event_log).resolve() if config.event_log else None
    return {
        "spark.ui.enabled": str(config.ui).lower(),
        "spark.ui.port": str(config.ui_port),
        "spark.ui.killEnabled": "false",
        "spark.ui.reverseProxy": str(config.ui_proxy).lower(),
        "spark.ui.showConsoleProgress": "false",
        # A query that runs for days has many batches, so that each keeps as little as the pages need.
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


def _cluster(
    config: SparkConfig, directory: Path, environment: Mapping[str, str], java_options: str, python: str
) -> dict[str, str]:
    """Return the settings for executors that are processes of their own."""
    # A k8s or yarn executor declares its cores itself; a standalone executor has those of its worker.
    cores = {} if config.executor_cores is None else {"spark.executor.cores": str(config.executor_cores)}
    most = {} if config.max_cores is None else {"spark.cores.max": str(config.max_cores)}
    return {
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
        "spark.executor.memory": config.executor_memory,
        **cores,
        **most,
        "spark.pyspark.python": python,
        "spark.executor.defaultJavaOptions": java_options,
        "spark.executor.extraJavaOptions": (
            f"-Dlog4j2.configurationFile=file:{directory / 'log4j2-executor.properties'}"
        ),
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": str(16 * 1024 * 1024),
        "spark.executor.logs.rolling.maxRetainedFiles": "2",
        "spark.dynamicAllocation.enabled": "false",
        # Concurrent attempts of one task would be correct, but slower, because they change the same state.
        "spark.speculation": "false",
        # A lost executor is a failure of each of its tasks; a machine that leaves and returns must not end the query.
        "spark.task.maxFailures": "16",
        # Two workers fail as easily as one: if both are excluded, none is left.
        "spark.excludeOnFailure.enabled": "false",
        # A shard's state is on the executor that had it last: waiting for a busy executor is quicker than moving the
        # state.
        "spark.locality.wait": "500ms",
        "spark.executor.heartbeatInterval": "4s",
        "spark.network.timeout": f"{SILENT_SECONDS}s",
        "spark.network.timeoutInterval": "5s",
        "spark.rpc.askTimeout": "60s",
        "spark.shuffle.io.retryWait": "1s",
        "spark.shuffle.io.maxRetries": "3",
        "spark.files.fetchTimeout": "60s",
        # Shuffle blocks of past batches are removed when Java's collector finds them unused.
        "spark.cleaner.periodicGC.interval": "5min",
    }


def _served(instance: str, path: str) -> dict[str, str]:
    sink = f"spark.metrics.conf.{instance}.sink.prometheusServlet"
    return {
        f"{sink}.class": _SERVLET,
        f"{sink}.path": path,
        f"spark.metrics.conf.{instance}.source.jvm.class": _JVM,
    }


def driver_metrics() -> dict[str, str]:
    """Return the settings of a session that serves its metrics page."""
    return {
        **_served("driver", "/metrics/prometheus"),
        "spark.metrics.namespace": NAMESPACE,
        "spark.ui.prometheus.enabled": "true",
        "spark.executor.processTreeMetrics.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "true",
    }


def daemon_metrics(role: DaemonRole) -> dict[str, str]:
    """Return the settings of a master or worker, as properties of its Java."""
    if role == "worker":
        return _served("worker", "/metrics/prometheus")
    return {
        **_served("master", "/metrics/master/prometheus"),
        **_served("applications", "/metrics/applications/prometheus"),
    }


def _json_layout(run_id: str, role: str) -> str:
    """Return Log4j's own template, with the field names of this project's log lines."""
    template = {
        "time": {"$resolver": "timestamp", "epoch": {"unit": "secs"}},
        "level": {"$resolver": "pattern", "pattern": "%p{lowerCase=true}"},
        "run": run_id,
        "role": role,
        "host": "${hostName}",
        "pid": {"$resolver": "pattern", "pattern": "%pid"},
        "namespace": {"$resolver": "logger", "field": "name"},
        "message": {"$resolver": "message", "stringified": True},
        "traceback": {"$resolver": "exception", "field": "stackTrace", "stackTrace": {"stringified": True}},
    }
    return (
        "appender.out.layout.type = JsonTemplateLayout\n"
        f"appender.out.layout.eventTemplate = {json.dumps(template, separators=(',', ':'))}\n"
        "appender.out.layout.maxStringLength = 8192\n"
    )


def log4j_properties(
    path: Path | None, *, json_lines: bool = False, run_id: str = "", role: str = "spark", level: SparkLogLevel = "warn"
) -> str:
    """Return the content of a file that ``-Dlog4j2.configurationFile`` names.

    ``path`` is the log file; None means standard error. The file is rotated when it is full, and two older files
    remain.
    """
    out = _STANDARD_ERROR if path is None else _FILE.format(path=path, megabytes=_FILE_MEGABYTES, old=_OLD_FILES)
    layout = _json_layout(run_id, role) if json_lines else _TEXT
    return f"rootLogger.level = {level}\nrootLogger.appenderRef.out.ref = out\n{out}{layout}"


def read_secret(path: Path) -> str:
    """Return the secret in a file; raise `SparkLaneError`, without quoting the file, if the secret cannot be used."""
    try:
        misuse = misuse_of_trusted(path)
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise SparkLaneError(f"expected a secret in {path}, was {error.strerror}") from None
    if misuse:
        raise SparkLaneError(misuse)
    secret = data.strip().decode("ascii", "replace")
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise SparkLaneError(f"expected a secret as the only word of {path}, was something else")
    if not _SHORTEST <= len(secret) <= _LONGEST:
        raise SparkLaneError(f"expected a secret of {_SHORTEST} to {_LONGEST} characters in {path}, was {len(secret)}")
    return secret


def authentication() -> dict[str, str]:
    """Return the settings with which a process refuses peers that do not have the secret, and encrypts its traffic."""
    return {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.authEngineVersion": "2",
    }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; an existing one is replaced."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
