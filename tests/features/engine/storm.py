"""Random interleavings of everything that may happen to queries, on a stepper, with what must hold after each step.

Every item carries the number of barriers that its query had completed when it was taken. Whatever the plan, a pipeline
that executes it must have drained as often, neither more nor less: that is the consistent cut. Behind a cut point,
which begins barriers itself, items carry how many it has begun.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from runtime.engine.barriers import BarrierFuture
from runtime.engine.errors import BarrierError
from runtime.engine.listeners import QueryStatus
from runtime.engine.plan import Node
from tests.features.engine.storm_pipeline import BEFORE_CUT, Checked, Item
from tests.harness import Harness, QueryBuilder

__all__ = ["storm"]


class StormyQuery:
    """A query of a random plan, and what it should come to."""

    def __init__(self, harness: Harness, query_id: str, chance: random.Random) -> None:
        self.harness = harness
        self.chance = chance
        self.builder: QueryBuilder = harness.query(query_id)
        self.is_stopped = False
        """It was asked to: from then on items may be skipped and barriers cut short."""
        self.is_timed = False
        """It runs on threads: barriers may come between an item's stamp and its way in."""
        self.is_accepted = False
        """The engine has taken it: its id was free."""
        self.futures: list[BarrierFuture] = []
        self._numbers: Counter[str] = Counter()
        self._ended: set[str] = set()
        self.cut_points = 0
        self._build()

    @property
    def query_id(self) -> str:
        """Its id."""
        return self.builder.query_id

    def _build(self) -> None:
        chance, builder = self.chance, self.builder
        has_cuts = chance.random() < 0.4
        before: list[Node] = []  # what leads to a cut point
        behind: list[Node] = []
        for n in range(chance.randint(1, 3)):
            is_before = has_cuts and (n == 0 or chance.random() < 0.7)
            (before if is_before else behind).append(self._source(f"source {n}", BEFORE_CUT if is_before else 0))
        if has_cuts:
            for n in range(chance.randint(0, 2)):
                before.append(self._pipeline(f"before {n}", self._some(before)))
            open_ends = [node for node in before if not node.successors]
            cuts = chance.randint(1, min(2, len(open_ends)))
            self.cut_points = cuts
            behind += [self._pipeline(f"cut {n}", open_ends[n::cuts], is_cut_point=True) for n in range(cuts)]
        for n in range(chance.randint(1, 5)):
            behind.append(self._pipeline(f"pipeline {n}", self._some(behind)))
        loose = [node for node in behind if not node.inputs and not node.successors]
        if loose:
            self._pipeline("last", [(node, chance.randint(0, 1)) for node in loose])
        for source in builder.sources.values():
            source.fails_on_open = "open" if chance.random() < 0.02 else ""
            source.fails_on_close = "close" if chance.random() < 0.02 else ""
        for pipeline in builder.pipelines.values():
            pipeline.fails_on_start = "start" if chance.random() < 0.01 else ""
            pipeline.fails_on_stop = "stop" if chance.random() < 0.01 else ""
            pipeline.fails_on_discard = "discard" if chance.random() < 0.05 else ""
            pipeline.fails_on_call = chance.randint(1, 20) if chance.random() < 0.03 else 0
            pipeline.fails_on_drain = chance.randint(1, 5) if chance.random() < 0.03 else 0

    def _some(self, nodes: list[Node]) -> list[tuple[Node, int]]:
        chosen = self.chance.sample(nodes, min(len(nodes), self.chance.randint(1, 3)))
        return [(node, self.chance.randint(0, 1)) for node in chosen]

    def _source(self, name: str, epoch: int) -> Node:
        node = self.builder.source(name)
        if epoch != BEFORE_CUT:
            self.builder.sources[name].on_accepted = self._stamped
        return node

    def _stamped(self, item: object) -> object:
        counters = self.harness.engine.counters(self.query_id)
        assert isinstance(item, Item)
        return item if counters is None else msgspec.structs.replace(item, epoch=counters.barriers)

    def _pipeline(self, name: str, inputs: Sequence[Node | tuple[Node, int]], *, is_cut_point: bool = False) -> Node:
        chance = self.chance
        concurrency = 1 if is_cut_point else chance.choice([1, 1, 2, 3])
        pipeline = Checked(name, self.harness.watch, concurrency=concurrency, most_inputs=chance.choice([1, 2, 10]))
        pipeline.is_cut_point = is_cut_point
        return self.builder.own(name, pipeline.configure(chance, self), inputs)

    # What happens to it

    def inject(self) -> None:
        """A few inputs at one of the sources."""
        source = self.chance.choice(list(self.builder.sources.values()))
        if source.name in self._ended:
            return
        for _ in range(self.chance.randint(1, 8)):
            self._numbers[source.name] += 1
            source.inject(Item(source.name, self._numbers[source.name], BEFORE_CUT), size=self.chance.randint(1, 40))

    def end(self) -> None:
        """A source ends."""
        self._end(self.chance.choice(list(self.builder.sources)))

    def _end(self, name: str) -> None:
        if name not in self._ended:
            self._ended.add(name)
            self.builder.sources[name].inject_end()

    def end_all(self) -> None:
        """All sources end."""
        for name in self.builder.sources:
            self._end(name)

    def fail(self) -> None:
        """A source fails, if it is open."""
        source = self.chance.choice(list(self.builder.sources.values()))
        if source.is_open:
            source.inject_error("failed")

    def request_barrier(self) -> None:
        """Someone wants a barrier."""
        try:
            future = self.harness.engine.request_barrier(self.query_id, self.chance.choice([None, None, "payload"]))
        except BarrierError as error:
            assert "end of all sources" in str(error)  # noqa: PT017 (one of two outcomes)
        else:
            self.futures.append(future)

    # What must hold at its end

    def check_end(self) -> None:
        """Assert what its status promises."""
        if not self.is_accepted:
            return
        sources, pipelines = self.builder.sources.values(), self.builder.pipelines.values()
        for source in sources:
            assert source.closes == int(source.opens > 0 and not source.fails_on_open), source.name
        for pipeline in pipelines:
            assert not pipeline.is_running, f"{pipeline.name} still runs"
            assert pipeline.stops + pipeline.discards <= 1
        assert all(future.outcome is not None for future in self.futures)
        status = self.harness.status.of(self.query_id)[-1]
        if status is QueryStatus.STOPPED and not self.is_stopped:
            self._check_flow()
        if status is QueryStatus.FAILED:
            assert "AssertionError" not in self.harness.status.reasons[self.query_id]
            assert self.harness.status.reasons[self.query_id].startswith(("source ", "node "))

    def _check_flow(self) -> None:
        """It ran to its end: everything that was taken went all the way, once on each way, and in order."""
        given: dict[str, list[Counter[tuple[str, int]]]] = {}
        is_ordered: dict[str, bool] = {}
        for node in self.builder.plan.nodes:
            many = len(node.successors)
            if not node.inputs:
                assert not self.builder.sources[node.name].waiting
                taken = Counter(_key(item) for item in self.builder.sources[node.name].taken)
                given[node.name], is_ordered[node.name] = [taken] * many, True
                continue
            pipeline = self.builder.pipelines[node.name]
            assert isinstance(pipeline, Checked)
            assert pipeline.stops == 1
            assert sorted(pipeline.ended_ports) == sorted({edge.port for edge in node.inputs})
            expected: Counter[tuple[str, int]] = Counter()
            for edge in {id(edge.node): edge.node for edge in node.inputs}.values():
                for place, (successor, _) in enumerate(edge.successors):
                    expected += given[edge.name][place] if successor == node.index else Counter()
            received = [_key(item) for item in pipeline.received]
            assert Counter(received) == expected, f"{node.name} of {self.builder.plan}"
            is_ordered[node.name] = (
                pipeline.concurrency == 1 and len(node.inputs) == 1 and is_ordered[node.inputs[0].node.name]
            )
            if is_ordered[node.name]:
                for source in self.builder.sources:
                    numbers = [number for name, number in received if name == source]
                    assert numbers == sorted(numbers), f"{node.name}: {source} out of order"
            parts = [Counter({k: n for k, n in expected.items() if k[1] % many == s}) for s in range(many)]
            given[node.name] = parts if pipeline.exchanges else [expected] * many


