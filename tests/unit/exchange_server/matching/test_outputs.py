"""Several encoders hear the same; nobody hears nothing."""

from __future__ import annotations

import inspect

from exchange_server.matching import FeedFan, Now, Silence, SilentTeller
from exchange_server.matching.order import Account
from exchange_server.matching.outputs import FeedEncoder, Teller, feed_of
from tests.model.said import SaidFeed

OWN = {"take", "state", "restore"}


def test_one_encoder_is_spoken_to_directly() -> None:
    feed = SaidFeed(Now())
    assert feed_of([feed]) is feed
    assert isinstance(feed_of([]), Silence)


def test_every_call_reaches_every_encoder_with_all_that_it_says() -> None:
    class Heard(Silence):
        __slots__ = ("calls",)

        def __init__(self) -> None:
            self.calls: list[tuple[object, ...]] = []

    names = sorted(FeedEncoder.__abstractmethods__ - OWN)
    for name in names:
        setattr(Heard, name, lambda self, *values, name=name: self.calls.append((name, *values)))
    first, second = Heard(), Heard()
    fan = feed_of([first, second])
    assert isinstance(fan, FeedFan)
    said = []
    for name in names:
        values = tuple(range(len(inspect.signature(getattr(FeedEncoder, name)).parameters) - 1))
        getattr(fan, name)(*values)
        said.append((name, *values))
    assert first.calls == second.calls == said
    assert fan.take() == (b"", 0)
    fan.restore(fan.state())


def test_silence_takes_everything_and_says_nothing() -> None:
    for silent, kind in ((Silence(), FeedEncoder), (SilentTeller(Account(1, "ann", "text", 7)), Teller)):
        for name in kind.__abstractmethods__ - OWN:
            parameters = len(inspect.signature(getattr(kind, name)).parameters) - 1
            assert getattr(silent, name)(*range(parameters)) is None
        assert silent.take() == (b"", 0)
    assert Silence().state() is Silence().restore(None) is None  # type: ignore[func-returns-value]
