"""What Spark's own processes are started with: settings, environment, and a secret that is in no command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltabook.cluster.daemons import AUTO, DaemonConfig, DaemonRole, Launch, executor_launch, prepare, take_directory
from deltabook.cluster.errors import ClusterError
from runtime.spark.config import SparkLaneError
from runtime.spark.java import find_java, java_options

SECRET = "0123456789abcdef-a-secret"
MASTER = "spark://127.0.0.1:1"
POD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:1",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_EXECUTOR_MEMORY": "1024m",
}


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "spark.secret"
    path.write_text(SECRET + "\n")
    return str(path)


def settings(launch: Launch) -> dict[str, str]:
    """What the process reads from the file that its command line names."""
    path = Path(launch.command[launch.command.index("--properties-file") + 1])
    return dict(line.split(" ", 1) for line in path.read_text().splitlines())


def launched(tmp_path: Path, role: DaemonRole, **others: object) -> Launch:
    plain = {"role": role, "directory": str(tmp_path / role), "master": MASTER, "events": str(tmp_path / "events")}
    return prepare(DaemonConfig(**(plain | others)), os.environ)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["master", "worker"])
def test_the_secret_is_in_the_environment_alone(tmp_path: Path, secret: str, role: DaemonRole) -> None:
    launch = launched(tmp_path, role, secret_file=secret)
    assert [name for name, value in launch.environ.items() if SECRET in value] == ["_SPARK_AUTH_SECRET"]
    assert not any(SECRET in part for part in launch.command)
    for path in (tmp_path / role).rglob("*"):
        assert path.is_dir() or SECRET not in path.read_text(), path
    found = settings(launch)
    assert (found["spark.authenticate"], found["spark.network.crypto.enabled"]) == ("true", "true")


@pytest.mark.parametrize("role", ["master", "worker", "history"])
def test_a_daemon_starts_quickly(tmp_path: Path, role: DaemonRole) -> None:
    """It maps the archive of classes, which needs a class path of jars alone, and looks up no name of its address."""
    environ = launched(tmp_path, role, interface="127.0.0.2", secret_file="").environ
    assert not Path(environ["SPARK_CONF_DIR"]).exists()
    assert java_options(find_java(os.environ)) in environ["SPARK_DAEMON_JAVA_OPTS"]
    assert environ["SPARK_LOCAL_HOSTNAME"] == "127.0.0.2"


def test_a_secret_of_somebody_else_is_not_taken_over(tmp_path: Path) -> None:
    config = DaemonConfig("master", directory=str(tmp_path / "master"))
    launch = prepare(config, {**os.environ, "_SPARK_AUTH_SECRET": SECRET})
    assert "_SPARK_AUTH_SECRET" not in launch.environ
    assert "spark.authenticate" not in settings(launch)


@pytest.mark.parametrize("role", ["master", "worker"])
@pytest.mark.parametrize("interface", ["spark-master", "10.0.0.1", "::"])
def test_beyond_loopback_nothing_is_without_a_secret(
    tmp_path: Path, secret: str, role: DaemonRole, interface: str
) -> None:
    with pytest.raises(ClusterError, match=f"expected a secret file for a {role} that is not on loopback, was none"):
        launched(tmp_path, role, interface=interface)
    launch = launched(tmp_path, role, interface=interface, secret_file=secret)
    assert launch.command[launch.command.index("--host") + 1] == interface
    assert launch.environ["SPARK_PUBLIC_DNS"] == interface


def test_an_address_can_be_that_of_the_machines_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostbyname", lambda name: "127.0.0.7")
    launch = launched(tmp_path, "worker", interface=AUTO)
    assert launch.command[launch.command.index("--host") + 1] == "127.0.0.7"


def test_nothing_can_be_ended_or_submitted_on_a_page(tmp_path: Path) -> None:
    found = settings(launched(tmp_path, "master"))
    assert found["spark.ui.killEnabled"] == "false"
    assert found["spark.master.rest.enabled"] == "false"
    assert found["spark.master.ui.decommission.allow.mode"] == "DENY"


def test_a_master_that_comes_back_knows_what_it_knew(tmp_path: Path) -> None:
    found = settings(launched(tmp_path, "master"))
    assert found["spark.deploy.recoveryMode"] == "FILESYSTEM"
    assert found["spark.deploy.recoveryDirectory"] == str(tmp_path / "master" / "recovery")
    assert found["spark.deploy.maxExecutorRetries"] == "-1"


def test_a_worker_says_what_it_has_and_works_in_its_directory(tmp_path: Path) -> None:
    launch = launched(tmp_path, "worker", cores=3, executor_memory="4g", memory="300m")
    text = " ".join(launch.command)
    assert f"--cores 3 --memory 4g --work-dir {tmp_path}/worker/work {MASTER}" in text
    assert launch.environ["SPARK_LOCAL_DIRS"] == f"{tmp_path}/worker/scratch"
    assert launch.environ["SPARK_DAEMON_MEMORY"] == "300m"


def test_a_history_server_keeps_what_is_new(tmp_path: Path) -> None:
    launch = launched(tmp_path, "history", ui_port=1)
    found = settings(launch)
    assert found["spark.history.fs.logDirectory"] == (tmp_path / "events").as_uri()
    assert (tmp_path / "events").is_dir()
    assert found["spark.history.fs.cleaner.enabled"] == "true"
    assert "--host" not in launch.command


def test_service_variables_of_kubernetes_do_no_harm(tmp_path: Path) -> None:
    config = DaemonConfig("master", directory=str(tmp_path / "master"))
    launch = prepare(config, {**os.environ, "SPARK_MASTER_PORT": "tcp://10.0.0.1:7077", "SPARK_WORKER_CORES": "x"})
    assert not {"SPARK_MASTER_PORT", "SPARK_WORKER_CORES"} & launch.environ.keys()


def test_settings_that_are_given_have_the_last_word(tmp_path: Path) -> None:
    found = settings(launched(tmp_path, "worker", settings={"spark.worker.timeout": "77"}))
    assert found["spark.worker.timeout"] == "77"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("short", "16 to 1024 characters"), ("two words of a secret", "only word"), ("é" * 20, "only word")],
)
def test_what_is_no_secret_is_refused_and_not_shown(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(SparkLaneError, match=reason) as refusal:
        launched(tmp_path, "master", secret_file=str(path))
    assert text not in str(refusal.value)
    with pytest.raises(SparkLaneError, match="was No such file"):
        launched(tmp_path, "master", secret_file=str(tmp_path / "none"))


def test_a_directory_is_one_process_alone(tmp_path: Path) -> None:
    descriptor = take_directory(tmp_path)
    with pytest.raises(ClusterError, match="in use"):
        take_directory(tmp_path)
    os.close(descriptor)
    os.close(take_directory(tmp_path))


@pytest.mark.process
def test_what_a_process_turns_into_still_has_the_directory(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from deltabook.cluster.daemons import *;"
        f"become(Launch(('/bin/cat',), {{}}, Path({str(tmp_path)!r})))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"x\n"  # it is cat by now
        with pytest.raises(ClusterError, match="in use"):
            take_directory(tmp_path)
        process.stdin.close()
    os.close(take_directory(tmp_path))


def test_an_executor_of_kubernetes_is_what_spark_says(tmp_path: Path) -> None:
    options = {"SPARK_JAVA_OPT_10": "-Dlast=1", "SPARK_JAVA_OPT_2": "-Dfirst=1"}
    launch = executor_launch({**os.environ, **POD, **options}, tmp_path)
    assert launch.command[1:5] == ("-Dfirst=1", "-Dlast=1", "-Xms1024m", "-Xmx1024m")
    text = " ".join(launch.command)
    assert "KubernetesExecutorBackend --driver-url spark://CoarseGrainedScheduler@driver:1 --executor-id 3" in text
    assert text.endswith("--hostname 10.0.0.3 --resourceProfileId 0 --podName exec-3")
    with pytest.raises(ClusterError, match="was none named SPARK_DRIVER_URL"):
        executor_launch(os.environ, tmp_path)
