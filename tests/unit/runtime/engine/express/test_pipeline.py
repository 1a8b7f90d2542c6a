"""Where an epoch of the express lane ends."""

from __future__ import annotations

from pathlib import Path

from runtime.compiler import Column, NamedSelect, Relation
from tests.generators.express_lab import Change, ExpressLab

R = Relation("r", (Column("a", "int64"),))
S = Relation("s", (Column("a", "int64"),))
SELECTS = [
    NamedSelect("total", "SELECT SUM(a) AS x FROM r", lane="express"),
    NamedSelect("both", "SELECT r.a FROM r JOIN s ON r.a = s.a", lane="express"),
    NamedSelect("streamed", "SELECT a, COUNT(*) AS n FROM s GROUP BY a", lane="express"),
]


def row(relation: str, value: int, weight: int = 1) -> Change:
    return relation, (value,), weight


def test_rows_of_derived_streams_are_of_the_epoch_that_closes(tmp_path: Path) -> None:
    """They come behind the deltas that close it; its end is shown when they are in."""
    lab = ExpressLab(tmp_path, [R, S], SELECTS, has_streams=True)
    lab.change([row("r", 1), row("r", 2)], [1], [1])
    lab.barrier(streamed=[row("s", 1), row("s", 2)])
    lab.change([row("r", 3)], [], [1])
    lab.barrier(streamed=[row("s", 3), row("s", 1, -1)])
    lab.change([row("r", 2, -1)], [], [1])
    lab.barrier()
    assert lab.epoch == 3
    assert [(update.epoch, update.closes) for update in lab.updates] == [
        (-1, False), (-1, False), (-1, False), (-1, False), (1, True),
        (1, False), (1, False), (1, False), (2, True),
        (2, False), (2, False), (3, True),
    ]  # fmt: skip
    assert lab.result("both") == {(3,): 1}


def test_without_derived_streams_closing_deltas_end_an_epoch(tmp_path: Path) -> None:
    lab = ExpressLab(tmp_path, [R, S], SELECTS)
    lab.change([row("r", 1), row("s", 1)], [], [1])
    lab.barrier()
    assert [(update.epoch, update.closes) for update in lab.updates] == [(-1, False), (1, True)]


def test_an_epoch_that_holds_nothing_does_not_end(tmp_path: Path) -> None:
    """A barrier without deltas that close says nothing and saves nothing."""
    lab = ExpressLab(tmp_path, [R, S], SELECTS, has_streams=True)
    lab.drain()
    assert (lab.updates, lab.epoch) == ([], 0)
