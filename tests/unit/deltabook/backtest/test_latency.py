"""Latencies: what a text means, that draws are seeded, and that nothing overtakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.latency import parse_latency


def test_a_fixed_latency_is_added_and_an_absent_one_is_zero() -> None:
    ways = parse_latency("fixed:feed=1.5ms,order=50us")
    assert ways["feed"]().arrival_ns(10) == 1_500_010
    assert ways["order"]().arrival_ns(10) == 50_010
    assert ways["answer"]().is_zero
    assert all(make().is_zero for make in parse_latency("zero").values())


@pytest.mark.parametrize("model", ["normal:order=1us~5us", "lognormal:order=1us~3"])
def test_draws_follow_from_the_seed_and_keep_messages_in_order(model: str) -> None:
    def arrivals(seed: int) -> list[int]:
        way = parse_latency(model, seed)["order"]()
        return [way.arrival_ns(100 * n) for n in range(200)]

    one = arrivals(1)
    assert one == arrivals(1) == sorted(one)
    assert one != arrivals(2)
    assert all(arrival >= 100 * n for n, arrival in enumerate(one))


def test_each_connection_has_draws_of_its_own() -> None:
    make = parse_latency("lognormal:order=1us~3", 1)["order"]
    one, other = make(), make()
    assert [one.arrival_ns(0) for _ in range(9)] != [other.arrival_ns(0) for _ in range(9)]


def test_models_of_one_seed_draw_apart() -> None:
    """The second strategy's own model draws as the second latency of a shared model does."""
    shared, own = parse_latency("normal:order=1ms~100us", 1)["order"], parse_latency("normal:order=1ms~100us", 1, 1)
    first, second, alone = (
        [way.arrival_ns(10**9 * n) for n in range(9)] for way in (shared(), shared(), own["order"]())
    )
    assert alone == second != first


def test_measured_latencies_come_out_of_their_list(tmp_path: Path) -> None:
    path = tmp_path / "latency.json"
    path.write_text(json.dumps({"feed": [5, 7]}))
    way = parse_latency(f"file:{path}")["feed"]()
    assert {way.arrival_ns(1000 * n) - 1000 * n for n in range(50)} == {5, 7}


@pytest.mark.parametrize(
    "text", ["", "fast", "fixed", "fixed:", "fixed:feed=1", "fixed:feed=1us~2us", "fixed:way=1us", "zero:feed=1us",
             "fixed:feed=1us,feed=2us", "normal:feed=1us", "lognormal:feed=1us~0.5", "fixed:feed=2000000s",
             "file:/nowhere", f"fixed:feed={'9' * 5_000}us", f"fixed:feed=1.{'9' * 5_000}us", "fixed:feed=٣us",
             "distance:١km"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^expected"):
        parse_latency(text)


def test_a_distance_takes_lights_time_in_fibre() -> None:
    ways = parse_latency("distance:1000km")
    assert [ways[way]().arrival_ns(0) for way in ("feed", "order", "answer")] == [4_897_000] * 3
    some = parse_latency("distance:order=10km")
    assert some["feed"]().is_zero
    assert some["order"]().arrival_ns(5) == 48_975
    assert parse_latency("distance:0km")["feed"]().is_zero


def test_jitter_of_a_distance_is_never_faster_than_light() -> None:
    way = parse_latency("distance:100km~20us", 3)["order"]()
    delays = [way.arrival_ns(10**9 * n) - 10**9 * n for n in range(300)]
    assert min(delays) >= 489_700
    assert len(set(delays)) > 250
    assert sum(delays) / 300 - 489_700 == pytest.approx(20_000 * 0.8, rel=0.2)
