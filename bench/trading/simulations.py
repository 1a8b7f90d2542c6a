"""Closed simulations: events per second of the preset ``day`` and of a peer, and the time of a whole day."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from bench.peers import find_peer
from bench.report import Record, record
from deltabook.simulation import Simulation, SimulationConfig

__all__ = ["measure_simulations"]

_AGENTS: Final = "day"
_SPARSE_PER_S: Final = 160.0
_DENSE_PER_S: Final = 2_000.0
_DAY_HOURS: Final = 6.5
_PEER: Final = Path(__file__).resolve().parent / "abides_process.py"
_PEER_WAKES_PER_S: Final = 80.0
_VALUE_AGENTS: Final = 102
_NOISE_AGENTS: Final = 1_000
_TIMEOUT_S: Final = 900


class _Played(msgspec.Struct, frozen=True):
    events: int
    """Number of messages and wakes that the peer's kernel handled."""
    requests: int
    """Number of orders and cancels that the peer's exchange handled."""
    seconds: float
    """Seconds of the kernel's loop."""


class _Rates(msgspec.Struct, frozen=True):
    events_per_s: float
    """Turns of agents, requests and feed messages per second of wall time."""
    requests_per_s: float
    """Requests that the exchange handled per second."""
    feed_messages_per_s: float
    """Messages of the public feed per second."""


def measure_simulations(quick: bool) -> list[Record]:
    """Measure ``simulate.events_per_s``, ``simulate.feed_messages_per_s`` and their variants, one run of each in
    turn, and ``simulate.day_s``.

    An event is what the kernel of a discrete-event simulator handles: the turn of an agent, a request that arrives at
    the exchange, or a message of the exchange's public feed. The population is the preset ``day``: 200 agents on one
    symbol. ``dense`` has 2,000 requests per second of these agents instead of 160; ``strategy`` adds a market maker;
    ``journal`` writes the exchange's directory.
    """
    runs, hours = (1, 0.05) if quick else (5, 0.5)
    rates: dict[str, list[_Rates]] = {"": [], "dense.": [], "strategy.": [], "journal.": []}
    for seed in range(1, runs + 1):
        plain = SimulationConfig(hours=hours, seed=seed, agents=_AGENTS, rate_per_s=_SPARSE_PER_S)
        dense = SimulationConfig(hours=hours / 5, seed=seed, agents=_AGENTS, rate_per_s=_DENSE_PER_S)
        traded = SimulationConfig(
            ("market_maker",), hours=hours / 5, seed=seed, agents=_AGENTS, rate_per_s=_SPARSE_PER_S
        )
        rates[""].append(_run(plain))
        rates["dense."].append(_run(dense))
        rates["strategy."].append(_run(traded))
        with tempfile.TemporaryDirectory(prefix="bench-trading-") as folder:
            rates["journal."].append(_run(plain, Path(folder) / "exchange"))
    found: list[Record] = []
    for name, runs_of in rates.items():
        found.append(record(f"simulate.{name}events_per_s", [each.events_per_s for each in runs_of], "events/s"))
        messages = [each.feed_messages_per_s for each in runs_of]
        found.append(record(f"simulate.{name}feed_messages_per_s", messages, "messages/s"))
    day = SimulationConfig(
        hours=0.1 if quick else _DAY_HOURS, seed=1, agents=_AGENTS, rate_per_s=_SPARSE_PER_S, opening_s=60, closing_s=60
    )
    found.append(record("simulate.day_s", [Simulation(day).run().elapsed_s], "s"))
    return found + _beside_abides(runs, 60.0 if quick else 600.0)


def _beside_abides(runs: int, market_s: float) -> list[Record]:
    """Measure ``simulate.ratio_peer``: requests per second of the same number of brokers at the same rate, in turns
    with ABIDES.

    ``simulate.ratio_peer_events`` compares events. Events of ABIDES are messages and wakes, four to five for each order
    or cancel. Events of Deltabook are turns of agents, requests and feed messages, three to four for each order or
    cancel. Deltabook's agents read the book without a message; therefore requests are the stricter comparison of the
    work done.
    """
    python = find_peer(
        "abides_markets", "bench-simulation-peers", "install abides-core and abides-markets from ABIDES' repository"
    )
    if python is None:
        return []
    ours: list[_Rates] = []
    peers: list[_Played] = []
    for seed in range(1, runs + 1):
        peer = _run_abides(python, market_s, seed)
        equal = SimulationConfig(
            hours=market_s / 3600,
            seed=seed,
            agents=_AGENTS,
            settings=(f"noise.brokers={_NOISE_AGENTS}", f"value.brokers={_VALUE_AGENTS}"),
            rate_per_s=peer.requests / market_s,
        )
        ours.append(_run(equal))
        peers.append(peer)
    name = "ABIDES, value and noise agents"
    requests = [each.requests_per_s for each in ours]
    peer_requests = [peer.requests / peer.seconds for peer in peers]
    peer_events = [peer.events / peer.seconds for peer in peers]
    return [
        record("simulate.requests_per_s", requests, "requests/s", name, peer_requests),
        record("simulate.peer.requests_per_s", peer_requests, "requests/s"),
        record("simulate.peer.events_per_s", peer_events, "events/s"),
        record("simulate.ratio_peer", _ratios(requests, peer_requests), "", name),
        record("simulate.ratio_peer_events", _ratios([each.events_per_s for each in ours], peer_events), "", name),
    ]


def _run_abides(python: Path, market_s: float, seed: int) -> _Played:
    terms = (market_s, _PEER_WAKES_PER_S, _VALUE_AGENTS, _NOISE_AGENTS, seed)
    command = [str(python), str(_PEER), *map(str, terms)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    return msgspec.convert(json.loads(done.stdout.splitlines()[-1]), _Played)


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def _run(config: SimulationConfig, directory: Path | None = None) -> _Rates:
    simulation = Simulation(config, directory=directory)
    result = simulation.run()
    figures, seconds = result.figures, result.elapsed_s
    events = simulation.agent_turns + figures.records + figures.feed_messages
    return _Rates(events / seconds, figures.records / seconds, figures.feed_messages / seconds)
