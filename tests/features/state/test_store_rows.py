"""Row 10: one conformance test runs over all stores, in Spark's case within a processor of a real streaming query."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.state import MemoryStore, SqliteStore, Store
from tests.generators.storechecks import CHECKS

ROOT = Path(__file__).parents[3]
STEPS = max(len(steps) for steps in CHECKS.values())


@pytest.mark.parametrize("check", CHECKS)
def test_row_10_memory_conforms(check: str) -> None:
    store = MemoryStore()
    for step in CHECKS[check]:
        step(store)


@pytest.mark.parametrize("check", CHECKS)
def test_row_10_sqlite_conforms(check: str, tmp_path: Path) -> None:
    for step in CHECKS[check]:
        store: Store = SqliteStore(tmp_path / "state.db")
        try:
            step(store)
        finally:
            store.close()
            store.close()


@pytest.fixture(scope="module")
def spark_outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, int], str]]:
    """What every step of every check said in a streaming query: a group for a check, a batch for a step."""
    pytest.importorskip("pyspark")
    from runtime.spark.session import SparkConfig, start_session
    from tests.features.state.sparkprocessor import OUTPUT_SCHEMA, CheckProcessor

    folder = tmp_path_factory.mktemp("spark")
    paths = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *([paths] if paths else [])]))
        session = start_session(SparkConfig(), folder)
        try:
            yield _outcomes(session, folder, CheckProcessor(), OUTPUT_SCHEMA)
        finally:
            session.stop()


def _outcomes(session: Any, folder: Path, processor: Any, schema: str) -> dict[tuple[str, int], str]:
    given = folder / "given"
    given.mkdir()
    for number in range(STEPS):
        path = given / f"{number}.txt"
        path.write_text("".join(f"{check}\n" for check, steps in CHECKS.items() if number < len(steps)))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    lines = session.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(given))
    said = lines.groupBy("value").transformWithState(processor, schema, "Update", "None")
    found: dict[tuple[str, int], str] = {}

    def take(batch: Any, _: int) -> None:
        found.update({(row["check"], row["step"]): row["failure"] for row in batch.collect()})

    writer = said.writeStream.outputMode("update").foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination()
    return found


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", CHECKS)
def test_row_10_sparks_state_conforms(check: str, spark_outcomes: dict[tuple[str, int], str]) -> None:
    said = [spark_outcomes.get((check, number), "nothing was said") for number in range(len(CHECKS[check]))]
    assert said == [""] * len(CHECKS[check])
