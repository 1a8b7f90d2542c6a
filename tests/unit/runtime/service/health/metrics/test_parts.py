"""Origins, views and the results service, as a monitor reads them."""

from __future__ import annotations

from typing import cast

from runtime.engine.ingest import Inlet, OriginCounters
from runtime.engine.plan import Emitter
from runtime.engine.statistics import Statistics
from runtime.epochs import Cut
from runtime.formats import RawBuffer
from runtime.service.health.metrics import EngineMetrics, RuntimeMetrics, origin_metrics, view_metrics
from runtime.sources import BufferSink, Position, Source
from tests.generators.monitored import read_samples, samples_of
from tests.generators.results_lab import ResultsLab, filled_hub


class Server(Source):
    """A source that says whether it is connected."""

    is_connected = False

    def open(self, sink: BufferSink, position: Position) -> None:
        """Nothing comes by itself."""

    def resume(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


class Room:
    """An emitter with room for so many buffers."""

    def __init__(self, room: int) -> None:
        self.room = room

    def offer(self, item: object, size: int = 1) -> bool:
        self.room -= 1
        return self.room >= 0


def test_an_origin_is_told_by_its_name() -> None:
    server = Server()
    inlet = Inlet(0, server, lambda call: call())
    inlet.open(cast(Emitter, Room(1)))
    assert [inlet.offer(RawBuffer(0, number, b"abc", 0)) for number in (1, 2)] == [True, False]
    server.is_connected = True
    counters = {"feed": OriginCounters(tuples=9, bad=2, nulled=1, filtered=3), "prices": OriginCounters(failure="gone")}
    cuts = {"feed": Cut("S", 7, 700, 9), "dropped": Cut("", 1, 1, 1)}
    found = samples_of(origin_metrics(counters, {"feed": inlet}, cuts, {"feed": 4}))
    of_feed = {
        name.removeprefix("deltabook_runtime_origin_"): found[name, "feed"]
        for name, origin in found
        if origin == "feed"
    }
    assert of_feed == {
        "tuples_total": 9,
        "malformed_total": 2,
        "nulled_values_total": 1,
        "filtered_total": 3,
        "failed": 0,
        "sequence": 7,
        "offset_bytes": 700,
        "connected": 1,
        "received_bytes_total": 3,
        "reconnects_total": 4,
    }
    assert found["deltabook_runtime_origin_failed", "prices"] == 1
    assert not [key for key in found if "dropped" in key], "an origin that is gone is not told of"


def test_views_and_lanes_are_told_by_name() -> None:
    hub = filled_hub()
    hub.hold(["spark"])
    found = samples_of(view_metrics(hub, ["spark", "express"]))
    assert found["deltabook_runtime_view_rows", "spark", "plain"] == 2
    assert found["deltabook_runtime_view_changes_total", "spark", "plain"] == 2
    assert found["deltabook_runtime_view_rows", "spark", "m"] == 0
    assert found["deltabook_runtime_view_failed", "spark", "m"] == 0
    assert (found["deltabook_runtime_lane_epoch", "spark"], found["deltabook_runtime_lane_epoch", "express"]) == (3, 0)
    assert (found["deltabook_runtime_lane_stale", "spark"], found["deltabook_runtime_lane_stale", "express"]) == (1, 0)


def test_the_results_service_tells_of_itself() -> None:
    lab = ResultsLab(metrics=RuntimeMetrics(EngineMetrics(Statistics()), dict))
    lab.ask("/v1/nowhere")
    found = read_samples(lab.ask("/metrics").body)
    assert found["deltabook_runtime_requests_total",] == 1, "what is being answered counts when it is"
    assert found["deltabook_runtime_refused_total", "request"] == 1
    assert found["deltabook_runtime_subscribers",] == 0
