"""A run is moved: begun on the cluster, its volume copied out, gone on with in local mode, exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from tests.cluster.compose import MakeCluster
from tests.cluster.recorded import SERVICES, TRACE, Rows, local, override, shown
from tests.integration._oracle import Replayed
from tests.integration._processes import Running, exchange
from tests.integration.test_query_run import FINANCE

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(2400)]
PART = 2_500
"""Records that are played on the cluster at least; at so slow a speed not many more."""
SLOWLY = "0.01"


def served(port: int) -> dict[str, Rows]:
    """What a runtime of this machine serves."""
    found: dict[str, Rows] = {}
    for name in FINANCE:
        said = CliRunner().invoke(main, ["query", "show", name, "--results", f"127.0.0.1:{port}", "--json"])
        assert said.exit_code == 0, said.output
        found[name] = shown(said.stdout)
    return found


def test_a_cluster_run_continues_in_local_mode_at_another_path(make_cluster: MakeCluster, tmp_path: Path) -> None:
    expected = local(tmp_path)
    moved = tmp_path / "moved"
    with make_cluster(services=SERVICES, overrides=[override(tmp_path, SLOWLY)]) as cluster:
        cluster.ask("exchange", "exchange", "replay", "seek", str(PART))
        cluster.wait_until(
            lambda: cluster.ask("exchange", "exchange", "replay")["position"] >= PART, "half of the trace"
        )
        cluster.wait_until(
            lambda: cluster.health("runtime")["status"]["published_epoch"] > 1, "a version with some of the trace"
        )
        played = cluster.ask("exchange", "exchange", "replay")
        assert not played["finished"]
        cluster.stop()
        for part in ("exchange", "runtime"):
            cluster.copy_out(part, moved / part)
    replay = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--agents", "none", "--speed", "max"]
    with exchange(moved / "exchange", *replay) as market:
        feed = f"127.0.0.1:{market.ready().ports['text']}"
        where = ["--feed", feed, "--dir", str(moved / "runtime"), "--master", "local[2]", "--shards", "4"]
        with Running("runtime", *where, "--status-interval", "0.1", "--exit-with-stdin") as engine:
            port = engine.ready().ports["http"]
            engine.wait_for("feed_sequence", Replayed().trace(TRACE.read_text().splitlines(), "REPLAY").messages)
            # What is applied is sealed at the next tick, and published behind that.
            sealed = engine.figures()["epoch"]
            engine.wait_for("published_epoch", sealed)
            engine.figures(lambda figures: figures["published_epoch"] == figures["epoch"], "everything published")
            assert served(port) == expected
            engine.close_input()
            engine.finish()
