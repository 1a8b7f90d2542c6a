"""What a monitor is told is what there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exchange_server.journal import FsyncPolicy
from exchange_server.matching.inputs import Enter, Phase
from tests.generators.operated import Operated

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path)
    yield operated
    operated.close()


def samples(operated: Operated) -> Samples:
    """Every sample by its name, without the prefix, and its labels."""
    families = text_string_to_metric_families(operated.ask("/metrics").body.decode())
    return {
        (sample.name.removeprefix("deltabook_exchange_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_market_its_symbols_and_its_journal_are_measured(operated: Operated) -> None:
    operated.submit(Enter(0, 0, 4, 0, "ACME", "B", 5, 98), Enter(0, 0, 4, 0, "ACME", "S", 2, 98))
    operated.submit(Phase(0, "GLOBEX", "halted"))
    trader, _ = operated.connect("0,7,,1")
    operated.connect("1")
    trader.dataReceived(b"1,0,0,7,B,5,100,NONE\n")
    operated.clock.advance(0)
    found = samples(operated)
    assert found["inputs_total", ()] == operated.exchange.inputs
    assert (found["orders_total", ()], found["trades_total", ()]) == (2, 1)
    assert (found["live_orders", ()], found["accounts", ()]) == (1, 1)
    assert found["refused_total", (("reason", "unknown_symbol"),)] == 1
    assert found["messages_total", (("feed", "text"),)] == operated.next_number - 1
    assert found["phase", (("phase", "halted"), ("symbol", "GLOBEX"))] == 1
    assert found["phase", (("phase", "continuous"), ("symbol", "GLOBEX"))] == 0
    assert found["book_orders", (("symbol", "ACME"),)] == 1
    assert (found["sessions", (("face", "text"),)], found["listeners", (("face", "text"),)]) == (2, 2)
    assert found["journal_bytes", ()] == operated.exchange.journal.size_bytes > 0


def test_only_so_many_symbols_have_figures_of_their_own(operated: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exchange_server.admin.metrics.MOST_MEASURED", 1)
    operated.submit(Phase(0, "GLOBEX", "paused"))
    found = samples(operated)
    assert ("book_orders", (("symbol", "ACME"),)) in found
    assert ("book_orders", (("symbol", "GLOBEX"),)) not in found
    assert (found["symbols", (("phase", "continuous"),)], found["symbols", (("phase", "paused"),)]) == (1, 1)


def test_the_slowest_listener_is_how_far_all_are_behind(operated: Operated) -> None:
    slow, _ = operated.connect("1,,1")
    slow.pauseProducing()
    operated.quote(100)
    lag = samples(operated)["lag_bytes", (("face", "text"),)]
    assert lag == operated.server.farthest_behind_bytes > 1000


def test_a_snapshot_has_an_age_once_there_is_one(operated: Operated) -> None:
    assert ("snapshot_age_seconds", ()) not in samples(operated)
    operated.snapshot_age_s = 7.5
    assert samples(operated)["snapshot_age_seconds", ()] == 7.5


def test_fsyncs_are_a_histogram_of_their_times(operated: Operated) -> None:
    for seconds in (0.0000005, 0.000001, 0.0009, 0.0009, 100.0):
        operated.fsyncs.add(seconds)
    found = samples(operated)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name == "fsync_seconds_bucket"}
    assert (buckets["1e-06"], buckets["0.000512"], buckets["0.001024"], buckets["+Inf"]) == (2, 2, 4, 5)
    assert found["fsync_seconds_count", ()] == 5
    assert found["fsync_seconds_sum", ()] == pytest.approx(100.0018015)


@pytest.mark.parametrize(("fsync", "request_s", "delivery_s"), [("interval", 0.0, 0.004), ("always", 0.004, 0.0)])
def test_requests_and_bursts_are_timed(tmp_path: Path, fsync: FsyncPolicy, request_s: float, delivery_s: float) -> None:
    """A batch from its bytes to the market's answer, which waits for a group commit; a burst from there to the wire."""
    operated = Operated(tmp_path / "timed", fsync=fsync)
    trader, _ = operated.connect("0,7,,1")
    operated.connect("1")
    operated.clock.advance(0)
    face = (("face", "text"),)
    before = samples(operated)
    trader.dataReceived(b"1,0,0,7,B,5,100,ACME\n2,0,0,7,B,5,101,ACME\n")
    operated.clock.advance(0.004)
    found = {key: value - before[key] for key, value in samples(operated).items() if key[1] == face}
    assert found["request_seconds_count", face] == found["delivery_seconds_count", face] == 1
    assert found["request_seconds_sum", face] == pytest.approx(request_s)
    assert found["delivery_seconds_sum", face] == pytest.approx(delivery_s)
    operated.close()
