"""Few rows are taken one by one, many by the shard; which of the two it was makes no difference to what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.compiler import MARKET_RELATIONS, NamedSelect, compile_program
from runtime.engine.express import Quickness
from runtime.engine.express.filling import Filling
from runtime.engine.express.quick import QuickViews, rows_worth
from tests.generators.express_lab import Change, ExpressLab

BOOK = MARKET_RELATIONS[:2]
TOTAL = NamedSelect("total", "SELECT symbol, SUM(volume) AS volume FROM bids GROUP BY symbol", lane="express")
LARGEST = NamedSelect("largest", "SELECT MAX(price) AS price FROM asks", lane="express")
ROOT = NamedSelect("root", "SELECT AVG(SQRT(price)) AS root FROM bids", lane="express")
"""Floats are added up in an order that rows one by one do not have."""
BRIEF = Quickness(most_rows=4, calm_epochs=2)


def bids(first: int, number: int) -> list[Change]:
    return [("bids", (place, place, 1, 10 * place, 100, "A"), 1) for place in range(first, first + number)]


def is_quick(lab: ExpressLab) -> bool:
    return lab.views.is_quick


def test_many_rows_are_the_shards_until_it_has_been_calm_for_a_while(tmp_path: Path) -> None:
    lab = ExpressLab(tmp_path, BOOK, [TOTAL, LARGEST], quickness=BRIEF)
    lab.change(bids(1, 4), [], [])
    assert is_quick(lab)
    lab.change(bids(5, 5), [], [])
    assert not is_quick(lab)
    lab.barrier()
    for epoch in range(3):
        lab.change(bids(10 + epoch, 1), [], [])
        assert is_quick(lab) == (epoch == 2)
        lab.barrier()
    lab.change([("bids", (1, 1, 1, 10, 100, "A"), -1), ("asks", (1, 1, 1, 1, 7, "A"), 1)], [], [])
    assert is_quick(lab)
    lab.barrier()


def test_the_shard_goes_on_where_the_rows_one_by_one_have_ended_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    lab = ExpressLab(tmp_path, BOOK, [TOTAL, LARGEST], quickness=BRIEF)
    lab.change(bids(1, 3), [1, 2], [1])
    lab.change(bids(4, 9), [], [])
    lab.change(bids(13, 2), [], [])
    assert not is_quick(lab)
    lab.barrier()


def test_a_new_view_is_taken_row_by_row_from_the_next_epoch_on(tmp_path: Path) -> None:
    lab = ExpressLab(tmp_path, BOOK, [TOTAL], quickness=BRIEF)
    lab.change(bids(1, 3), [], [])
    lab.barrier(lab.add(LARGEST))
    assert not is_quick(lab)
    for _ in range(2):
        lab.change([("asks", (1, 1, 1, 1, 7, "A"), 1)], [], [])
        lab.barrier()
    assert is_quick(lab)


def test_a_new_process_takes_rows_one_by_one_once_it_is_calm(tmp_path: Path) -> None:
    lab = ExpressLab(tmp_path, BOOK, [TOTAL, LARGEST], quickness=BRIEF)
    lab.change(bids(1, 3), [], [])
    lab.barrier()
    lab.crash()
    for epoch in range(3):
        lab.change(bids(10 + epoch, 1), [], [])
        assert is_quick(lab) == (epoch == 2)
        lab.barrier()


def test_more_rows_than_may_be_held_are_the_shards(tmp_path: Path) -> None:
    few = Quickness(most_rows=4, calm_epochs=1, most_held_rows=5, crowded_epochs=0)
    lab = ExpressLab(tmp_path, BOOK, [TOTAL], quickness=few)
    lab.change(bids(1, 7), [], [])
    lab.barrier()
    for epoch in range(3):
        lab.change([("bids", (1 + epoch, 1 + epoch, 1, 10 + 10 * epoch, 100, "A"), -1)], [], [])
        lab.barrier()
        assert is_quick(lab) == (epoch > 0)


def test_relations_that_hold_too_much_are_not_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them takes the time of the worker that makes versions."""
    few = Quickness(most_rows=4, calm_epochs=1, most_held_rows=5, crowded_epochs=3)
    lab = ExpressLab(tmp_path, BOOK, [TOTAL], quickness=few)
    reads: list[int] = []
    read = Filling.read

    def counted(*given: Any) -> Any:
        reads.append(len(reads))
        return read(*given)

    monkeypatch.setattr(Filling, "read", counted)
    lab.change(bids(1, 7), [], [])
    lab.barrier()
    counts = []
    for place in range(6):
        lab.change(bids(10 + place, 1), [], [])
        lab.barrier()
        counts.append(len(reads))
    assert counts == [1, 1, 1, 2, 2, 2]


