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
    """Return ``count`` valid feed lines, numbered."""
    return b"".join(
        b"%d,%d,%d,%d,%s,%d,%d,%s\n"
        % (n, 10 * n, n * 7919 % 10_007, n % 10, b"BSEX"[n % 4 : n % 4 + 1], n % 97, n % 89, (b"ACME", b"BOLT")[n % 2])
        for n in range(first, first + count)
    )


def cut(text: bytes, at: Sequence[int], origin_id: int = 1, offset: int = 0) -> list[RawBuffer]:
    """Return the text as raw buffers that end at the given places; a place that occurs twice makes an empty buffer."""
    places = [0, *sorted(at), len(text)]
    return [
        RawBuffer(origin_id, number, text[start:stop], offset + start)
        for number, (start, stop) in enumerate(pairwise(places), 1)
    ]


def in_pieces(text: bytes, size: int, origin_id: int = 1) -> list[RawBuffer]:
    """Return the text as raw buffers of one size, the last one smaller."""
    return cut(text, range(size, len(text), size), origin_id)


def cuts(text: bytes) -> st.SearchStrategy[list[int]]:
    """Return places at which a text may be cut, many or few, anywhere."""
    return st.lists(st.integers(0, len(text)), max_size=40)


def format_all(
    formatter: InputFormatter, raws: Sequence[RawBuffer], *, finish: bool = True, at_once: int = 1
) -> list[FormattedBatch]:
    """Format the buffers in the given order, ``at_once`` of them in each call.

    Buffers that are out of range are formatted again later. Return the batches in stream order.
    """
    orders: dict[int, InOrder] = {}
    ready: list[FormattedBatch] = []
    todo = list(raws)
    while todo:
        again: list[RawBuffer] = []
        for start in range(0, len(todo), at_once):
            formatted = formatter.format(todo[start : start + at_once])
            again += formatted.again
            ready += _in_order(orders, formatted.batches, len(raws))
        assert len(again) < len(todo), "nothing was in range"
        todo = again
    if finish:
        for origin_id in sorted({raw.origin_id for raw in raws}):
            ready += _in_order(orders, formatter.finish(origin_id), len(raws))
        assert all(order.waiting == 0 for order in orders.values())
    return ready


def _in_order(orders: dict[int, InOrder], batches: list[FormattedBatch], count: int) -> list[FormattedBatch]:
    ready: list[FormattedBatch] = []
    for batch in batches:
        order = orders.setdefault(batch.origin_id, InOrder(capacity=4 * count + 4))
        ready += order.add([batch])
        order._check()
    return ready


def format_with_threads(
    formatter: InputFormatter, raws: Sequence[RawBuffer], threads: int, seed: int, *, at_once: int = 1
) -> list[FormattedBatch]:
    """Format the buffers in several threads at once; each thread takes random buffers until none is left.

    Return batches in stream order.
    """
    orders: dict[int, InOrder] = {}
    lock, todo, ready, errors = Lock(), list(raws), list[FormattedBatch](), list[BaseException]()
    random.Random(seed).shuffle(todo)

    def work() -> None:
        try:
            while True:
                with lock:
                    if not todo:
                        return
                    mine = [todo.pop() for _ in range(min(at_once, len(todo)))]
                formatted = formatter.format(mine)
                with lock:
                    todo[:0] = formatted.again
                    ready.extend(_in_order(orders, formatted.batches, len(raws)))
        except BaseException as error:
            errors.append(error)
            raise

    workers = [Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    for origin_id in sorted({raw.origin_id for raw in raws}):
        ready += _in_order(orders, formatter.finish(origin_id), len(raws))
    assert all(order.waiting == 0 for order in orders.values())
    return ready


def rows_of(batches: Sequence[FormattedBatch]) -> list[tuple[object, ...]]:
    """Return all rows, in order, as tuples of Python values."""
    return [tuple(row.values()) for batch in batches for row in batch.rows.to_pylist()]
