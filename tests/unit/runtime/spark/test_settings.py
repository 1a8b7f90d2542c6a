"""What Spark is told on one machine and on a cluster, and what is refused before it starts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from runtime.spark.config import SparkConfig, SparkLaneError
from runtime.spark.settings import SILENT_SECONDS, check_config, spark_settings

LOCAL = SparkConfig()
CLUSTER = SparkConfig(master="spark://127.0.0.1:1")
PLACE = Path("/var/lib/deltabook/runtime/spark")


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4]", "local[2,3]", "spark://h:1", "spark://a:1,b:2", "k8s://https://h:6443", "yarn"],
)
def test_every_master_of_spark_is_known(master: str) -> None:
    check_config(SparkConfig(master=master))


@pytest.mark.parametrize("master", ["", "local[", "local[x]", "spark://h", "spark:/h:1", "mesos://h:1", "yarn-client"])
def test_another_master_is_refused(master: str) -> None:
    with pytest.raises(SparkLaneError, match="expected local"):
        check_config(SparkConfig(master=master))


@pytest.mark.parametrize("place", [{"driver_host": "runtime"}, {"driver_bind": "0.0.0.0"}, {"driver_bind": "::"}])
def test_a_driver_beyond_loopback_needs_a_secret(place: dict[str, str]) -> None:
    config = msgspec.structs.replace(CLUSTER, **place)
    with pytest.raises(SparkLaneError, match="expected a secret file for a driver"):
        check_config(config)
    check_config(msgspec.structs.replace(config, secret_file="secret"))
    check_config(msgspec.structs.replace(config, master="yarn"))


@pytest.mark.parametrize("setting", ["spark.sql.shuffle.partitions", "spark.authenticate.secret", "spark.speculation"])
def test_settings_on_which_the_answers_depend_are_not_for_users(setting: str) -> None:
    with pytest.raises(SparkLaneError, match=setting):
        check_config(SparkConfig(settings={setting: "7"}))


@pytest.mark.parametrize("setting", ["spark.authenticate", "spark.driver.bindAddress", "spark.driver.host"])
def test_who_gets_to_the_driver_is_not_decided_past_the_options(setting: str) -> None:
    with pytest.raises(SparkLaneError, match=f"expected {setting} to be set by its own option"):
        check_config(SparkConfig(settings={setting: "0.0.0.0"}))


def test_a_driver_without_executors_is_on_loopback() -> None:
    with pytest.raises(SparkLaneError, match=r"expected a driver on loopback, as local\[2\] has no executors, was 0"):
        check_config(SparkConfig(driver_bind="0.0.0.0", secret_file="secret"))
    check_config(SparkConfig(driver_bind="127.0.0.2"))


def test_executors_have_the_kernel_cache_of_the_driver() -> None:
    """Those of a local master are children of its Java and inherit it."""
    kernels = {"DELTABOOK_KERNEL_CACHE": "/var/lib/deltabook/kernels", "DELTABOOK_NATIVE": "on"}
    found = spark_settings(CLUSTER, PLACE, kernels)
    assert found["spark.executorEnv.DELTABOOK_KERNEL_CACHE"] == "/var/lib/deltabook/kernels"
    assert found["spark.executorEnv.DELTABOOK_NATIVE"] == "on"
    assert not any(name.startswith("spark.executorEnv.") for name in spark_settings(LOCAL, PLACE, kernels))


def test_executors_start_like_the_driver() -> None:
    """With the archive of classes, and with a Python that reads no zip archives."""
    found = spark_settings(CLUSTER, PLACE, java_options="-XX:SharedArchiveFile=/a.jsa", python="/run/python")
    assert found["spark.driver.defaultJavaOptions"] == "-XX:SharedArchiveFile=/a.jsa"
    assert found["spark.executor.defaultJavaOptions"] == "-XX:SharedArchiveFile=/a.jsa"
    assert found["spark.pyspark.python"] == "/run/python"


def test_nothing_listens_beyond_loopback_unless_it_is_told_to() -> None:
    for config in (LOCAL, CLUSTER):
        found = spark_settings(config, PLACE)
        assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
        assert found["spark.ui.enabled"] == "false"
    found = spark_settings(msgspec.structs.replace(CLUSTER, driver_host="runtime", driver_bind="0.0.0.0"), PLACE)
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("runtime", "0.0.0.0")
    assert spark_settings(SparkConfig(driver_host="runtime"), PLACE)["spark.driver.bindAddress"] == "runtime"


def test_the_secret_is_in_no_setting_or_is_a_file_of_kubernetes() -> None:
    config = msgspec.structs.replace(CLUSTER, secret_file="/run/secrets/spark")
    found = spark_settings(config, PLACE)
    assert (found["spark.authenticate"], found["spark.network.crypto.enabled"]) == ("true", "true")
    assert not any("/run/secrets/spark" in value for value in found.values())
    in_pods = spark_settings(msgspec.structs.replace(config, master="k8s://https://h:1"), PLACE)
    assert in_pods["spark.authenticate.secret.file"] == "/run/secrets/spark"
    assert "spark.authenticate" not in spark_settings(CLUSTER, PLACE)
    assert spark_settings(SparkConfig(master="yarn"), PLACE)["spark.authenticate"] == "true"


def test_a_lost_executor_is_noticed_soon_and_ends_no_query() -> None:
    found = spark_settings(CLUSTER, PLACE)
    assert found["spark.network.timeout"] == f"{SILENT_SECONDS}s"
    assert int(found["spark.executor.heartbeatInterval"].rstrip("s")) * 3 < SILENT_SECONDS
    assert int(found["spark.task.maxFailures"]) > 4
    assert found["spark.speculation"] == "false"
    assert found["spark.dynamicAllocation.enabled"] == "false"
    assert not any(name.startswith("spark.executor") for name in spark_settings(LOCAL, PLACE))


def test_what_is_taken_of_a_cluster_is_bounded() -> None:
    config = msgspec.structs.replace(CLUSTER, executor_memory="3g", executor_cores=2, max_cores=6)
    found = spark_settings(config, PLACE)
    expected = {"spark.executor.memory": "3g", "spark.executor.cores": "2", "spark.cores.max": "6"}
    assert expected.items() <= found.items()
    assert "spark.cores.max" not in spark_settings(CLUSTER, PLACE)
    assert found["spark.executor.logs.rolling.strategy"] == "size"


def test_pages_event_log_and_figures_are_there_when_asked_for(tmp_path: Path) -> None:
    config = SparkConfig(ui=True, ui_port=1, ui_proxy=True, event_log=str(tmp_path), metrics=True)
    found = spark_settings(config, PLACE)
    expected = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "1",
        "spark.ui.killEnabled": "false",
        "spark.ui.reverseProxy": "true",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path.as_uri(),
        "spark.eventLog.rolling.enabled": "true",
        "spark.ui.prometheus.enabled": "true",
    }
    assert expected.items() <= found.items()
    plain = spark_settings(LOCAL, PLACE)
    assert (plain["spark.eventLog.enabled"], plain["spark.ui.prometheus.enabled"]) == ("false", "false")


def test_settings_that_are_given_have_the_last_word() -> None:
    config = msgspec.structs.replace(CLUSTER, settings={"spark.locality.wait": "9s"})
    assert spark_settings(config, PLACE)["spark.locality.wait"] == "9s"
