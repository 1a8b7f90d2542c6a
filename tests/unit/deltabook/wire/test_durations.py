"""How long things took is counted in buckets of powers of two."""

from __future__ import annotations

from deltabook.wire.durations import Durations, timed


def test_a_timed_function_is_called_and_timed() -> None:
    times = iter((10.0, 10.25, 20.0, 21.0))
    durations, called = Durations(), list[int]()
    sync = timed(called.append, durations, lambda: next(times))
    sync(3)
    sync(4)
    assert (called, durations.total_s, sum(durations.counts)) == ([3, 4], 1.25, 2)


def test_bounds_are_powers_of_two_that_hold_their_content() -> None:
    durations = Durations()
    for exponent in range(24):
        durations.add((1 << exponent) / 1e6)
    found = dict(durations.buckets())
    assert [found[str((1 << exponent) / 1e6)] for exponent in range(24)] == list(range(1, 25))
