"""What may be on its way, and who is told when there is room."""

from __future__ import annotations

import random
from collections.abc import Sequence

from runtime.engine.admission import Admission, Ticket, Window

MANY = 1000


class Room:
    """An admission, its sources by number, and who was told to come."""

    def __init__(
        self, total: int = MANY, size: int = MANY, source: int = MANY, source_size: int = MANY, sources: int = 1
    ) -> None:
        self.admission = Admission(total, size, source, source_size)
        self.resumed: list[int] = []
        self.windows: list[Window] = []
        for number in range(sources):
            self.windows.append(self.admission.open(lambda n=number: self.resumed.append(n)))  # type: ignore[misc]
        self.tickets: dict[int, list[Ticket]] = {number: [] for number in range(sources)}

    def enter(self, size: int = 1, source: int = 0, count: int = 1) -> bool:
        ticket = self.admission.enter(self.windows[source], size, count)
        if ticket is not None:
            self.tickets[source].append(ticket)
        self.admission.check()
        return ticket is not None

    def leave(self, *numbers: int, source: int = 0) -> None:
        self.admission.leave([self.tickets[source][number] for number in numbers])
        self.admission.check()


def test_inputs_are_bounded_from_the_oldest_that_is_still_there() -> None:
    """Others may leave: as long as the first is stuck, no more than so many behind it are admitted."""
    room = Room(source=3)
    assert [room.enter() for _ in range(4)] == [True, True, True, False]
    room.leave(1, 2)
    assert (room.enter(), room.resumed) == (False, [])
    room.leave(0)
    assert room.resumed == [0]
    assert [room.enter() for _ in range(4)] == [True, True, True, False]


def test_a_sources_size_is_bounded_and_one_input_always_enters() -> None:
    room = Room(source_size=10)
    assert [room.enter(50), room.enter(1)] == [True, False]
    room.leave(0)
    assert [room.enter(6), room.enter(6)] == [True, False]
    assert [room.enter(4), room.enter(0), room.enter(1)] == [True, True, False]
    assert room.admission.size == 10


def test_the_total_is_bounded_and_room_is_given_in_turn() -> None:
    """Three sources were refused; what becomes free is offered to those who waited longest, as far as it goes."""
    room = Room(size=10, sources=4)
    assert room.enter(10, source=3)
    assert not any(room.enter(4, source=n) for n in (1, 0, 2))
    room.leave(0, source=3)
    assert room.resumed == [1, 0]
    assert room.enter(4, source=1)
    assert room.enter(4, source=0)
    assert not room.enter(4, source=2)
    room.leave(0, source=1)
    assert room.resumed == [1, 0, 2]


def test_sources_refused_while_held_are_resumed_once() -> None:
    room = Room(total=2, sources=4)
    assert [room.enter(source=n) for n in (0, 0, 1)] == [True, True, False]
    room.admission.hold(True)
    assert not any(room.enter(source=n) for n in (0, 2, 3))
    room.leave(0, 1)
    assert room.resumed == [1], "there is room"
    assert not room.enter(source=1)
    room.admission.withdraw(room.windows[3])
    room.admission.resume_held()
    assert room.resumed == [1], "it is still held"
    room.admission.hold(False)
    room.admission.resume_held()
    room.admission.resume_held()
    assert sorted(room.resumed) == [0, 1, 1, 2]
    assert [room.enter(source=n) for n in (1, 2)] == [True, True]


def test_the_total_is_bounded_in_number_too() -> None:
    room = Room(total=3, sources=3)
    assert [room.enter(source=n) for n in (0, 0, 0, 1, 2)] == [True, True, True, False, False]
    room.leave(0)
    assert room.resumed == [1]
    assert room.enter(source=1)
    room.leave(1, 2)
    assert room.resumed == [1, 2]


