"""Making the archive of Spark's classes: a small view is run on Spark, whose Java writes down what that took."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext

from runtime.compiler import parse_script
from runtime.engine.ingest import IngestConfig
from runtime.service.errors import ServiceError
from runtime.service.scriptrun import ScriptRun
from runtime.spark.classes import archive_path, archiving_options
from runtime.spark.java import find_java
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
    path = archive_path(find_java(environ), folder)
    if path.is_file():
        return path, False
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="deltabook-classes-") as place:
        written = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            _run(Path(place), written)
            if not written.is_file():
                raise ServiceError(f"expected an archive of classes at {written}, was none")
            written.replace(path)
        finally:
            written.unlink(missing_ok=True)
    for other in path.parent.glob("spark-*.jsa"):
        if other != path:
            other.unlink(missing_ok=True)  # of a Java or a Spark that was here before
    return path, True


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
    for _ in run.results():
        pass
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    with contextlib.suppress(OSError):
        process.stdin.close()  # pyspark's Java ends with it
    process.wait(_EXIT_S)
