"""A run is backed up while it runs and goes on elsewhere: another path, another master, another number of shards."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from deltabook.backup import back_up, restore
from tests.generators.traces import trace
from tests.integration._oracle import Replayed
from tests.integration._processes import Results, await_end_of_java, exchange, feed, runtime
from tests.integration.test_runtime_recovery import MESSAGES, NAMES, SEED, VIEWS, check_epochs, check_held, paced_trace

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_run_goes_on_elsewhere_exact(tmp_path: Path) -> None:
    """Nothing is left at the old place. The exchange of the backup is not behind its runtime, whatever came between."""
    lines = paced_trace(trace(SEED, MESSAGES))
    oracle = Replayed().trace(lines, "TRACE")
    file, old, new = tmp_path / "trace.csv", tmp_path / "volume", tmp_path / "home" / "run"
    file.write_text("\n".join(lines) + "\n")
    replay = ["--replay", str(file), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]
    options = ["--epoch-messages", "80", "--max-epochs-per-batch", "8", "--snapshot-epochs", "8"]
    with exchange(old / "exchange", *replay, "--speed", "1") as market:
        port = market.ready().ports["text"]
        with runtime(old / "runtime", port, VIEWS, *options, "--shards", "2") as engine:
            engine.wait_for("published_epoch", 12)
            made = back_up(old, tmp_path / "volume.tar.zst")
            engine.wait_for("published_epoch", int(engine.figures()["published_epoch"]) + 3)
            engine.kill()
        market.kill()
    await_end_of_java(old / "runtime")
    assert [part.path for part in made.manifest.parts] == ["runtime", "exchange"]
    assert not any("checkpoint" in entry.path for entry in made.manifest.files)
    shutil.rmtree(old)
    restore(tmp_path / "volume.tar.zst", new)
    begun = check_epochs(new / "runtime")
    assert 0 < begun < oracle.messages - 500, "it was in mid-replay"
    with exchange(new / "exchange", *replay, "--speed", "max", port=port) as market:
        with runtime(new / "runtime", port, VIEWS, *options, "--shards", "3", "--master", "local[1]") as engine:
            market.wait_for("sequence", oracle.messages)
            version = Results(engine).covering(NAMES, oracle.messages)
            engine.stop()
            said = engine.errors()
        told = feed(port, oracle.messages)
    assert "cannot be continued (there is none): it is rebuilt from the snapshot and the log at version" in said
    assert check_epochs(new / "runtime") == version.sequence == oracle.messages == len(told)
    assert version.rows == oracle.answers(VIEWS)
    check_held(new / "runtime", version, told, random.Random(SEED))
