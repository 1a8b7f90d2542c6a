"""What an order of the agents costs, beside what the market does with it."""

from __future__ import annotations

import time
from typing import Final

from bench.market.observing import Venue
from bench.report import Record, record
from exchange_server.agents import PRESETS, AgentFlow
from exchange_server.config import DEFAULT_INSTRUMENTS

__all__ = ["run"]

_BATCH: Final = 20
"""Requests of 10 ms at the default rate."""


def run(quick: bool) -> list[Record]:
    """Processor time of agents on the default symbols, at the default rate's batches."""
    records = []
    for name, settings in PRESETS.items():
        agents_us, market_us = [], []
        for seed in range(1, 4 if quick else 6):
            venue = Venue(DEFAULT_INSTRUMENTS)
            flow = AgentFlow(
                venue, DEFAULT_INSTRUMENTS, None, settings=settings, seed=seed, rate_per_s=2_000.0, stop=print
            )  # fmt: skip
            start_s = time.thread_time()
            for _ in range(500 if quick else 5_000):
                flow.step(_BATCH)
            spent_s = time.thread_time() - start_s
            agents_us.append((spent_s - venue.cpu_s) / venue.inputs * 1e6)
            market_us.append(venue.cpu_s / venue.inputs * 1e6)
        reference = "the market with the same requests, nobody listening"
        records.append(record(f"market.agents.{name}.us_per_request", agents_us, "µs", reference, market_us))
    return records
