"""What Spark lacks is named with the command that installs it, before anything of Spark is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.wire import advice
from runtime.compiler import NamedSelect
from runtime.service.config import LiveConfig
from runtime.service.live import LiveRuntime
from runtime.spark import requirements
from runtime.spark.config import SparkLaneError
from runtime.spark.java import JavaNotFoundError
from tests.generators.reader_lab import FeedInHand, QueueReactor


def without(monkeypatch: pytest.MonkeyPatch, *packages: str, java: bool = True) -> None:
    def find_java(environ: object) -> None:
        del environ
        if not java:
            raise JavaNotFoundError("expected a Java, was none")

    monkeypatch.setattr(requirements, "find_java", find_java)
    monkeypatch.setattr(requirements, "_is_installed", lambda module: module not in packages)
    monkeypatch.setattr(
        requirements, "install_command", lambda *extras: advice.install_command(*extras, is_checkout=False)
    )


def test_nothing_is_missing_where_everything_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch)
    assert requirements.missing_requirement({}) == ""
    requirements.check_requirements({})


@pytest.mark.parametrize(
    ("packages", "java", "words"),
    [
        (
            ("pyspark", "py4j"),
            True,
            "expected the package pyspark, was none: `pip install 'deltabook[spark]'` installs it",
        ),
        (
            ("google.protobuf",),
            True,
            "expected the package protobuf, was none: `pip install 'deltabook[spark]'` installs",
        ),
        (
            ("pyspark",),
            False,
            "expected the package pyspark and a Java, was none: `pip install 'deltabook[spark,java]'` installs it",
        ),
        ((), False, "expected a Java, was none"),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, packages: tuple[str, ...], java: bool, words: str
) -> None:
    without(monkeypatch, *packages, java=java)
    assert requirements.missing_requirement({}).startswith(words)
    with pytest.raises(SparkLaneError, match="expected"):
        requirements.check_requirements({})


def test_every_module_is_one_of_this_environment() -> None:
    """Else a typing mistake would keep Spark away from everybody."""
    assert all(map(requirements._is_installed, requirements.PACKAGES.values()))
    assert not requirements._is_installed("google.no_such_module")
    assert not requirements._is_installed("no_such_package.module")


def test_a_runtime_for_spark_is_refused_without_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", FeedInHand)
    monkeypatch.setattr(
        "runtime.service.rundir.directory.missing_requirement", lambda environ: "expected pyspark, was none"
    )
    directory = tmp_path / "run"
    views = [NamedSelect("volume", "SELECT SUM(volume) AS v FROM bids")]
    with pytest.raises(SparkLaneError, match="expected pyspark, was none; --no-spark with --express alone runs"):
        LiveRuntime(QueueReactor(), LiveConfig(directory=directory, feed=("127.0.0.1", 1)), views, lambda _: None)
    assert not directory.exists()
