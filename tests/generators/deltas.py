"""A view program on all of its shards in one process, and deltas of the market's relations to run it on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from runtime.compiler import Program, Relation
from runtime.epochs import Segment
from runtime.state import ARROW_TYPES
from runtime.views import Delivery, ShardState, deliveries
from tests.generators.programs import normal

Row = tuple[Any, ...]
Deltas = Mapping[str, Sequence[tuple[Row, int]]]


def delta_table(relation: Relation, deltas: Sequence[tuple[Row, int]]) -> pa.Table:
    """Return deltas in the form of a segment: the relation's columns and ``weight``."""
    columns = list(zip(*(row for row, _ in deltas), strict=True)) or [()] * len(relation.columns)
    arrays = [pa.array(column, ARROW_TYPES[c.type]) for column, c in zip(columns, relation.columns, strict=True)]
    weight = pa.array([weight for _, weight in deltas], pa.int64())
    return pa.table([*arrays, weight], names=[*(c.name for c in relation.columns), "weight"])


class FakeSegment:
    """The part of a segment that a shard's deliveries use, without a file."""

    def __init__(self, relations: Sequence[Relation], deltas: Deltas) -> None:
        self._tables = {r.name: delta_table(r, deltas[r.name]) for r in relations if deltas.get(r.name)}

    def rows(self, name: str) -> pa.Table | None:
        return self._tables.get(name)


class Shards:
    """Every shard's state, its saved runs, and every view's result as the sum of its changes."""

    def __init__(self, program: Program, shards: int) -> None:
        self.program = program
        self.shards = shards
        self.states = [ShardState(program, shard, shards) for shard in range(shards)]
        self.runs: list[list[bytes]] = [[] for _ in range(shards)]
        self.results: dict[str, Counter[Row]] = {view.name: Counter() for view in program.views}
        self.versions = 0

    def step(self, segments: Sequence[Deltas]) -> dict[str, str]:
        """Make one version from these segments; return the failed views with their reasons."""
        given = [cast(Segment, FakeSegment(self.program.relations, deltas)) for deltas in segments]
        # Every other version passes each segment as a partition of its own.
        parts = [[one] for one in given] if self.versions % 2 else [given]
        delivered = [delivery for part in parts for delivery in deliveries(self.program, part, self.shards)]
        self.versions += 1
        return self.deliver(delivered)

    def deliver(self, delivered: Sequence[Delivery]) -> dict[str, str]:
        """Make one version from the deliveries of the shards; return the failed views with their reasons."""
        failed: dict[str, str] = {}
        for shard, state in enumerate(self.states):
            step = state.step((d.part, d.deltas) for d in delivered if d.shard == shard)
            self.runs[shard].append(state.save())
            failed |= step.failed
            for name, changes in step.changes.items():
                self.add(name, changes)
        return failed

    def add(self, name: str, changes: pa.Table) -> None:
        """Add a view's changes to its result; assert that no missing row is removed."""
        result = self.results[name]
        lists = [column.to_pylist() for column in changes.columns]
        for *values, weight in zip(*lists, strict=True):
            assert weight != 0
            result[normal(values)] += weight
        assert all(count >= 0 for count in result.values()), f"{name}: {result}"
        for row in [row for row, count in result.items() if not count]:
            del result[row]

    def result(self, name: str) -> Counter[Row]:
        """Return the view's rows with their multiplicities."""
        return self.results[name]

    def restarted(self, *, from_base: bool) -> Shards:
        """Return the same shards in fresh memory: from all runs, or from one that contains everything."""
        again = Shards(self.program, self.shards)
        again.results, again.versions = self.results, self.versions
        for shard, state in enumerate(self.states):
            again.runs[shard] = [state.save_all()] if from_base else self.runs[shard]
            for run in again.runs[shard]:
                again.states[shard].apply_run(run)
        return again


def market_rows(seed: int, versions: int) -> Iterator[tuple[dict[str, list[tuple[Row, int]]], dict[str, list[Row]]]]:
    """Yield deltas of bids, asks and trades version by version, and the relations after each."""
    rng = random.Random(seed)
    held: dict[str, list[Row]] = {"bids": [], "asks": [], "trades": []}
    number = 0
    for version in range(versions):
        deltas: dict[str, list[tuple[Row, int]]] = {name: [] for name in held}
        for _ in range(rng.randint(0, 12)):
            number += 1
            name = rng.choice(["bids", "bids", "asks", "asks", "trades"])
            rows = held[name]
            if name != "trades" and rows and rng.random() < 0.45:
                deltas[name].append((rows.pop(rng.randrange(len(rows))), -1))
                continue
            t, symbol, price, volume = version * 10**9 // 3 + number, rng.choice("XY"), rng.randint(95, 105), 10
            row: Row = (t, number, rng.randint(1, 3), volume * rng.randint(1, 9), price, symbol)
            if name == "trades":
                row = (
                    t,
                    number,
                    symbol,
                    price,
                    volume,
                    rng.choice(["B", "S", None]),
                    None,
                    None,
                    rng.choice([1, None]),
                )
            rows.append(row)
            deltas[name].append((row, 1))
        yield deltas, held
