"""Raw buffers wait with their neighbours, and leave with them.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import random
from threading import Thread

import pytest

from runtime.formats import DuplicateSequenceError, Field, InputFormatter, Pending, RawBuffer, Schema


def raw(number: int, origin_id: int = 1, size: int = 10) -> RawBuffer:
    return RawBuffer(origin_id, number, b"x" * size, -1)


def numbers(raws: list[RawBuffer]) -> list[int]:
    return [one.sequence_number for one in raws]


def pending(raws: list[RawBuffer]) -> Pending:
    waiting = Pending()
    for one in raws:
        waiting.add(one)
    return waiting


def test_a_take_is_bounded_by_bytes_and_gives_neighbours() -> None:
    """Row 11: of buffers in any order those that join the oldest leave together, then those that are left."""
    waiting = pending([raw(n) for n in (7, 3, 1, 6, 4, 9, 2, 8)])
    assert (waiting.bytes, len(waiting)) == (80, 8)
    assert numbers(waiting.take(50)) == [6, 7, 8, 9], "the rest is not worth a further run"
    assert numbers(waiting.take(50)) == [1, 2, 3, 4]
    assert (waiting.take(50), waiting.bytes, len(waiting)) == ([], 0, 0)


def test_at_least_one_is_taken() -> None:
    """Row 11: a buffer that is larger than what is asked for leaves alone."""
    waiting = pending([raw(1, size=100), raw(2, size=100), raw(3, size=0)])
    assert numbers(waiting.take(50)) == [1]
    assert numbers(waiting.take(50)) == [2]
    assert numbers(waiting.take(50)) == [3]


@pytest.mark.parametrize("size", [1, 40, 1_000])
def test_the_oldest_is_always_among_them(size: int) -> None:
    """Row 11: nothing waits for ever, however many neighbours of others come."""
    generator = random.Random(size)
    waiting = pending([raw(1_000, origin_id=2, size=size), raw(999, origin_id=2, size=size)])
    oldest, number = raw(1_001, origin_id=2, size=size), 0
    waiting.add(oldest)
    taken: list[RawBuffer] = []
    for _ in range(3):
        for _ in range(20):
            number += 1
            waiting.add(raw(number, origin_id=generator.randrange(1, 3), size=size))
        taken += waiting.take(size)
    assert oldest in taken


def test_what_comes_back_stands_behind() -> None:
    """Row 11: buffers that are out of range are tried again after those that may bring them in range."""
    waiting = pending([raw(1), raw(2)])
    taken = waiting.take(10)
    waiting.put_back(taken)
    assert numbers(waiting.take(1)) == [2]
    assert numbers(waiting.take(1)) == [1]


def test_a_repeated_number_is_not_lost() -> None:
    """Row 12: it is for the formatter to complain about a number that comes twice."""
    waiting = pending([raw(1), raw(1), raw(2)])
    assert (len(waiting), waiting.bytes) == (3, 30)
    taken = waiting.take(100)
    assert sorted(numbers(taken)) == [1, 1, 2]
    assert (len(waiting), waiting.bytes) == (0, 0)
    with pytest.raises(DuplicateSequenceError):
        InputFormatter(Schema((Field("word", "string"),))).format(taken)


def test_threads_share_what_is_pending() -> None:
    """Row 4: several threads take everything once."""
    waiting, found = pending([raw(n) for n in random.Random(1).sample(range(1, 2_001), 2_000)]), list[int]()

    def work() -> None:
        while taken := waiting.take(70):
            found.extend(numbers(taken))

    workers = [Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == list(range(1, 2_001))
