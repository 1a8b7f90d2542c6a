"""Texts cut into raw buffers: any splitting, any order of arrival, any number of threads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from threading import Lock, Thread

from hypothesis import strategies as st

from runtime.formats import FormattedBatch, InOrder, InputFormatter, RawBuffer

__all__ = ["cut", "cuts", "feed_text", "format_all", "format_with_threads", "in_pieces", "rows_of"]


def feed_text(count: int, first: int = 1) -> bytes:
    """That many good feed lines, numbered."""
    return b"".join(
        b"%d,%d,%d,%d,%s,%d,%d,%s\n"
        % (n, 10 * n, n * 7919 % 10_007, n % 10, b"BSEX"[n % 4 : n % 4 + 1], n % 97, n % 89, (b"ACME", b"BOLT")[n % 2])
        for n in range(first, first + count)
    )


def cut(text: bytes, at: Sequence[int], origin_id: int = 1, offset: int = 0) -> list[RawBuffer]:
    """The text as raw buffers that end at the given places; a place that occurs twice makes an empty buffer."""
    places = [0, *sorted(at), len(text)]
    return [
        RawBuffer(origin_id, number, text[start:stop], offset + start)
        for number, (start, stop) in enumerate(pairwise(places), 1)
    ]


def in_pieces(text: bytes, size: int, origin_id: int = 1) -> list[RawBuffer]:
    """The text as raw buffers of one size, the last one smaller."""
    return cut(text, range(size, len(text), size), origin_id)


def cuts(text: bytes) -> st.SearchStrategy[list[int]]:
    """Places at which a text may be cut, many or few, anywhere."""
    return st.lists(st.integers(0, len(text)), max_size=40)


def format_all(formatter: InputFormatter, raws: Sequence[RawBuffer], *, finish: bool = True) -> list[FormattedBatch]:
    """Format the buffers in the order given, repeat what is out of range, return the batches in stream order."""
    order = InOrder(capacity=4 * len(raws) + 4)
    ready: list[FormattedBatch] = []
    todo = list(raws)
    while todo:
        again = []
        for raw in todo:
            batches = formatter.format(raw)
            if batches is None:
                again.append(raw)
            else:
                ready += order.add(batches)
                order._check()
        todo = again
    if finish:
        for origin_id in {raw.origin_id for raw in raws}:
            ready += order.add(formatter.finish(origin_id))
        assert order.waiting == 0
    return ready


def format_with_threads(
    formatter: InputFormatter, raws: Sequence[RawBuffer], threads: int, seed: int
) -> list[FormattedBatch]:
    """The same from several threads at once, each taking a random buffer of those that are left."""
    order = InOrder(capacity=4 * len(raws) + 4)
    lock, todo, ready, errors = Lock(), list(raws), list[FormattedBatch](), list[BaseException]()
    random.Random(seed).shuffle(todo)

    def work() -> None:
        try:
            while True:
                with lock:
                    if not todo:
                        return
                    raw = todo.pop()
                batches = formatter.format(raw)
                with lock:
                    if batches is None:
                        todo.insert(0, raw)
                    else:
                        ready.extend(order.add(batches))
        except BaseException as error:
            errors.append(error)
            raise

    workers = [Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    for origin_id in {raw.origin_id for raw in raws}:
        ready += order.add(formatter.finish(origin_id))
    assert order.waiting == 0
    return ready


def rows_of(batches: Sequence[FormattedBatch]) -> list[tuple[object, ...]]:
    """All rows, in order, as tuples of Python values."""
    return [tuple(row.values()) for batch in batches for row in batch.rows.to_pylist()]