def _key(item: object) -> tuple[str, int]:
    assert isinstance(item, Item)
    return item.source, item.number


class Storm:
    """So many events in an order that a seed says, on one engine."""

    KINDS: ClassVar = {
        "step": 40,
        "inject": 15,
        "barrier": 6,
        "end": 1,
        "fail": 0.1,
        "stop": 0.3,
        "start": 1,
        "clock": 2,
    }
    """How often what happens, in proportion."""

    def __init__(self, seed: int, *, has_threads: bool = False) -> None:
        self.chance = chance = random.Random(seed)
        self.harness = Harness(
            seed=None if has_threads else chance.getrandbits(32),
            workers=chance.randint(1, 4),
            admitted=chance.choice([5, 20, 1000]),
            admitted_size=chance.choice([50, 500, 100_000]),
            in_flight=chance.choice([1, 4, 64]),
            in_flight_size=chance.choice([30, 300, 100_000]),
        )
        self.queries: dict[str, StormyQuery] = {}
        """The last one of each id."""
        self.counts: Counter[str] = Counter()
        self._has_threads = has_threads

    def _step(self) -> bool:
        if self._has_threads:
            return False
        assert self.harness.stepper is not None
        has_stepped = self.harness.stepper.step()
        self.harness.check()
        self.counts["steps"] += has_stepped
        return has_stepped

    def run(self, events: int) -> None:
        """Events, then the end of all sources or of the engine."""
        self._start()
        for _ in range(events):
            (kind,) = self.chance.choices(list(self.KINDS), list(self.KINDS.values()))
            self.counts[kind] += 1
            if kind == "start":
                self._start()
            elif kind == "clock":
                self.harness.clock.advance(0.7)
            elif kind == "step":
                for _ in range(self.chance.randint(1, 20)):
                    self._step()
            else:
                self._happen(kind, self.chance.choice(list(self.queries.values())))
            if not self._has_threads:
                self.harness.check()
        if self.chance.random() < 0.5:
            self._end_all()
        for query in self.queries.values():
            query.is_stopped = query.is_stopped or not self._has_ended(query)
        self.harness.shutdown()
        for query in self.queries.values():
            query.check_end()
            self.counts[self.harness.status.of(query.query_id)[-1].value] += 1

    def _start(self) -> None:
        chance = random.Random(self.chance.getrandbits(32)) if self._has_threads else self.chance
        query = StormyQuery(self.harness, f"query {self.chance.randint(0, 4)}", chance)
        query.is_timed = self._has_threads
        before = self.queries.get(query.query_id)
        query.is_accepted = before is None or self._has_ended(before)
        if self._has_threads and not query.is_accepted:
            return  # the one before may end at any time, and this one be taken after all
        if query.is_accepted and before is not None:
            self._await_end(before)
            before.check_end()
        self.harness.start(query.builder)
        if query.is_accepted:
            self.queries[query.query_id] = query

    def _await_end(self, query: StormyQuery) -> None:
        final = {QueryStatus.STOPPED, QueryStatus.FAILED}
        self.harness.until(lambda: self._has_ended(query) and self.harness.status.of(query.query_id)[-1] in final)

    def _end_all(self) -> None:
        for query in self.queries.values():
            query.end_all()
        if self._has_threads:
            for query in self.queries.values():
                self._await_end(query)
        while self._step() or self.harness.engine.queue.next_deadline_s is not None:
            self.harness.clock.advance(0.01)
        for query in self.queries.values():
            assert self._has_ended(query), f"{query.query_id} has not ended"

    def _happen(self, kind: str, query: StormyQuery) -> None:
        if kind == "inject":
            query.inject()
        elif kind == "end":
            query.end()
        elif kind == "fail":
            query.fail()
        elif kind == "barrier":
            query.request_barrier()
        else:
            query.is_stopped = True
            self.harness.stop(query.query_id)

    def _has_ended(self, query: StormyQuery) -> bool:
        return self.harness.engine.counters(query.query_id) is None


def storm(seed: int, events: int, *, has_threads: bool = False) -> Counter[str]:
    """One storm; raises AssertionError. Gives how many events there were of each kind, and how queries ended.

    With threads the workers take what steps they like, and nobody looks in between.
    """
    it = Storm(seed, has_threads=has_threads)
    it.run(events)
    return it.counts
