"""Spark's own processes of a cluster: their settings, their environment and their command line.

`become` replaces the Python process by the Java process, so that signals, the exit code and the process id are Spark's
own, as a container or a supervisor expects. Settings are passed in a file and the secret in the environment; neither is
in a command line.

An executor on Kubernetes is started from the variables that Spark writes into its pod. Spark's own images do the same
in a shell script, which the wheel of pyspark does not have.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from deltabook.cluster.errors import ClusterError
from deltabook.wire.access import is_loopback
from deltabook.wire.advice import install_command
from runtime.spark.java import find_java, java_options
from runtime.spark.settings import (
    SECRET_VARIABLE,
    SILENT_SECONDS,
    authentication,
    daemon_metrics,
    log4j_properties,
    read_secret,
)

__all__ = ["AUTO", "DaemonConfig", "DaemonRole", "Launch", "become", "executor_launch", "prepare"]

DaemonRole = Literal["master", "worker", "history"]
AUTO: Final = "auto"
"""Interface value that stands for the address of this machine's own name."""
_CLASSES: Final = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
    "history": "org.apache.spark.deploy.history.HistoryServer",
}
_FOREIGN: Final = ("SPARK_MASTER_", "SPARK_WORKER_", "SPARK_HISTORY_", "SPARK_LOCAL_", "SPARK_DAEMON_")
"""Prefixes of environment variables that would be a second configuration of Spark; Kubernetes creates some of these
variables from the names of services.
"""
_LOGS: Final = """\
logger.spark.name = org.apache.spark.deploy
logger.spark.level = info
"""
_A_DAY_OF_RETRIES: Final = "8640"
"""Number of retries in a day, at one every 10 s on average."""


class DaemonConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of one of Spark's processes."""

    role: DaemonRole
    """Role of the process."""
    interface: str = "127.0.0.1"
    """Name or address on which the process listens and by which others reach it, or `AUTO`."""
    port: int = 0
    """Port of the process's remote calls, 0 for any; a history server has none."""
    ui_interface: str = "127.0.0.1"
    """Name or address on which its page is served."""
    ui_port: int = 0
    """Port of its page, 0 for any."""
    directory: str = ""
    """Directory of the process: a master recovers from it, executors of a worker write to it; empty for a new
    directory.
    """
    secret_file: str = ""
    """File with the secret that all processes of the cluster share; empty for none."""
    memory: str = "512m"
    """Heap size of its own Java process."""
    ui_proxy: bool = False
    """True if the master's page forwards requests to the pages of workers and applications, for a network in which only
    the master's page can be reached.
    """
    metrics: bool = False
    """True if its page serves metrics."""
    run_id: str = ""
    """Run id of all processes that were started together."""
    logs_json: bool = False
    """True if log lines are JSON."""
    settings: dict[str, str] = {}
    """Further settings of Spark, which override all others."""
    master: str = ""
    """Master of a worker, as ``spark://HOST:PORT``."""
    cores: int | None = None
    """Number of concurrent tasks of a worker; None for all cores of the machine."""
    executor_memory: str = "2g"
    """Memory of a worker for the heaps of all its executors."""
    events: str = ""
    """Directory of the event logs of a history server."""


class Launch(msgspec.Struct, frozen=True):
    """Process that is ready to be started."""

    command: tuple[str, ...]
    """Program and arguments."""
    environ: dict[str, str]
    """Complete environment."""
    directory: Path
    """Directory with its settings and its output."""


def spark_home() -> Path:
    """Return the directory of this Python's Spark; raise `ClusterError` if Spark is not installed."""
    try:
        import pyspark
    except ModuleNotFoundError:
        raise ClusterError(
            f"expected the package pyspark, was none: `{install_command('spark')}` installs it"
        ) from None
    return Path(pyspark.__file__).parent