def test_what_is_held_row_by_row_grows_no_further_than_it_may(tmp_path: Path) -> None:
    few = Quickness(most_rows=4, calm_epochs=1, most_held_rows=5, crowded_epochs=0)
    lab = ExpressLab(tmp_path, BOOK, [TOTAL, LARGEST], quickness=few)
    lab.change(bids(1, 3), [], [])
    lab.change(bids(4, 2), [], [])
    lab.change([("bids", (1, 1, 1, 10, 100, "A"), -1), ("asks", (1, 1, 1, 1, 7, "A"), 1)], [], [])
    assert is_quick(lab)
    lab.change(bids(6, 1), [], [])
    assert not is_quick(lab)
    lab.change(bids(7, 1), [], [])
    lab.barrier()
    for place in (2, 3):
        lab.change([("bids", (place, place, 1, 10 * place, 100, "A"), -1)], [], [])
        lab.barrier()
    assert is_quick(lab), "there is room again"


def test_many_versions_of_an_epoch_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.express.stepping._MOST_TABLES", 3)
    lab = ExpressLab(tmp_path, BOOK, [TOTAL, LARGEST], quickness=BRIEF)
    for place in range(1, 11):
        lab.change(bids(place, 1), [], [])
        assert len(lab.views._stepping._told["total"]) < 3
    lab.barrier()
    assert is_quick(lab), "the shard has said the same"


def test_the_shard_takes_over_sooner_where_rows_cost_more() -> None:
    def worth(*selects: NamedSelect) -> int:
        return rows_worth(compile_program(selects, BOOK))

    joined = NamedSelect("j", "SELECT SUM(b.volume * a.volume) AS v FROM bids b, asks a WHERE b.id = a.id")
    touch = NamedSelect(
        "t", "SELECT symbol, COUNT(*) AS n FROM (SELECT DISTINCT symbol, price FROM bids) GROUP BY symbol"
    )
    assert worth(touch) > worth(TOTAL) > worth(TOTAL, joined) > worth(joined) > 0
    assert worth() == worth(ROOT) == worth(ROOT, TOTAL) == 0


def test_fewer_rows_than_may_be_taken_one_by_one_are_the_shards_where_it_is_quicker(tmp_path: Path) -> None:
    pairs = NamedSelect(
        "pairs", "SELECT SUM(b.volume * a.volume) AS v FROM bids b, asks a WHERE b.id = a.id", lane="express"
    )
    lab = ExpressLab(tmp_path, BOOK, [pairs])
    lab.change(bids(1, 20), [], [])
    assert is_quick(lab)
    lab.change(bids(21, 100), [], [])
    assert not is_quick(lab)
    lab.barrier()


def test_a_view_without_code_for_rows_leaves_all_to_the_shard(tmp_path: Path) -> None:
    lab = ExpressLab(tmp_path, BOOK, [TOTAL, ROOT], {"root": ROOT.sql})
    assert not is_quick(lab)
    lab.change(bids(1, 3), [], [])
    lab.barrier()


def test_what_rows_one_by_one_get_wrong_is_said_again_at_the_epochs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lab checks every version: here it looks away until the epoch has ended."""
    lab = ExpressLab(tmp_path, BOOK, [TOTAL], quickness=BRIEF)
    step = QuickViews.step

    def nothing(quick: QuickViews, tables: Mapping[str, Sequence[pa.RecordBatch]]) -> dict[str, Any]:
        step(quick, tables)
        return {}

    monkeypatch.setattr(QuickViews, "step", nothing)
    monkeypatch.setattr(lab, "check", lambda: None)
    lab.change(bids(1, 3), [], [])
    assert is_quick(lab)
    lab.barrier()
    monkeypatch.undo()
    assert not is_quick(lab)
    assert lab.updates[-1].changes["total"].to_pylist() == [{"symbol": "A", "volume": 60, "weight": 1}]
    lab.change(bids(4, 1), [], [])
    lab.barrier()


def test_a_number_too_large_for_its_column_ends_the_view_as_the_shard_ends_it(tmp_path: Path) -> None:
    sql = "SELECT id, volume * price * volume AS worth FROM bids"
    lab = ExpressLab(tmp_path, BOOK, [NamedSelect("worth", sql, lane="express"), TOTAL], quickness=BRIEF)
    lab.change(bids(1, 1), [], [])
    lab.change([("bids", (2, 2, 1, 2**62, 2**62, "A"), 1), ("bids", (3, 3, 1, 1, 1, "A"), 1)], [], [])
    lab.barrier()
    for epoch in range(2):
        lab.change(bids(5 + epoch, 1), [], [])
        lab.barrier()
    assert set(lab.failed) == {"worth"}
    assert not is_quick(lab)
