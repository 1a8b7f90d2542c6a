"""Exchange with flow, on a clock that a test moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from exchange_server.agents import AgentFlow, AgentSettings
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal, JournalReader
from exchange_server.matching.inputs import AnyInput, MarketRules
from exchange_server.matching.outputs import Now
from exchange_server.replay import Loader, Player
from exchange_server.text import TextEncoder, TextProtocol

__all__ = ["FlowRun"]


class FlowRun:
    """Process of an exchange over a journal; it counts batches."""

    def __init__(self, path: Path, rules: MarketRules, *, anchor_ns: int = 1_000_000_000, **clock: Any) -> None:
        self.path = path
        self.clock = Clock()
        self.market_clock = MarketClock(self.clock.seconds, anchor_ns, **clock)
        now = Now()
        self.exchange = Exchange(
            Journal(path, rules, lambda: "S"), self.market_clock, {"text": TextEncoder(rules, now)},
            [TextProtocol(rules)], now,
        )  # fmt: skip
        self.market = self.exchange.market
        self.batches: list[int] = []
        self.failed: list[str] = []
        self.behind_bytes = 0
        self._submit = self.exchange.submit
        self.exchange.submit = self.submit  # type: ignore[method-assign]

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """Submit a batch for the flow, and count it."""
        self.batches.append(len(batch))
        return self._submit(batch)

    def agents(self, seed: int = 1, settings: AgentSettings | None = None, rate_per_s: float = 2000.0) -> AgentFlow:
        """Return agents on all instruments, started."""
        flow = AgentFlow(
            self.exchange, self.market.rules.instruments, self.clock, settings=settings or AgentSettings(), seed=seed,
            rate_per_s=rate_per_s, stop=self.failed.append,
        )  # fmt: skip
        flow.start()
        return flow

    def player(self, loader: Loader, speed: float | None) -> Player:
        """Return a player that is not yet started."""
        return Player(
            loader, self.exchange, self.clock, speed=speed, stop=self.failed.append,
            behind_bytes=lambda: self.behind_bytes,
        )  # fmt: skip

    def play(self, loader: Loader, speed: float | None = None) -> Player:
        """Return a started player."""
        player = self.player(loader, speed)
        player.start()
        return player

    def play_out(self, loader: Loader) -> Player:
        """Play a whole file as fast as possible."""
        player = self.play(loader)
        while not player.finished:
            self.clock.advance(0.02)
        return player

    def close(self) -> bytes:
        """Close the exchange; return the feed's lines."""
        self.exchange.close()
        return (self.path / "feed.lines").read_bytes()

    def inputs(self) -> list[AnyInput]:
        """Return all inputs of the journal, after the end."""
        return [item for _, batch in JournalReader(self.path / "inputs").batches(0) for item in batch]
