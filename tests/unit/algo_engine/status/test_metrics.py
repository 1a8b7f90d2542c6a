"""What a monitor reads of strategies is what their status says."""

from __future__ import annotations

import pytest

from algo_engine import status
from tests.generators.monitored import Samples, read_samples
from tests.unit.algo_engine.status.test_http import Port


def told(port: Port) -> Samples:
    code, body = port.ask("/metrics")
    assert code == 200
    return {
        (name.removeprefix("deltabook_algo_"), *labels): value for (name, *labels), value in read_samples(body).items()
    }


def test_every_figure_is_that_of_the_status() -> None:
    port = Port()
    port.traded()
    port.lost["runtime"] = 2
    found = told(port)
    line = port.status().strategies[0]
    of = {name: found[name, "diary"] for name, *labels in found if labels == ["diary"]}
    assert of == {
        "orders_sent_total": line.orders_sent,
        "orders_filled_total": line.orders_filled,
        "orders_rejected_total": line.orders_rejected,
        "orders_refused_total": line.orders_refused,
        "fills_total": line.fills,
        "void_trades_total": line.void_trades,
        "orders_open": line.orders_open,
        "realised_tick_lots": line.realised,
        "unrealised_tick_lots": line.unrealised,
        "fees_tick_lots": line.fees,
        "connected": 1,
    }
    assert found["position_lots", "diary", "ACME"] == 10
    assert (found["state", "running", "diary"], found["state", "killed", "diary"]) == (1, 0)
    assert (found["views_connected",], found["reconnects_total", "runtime"], found["reconnects_total", "exchange"]) == (
        1,
        2,
        0,
    )
    assert found["view_changes_total",] > 0


def test_a_state_is_another_once_the_switch_is_thrown() -> None:
    port = Port()
    port.traded()
    assert port.ask("/v1/kill", "POST", b"{}")[0] == 200
    found = told(port)
    assert (found["state", "running", "diary"], found["state", "killed", "diary"]) == (0, 1)


def test_only_so_many_positions_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "MOST_POSITIONS", 0)
    port = Port()
    port.traded()
    assert not [key for key in told(port) if key[0] == "position_lots"]


def test_a_monitor_needs_the_token_as_everybody_does() -> None:
    port = Port(token="sixteen characters".replace(" ", "-"))
    assert port.ask("/metrics")[0] == 401
    assert port.ask("/metrics", authorization="Bearer sixteen-characters")[0] == 200
    assert port.ask("/metrics", "POST", authorization="Bearer sixteen-characters")[0] == 405


def test_the_stages_of_an_order_are_histograms_of_seconds() -> None:
    port = Port()
    port.rig.stages.journal.add(0.003)
    port.traded()
    found = told(port)
    stages = port.rig.stages
    assert found["journal_seconds_count",] == stages.journal.count > 1
    assert found["journal_seconds_sum",] == pytest.approx(stages.journal.total_s)
    assert found["frame_seconds_count",] == stages.frame.count > 0
    assert found["wire_seconds_count",] == stages.wire.count > 0
    assert found["fsync_seconds_count",] == stages.fsync.count > 0
