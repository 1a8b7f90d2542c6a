"""The archive of Spark's classes, made by the Java of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.spark.java import archive_path, find_java

MAKE = """
import sys
from pathlib import Path
from runtime.service.lanes.spark_classes import make_archive
for _ in range(2):
    print(*make_archive(folder=Path(sys.argv[1])))
"""
"""In a process of its own, whose Java it ends."""


@pytest.mark.slow
def test_an_archive_is_made_once_and_replaces_older_archives(tmp_path: Path) -> None:
    older = archive_path(find_java(os.environ), tmp_path)
    older.with_name(f"{older.name.rsplit('-', 1)[0]}-before.jsa").touch()
    (tmp_path / "spark-of-another-java.jsa").touch()
    (tmp_path / "spark-killed.tmp").touch()
    done = subprocess.run(
        [sys.executable, "-c", MAKE, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    archive = older
    assert {path.name for path in tmp_path.iterdir()} == {archive.name, "lock", "spark-of-another-java.jsa"}
    assert done.stdout.splitlines() == [f"{archive} True", f"{archive} False"]
    assert archive.stat().st_size > 10_000_000
