"""What may be on its way, and who is told when there is room."""

from __future__ import annotations

import random

from runtime.engine.ingest import Admission
from runtime.formats import RawBuffer


def raw(number: int, size: int = 1, origin_id: int = 0) -> RawBuffer:
    return RawBuffer(origin_id, number, bytes(size), 0)


class Room:
    """An admission and who it resumed, by origin."""

    def __init__(self, total: int = 1000, origin: int = 1000, buffers: int = 1000, origins: int = 1) -> None:
        self.admission = Admission(total, origin, buffers)
        self.resumed: list[int] = []
        for origin_id in range(origins):
            self.open(origin_id)

    def open(self, origin_id: int, weight: int = 1) -> None:
        self.admission.open(origin_id, lambda: self.resumed.append(origin_id), weight)

    def enter(self, number: int, size: int = 1, origin_id: int = 0) -> bool:
        return self.admission.enter(raw(number, size, origin_id))

    def leave(self, *numbers: int, size: int = 1, origin_id: int = 0) -> None:
        self.admission.leave([raw(number, size, origin_id) for number in numbers])


def test_buffers_are_bounded_from_the_oldest_that_is_still_there() -> None:
    """Others may leave: as long as the first is stuck, no more than so many behind it are admitted."""
    room = Room(buffers=3)
    assert [room.enter(n) for n in (1, 2, 3, 4)] == [True, True, True, False]
    room.leave(2, 3)
    assert (room.enter(4), room.resumed) == (False, [])
    room.leave(1)
    assert room.resumed == [0]
    assert [room.enter(n) for n in (4, 5, 6, 7)] == [True, True, True, False]


def test_bytes_of_an_origin_are_bounded_and_one_buffer_always_enters() -> None:
    room = Room(origin=10)
    assert [room.enter(1, 50), room.enter(2, 1)] == [True, False]
    room.leave(1, size=50)
    assert [room.enter(2, 6), room.enter(3, 6)] == [True, False]
    assert [room.enter(3, 4), room.enter(4, 0), room.enter(5, 1)] == [True, True, False]
    assert room.admission.bytes == 10


def test_compressed_bytes_count_more() -> None:
    room = Room(origin=40)
    room.open(0, weight=8)
    assert [room.enter(1, 4), room.enter(2, 2)] == [True, False]
    assert room.admission.bytes == 32


def test_the_total_is_bounded_and_room_is_given_in_turn() -> None:
    """Three origins were refused; what becomes free is offered to those who waited longest, as far as it goes."""
    room = Room(total=10, origins=4)
    assert room.enter(1, 10, origin_id=3)
    assert not any(room.enter(1, 4, origin_id=n) for n in (1, 0, 2))
    room.leave(1, size=10, origin_id=3)
    assert room.resumed == [1, 0]
    assert room.enter(1, 4, origin_id=1)
    assert room.enter(1, 4, origin_id=0)
    assert not room.enter(1, 4, origin_id=2)
    room.leave(1, size=4, origin_id=1)
    assert room.resumed == [1, 0, 2]


def test_many_small_buffers_do_not_keep_a_large_one_out() -> None:
    """Whoever comes while others wait for room queues behind them, and whoever was told to come finds room."""
    room = Room(total=10, origins=4)
    assert room.enter(1, 6)
    assert not room.enter(1, 8, origin_id=1)
    assert not room.enter(1, 1, origin_id=2), "there is room, but another one has waited for longer"
    assert not room.enter(1, 3, origin_id=3)
    room.leave(1, size=6)
    assert room.resumed == [1, 2]
    assert room.enter(1, 8, origin_id=1)
    assert room.enter(1, 1, origin_id=2)
    assert not room.enter(2, 1, origin_id=2)
    room.leave(1, size=8, origin_id=1)
    assert room.resumed == [1, 2, 3, 2]
    assert room.enter(1, 3, origin_id=3)
    assert room.enter(2, 1, origin_id=2)


def test_an_empty_house_admits_what_is_larger_than_it() -> None:
    room = Room(total=10, origins=2)
    assert room.enter(1, 3)
    assert not room.enter(1, 50, origin_id=1)
    room.leave(1, size=3)
    assert room.resumed == [1]
    assert room.enter(1, 50, origin_id=1)


def test_drained_is_told_once_nothing_is_on_its_way() -> None:
    room = Room()
    told: list[str] = []
    room.admission.when_drained(0, lambda: told.append("at once"))
    room.enter(1)
    room.enter(2)
    room.admission.when_drained(0, lambda: told.append("later"))
    room.leave(2)
    assert told == ["at once"]
    room.leave(1)
    assert told == ["at once", "later"]


def test_closed_is_closed_and_an_unknown_origin_has_no_way_in() -> None:
    room = Room()
    assert not room.enter(1, origin_id=7)
    room.admission.close()
    assert not room.enter(1)


def test_everything_comes_through_and_nothing_is_counted_twice() -> None:
    """Sources that offer again when they are told, buffers that leave in any order."""
    chance = random.Random(7)
    room = Room(total=60, origin=20, buffers=5, origins=6)
    next_number = dict.fromkeys(range(6), 1)
    inside: list[tuple[int, int, int]] = []
    asked = list(range(6))
    size_of = {(o, n): chance.randint(0, 9) for o in range(6) for n in range(1, 101)}
    while inside or asked:
        while asked:
            origin_id = asked.pop()
            while (number := next_number[origin_id]) <= 100:
                if not room.enter(number, size_of[origin_id, number], origin_id):
                    break
                inside.append((origin_id, number, size_of[origin_id, number]))
                next_number[origin_id] += 1
        assert room.admission.bytes <= 60 + 9
        assert all(n < number + 100 for _, n, _ in inside)
        origin_id, number, size = inside.pop(chance.randrange(len(inside)))
        room.leave(number, size=size, origin_id=origin_id)
        asked, room.resumed = room.resumed, []
    assert set(next_number.values()) == {101}
    assert room.admission.bytes == 0
