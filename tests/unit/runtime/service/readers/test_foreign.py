"""Adaptors that are installed beside the runtime: found by name, and what they do wrong is their reader's failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltabook.wire.readers import NewColumn
from runtime.compiler import Column, Relation
from runtime.formats import Schema
from runtime.relations import Adaptor, AdaptorError, Offsets, Prepared, RowAdaptor, row_schema
from runtime.service.errors import CatalogueError
from runtime.service.readers import AdaptorRequest
from runtime.service.readers.foreign import ForeignAdaptor, foreign_adaptor
from tests.generators.reader_lab import ReaderLab, file_reader

COLUMNS = (NewColumn("n", "int64"),)


class Twice(Adaptor):
    """Every row two times, unless it is told to go wrong."""

    def __init__(self, request: AdaptorRequest) -> None:
        if unknown := set(request.options) - {"wrong"}:
            raise ValueError(f"unknown options {sorted(unknown)}")
        self._rows = RowAdaptor(request.relation, row_schema(request.relation))
        self._wrong = request.options.get("wrong", "")

    @property
    def schema(self) -> Schema:
        return self._rows.schema

    @property
    def relations(self) -> tuple[Relation, ...]:
        return self._rows.relations

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        prepared = self._rows.prepare(rows, row_ends)
        if self._wrong == "prepare":
            return Prepared(prepared.rows, row_ends, np.ones(rows.num_rows + 1, np.bool_))
        return prepared

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        if self._wrong == "raise":
            raise ZeroDivisionError("division")
        deltas = self._rows.apply(prepared)
        if self._wrong == "name":
            return {"bids": deltas["n"]}
        if self._wrong == "columns":
            return {"n": deltas["n"].rename_columns(["m", "weight"])}
        doubled = {}
        for name, batch in deltas.items():
            weight = pa.array(2 * batch.column("weight").to_numpy())
            doubled[name] = batch.set_column(1, "weight", weight)
        return doubled


class Entry:
    def __init__(self, name: str, make: Any) -> None:
        self.name, self._make = name, make

    def load(self) -> Any:
        return self._make


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(*, group: str, name: str = "twice") -> list[Entry]:
        assert group == "deltabook.adaptors"
        return [Entry("twice", Twice)] if name == "twice" else []

    monkeypatch.setattr("runtime.service.readers.foreign.entry_points", entry_points)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "n.csv").write_text("".join(f"{n}\n" for n in range(100)))
    made = ReaderLab(tmp_path / "run", monkeypatch, tmp_path)
    yield made
    made.stop()
    assert made.failures == []


def test_it_is_used_by_its_name(lab: ReaderLab) -> None:
    lab.add(file_reader("n", "n.csv", adaptor="twice", columns=COLUMNS))
    lab.view("count", "SELECT COUNT(*) AS n FROM n")
    lab.until(lambda: lab.rows("count") == Counter({(200,): 1}))
    lab.wait(lab.control.drop("count", 1.0))
    assert lab.drop("n")[0] == 200


@pytest.mark.parametrize("wrong", ["raise", "prepare", "name", "columns"])
def test_what_it_does_wrong_fails_its_reader_alone(lab: ReaderLab, wrong: str) -> None:
    lab.add(file_reader("n", "n.csv", adaptor="twice", columns=COLUMNS, options={"wrong": wrong}))
    lab.until(lambda: lab.state("n").state == "failed")
    assert "adaptor twice" in lab.state("n").reason
    lab.feed.say("1,1,1,7,B,5,100,ACME", "2,2,0,0,H,0,0,")
    lab.until(lambda: lab.rows("bid_volume") == Counter({("ACME", 5): 1}))


def test_one_that_cannot_be_made_is_refused(lab: ReaderLab) -> None:
    with pytest.raises(CatalogueError, match="adaptor twice: ValueError: unknown options"):
        lab.add(file_reader("n", "n.csv", adaptor="twice", columns=COLUMNS, options={"other": "1"}))
    with pytest.raises(CatalogueError, match="expected an adaptor out of orderbook, rows, twice, was 'none'"):
        foreign_adaptor("none", AdaptorRequest(Relation("n", ()), "", {}))


def test_it_is_made_once_where_it_may_fail_alone(lab: ReaderLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the cut, where it would fail everything."""
    made: list[Adaptor] = []

    def once(request: AdaptorRequest) -> Adaptor:
        made.append(Twice(request))
        assert len(made) == 1
        return made[0]

    monkeypatch.setattr("runtime.service.readers.foreign.entry_points", lambda **_: [Entry("twice", once)])
    lab.add(file_reader("n", "n.csv", adaptor="twice", columns=COLUMNS))
    lab.until(lambda: lab.state("n").state == "ended")


def test_one_that_says_nothing_of_itself_is_refused() -> None:
    class Silent(Twice):
        @property
        def schema(self) -> Schema:
            raise KeyError("schema")

    relation = Relation("n", (Column("n", "int64"),))
    with pytest.raises(AdaptorError, match="adaptor silent: KeyError: 'schema'"):
        ForeignAdaptor("silent", Silent(AdaptorRequest(relation, "", {})))
