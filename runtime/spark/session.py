"""Start and end of the Spark session: its settings, its Java, its Python, and the files of its output."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runtime.native.cache import default_kernels
from runtime.spark.config import SparkConfig, SparkLaneError
from runtime.spark.java import JavaNotFoundError, find_java, java_options
from runtime.spark.settings import check_config, log4j_properties, read_secret, spark_settings, write_private
from runtime.spark.source import EpochDataSource

if TYPE_CHECKING:
    import socketserver
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["quick_python", "start_session", "stop_session"]


_VARIABLE: Final = "PYTHONPATH"
_PROBE_S: Final = 30.0
"""Timeout in seconds of the trial run of the script."""


def quick_python(script: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Write a script that runs this Python with the path of this process, and return the command for Spark to start.

    Spark puts zip archives of its own packages first on the path of each Python that it starts. Modules in an archive
    are not stored compiled, so each process would compile some 100 of them before its first line. That takes 0.6 s, and
    a start begins seven processes one after the other. The installed packages are the same as those in the archives.
    Executors on other machines read the script at the path where the driver has written it.

    The command is this Python itself if a script cannot be run, for example on a file system that forbids execution.
    """
    path = environ.get(_VARIABLE)
    setting = f"unset {_VARIABLE}" if path is None else f"export {_VARIABLE}={shlex.quote(path)}"
    script.write_text(f'#!/bin/sh\n{setting}\nexec {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o755)
    try:
        subprocess.run([str(script), "-c", ""], check=True, timeout=_PROBE_S, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return sys.executable
    return str(script)


_LOGS: Final = ("output.log", "spark.log")
_UNREACHABLE: Final = re.compile(r"(Failed to connect to master \S+)")
_WITHOUT_INTERRUPTS: Final = ("/bin/sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh")
"""Command prefix that ignores the signals of a terminal, of which pyspark would ignore SIGINT between fork and exec.
The runtime, which receives them too, ends the JVM."""
_DEFAULT_SUBMIT: Final = "pyspark-shell"
_EXCEPTION: Final = re.compile(r"(?:Exception|Error): (.+)")


def _reason(error: str, directory: Path) -> str:
    """Return the relevant reason: a master that does not answer, else the first exception, else the error."""
    logs = [path.read_text("utf-8", "replace") if (path := directory / name).exists() else "" for name in _LOGS]
    for pattern, text in ((_UNREACHABLE, logs[1]), (_EXCEPTION, error), (_EXCEPTION, logs[0])):
        if match := pattern.search(text):
            return match[1]
    return error.splitlines()[0]


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set the variables that a JVM inherits when it is launched."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _own_jvm(niceness: int, output: Path) -> Iterator[None]:
    """Have the JVM that is launched within the block print to a file, and lower its priority.

    The JVM's threads and Python workers inherit both. They print a few lines per batch, which must not appear among
    status lines or in a terminal. No Python code runs between fork and exec, because another thread of the runtime may
    hold any lock at that time.

    The JVM is killed if the block is interrupted, or fails before pyspark has connected to the JVM: such a JVM would
    never end, because it cannot report its port: the folder for the report was removed. After any other error the JVM
    is kept, because its output has the reason; it ends with this process.
    """
    launched: list[subprocess.Popen[bytes]] = []

    def popen(command: Sequence[str], *, env: Mapping[str, str], **_: Any) -> subprocess.Popen[bytes]:
        with output.open("ab") as file:
            process = subprocess.Popen(
                (*_WITHOUT_INTERRUPTS, *command), stdin=subprocess.PIPE, stdout=file, stderr=file, env=env
            )
        launched.append(process)
        if niceness:
            with suppress(OSError):  # it may have ended already; the priority is not essential
                os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + niceness)
        return process

    original = java_gateway.Popen
    java_gateway.Popen = popen  # type: ignore[assignment, misc]
    try:
        yield
    except BaseException as error:
        is_needed = isinstance(error, Exception) and SparkContext._gateway is not None
        for process in launched if not is_needed else ():
            process.kill()
            process.wait()
            SparkContext._gateway = SparkContext._jvm = None  # the next session launches another one
        raise
    finally:
        java_gateway.Popen = original  # type: ignore[misc]


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for a record of py4j, which raises errors and also logs them with tracebacks to the root logger."""
    return Path(record.pathname).parent.name != "py4j"


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of SIGINT, which pyspark replaces on the main thread by one that calls the JVM."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def _ignore_closed_updates(server: socketserver.BaseServer) -> None:
    """Keep pyspark's server of accumulators from printing a traceback when the JVM closes its connection.

    The JVM closes it when a query is stopped while a task's update is on its way.
    """
    handle_error = server.handle_error

    def handle(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError):
            handle_error(request, address)

    server.handle_error = handle  # type: ignore[assignment, method-assign]


@contextmanager
def _launching(config: SparkConfig, directory: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Set what the JVM needs while it is launched: output, address, and the secret in a temporary file.

    The Python workers of a local master inherit ``environment`` from the JVM.
    """
    values = {
        "SPARK_LOCAL_IP": config.ui_interface,
        # Otherwise Java resolves the name of its address, which takes 10 s in a network without such names.
        "SPARK_LOCAL_HOSTNAME": config.driver_host,
        "SPARK_PUBLIC_DNS": config.driver_host,
        **environment,
    }
    path = directory / "secret.conf"
    if config.secret_file and config.master.startswith("spark:"):
        # The settings of a session are in the command line of its JVM, which every user of the machine can read.
        write_private(path, f"spark.authenticate.secret {read_secret(Path(config.secret_file))}\n")
        submit = os.environ.get("PYSPARK_SUBMIT_ARGS", _DEFAULT_SUBMIT)
        values["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(str(path))} --load-spark-defaults {submit}"
    try:
        with (
            _environment(values),
            _own_interrupts(),
            _own_jvm(config.niceness if config.is_local else 0, directory / "output.log"),
        ):
            yield
    finally:
        path.unlink(missing_ok=True)


def start_session(
    config: SparkConfig,
    directory: Path,
    environ: Mapping[str, str] = os.environ,
    on_starting: Callable[[], None] = lambda: None,
) -> SparkSession:
    """Start Spark with its logs under ``directory``; raise `SparkLaneError` in one line if it does not start.

    Executors on other machines read ``directory`` under the same path. ``on_starting`` is called once a Java is found,
    before Spark is started.
    """
    check_config(config)
    try:
        java = find_java(environ)
    except JavaNotFoundError as error:
        raise SparkLaneError(str(error)) from None
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(directory / "scratch", ignore_errors=True)  # left by a JVM that was killed
    if config.event_log:
        Path(config.event_log).mkdir(parents=True, exist_ok=True)
    on_starting()
    logging.getLogger().addFilter(_is_not_of_py4j)
    os.environ["JAVA_HOME"] = str(java.path)
    python = quick_python(directory / "python", environ)
    os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ["PYSPARK_PYTHON"] = python
    _write_log_settings(config, directory)
    builder = SparkSession.builder.master(config.master).appName("deltabook")
    kernels = default_kernels().environment()
    for name, value in spark_settings(config, directory, kernels, java_options(java), python).items():
        builder = builder.config(name, value)
    try:
        with _launching(config, directory, kernels):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise SparkLaneError(
            f"expected Spark to start on {config.master} with Java {java.version} at {java.path}, "
            f"was {_reason(str(error), directory)} (see {directory / 'output.log'})"
        ) from None
    _ignore_closed_updates(session.sparkContext._accumulatorServer)
    session.dataSource.register(EpochDataSource)
    return session


def _write_log_settings(config: SparkConfig, directory: Path) -> None:
    """Write the log settings: the driver logs to a file, an executor to standard error, which its worker rotates."""
    for name, path, role in (
        ("log4j2.properties", directory / "spark.log", "spark-driver"),
        ("log4j2-executor.properties", None, "spark-executor"),
    ):
        text = log4j_properties(path, json_lines=config.logs_json, run_id=config.run_id, role=role)
        (directory / name).write_text(text)


def stop_session(session: SparkSession) -> None:
    """Stop Spark; do nothing if its JVM has ended, for example after a signal to the whole process group."""
    with suppress(Py4JError, OSError):
        session.stop()
