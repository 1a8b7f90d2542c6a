# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""One round: pages that say whatever comes, in whatever pieces, beside one that must not notice."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pyarrow as pa
from twisted.internet.error import ConnectionLost
from twisted.logger import LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, Pong

from deltabook.wire import stream
from deltabook.wire.stream import Next, Subscribe, Unsubscribe
from runtime.epochs import Footer
from tests.generators.page_lab import PageEnd
from tests.generators.results_lab import ResultsLab

__all__ = ["Done", "run_round"]

_PAGES = 6
_WORDS = ("m", "plain", "", "a", "b", "version", "epoch", "subscribe", "next", "\x00", "\U0001f600", "x" * 70)
_CLOSE_CODES = {1000, 1001, 1002, 1003, 1005, 1007, 1008, 1009, 3000, 4999}
"""1005 stands for none: the answer to a goodbye without one."""


class Done(msgspec.Struct):
    """What a round was."""

    seed: int
    messages: int = 0
    """That were sent by pages."""
    closed: int = 0
    """Connections that the service has ended."""
    frames: int = 0
    """That came back."""


class _Fuzz:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.done = Done(seed)
        self.lab = ResultsLab()
        self.well = PageEnd(self.lab)
        self.well.ask(Subscribe("well", ("m",), credit=1000))
        self.pages = [PageEnd(self.lab) for _ in range(_PAGES)]
        self.rows: Counter[int] = Counter()
        self.seen: Counter[int] = Counter()

    def step(self) -> None:
        """A page says something, or the world goes on."""
        chance = self.chance
        place = chance.randrange(_PAGES)
        page = self.pages[place]
        if page.closed is not None or chance.random() < 0.01:
            self._leave(place)
            return
        if chance.random() < 0.2:
            self._change()
        try:
            data = self._said(page)
        except Exception:  # noqa: BLE001 (wsproto's own end may refuse to say nonsense)
            return
        self.done.messages += 1
        for piece in self._pieces(data):
            page.raw(piece)
        self.done.frames += len(self._heard(page))
        if chance.random() < 0.05:
            self.lab.clock.advance(chance.choice([0.01, 1, 25]))
            self._heard(self.well)
        if chance.random() < 0.05 and page.transport.producer is not None:
            chance.choice([page.transport.producer.pauseProducing, page.transport.producer.resumeProducing])()

    def finish(self) -> None:
        """Nothing is left of those who leave; the one that is well was told everything."""
        for place in range(_PAGES):
            self._leave(place, again=False)
        self.well.ask(Next("well", 1000))
        for event in self.well.events:
            assert not isinstance(event, stream.Failed), event
            for change in event.changes if isinstance(event, stream.Frames) else ():
                for (value,), weight in zip(change.rows, change.weights, strict=True):
                    self.seen[int(value)] += weight  # type: ignore[arg-type]
        assert self.well.closed is None
        assert +self.seen == +self.rows
        assert self.lab.hub.subscribers == 1
        assert self.lab.hub.stream("m").kept == 0
        assert self.lab.site.figures().connections == 1

    def _change(self) -> None:
        value = self.chance.randrange(100)
        weight = -1 if self.rows[value] > 0 and self.chance.random() < 0.5 else 1
        self.rows[value] += weight
        version = self.lab.hub.version
        table = pa.table({"x": pa.array([value], pa.int64()), "weight": [weight]})
        self.lab.hub.publish(Footer(version, version + 1), {"m": table}, {})
        self._heard(self.well)
        if self.chance.random() < 0.3:
            self.well.ask(Next("well", 1000))
        if self.chance.random() < 0.1:
            self.lab.hub.heartbeat()

    def _heard(self, page: PageEnd) -> list[Any]:
        """Every event is one that the contract knows; a close has a code of it."""
        before = page.closed
        found = page.hear()
        if page.closed is not None and before is None:
            assert page.closed[0] in _CLOSE_CODES, page.closed
            self.done.closed += 1
        return found

    def _said(self, page: PageEnd) -> bytes:
        chance = self.chance
        kind = chance.randrange(10)
        if kind <= 3:
            return page.ws.send(Message(data=msgspec.json.encode(self._request()).decode()))
        if kind == 4:
            return page.ws.send(Message(data=self._mutated()))
        if kind == 5:
            return page.ws.send(Message(data=self._text(), message_finished=chance.random() < 0.7))
        if kind == 6:
            return chance.randbytes(chance.choice([1, 2, 5, 14, 200]))
        if kind == 7:
            data = bytearray(page.ws.send(Message(data=self._mutated())))
            data[chance.randrange(min(len(data), 6))] ^= 1 << chance.randrange(8)
            return bytes(data)
        if kind == 8:
            size = chance.choice([0, 1, 125])
            return page.ws.send(chance.choice([Ping(payload=bytes(size)), Pong(payload=bytes(size))]))
        if chance.random() < 0.5:
            return page.ws.send(BytesMessage(data=chance.randbytes(chance.randrange(300))))
        return page.ws.send(CloseConnection(code=chance.choice([1000, 1001, 3000, 4999]), reason=self._text()[:20]))

    def _request(self) -> Any:
        chance = self.chance
        name = chance.choice(["a", "b", "c"])
        views = tuple(chance.choices(["m", "plain", "nowhere"], [6, 3, 1], k=chance.randrange(1, 4)))
        start = chance.choice([None, None, 0, 3, {"m": 2}, {"x": 1}])
        return chance.choice(
            [
                Subscribe(name, views, chance.choice(["version", "epoch"]), start, credit=chance.choice([1, 2, 1000])),
                Subscribe(name, views, credit=chance.choice([1, 5])),
                Next(name, chance.choice([1, 1, 1000])),
                Unsubscribe(name),
                stream.Ping(),
            ]
        )

    def _mutated(self) -> str:
        """A request with something in it that does not belong there."""
        chance, record = self.chance, msgspec.to_builtins(self._request())
        if chance.random() < 0.5:
            record[chance.choice([*record, "more"])] = self._value(3)
        text = msgspec.json.encode(record).decode()
        if chance.random() < 0.5:
            place = chance.randrange(len(text))
            text = text[:place] + self._text() + text[place + chance.randrange(3) :]
        return text

    def _value(self, depth: int) -> Any:
        chance = self.chance
        kind = chance.randrange(8 if depth else 6)
        if kind == 6:
            return [self._value(depth - 1) for _ in range(chance.randrange(4))]
        if kind == 7:
            return {chance.choice(_WORDS): self._value(depth - 1) for _ in range(chance.randrange(4))}
        return chance.choice([None, True, -1, 0, 2**53, 2**63, 1.5, 1e308, *_WORDS])

    def _text(self) -> str:
        chance = self.chance
        size = chance.choice([0, 1, 10, 200, 17_000]) if chance.random() < 0.2 else chance.randrange(20)
        return "".join(chance.choices('{}[]":,0123456789eE.-\\u \n\x00\x7fäπ\U0001f600subcrievwnxt', k=size))

    def _pieces(self, data: bytes) -> list[bytes]:
        if self.chance.random() < 0.6 or not data:
            return [data]
        cuts = sorted(self.chance.randrange(len(data)) for _ in range(self.chance.randrange(1, 5)))
        return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _leave(self, place: int, *, again: bool = True) -> None:
        page = self.pages[place]
        page.protocol.connectionLost(Failure(ConnectionLost()))
        if again:
            self.pages[place] = PageEnd(self.lab)


def run_round(seed: int, messages: int = 400) -> Done:
    """Raises what the service should not have let happen: an exception, an unknown event, a page that noticed."""
    logged: list[Any] = []

    def observe(event: Any) -> None:
        if event.get("log_level") in {LogLevel.error, LogLevel.critical}:
            logged.append(event)

    observer: Any = observe
    globalLogPublisher.addObserver(observer)
    try:
        fuzz = _Fuzz(seed)
        while fuzz.done.messages < messages:
            fuzz.step()
        fuzz.finish()
    finally:
        globalLogPublisher.removeObserver(observer)
    assert not logged, f"seed {seed}: {logged[0]}"
    return fuzz.done
