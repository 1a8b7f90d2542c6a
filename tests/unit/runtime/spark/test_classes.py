"""Where the archive of Spark's classes is, and when Java is told of it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from runtime.spark.java import QUICK_JAVA, JavaHome, archive_path, java_options


def _java(folder: Path, release: str) -> JavaHome:
    folder.mkdir()
    (folder / "release").write_text(release)
    return JavaHome(folder, 17, "PATH")


def test_each_build_of_java_has_an_archive_of_its_own(tmp_path: Path) -> None:
    one, other = _java(tmp_path / "one", "17.0.1"), _java(tmp_path / "other", "17.0.2")
    assert archive_path(one) == archive_path(one)
    assert archive_path(one) != archive_path(other)
    before = archive_path(one)
    (tmp_path / "one" / "release").write_text("17.0.3")
    assert archive_path(one) != before
    assert archive_path(JavaHome(tmp_path, 17, "PATH"), tmp_path).parent == tmp_path


def test_each_spark_has_an_archive_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java compares the times of the jars: the same version that is installed again is another one."""
    java, jar = _java(tmp_path / "java", "17.0.1"), tmp_path / "jars" / "spark-core_2.13-4.jar"
    jar.parent.mkdir()
    jar.touch()
    (tmp_path / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location("pyspark", tmp_path / "__init__.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spec)
    before = archive_path(java)
    os.utime(jar, (1, 1))
    assert archive_path(java).name[:14] == before.name[:14]
    assert archive_path(java) != before
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match="expected the package pyspark"):
        archive_path(java)


def test_java_is_told_of_an_archive_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / "venv"))
    java = _java(tmp_path / "java", "17.0.1")
    assert java_options(java) == QUICK_JAVA
    path = archive_path(java)
    path.parent.mkdir(parents=True)
    path.touch()
    assert java_options(java) == f"{QUICK_JAVA} -XX:SharedArchiveFile={path} -Xlog:cds=off"