def prepare(config: DaemonConfig, environ: Mapping[str, str]) -> Launch:
    """Write the settings, and return the process to start.

    Raise `ClusterError` for settings that cannot be used, `SparkLaneError` for a secret that cannot be read, and
    `JavaNotFoundError` if there is no Java.
    """
    home = spark_home()
    interface = _address(config)
    secret = read_secret(Path(config.secret_file)) if config.secret_file else ""
    if config.role != "history" and not secret and not is_loopback(interface):
        raise ClusterError(f"expected a secret file for a {config.role} that is not on loopback, was none: {interface}")
    if config.directory:
        directory = Path(config.directory).resolve()
        directory.mkdir(parents=True, exist_ok=True)
    else:
        directory = Path(tempfile.mkdtemp(prefix=f"deltabook-{config.role}-"))
    java = find_java(environ)
    settings = directory / "spark.conf"
    settings.write_text("".join(f"{name} {value}\n" for name, value in _settings(config, directory).items()))
    logs = directory / "log4j2.properties"
    role = f"spark-{config.role}"
    logs.write_text(log4j_properties(None, json_lines=config.logs_json, run_id=config.run_id, role=role) + _LOGS)
    arguments = _arguments(config, interface, directory)
    command = [str(home / "bin" / "spark-class"), _CLASSES[config.role], "--properties-file", str(settings)]
    kept = {name: value for name, value in environ.items() if not name.startswith(_FOREIGN) and name != SECRET_VARIABLE}
    return Launch(
        (*command, *arguments),
        {
            **kept,
            "JAVA_HOME": str(java.path),
            "SPARK_HOME": str(home),
            # This directory must not exist: Spark adds it to the class path, and Java does not use the archive of
            # classes if there is a folder on its class path.
            "SPARK_CONF_DIR": str(directory / "conf"),
            "SPARK_DAEMON_MEMORY": config.memory,
            "SPARK_DAEMON_JAVA_OPTS": f"{java_options(java)} -Dlog4j2.configurationFile=file:{logs}",
            "SPARK_LOCAL_IP": config.ui_interface,
            "SPARK_PUBLIC_DNS": interface,
            # Without a name, Java looks up the name of its address, which takes 10 s in a network without reverse
            # names.
            "SPARK_LOCAL_HOSTNAME": interface,
            **({"SPARK_LOCAL_DIRS": str(directory / "scratch")} if config.role == "worker" else {}),
            **({SECRET_VARIABLE: secret} if secret else {}),
        },
        directory,
    )


def become(launch: Launch) -> None:
    """Lock the directory and replace this process by the launched process.

    The function never returns; it raises `ClusterError` if another process holds the directory.
    """
    take_directory(launch.directory)
    shutil.rmtree(launch.directory / "scratch", ignore_errors=True)  # left by a process that could not clean up
    os.execve(launch.command[0], launch.command, launch.environ)


def take_directory(directory: Path) -> int:
    """Lock a directory until the process ends, even if the process executes another program; raise `ClusterError` if
    another process holds the directory.
    """
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ClusterError(f"expected a directory for this process alone, was {directory}, in use") from None
    os.set_inheritable(descriptor, True)
    return descriptor


def _address(config: DaemonConfig) -> str:
    if config.interface != AUTO:
        return config.interface
    name = socket.gethostname()
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise ClusterError(f"expected an address for this machine's name {name}, was none: {error}") from None


def _settings(config: DaemonConfig, directory: Path) -> dict[str, str]:
    own = {"master": _master, "worker": _worker, "history": _history}[config.role]
    return {
        "spark.ui.killEnabled": "false",
        "spark.ui.prometheus.enabled": str(config.metrics).lower(),
        "spark.ui.reverseProxy": str(config.ui_proxy).lower(),
        **(authentication() if config.secret_file else {}),
        **own(config, directory),
        **(daemon_metrics(config.role) if config.metrics and config.role != "history" else {}),
        **config.settings,
    }


