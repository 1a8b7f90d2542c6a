"""An engine, the image and secrets, for tests in containers: there once for all of them."""

from __future__ import annotations

import secrets as random_names
import time
from pathlib import Path

import pytest

from deltabook.cluster.secrets import make_secrets
from tests.cluster.compose import ROOT, ComposeCluster, MakeCluster
from tests.cluster.engine import Engine, EngineError, find_engine
from tests.cluster.report import Report

IMAGE = "deltabook:test"
_BUILD_S = 1_800.0


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of this machine. Without one the test fails and says so: `make cluster-test` brings one up."""
    try:
        return find_engine()
    except EngineError as error:
        pytest.fail(f"expected a Docker engine with the compose plugin: {error}", pytrace=False)


@pytest.fixture(scope="session")
def report() -> Report:
    """Where figures are entered."""
    return Report()


@pytest.fixture(scope="session")
def image(engine: Engine, report: Report) -> str:
    """The image of this checkout."""
    revision = random_names.token_hex(4)
    for what, sources in (
        ("built, with the caches as they were", "tests"),
        ("built, Java and packages cached, the sources anew", revision),
        ("built again, nothing changed", revision),
    ):
        begin_s = time.monotonic()
        options = ("-q", "-f", "deploy/Dockerfile", "--build-arg", f"REVISION={sources}", "-t", IMAGE)
        engine.run("build", *options, ".", timeout_s=_BUILD_S, directory=ROOT)
        report.enter("image", what, time.monotonic() - begin_s, "s")
    return IMAGE


@pytest.fixture(scope="session")
def cluster_secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokens, certificates and Spark's secret."""
    directory = tmp_path_factory.mktemp("secrets")
    make_secrets(directory)
    return directory


@pytest.fixture
def make_cluster(engine: Engine, image: str, cluster_secrets: Path) -> MakeCluster:
    """Makes a cluster that is not up yet; arguments are those of `ComposeCluster` by name. Use it with ``with``."""

    def make(**options: object) -> ComposeCluster:
        project = f"deltabook-test-{random_names.token_hex(4)}"
        return ComposeCluster(engine, project, cluster_secrets, image=image, **options)  # type: ignore[arg-type]

    return make
