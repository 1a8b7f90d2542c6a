"""CONTRIBUTING.md names what is there: each `module:attribute` of its tables can be imported."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`([a-z_0-9.]+:[A-Za-z_.]+)`", TEXT)) - {"module:attribute"})
QUESTIONS = (
    "does a raw buffer become rows",
    "is an epoch committed",
    "does SQL become a program",
    "is an order matched",
    "is a strategy's order sent",
    "is a checkpoint written",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_can_be_imported(name: str) -> None:
    """A function that moves or gets another name shows here."""
    module, _, attributes = name.partition(":")
    assert reduce(getattr, attributes.split("."), importlib.import_module(module)) is not None


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_its_answer(question: str) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| {question}?"))
    assert len(re.findall(r"`[a-z_0-9.]+:[A-Za-z_.]+`", row)) == 2, "the place, and the place that calls it"


@pytest.mark.parametrize("heading", ["The way of a raw buffer", "The way of an order"])
def test_a_walk_is_numbered_and_names_a_place_for_each_step(heading: str) -> None:
    walk = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    steps = re.findall(r"^\| (\d+) \| `([a-z_0-9.]+:[A-Za-z_.]+)` \|", walk, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) >= 10


def test_the_glossary_has_each_word_once() -> None:
    words = [
        word.strip(" *")
        for row in re.findall(r"^\| ([^|]+) \|", GLOSSARY, re.MULTILINE)
        for word in row.split(",")
        if row.strip() not in {"word", "---"}
    ]
    assert len(words) == len(set(words))
    assert 40 <= len(words) <= 100


@pytest.mark.parametrize("page", ["docs/index.md", "CONTRIBUTING.md"])
def test_the_glossary_is_linked(page: str) -> None:
    assert re.search(r"\]\((docs/)?glossary\.md\)", (ROOT / page).read_text(encoding="utf-8"))
