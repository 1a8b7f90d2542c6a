"""Cutting of bytes into raw buffers in many ways, and reordering of raw buffers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from runtime.formats import RawBuffer

__all__ = ["STRATEGIES", "cut_places", "raw_buffers", "shuffled"]

STRATEGIES = ("whole", "uniform", "random", "breaks", "tiny", "mixed")
_SIZES = (1, 2, 3, 5, 8, 16, 61, 64, 255, 4096)
_MOST_BUFFERS = 3000
_T = TypeVar("_T")


def cut_places(rng: random.Random, length: int, breaks: Sequence[int], strategy: str) -> list[int]:
    """Return the sorted offsets at which ``length`` bytes are cut; one that occurs twice makes an empty buffer.

    ``breaks`` are offsets near which cuts are likely to cause errors, such as delimiters and quotes.
    """
    if strategy == "whole" or length == 0:
        return []
    if strategy in {"uniform", "tiny"}:
        size = rng.choice(_SIZES[:3] if strategy == "tiny" else _SIZES)
        size = max(size, length // _MOST_BUFFERS + 1)
        return list(range(size, length, size))
    if strategy == "random":
        return sorted(rng.randint(0, length) for _ in range(rng.choice((1, 2, 5, 20, 200))))
    if strategy == "breaks":
        chosen = rng.sample(breaks, min(len(breaks), rng.choice((1, 5, 50, _MOST_BUFFERS)))) if breaks else []
        return sorted(min(max(place + rng.choice((-2, -1, -1, 0, 0, 1, 1, 2)), 0), length) for place in chosen)
    places: list[int] = []  # mixed: stretches of tiny buffers between large ones
    at = 0
    while at < length and len(places) < _MOST_BUFFERS:
        at += rng.choice((1, 1, 1, 2, 3, 40, 400)) if rng.random() < 0.9 else rng.randint(0, length)
        places.append(min(at, length))
    return places


def raw_buffers(data: bytes, places: Sequence[int], origin_id: int = 1, offset: int = 0) -> list[RawBuffer]:
    """Return the bytes as raw buffers, at least one, that end at these offsets."""
    return [
        RawBuffer(origin_id, number, data[start:stop], offset + start)
        for number, (start, stop) in enumerate(pairwise([0, *places, len(data)]), 1)
    ]


def shuffled(rng: random.Random, items: Sequence[_T], window: int) -> list[_T]:
    """Return the items in another order, each at most about ``window`` places from its original one."""
    keys = [place + rng.random() * window for place in range(len(items))]
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]