def _master(config: DaemonConfig, directory: Path) -> dict[str, str]:
    del config
    return {
        "spark.master.rest.enabled": "false",  # a submission through it needs no secret
        "spark.master.ui.decommission.allow.mode": "DENY",
        "spark.worker.timeout": str(SILENT_SECONDS),
        # An application whose executors end repeatedly waits until its machines are repaired.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(directory / "recovery"),
        "spark.deploy.recoveryTimeout": str(SILENT_SECONDS),
        "spark.deploy.retainedApplications": "20",
        "spark.deploy.retainedDrivers": "1",
    }


def _worker(config: DaemonConfig, directory: Path) -> dict[str, str]:
    del config, directory
    return {
        "spark.worker.timeout": str(SILENT_SECONDS),
        # Retry every 5 to 15 s, for a day, because a master is usually restarted, but a worker that has ended is not.
        "spark.worker.initialRegistrationRetries": _A_DAY_OF_RETRIES,
        "spark.worker.maxRegistrationRetries": _A_DAY_OF_RETRIES,
        "spark.worker.cleanup.enabled": "true",
        "spark.worker.cleanup.interval": "600",
        "spark.worker.cleanup.appDataTtl": "3600",
        "spark.worker.ui.retainedExecutors": "50",
        "spark.worker.ui.retainedDrivers": "1",
    }


def _history(config: DaemonConfig, directory: Path) -> dict[str, str]:
    events = Path(config.events).resolve()
    events.mkdir(parents=True, exist_ok=True)
    return {
        "spark.history.fs.logDirectory": events.as_uri(),
        "spark.history.ui.port": str(config.ui_port),
        "spark.history.store.path": str(directory / "store"),
        "spark.history.store.maxDiskUsage": "2g",
        "spark.history.retainedApplications": "10",
        "spark.history.fs.cleaner.enabled": "true",
        "spark.history.fs.cleaner.maxAge": "7d",
        "spark.history.fs.cleaner.maxNum": "100",
        # A query may run for weeks, and the latest files of its event log have all that is needed.
        "spark.history.fs.eventLog.rolling.maxFilesToRetain": "4",
    }


def _arguments(config: DaemonConfig, interface: str, directory: Path) -> list[str]:
    if config.role == "history":
        return []
    common = ["--host", interface, "--port", str(config.port), "--webui-port", str(config.ui_port)]
    if config.role == "master":
        (directory / "recovery").mkdir(exist_ok=True)
        return common
    cores = config.cores or os.cpu_count() or 1
    own = ["--cores", str(cores), "--memory", config.executor_memory, "--work-dir", str(directory / "work")]
    return [*common, *own, config.master]


_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"


def executor_launch(environ: Mapping[str, str], directory: Path) -> Launch:
    """Return the process that an executor's pod must start; raise `ClusterError` for a missing variable."""
    if missing := [name for name in (*_ARGUMENTS.values(), _MEMORY) if not environ.get(name)]:
        raise ClusterError(f"expected the variables that Spark sets in an executor's pod, was none named {missing[0]}")
    home = spark_home()
    numbered = {int(match[1]): value for name, value in environ.items() if (match := _OPTION.fullmatch(name))}
    places = [f"{environ.get('SPARK_CONF_DIR', '/opt/spark/conf')}", f"{home}/jars/*"]
    command = [
        str(find_java(environ).path / "bin" / "java"),
        *(value for _, value in sorted(numbered.items())),
        f"-Xms{environ[_MEMORY]}",
        f"-Xmx{environ[_MEMORY]}",
        "-cp",
        ":".join(places),
        _BACKEND,
        *(part for option, name in _ARGUMENTS.items() for part in (option, environ[name])),
    ]
    return Launch(
        tuple(command),
        {**environ, "SPARK_HOME": str(home), "SPARK_LOCAL_HOSTNAME": environ["SPARK_EXECUTOR_POD_IP"]},
        directory,
    )
