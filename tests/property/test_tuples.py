"""Both cases of the tuple queue give each query the same, which is what a list for each query would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.tuples import (
    AtLimit,
    OverrunError,
    OwnQueues,
    QueueEmptyError,
    QueueFullError,
    SharedQueue,
    TupleQueue,
    unit_size,
)

QUERIES = st.integers(0, 4)


class Cases(RuleBasedStateMachine):
    """The two cases and a plain list of all items side by side."""

    @initialize(capacity=st.integers(1, 12), at_limit=st.sampled_from(["refuse", "overrun"]), is_sized=st.booleans())
    def begin(self, capacity: int, at_limit: AtLimit, is_sized: bool) -> None:
        self.size = (lambda item: item[1]) if is_sized else unit_size
        self.own: OwnQueues[Any] = OwnQueues(capacity, at_limit=at_limit, size=self.size)
        self.shared: SharedQueue[Any] = SharedQueue(capacity, at_limit=at_limit, size=self.size)
        self.both: tuple[TupleQueue[Any], ...] = (self.own, self.shared)
        self.items: list[tuple[int, int]] = []
        self.at: dict[int, int] = {}
        """Query → what it gets next, or what it has missed from there on."""
        self.lost: set[int] = set()

    def waits(self, query: int) -> int:
        return sum(self.size(item) for item in self.items[self.at[query] :])

    @rule(query=QUERIES)
    def join(self, query: int) -> None:
        if query in self.at:
            return
        for queue in self.both:
            queue.join(query)
        self.at[query] = len(self.items)

    @rule(query=QUERIES, is_skip=st.booleans())
    def leave_or_skip(self, query: int, is_skip: bool) -> None:
        if query not in self.at:
            return
        self.lost.discard(query)
        for queue in self.both:
            (queue.skip if is_skip else queue.leave)(query)
        if is_skip:
            self.at[query] = len(self.items)
        else:
            del self.at[query]

    @rule(size=st.integers(0, 14), times=st.integers(1, 5))
    def add(self, size: int, times: int) -> None:
        for _ in range(times):
            item = (len(self.items), size)
            room = self.own.capacity - self.size(item)
            too_much = {query for query in self.at if query not in self.lost and self.waits(query) > room}
            for queue in self.both:
                if too_much and queue.at_limit == "refuse":
                    with pytest.raises(QueueFullError):
                        queue.add(item)
                else:
                    queue.add(item)
            if too_much and self.own.at_limit == "refuse":
                return
            self.lost |= too_much
            self.items.append(item)

    @rule(query=QUERIES, is_peek=st.booleans())
    def get(self, query: int, is_peek: bool) -> None:
        if query not in self.at:
            return
        at = self.at[query]
        for queue in self.both:
            call = queue.peek if is_peek else queue.get
            if query in self.lost:
                with pytest.raises(OverrunError) as raised:
                    call(query)
                assert raised.value.missed == len(self.items) - at
            elif at == len(self.items):
                with pytest.raises(QueueEmptyError):
                    call(query)
            else:
                assert call(query) == self.items[at]
        if query in self.lost:
            self.lost.remove(query)
            self.at[query] = len(self.items)
        elif at < len(self.items) and not is_peek:
            self.at[query] += 1

    @rule(query=QUERIES, most=st.none() | st.integers(0, 6))
    def get_all(self, query: int, most: int | None) -> None:
        if query not in self.at or query in self.lost:
            return
        at = self.at[query]
        found = self.items[at:] if most is None else self.items[at : at + most]
        assert [queue.get_all(query, most) for queue in self.both] == [found, found]
        self.at[query] += len(found)

    @invariant()
    def all_agree(self) -> None:
        for queue in self.both:
            queue._check()  # type: ignore[attr-defined]
            assert queue.end == len(self.items)
            assert queue.queries == tuple(self.at)
            for query, at in self.at.items():
                assert queue.position(query) == (len(self.items) if query in self.lost else at)
                assert queue.is_empty(query) == (at == len(self.items) and query not in self.lost)
        waiting = [len(self.items) - at for query, at in self.at.items() if query not in self.lost]
        assert self.own.kept() == sum(waiting)
        assert self.shared.kept() == max(waiting, default=0)


TestCases = Cases.TestCase
