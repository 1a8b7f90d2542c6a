"""What stands published, and what leads from there to what a new checkpoint says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program, encode_program, extend_program
from runtime.epochs import EpochLog, Footer, ResultLog
from runtime.spark.published_state import read_published_state

R = Relation("r", (Column("a", "int64"), Column("f", "float64")))
SELECTS = [NamedSelect("v", "SELECT a, f FROM r"), NamedSelect("w", "SELECT a FROM r")]


def rows(*given: tuple[Any, ...], names: Sequence[str] = ("a", "f")) -> pa.Table:
    """Values and a weight each."""
    types = {"a": pa.int64(), "f": pa.float64()}
    columns = [pa.array([row[at] for row in given], types[name]) for at, name in enumerate(names)]
    return pa.table([*columns, pa.array([row[-1] for row in given], pa.int64())], names=[*names, "weight"])


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for *values, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[tuple(values)] += weight
    return found


class Lab:
    """A log of one program and results beside it."""

    def __init__(self, directory: Path, program: Program) -> None:
        self.log = EpochLog(directory / "epochs")
        self.log.publish(self.log.prepare(Footer(0, 0, control=encode_program(program)), {}))
        self.results = ResultLog(directory / "results")

    def publish(self, to: int, changes: dict[str, pa.Table], control: bytes = b"", **failed: str) -> None:
        attributes = {f"failed/{name}": reason for name, reason in failed.items()}
        footer = Footer(0, to, control=control, attributes=attributes)
        tables = {name: table.to_batches() for name, table in changes.items()}
        assert self.results.publish(self.results.latest(), to, tables, footer)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, compile_program(SELECTS, [R]))


def test_nothing_stands_before_the_first_version(lab: Lab) -> None:
    state = read_published_state(lab.results, lab.log)
    assert (state.version, state.failed) == (0, {})
    assert state.until({"v": rows((1, 0.5, 1))}, None)["v"].num_rows == 1


def test_only_the_difference_of_a_view_is_published(lab: Lab) -> None:
    lab.publish(3, {"v": rows((1, 0.5, 1), (2, 0.5, 2)), "w": rows((1, 1), names=["a"])})
    lab.publish(5, {"v": rows((1, 0.5, -1), (None, None, 1))})
    state = read_published_state(lab.results, lab.log)
    assert state.version == 5
    whole = {"v": rows((2, 0.5, 1), (None, None, 1), (3, 0.25, 1)), "w": rows((1, 1), names=["a"])}
    found = state.until(whole, None)
    assert list(found) == ["v"]
    assert counted(found["v"]) == {(2, 0.5): -1, (3, 0.25): 1}


def test_a_view_that_is_empty_now_is_emptied(lab: Lab) -> None:
    """No shard has anything to say of it."""
    lab.publish(3, {"v": rows((1, 0.5, 1))})
    assert counted(read_published_state(lab.results, lab.log).until({}, None)["v"]) == {(1, 0.5): -1}


def test_a_changed_last_digit_is_published_as_a_change(lab: Lab) -> None:
    lab.publish(3, {"v": rows((1, 0.1 + 0.2, 1))})
    found = read_published_state(lab.results, lab.log).until({"v": rows((1, 0.3, 1))}, None)
    assert counted(found["v"]) == {(1, 0.1 + 0.2): -1, (1, 0.3): 1}


def test_of_a_view_that_has_failed_nothing_is_said(lab: Lab) -> None:
    lab.publish(3, {"v": rows((1, 0.5, 1))}, v="too wide")
    lab.publish(4, {"v": rows((9, 0.5, -1)), "w": rows((1, 1), names=["a"])})
    state = read_published_state(lab.results, lab.log)
    assert state.failed == {"v": "too wide"}
    assert state.until({"v": rows((1, 0.5, 1)), "w": rows((1, 1), names=["a"])}, None) == {}


def test_views_come_and_go_with_programs(lab: Lab) -> None:
    other = extend_program(compile_program(SELECTS[:1], [R]), [NamedSelect("x", "SELECT a FROM r")], [R])
    lab.publish(3, {"v": rows((1, 0.5, 1)), "w": rows((1, 1), names=["a"])}, w="it failed")
    lab.publish(4, {"x": rows((1, 1), names=["a"])}, encode_program(other))
    state = read_published_state(lab.results, lab.log)
    assert set(state.views) == {"v", "x"}
    assert state.failed == {}
    last = compile_program(SELECTS, [R])  # without x, and with another w
    found = state.until({"v": rows((1, 0.5, 1)), "w": rows((7, 1), names=["a"])}, last)
    assert {name: counted(table) for name, table in found.items()} == {"w": {(7,): 1}}


def test_what_stands_may_have_a_row_removed_before_it_comes(lab: Lab) -> None:
    lab.publish(3, {"v": rows((1, 0.5, -1))})
    found = read_published_state(lab.results, lab.log).until({"v": rows((1, 0.5, 1))}, None)
    assert counted(found["v"]) == {(1, 0.5): 2}
