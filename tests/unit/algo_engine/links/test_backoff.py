"""Delays between attempts to reach a peer."""

from __future__ import annotations

from twisted.internet.task import Clock

from algo_engine.links.backoff import LinkTimes, Retry


def test_delays_grow_until_a_connection_lasts() -> None:
    """A peer whose answer ends each connection is not asked all the time."""
    clock, failures = Clock(), list[Exception]()
    retry = Retry(clock, LinkTimes(first_delay_s=1, longest_delay_s=20, give_up_s=60), "the peer", failures.append)
    attempts: list[float] = []

    def cut_at_once() -> None:
        attempts.append(clock.seconds())
        retry.succeeded()
        retry.again(cut_at_once, "cut")

    cut_at_once()
    for _ in range(80):
        clock.advance(1)
    assert attempts == [0, 1, 3, 7, 15, 31, 51, 71]
    retry.cancel()
    retry.succeeded()
    clock.advance(20)
    retry.again(lambda: attempts.append(clock.seconds()), "cut")
    clock.advance(1)
    assert len(attempts) == 9
    assert (failures, retry.losses) == ([], 9)
