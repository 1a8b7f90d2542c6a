"""The express lane says what DuckDB says from scratch, at every version: whatever the batches, crashes and programs."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries import query_path
from runtime.compiler import MARKET_RELATIONS, NamedSelect, Relation, read_script
from tests.generators.express_lab import ExpressLab, random_changes
from tests.harness.examples import examples
from tests.property.test_compiler import CASES, RELATIONS

FINANCE = ("axf", "bsp", "bsv", "mst", "psp", "vwap")
LIVE = ("best_quote", "book_depth", "broker_volume", "imbalance", "vwap_book")
BOOK = MARKET_RELATIONS[:2]


def market_selects() -> tuple[list[NamedSelect], dict[str, str]]:
    """The shipped queries over the book, and what DuckDB answers for one with half units."""
    found = [
        NamedSelect(name, read_script(query_path(name)).selects[0].sql, lane="express") for name in (*FINANCE, *LIVE)
    ]
    bsv = next(select.sql for select in found if select.name == "bsv")
    return found, {"bsv": bsv.replace("0.5", "5")}


def corpus_selects() -> tuple[list[NamedSelect], dict[str, str]]:
    """The compiler's corpus, as far as DuckDB answers it in the same words."""
    cases = [case for case in CASES if case.mode == "sql" and not case.scales]
    selects = [NamedSelect(f"v{place}", case.sql, lane="express") for place, case in enumerate(cases)]
    return selects, {f"v{place}": case.oracle for place, case in enumerate(cases) if case.oracle}


def run(seed: int, relations: tuple[Relation, ...], selects: list[NamedSelect], oracles: dict[str, str]) -> ExpressLab:
    chance = random.Random(seed)
    chosen = chance.sample(selects, 5)
    lane_less = [NamedSelect("other", f"SELECT COUNT(*) AS n FROM {relations[0].name}")]  # the other lane's
    waiting = chosen[2:]
    with tempfile.TemporaryDirectory() as place:
        lab = ExpressLab(Path(place), relations, [*lane_less, *chosen[:2]], oracles)
        for _ in range(chance.randint(2, 6)):
            changes = random_changes(chance, lab, 20)
            lab.change(changes, [chance.randint(1, 20) for _ in range(3)], [chance.randint(1, 3) for _ in range(3)])
            turn = chance.random()
            if turn < 0.25:
                lost = lab.crash()
                lab.change(lost, [chance.randint(1, 20)], [1, 2])  # as the feed brings them again: in other pieces
            if turn < 0.5 and waiting:
                program = lab.add(waiting.pop())
                if chance.random() < 0.5:  # the log goes on between the reading and the barrier
                    lab.prepare(program)
                    lab.barrier()
                    lab.change(random_changes(chance, lab, 9), [], [])
                lab.barrier(program)
            elif turn < 0.6 and (names := [view.name for view in lab.program.views]):
                lab.barrier(lab.drop(chance.choice(names)))
            else:
                lab.barrier()
            if chance.random() < 0.3:
                lab.take_snapshot()
            if chance.random() < 0.3:
                lab.crash()
        return lab


@given(st.integers(0, 2**32))
@settings(max_examples=examples(10), deadline=None)
def test_the_queries_over_the_book(seed: int) -> None:
    run(seed, BOOK, *market_selects())


@given(st.integers(0, 2**32))
@settings(max_examples=examples(10), deadline=None)
def test_the_compilers_corpus(seed: int) -> None:
    run(seed, RELATIONS, *corpus_selects())


@pytest.mark.parametrize("pieces", [[1], [3], [1000]])
def test_versions_do_not_depend_on_how_the_feed_is_cut(pieces: list[int], tmp_path: Path) -> None:
    """The same messages in steps of one, of three and of all: at the end of the epoch the same sections."""
    selects, oracles = market_selects()
    chance = random.Random(5)
    lab = ExpressLab(tmp_path, BOOK, selects, oracles)
    changes = random_changes(chance, lab, 60)
    lab.change(changes, list(range(1, 60)), pieces)
    lab.barrier()
    assert lab.checked > 0
    assert not lab.failed
