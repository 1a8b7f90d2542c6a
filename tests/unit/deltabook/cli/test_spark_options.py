"""Options that commands have in common which start Spark."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deltabook.cli._options import ConfigFileError
from deltabook.cli._spark_options import parse_settings, spark_options
from runtime.spark.config import SparkConfig, SparkLaneError

found: list[SparkConfig] = []


@click.command()
@spark_options()
def command(spark: SparkConfig) -> None:
    found.append(spark)


def given(*arguments: str) -> SparkConfig:
    """The configuration that a command line gives."""
    CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    return found.pop()


def test_nothing_said_is_two_threads_of_this_process() -> None:
    assert given() == SparkConfig()


def test_what_is_said_is_the_configuration(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    config = given(
        *("--master", "spark://h:1", "--shards", "8", "--driver-host", "runtime", "--driver-bind", "0.0.0.0"),
        *("--driver-port", "1", "--block-manager-port", "2", "--executor-memory", "4G", "--executor-cores", "2"),
        *("--max-cores", "6", "--spark-secret-file", str(secret), "--spark-ui", "--spark-ui-port", "3"),
        *("--event-log", str(tmp_path), "--spark-metrics", "--spark-conf", "spark.a=b=c", "--spark-conf", "spark.d="),
        *("--spark-niceness", "0", "--spark-quiet-ms", "2000"),
    )
    assert config == SparkConfig(
        master="spark://h:1",
        shards=8,
        driver_host="runtime",
        driver_bind="0.0.0.0",
        driver_port=1,
        block_manager_port=2,
        executor_memory="4g",
        executor_cores=2,
        max_cores=6,
        secret_file=str(secret),
        ui=True,
        ui_port=3,
        event_log=str(tmp_path),
        metrics=True,
        settings={"spark.a": "b=c", "spark.d": ""},
        niceness=0,
        quiet_ms=2000,
    )


def test_pages_beyond_loopback_need_a_private_network() -> None:
    with pytest.raises(ConfigFileError, match="--private-network"):
        given("--spark-ui", "--spark-ui-interface", "0.0.0.0")
    assert given("--spark-ui", "--spark-ui-interface", "0.0.0.0", "--private-network").ui_interface == "0.0.0.0"


def test_what_cannot_work_is_told_before_spark_is_started() -> None:
    with pytest.raises(SparkLaneError, match="as Spark's master"):
        given("--master", "mesos://h:1")
    with pytest.raises(ConfigFileError, match=r"expected spark\.KEY=VALUE for --spark-conf, was 'shards'"):
        parse_settings(["shards=2"])
    with pytest.raises(click.BadParameter, match="expected a size such as 512m or 2g, was '2'"):
        given("--driver-memory", "2")