def test_many_small_inputs_do_not_keep_a_large_one_out() -> None:
    """Whoever comes while others wait for room queues behind them, and whoever was told to come finds room."""
    room = Room(size=10, sources=4)
    assert room.enter(6)
    assert not room.enter(8, source=1)
    assert not room.enter(1, source=2), "there is room, but another one has waited for longer"
    assert not room.enter(3, source=3)
    room.leave(0)
    assert room.resumed == [1, 2]
    assert room.enter(8, source=1)
    assert room.enter(1, source=2)
    assert not room.enter(1, source=2)
    room.leave(0, source=1)
    assert room.resumed == [1, 2, 3, 2]
    assert room.enter(3, source=3)
    assert room.enter(1, source=2)


def test_an_empty_house_admits_what_is_larger_than_it() -> None:
    room = Room(size=10, sources=2)
    assert room.enter(3)
    assert not room.enter(50, source=1)
    room.leave(0)
    assert room.resumed == [1]
    assert room.enter(50, source=1)


def test_a_source_that_has_gone_leaves_its_place_in_the_queue() -> None:
    room = Room(total=1, sources=3)
    assert room.enter(source=0)
    assert not room.enter(source=1)
    assert not room.enter(source=2)
    room.leave(0)
    assert room.resumed == [1]
    room.admission.withdraw(room.windows[1])
    assert room.resumed == [1, 2]
    assert not room.enter(source=1), "it does not come any more"
    assert room.enter(source=2)


def test_an_input_leaves_with_the_last_item_that_came_of_it() -> None:
    """Two inputs become three items, one of them becomes two, and two ways lead from the source."""
    room = Room(source=2)
    assert room.enter(count=2)
    assert room.enter()
    first, second = room.tickets[0]
    shared = room.admission.share([first, second], 3)
    assert shared is not None
    more = room.admission.share([shared], 2)
    assert more is shared
    for _ in range(3):
        room.admission.leave([shared])
        assert room.admission.inputs == 2
    room.admission.leave([shared])
    assert room.admission.inputs == 2, "the other way of the first input is not over, and the second stands behind it"
    assert room.admission.share([first], 0) is None
    assert room.admission.inputs == 0
    assert room.admission.share([], 5) is None


def test_everything_comes_through_and_nothing_is_counted_twice() -> None:
    """Sources that offer again when they are told, inputs that become items which leave in any order."""
    chance = random.Random(7)
    room = Room(total=40, size=60, source=5, source_size=20, sources=6)
    done = dict.fromkeys(range(6), 0)
    inside: list[Ticket] = []
    asked: Sequence[int] = list(range(6))
    sizes = {source: [chance.randint(0, 9) for _ in range(100)] for source in range(6)}
    while inside or asked:
        for source in asked:
            while done[source] < 100:
                count = chance.randint(1, 3)
                if not room.enter(sizes[source][done[source]], source, count):
                    break
                done[source] += 1
                inside += [room.tickets[source][-1]] * count
        assert room.admission.size <= 60 + 9
        chance.shuffle(inside)
        some = [inside.pop() for _ in range(min(len(inside), chance.randint(1, 3)))]
        room.resumed = []
        count = chance.choice([0, 0, 0, 1, 2])
        ticket = room.admission.share(some, count)
        inside += [ticket] * count if ticket is not None else []
        asked = room.resumed
    assert set(done.values()) == {100}
    assert (room.admission.inputs, room.admission.size) == (0, 0)


def test_a_call_waits_until_nothing_of_its_source_is_left() -> None:
    """What leaves out of order stays until the oldest has left; other sources do not matter."""
    room, calls = Room(sources=2), []
    room.admission.when_empty(room.windows[0], lambda: calls.append("at once"))
    assert [room.enter(), room.enter(), room.enter(source=1)] == [True, True, True]
    room.admission.when_empty(room.windows[0], lambda: calls.append("later"))
    room.leave(1)
    assert calls == ["at once"]
    room.leave(0)
    assert calls == ["at once", "later"]
    room.admission.withdraw(room.windows[0])
    room.admission.when_empty(room.windows[0], lambda: calls.append("after the end"))
    assert calls == ["at once", "later", "after the end"]
