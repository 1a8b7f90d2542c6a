"""The model of a cluster: laws that it keeps, and a calibration that finds the costs from which figures were made."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from bench.cluster.calibration import calibrate, errors, layout_of, non_negative
from bench.cluster.meter import Part
from bench.cluster.model import Costs, Layout, batch_s, burst, busiest_share, limits, steady
from bench.cluster.plan import Point
from bench.cluster.point import Measured, Phase
from bench.cluster.scenarios import BIG, answer, sensitivity, with_one_shard_view

COSTS = Costs(
    ingest_us=4.0,
    pass_us=2.0,
    publish_ms=6.0,
    publish_shard_ms=0.5,
    driver_ms=60.0,
    driver_task_ms=3.0,
    executor_us=8.0,
    executor_task_ms=20.0,
    single_us=0.0,
    daemon_cores=0.01,
    wait_ms=30.0,
)
ALONE = Layout(workers=4, cores=1, shards=8, runtimes=2, symbols=100)
SHARED = msgspec.structs.replace(ALONE, shared_cores=2)


def test_a_batch_takes_no_less_with_more_messages_or_less_room() -> None:
    sizes = [0, 100, 9_999, 20_000, 1_000_000]
    for layout in (ALONE, SHARED):
        times = [batch_s(COSTS, layout, size) for size in sizes]
        assert times == sorted(times)
    assert batch_s(COSTS, SHARED, 100_000) > batch_s(COSTS, ALONE, 100_000)
    assert batch_s(COSTS, SHARED, 100_000, 1.0) > batch_s(COSTS, SHARED, 100_000)


def test_workers_help_until_something_else_is_at_its_end() -> None:
    def most(workers: int, costs: Costs = COSTS) -> tuple[str, float]:
        found = limits(costs, Layout(workers, 1, 4 * workers, 50, 100))
        name = min(found, key=lambda key: found[key])
        return name, found[name]

    assert most(1)[0] == "executors"
    assert most(1)[1] == pytest.approx(125_000)
    assert most(2)[1] == pytest.approx(2 * most(1)[1])
    assert most(100)[0] == "passing on"
    assert most(100, msgspec.structs.replace(COSTS, pass_us=0.1))[0] == "the busiest shard"
    assert most(100, msgspec.structs.replace(COSTS, pass_us=0.1, single_us=4.0)) == ("views in one shard", 250_000.0)


def test_a_cost_that_was_too_small_to_be_seen_is_no_error() -> None:
    free = msgspec.structs.replace(COSTS, ingest_us=0.0, pass_us=0.0, executor_us=0.0)
    for layout in (ALONE, SHARED, msgspec.structs.replace(SHARED, runtimes=1)):
        assert limits(free, layout)
        assert burst(free, layout, 1_000).rate > 0
        assert steady(free, layout, 1_000).p50_ms > 0


def test_no_shard_has_less_than_its_share_nor_more_than_all() -> None:
    assert busiest_share(100, 1) == 1
    assert 1 / 8 <= busiest_share(100, 8) < 1 / 4
    assert busiest_share(100, 10_000) >= 1 / 100


def test_a_burst_is_as_fast_as_the_slowest_part_allows() -> None:
    for layout in (ALONE, SHARED):
        assert burst(COSTS, layout, 10_000).rate < burst(COSTS, layout, 3_000_000).rate
        assert burst(COSTS, layout, 3_000_000).rate < min(limits(COSTS, layout).values())


def test_an_age_is_over_a_batch_and_grows_beyond_capacity() -> None:
    calm = steady(COSTS, ALONE, 5_000)
    assert calm.batch_s * 1e3 < calm.p50_ms < calm.p99_ms < 4e3 * calm.batch_s
    most = min(limits(COSTS, ALONE).values())
    assert steady(COSTS, ALONE, 2 * most, 60).p99_ms > 10_000
    assert steady(COSTS, ALONE, 2 * most, 60).rate < most


def test_least_squares_without_negative_coefficients() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])
    assert non_negative(rows, rows @ np.array([2.0, 0.5])) == pytest.approx([2.0, 0.5])
    assert non_negative(rows, rows @ np.array([2.0, -0.5]))[1] == 0
    assert non_negative(np.zeros((2, 2)), np.zeros(2)).tolist() == [0, 0]


def phase(point: Point, messages: int, batches: int, seconds: float) -> Phase:
    """What `COSTS` come to."""
    tasks = point.shards + (1 if messages / batches < 10_000 else point.shards)
    own = COSTS.ingest_us if point.runtimes == 1 else COSTS.pass_us
    cpu: dict[Part, float] = {
        "upstream": COSTS.ingest_us * messages / 1e6 if point.runtimes > 1 else 0.0,
        "runtime": own * messages / 1e6 + batches * (COSTS.publish_ms + COSTS.publish_shard_ms * point.shards) / 1e3,
        "driver": batches * (COSTS.driver_ms + COSTS.driver_task_ms * tasks) / 1e3,
        "executor": COSTS.executor_us * messages / 1e6 + batches * tasks * COSTS.executor_task_ms / 1e3,
        "daemon": COSTS.daemon_cores * seconds * point.workers,
    }
    return Phase(seconds, messages, messages, 10 * batches, (seconds / batches,) * batches, cpu)


def measured(point: Point) -> Measured:
    """A point as `COSTS` would have it on two cores."""
    layout = Layout(point.workers, 1, point.shards, point.runtimes, 100, 2)
    aged = steady(COSTS, layout, 5_000, 20)
    return Measured(
        point=point,
        start_s=1.0,
        rates=(burst(COSTS, layout, 300_000).rate,),
        p50_ms=(aged.p50_ms,),
        p99_ms=(aged.p99_ms,),
        burst=phase(point, 900_000, 12, 12.0),
        steady=phase(point, 100_000, round(20 / aged.batch_s), 20.0),
        rate=5_000,
        late_ms=0.0,
        cores=2,
        load=0.0,
    )


POINTS = [measured(Point(workers, runtimes)) for workers in (1, 2, 4) for runtimes in (1, 2)]
POINTS.append(measured(Point(2, 1, shards=16)))


def test_a_calibration_recovers_the_costs_of_made_figures() -> None:
    found = calibrate([msgspec.structs.replace(POINTS[0], point=Point(0, 1)), *POINTS], 100)
    for name in Costs.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(COSTS, name), rel=0.05, abs=2.0), name


def test_points_that_the_model_made_are_met_and_others_are_not() -> None:
    found = errors(POINTS, 100, 300_000)
    assert len(found) == 3 * len(POINTS)
    assert max(abs(error.percent) for error in found) < 10
    assert max(abs(error.percent_without) for error in found) < 10
    slower = msgspec.structs.replace(POINTS[0], rates=(POINTS[0].rates[0] / 2,))
    off = next(e for e in errors([slower, *POINTS[1:]], 100, 300_000) if e.what == "rate")
    assert off.percent == pytest.approx(100, abs=15)


def test_no_calibration_without_workers_or_with_a_single_point() -> None:
    local = msgspec.structs.replace(POINTS[0], point=Point(0, 1))
    with pytest.raises(ValueError, match="at least one point with workers"):
        calibrate([local], 100)
    assert math.isnan(errors([POINTS[0]], 100, 300_000)[0].percent_without)


def test_a_point_is_laid_out_on_one_machine() -> None:
    assert layout_of(POINTS[-1], 100) == Layout(2, 1, 16, 1, 100, 2)


def test_scenarios_name_their_limit_and_enclose_their_swings() -> None:
    for scenario in BIG:
        said = answer(COSTS, scenario, 3.0)
        held = with_one_shard_view(COSTS, 3.0) if scenario.one_shard else COSTS
        assert said.most_rate == limits(held, scenario.layout)[said.limit]
        for swing in sensitivity(held, scenario):
            assert swing.rate[0] >= swing.rate[1]
