"""Rows 19 and 20 of docs/features/engine.md: the harness, and everything at once in random order.

A storm that fails prints its seed; ``DELTABOOK_TEST_SEED=SEED`` has only that one run again, step by step the same.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from runtime.engine.listeners import QueryStatus
from tests.features.engine.storm import storm
from tests.harness import Harness

ONLY = os.environ.get("DELTABOOK_TEST_SEED")
EVENTS = 200


def run(seeds: range, *, has_threads: bool = False) -> Counter[str]:
    """Storms of these seeds."""
    counts: Counter[str] = Counter()
    for seed in [int(ONLY)] if ONLY else seeds:
        try:
            counts += storm(seed, EVENTS, has_threads=has_threads)
        except Exception as error:
            raise AssertionError(f"DELTABOOK_TEST_SEED={seed} replays it: {type(error).__name__}: {error}") from error
    return counts


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_row_20_random_interleavings_of_everything(first: int) -> None:
    counts = run(range(first, first + 20))
    if not ONLY:
        assert counts["steps"] > 5000
        assert min(counts[kind] for kind in ("stop", "end", "barrier", "start", "stopped", "failed")) > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_row_20_many_random_interleavings() -> None:
    run(range(1000, 4000))


def test_row_20_random_events_on_threads() -> None:
    """The seed says what happens, and the machine when: what a query promises at its end holds all the same."""
    run(range(5000, 5010), has_threads=True)


def test_row_20_a_seed_replays() -> None:
    assert storm(20, EVENTS) == storm(20, EVENTS)
    assert storm(20, EVENTS) != storm(21, EVENTS)


def test_row_19_a_query_fails_with_inputs_in_flight() -> None:
    """The scenario that the harness is for: one input through, three in flight, then the source fails."""
    with Harness() as harness:
        query = harness.chain()
        source, sink = query.sources["source"], query.pipelines["sink"]
        harness.start(query)
        harness.until(lambda: source.is_open, "the source to be open")
        assert not source.closes
        source.inject(*range(4))
        harness.until(lambda: sink.received, "an input to reach the sink")
        source.inject_error("failed")
        assert harness.until_ended() == [QueryStatus.FAILED]
        assert query.sources["source"].closes == 1
        assert sink.received == list(range(len(sink.received)))


def test_row_19_pipelines_take_the_time_that_a_test_sets() -> None:
    with Harness(seed=19, has_statistics=True) as harness:
        query = harness.chain()
        query.pipelines["pipeline 1"].advance = lambda: harness.clock.advance(3600.0)
        harness.run(query)
        query.sources["source"].inject(1, 2)
        harness.until(lambda: len(query.pipelines["sink"].received) == 2)
        assert harness.clock() == 7200.0


@pytest.mark.parametrize("seed", [None, 19])
def test_row_19_a_missing_expected_event_is_an_error(seed: int | None) -> None:
    with Harness(seed=seed) as harness:
        query = harness.run(harness.chain())
        if seed is None:
            return
        with pytest.raises(AssertionError, match="expected an input, and no task is left"):
            harness.until(lambda: query.pipelines["sink"].received, "an input")
