"""A start of Spark that is interrupted leaves neither a process nor a signal handler behind."""

from __future__ import annotations

import os
import signal
import socketserver
import time
from pathlib import Path

import pytest

from runtime.spark import session
from runtime.spark.config import SparkConfig
from runtime.spark.java import JavaHome

pytestmark = pytest.mark.process


def test_an_interrupted_start_ends_the_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark forgets a JVM whose launch is interrupted, and keeps a signal handler of its own."""
    (tmp_path / "bin").mkdir()
    launcher, pid_file = tmp_path / "bin" / "spark-submit", tmp_path / "pid"
    os.mkfifo(pid_file)
    launcher.write_text(f"#!/bin/sh\necho $$ > {pid_file}\nexec sleep 600\n")
    launcher.chmod(0o755)
    for name in ("SPARK_HOME", "JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(session, "find_java", lambda environ: JavaHome(tmp_path, 17, "PATH"))
    monkeypatch.setattr(session, "quick_python", lambda directory, environ: str(tmp_path))  # its probe may sleep too
    pids: list[int] = []
    handler = signal.getsignal(signal.SIGINT)

    def sleep(seconds: float) -> None:
        """What pyspark calls while it waits for the JVM: hear that it runs, and be interrupted."""
        del seconds
        pids.append(int(pid_file.read_text()))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        session.start_session(SparkConfig(), tmp_path / "spark", {})
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert signal.getsignal(signal.SIGINT) is handler


def test_only_a_closed_accumulator_connection_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    server = socketserver.BaseServer("", socketserver.BaseRequestHandler)
    session._ignore_closed_updates(server)
    for error in (EOFError(), ValueError("broken")):
        try:
            raise error
        except type(error):
            server.handle_error(None, "address")  # type: ignore[arg-type]
    printed = capsys.readouterr().err
    assert ("EOFError" in printed, "ValueError: broken" in printed) == (False, True)
