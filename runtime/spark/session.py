"""The Spark session: which settings, which Java, and where its chatter goes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runtime.spark.config import SparkConfig
from runtime.spark.errors import SparkLaneError
from runtime.spark.java import JavaNotFoundError, find_java
from runtime.spark.source import EpochSource

__all__ = ["SparkConfig", "start_session", "stop_session"]

_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""On one machine the JVM only moves blobs: measured, it starts 1-2 s sooner and answers small batches 15 % sooner."""
_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 16MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""
_LOGS: Final = ("output.log", "spark.log")
_UNREACHABLE: Final = re.compile(r"(Failed to connect to master \S+)")
_EXCEPTION: Final = re.compile(r"(?:Exception|Error): (.+)")


def _settings(config: SparkConfig, directory: Path) -> dict[str, str]:
    """Measured: the checkpoint manager saves 25-60 ms a batch, the changelog and the polling delay some 10 ms each."""
    return {
        "spark.ui.enabled": str(config.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": config.driver_memory,
        "spark.driver.defaultJavaOptions": _QUICK_JAVA if config.master.startswith("local") else "",
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
        "spark.sql.streaming.metricsEnabled": "false",
        **config.settings,
    }


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Point file descriptors 1 and 2 at a file while the JVM is launched: it keeps what it inherits.

    The JVM and its Python workers print a few lines a batch, which belong neither among status lines nor in a terminal.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    held = os.dup(1), os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for saved, original in zip(held, (1, 2), strict=True):
            os.dup2(saved, original)
            os.close(saved)
        os.close(file)


def _reason(error: str, directory: Path) -> str:
    """What a person wants to know: a master that does not answer, else the first exception, else the error."""
    logs = [path.read_text("utf-8", "replace") if (path := directory / name).exists() else "" for name in _LOGS]
    for pattern, text in ((_UNREACHABLE, logs[1]), (_EXCEPTION, error), (_EXCEPTION, logs[0])):
        if found := pattern.search(text):
            return found[1]
    return error.splitlines()[0]


def start_session(
    config: SparkConfig,
    directory: Path,
    environ: Mapping[str, str] = os.environ,
    on_starting: Callable[[], None] = lambda: None,
) -> SparkSession:
    """Start Spark with its logs under ``directory``; raises `SparkLaneError` in one line if it does not start.

    ``on_starting`` is called when a Java is found and the wait begins.
    """
    try:
        java = find_java(environ)
    except JavaNotFoundError as error:
        raise SparkLaneError(str(error)) from None
    directory.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(directory / "scratch", ignore_errors=True)  # of a JVM that could not tidy up
    on_starting()
    os.environ["JAVA_HOME"] = str(java.path)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    (directory / "log4j2.properties").write_text(_LOG4J.format(path=directory / "spark.log"))
    builder = SparkSession.builder.master(config.master).appName("deltabook")
    for name, value in _settings(config, directory.resolve()).items():
        builder = builder.config(name, value)
    try:
        with _output_to(directory / "output.log"):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise SparkLaneError(
            f"expected Spark to start on {config.master} with Java {java.version} at {java.path}, "
            f"was {_reason(str(error), directory)} (see {directory / 'output.log'})"
        ) from None
    session.dataSource.register(EpochSource)
    return session


def stop_session(session: SparkSession) -> None:
    """Stop Spark; nothing happens where its JVM has gone already, as when a signal went to the whole process group."""
    with suppress(Py4JError, OSError):
        session.stop()
