"""Strings are numbers whose order and patterns kernels can read."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pytest

from runtime.native.structures import Structure
from runtime.views import strings as view_strings
from runtime.views.strings import Strings


def test_ranks_follow_the_order_of_strings() -> None:
    chance, strings = random.Random(4), Strings(["m"])
    ranks = strings.ranks()
    for round_ in range(60):
        for _ in range(1 if round_ % 2 else 9):
            strings.number("".join(chance.choices("abcé", k=chance.randrange(6))))
        strings.refresh()
        texts = strings.texts()
        labels = ranks.array(0)[: len(texts)].tolist()
        assert [text for _, text in sorted(zip(labels, texts, strict=True))] == sorted(texts)


def test_a_gap_that_is_full_gives_new_ranks_to_all() -> None:
    strings = Strings(["a", "b"])
    ranks = strings.ranks()
    for length in range(1, 80):
        strings.number("a" * length + "b")  # each between the one before and "ab"
        strings.refresh()
    texts = strings.texts()
    labels = ranks.array(0)[: len(texts)].tolist()
    assert [text for _, text in sorted(zip(labels, texts, strict=True))] == sorted(texts)


def test_a_pattern_of_many_parts_takes_linear_time() -> None:
    """By backtracking over the parts, this test would take longer than a human life."""
    strings = Strings(["a" * 300, "a" * 300 + "b"])
    assert strings.tested("%a" * 20 + "%b").array(0)[:2].tolist() == [0, 1]


def test_patterns_match_what_a_backtracking_matcher_matches() -> None:
    chance = random.Random(1)
    texts = sorted({"".join(chance.choices("ab\n", k=chance.randrange(8))) for _ in range(300)})
    strings = Strings(texts)
    for _ in range(200):
        pattern = "".join(chance.choices("ab_%%", k=chance.randrange(7)))
        backtracking = re.compile(pattern.replace("_", ".").replace("%", ".*"), re.DOTALL)
        expected = [bool(backtracking.fullmatch(text)) for text in texts]
        assert strings.tested(pattern).array(0)[: len(texts)].tolist() == expected


def test_patterns_match_whole_strings_without_an_escape() -> None:
    strings = Strings(["a%b", "axxb", "axb\n", "A_b"])
    cells = strings.tested("a%b")
    assert cells.array(0)[:4].tolist() == [1, 1, 0, 0]
    strings.number("ab")
    strings.refresh()
    assert cells.array(0)[4] == 1


def test_only_kept_strings_remain() -> None:
    strings = Strings(["a", "b", "c"])
    ranks = strings.ranks()
    numbers = strings.keep(np.array([0, 2]))
    assert strings.texts() == ["a", "c"]
    assert numbers[[0, 2]].tolist() == [0, 1]
    assert ranks.array(0)[0] < ranks.array(0)[1]
    assert strings.encode(pa.array(["c", None, "d"])).tolist() == [1, 0, 2]


def test_a_pattern_is_forgotten_with_its_last_reader() -> None:
    strings = Strings(["ab"])
    kernel = Structure(1)
    kernel.link(0, strings.tested("a%"))
    assert strings.tested("a%") is strings.tested("a%")
    assert kernel.views[0][0][0] == 1
    assert list(strings._tested) == ["a%"]
    del kernel
    assert list(strings._tested) == []


@pytest.mark.parametrize("few", [0, 64], ids=["by Arrow", "one by one"])
def test_few_strings_are_converted_as_many_are(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_strings, "_FEW", few)
    strings = Strings(["b"])
    column = pa.array(["a", None, "b", "", "a"])
    numbers = strings.encode(column.slice(1))
    valid = np.array([False, True, True, True])
    assert strings.texts() == ["b", "", "a"]
    assert numbers.tolist() == [0, 0, 1, 2]
    assert strings.decode(numbers, valid).equals(column.slice(1))
    assert strings.decode(numbers).to_pylist() == ["b", "b", "", "a"]
    assert Strings().decode(np.array([0]), np.array([False])).to_pylist() == [None]
