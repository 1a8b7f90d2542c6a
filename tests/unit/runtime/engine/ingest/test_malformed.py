"""Malformed tuples are told once, when a cut passes them, however many they are."""

from __future__ import annotations

import random

import numpy as np
import pytest

from runtime.engine.ingest import deadletters
from runtime.engine.ingest.deadletters import MalformedTuples, Passed
from runtime.formats import DeadLetter


def letter(offset: int) -> DeadLetter:
    return DeadLetter(0, 1, offset, 0, "", "", "", b"")


def add(bad: MalformedTuples, *offsets: int, described: int = 0, end: int = 0) -> None:
    bad.add(np.array(offsets), tuple(map(letter, offsets[:described])), end or offsets[-1] + 1)


def told(passed: Passed) -> tuple[list[int], int, int]:
    return [one.byte_offset for one in passed.letters], passed.count, passed.until


def test_each_is_told_with_the_first_cut_behind_it() -> None:
    bad = MalformedTuples()
    add(bad, 10, 20, 30, 40, described=2)
    add(bad, 50, described=1)
    assert told(bad.passed(10)) == ([], 0, 0)
    assert (told(bad.passed(11)), bad.first_described) == (([10], 1, 10), 20)
    assert (told(bad.passed(35)), bad.first_described) == (([20], 2, 30), 50)
    assert (told(bad.passed(99)), bad.first_described) == (([50], 2, 50), None)


def test_what_will_be_read_again_waits_no_more() -> None:
    bad = MalformedTuples()
    add(bad, 10, described=1)
    bad.clear()
    assert (bad.first_described, told(bad.passed(99))) == (None, ([], 0, 0))


def test_memory_is_bounded_and_none_goes_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nothing well-formed comes for long: the places of the later ones are forgotten."""
    monkeypatch.setattr(deadletters, "_MOST_COUNTED", 10)
    monkeypatch.setattr(deadletters, "_MOST_LETTERS", 3)
    bad = MalformedTuples()
    for start in range(0, 100, 10):
        add(bad, start, start + 1, described=2, end=start + 10)
    assert len(bad._waiting) == 5
    assert told(bad.passed(41)) == ([0, 1, 10], 9, 40)
    assert told(bad.passed(42)) == ([], 11, 100)
    add(bad, 100, described=1)
    assert told(bad.passed(101)) == ([100], 1, 100)


def test_any_cuts_tell_all() -> None:
    chance = random.Random(5)
    for _ in range(50):
        bad, offsets, letters, count = MalformedTuples(), sorted(chance.sample(range(1000), 60)), [], 0
        while offsets or bad._waiting:
            size = chance.randint(1, 9)
            if offsets:
                add(bad, *offsets[:size], described=chance.randint(0, 9))
                offsets = offsets[size:]
            cut = chance.randint(0, 1000) if offsets else 1000
            passed = bad.passed(cut)
            assert all(one.byte_offset < cut for one in passed.letters)
            assert bad.first_described is None or bad.first_described >= cut
            letters += [one.byte_offset for one in passed.letters]
            count += passed.count
        assert count == 60
        assert len(set(letters)) == len(letters)
        assert (bad._letters, bad._counted) == (0, 0)
