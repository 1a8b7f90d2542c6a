"""A view that cannot go on fails alone, for good and with a reason; a corrupt run is refused."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import duckdb
import msgspec
import pyarrow as pa
import pytest

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program
from runtime.plan import Linear, View
from runtime.state import CorruptStateError
from runtime.views import ShardState, Step, ViewError
from runtime.views.routing import deliveries_of
from runtime.views.shard import LOWERING
from tests.generators.deltas import Row, Shards

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))


def program(**selects: str) -> Program:
    return compile_program([NamedSelect(name, sql) for name, sql in selects.items()], [R])


MIXED = program(
    cubes="SELECT a, SUM(b * b * b) AS x FROM r GROUP BY a",
    plain="SELECT a, SUM(b) AS x FROM r GROUP BY a",
    largest="SELECT MAX(b) AS x FROM r",
    total="SELECT SUM(b) AS x FROM r",
)


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("big", [2**43, 3_500_000_000_000])
def test_an_overflow_ends_one_view_and_the_others_go_on(shards: int, big: int) -> None:
    """One cube past 126 bits is refused where deltas are added up, the sum of two in the shard."""
    held = Shards(MIXED, shards)
    assert held.step([{"r": [((1, 3), 1)]}]) == {}
    assert held.result("cubes") == Counter([(1, 27)])
    failed: dict[str, str] = {}
    rows: list[Row] = []
    for number in range(6):
        rows.append((number % 2, big))
        failed |= held.step([{"r": [((number % 2, big), 1)]}])
        if failed:
            break
    assert set(failed) == {"cubes"}
    assert "126 bits" in failed["cubes"]
    held = held.restarted(from_base=False)
    assert held.step([{"r": [((1, 5), 1)]}]) == {}, "a failure is reported once"
    everything = [(1, 3), *rows, (1, 5)]
    assert held.result("largest") == Counter([(big,)])
    assert held.result("total") == Counter([(sum(b for _, b in everything),)])
    sums: dict[int, int] = {}
    for a, b in everything:
        sums[a] = sums.get(a, 0) + b
    assert held.result("plain") == Counter(sums.items())


def test_a_result_that_does_not_fit_its_column_fails_the_view() -> None:
    found = program(x="SELECT a // b AS q FROM r", y="SELECT a FROM r")
    held = Shards(found, 1)
    failed = held.step([{"r": [((-(2**63), -1), 1)]}])
    assert set(failed) <= {"x"}
    assert held.result("y") == Counter([(-(2**63),)])
    assert failed or held.result("x") == Counter([(2**63,)])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT b, CASE WHEN a < 1000 THEN a * a * a ELSE 0 END AS c FROM r", [(1, 0), (2, 27)]),
        ("SELECT b, COALESCE(a, a * a * a) AS c FROM r", [(1, 2**50), (2, 3)]),
        ("SELECT COUNT(*) AS n FROM r WHERE a < 1000 AND a * a * a > 5", [(1,)]),
        ("SELECT COUNT(*) AS n FROM r WHERE a * a * a > 5 AND a < 1000", [(1,)]),
        ("SELECT b, a * a * a AS c FROM r WHERE a < 1000", [(2, 27)]),
        ("SELECT c FROM (SELECT a, a * a * a AS c FROM r) t WHERE a < 1000", [(27,)]),
        ("SELECT b, MAX(c) AS m FROM (SELECT a, b, a * a * a AS c FROM r) t WHERE a < 1000 GROUP BY b", [(2, 27)]),
        ("SELECT b, SUM(CASE WHEN a < 1000 THEN a * a * a END) AS c FROM r GROUP BY b", [(1, None), (2, 27)]),
        ("SELECT b, SUM(a) AS c FROM r GROUP BY b HAVING SUM(a) < 1000 AND SUM(a) * SUM(a) * SUM(a) > 5", [(2, 3)]),
    ],
)
def test_a_value_that_is_not_used_may_be_out_of_range(sql: str, expected: list[Row]) -> None:
    """No row of these views has a value past 126 bits."""
    held = Shards(program(x=sql), 2)
    assert held.step([{"r": [((2**50, 1), 1), ((3, 2), 1)]}]) == {}
    assert held.result("x") == Counter(expected)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(a AS DECIMAL(4, 2)) AS c FROM r",
        "SELECT SUM(CAST(a AS DECIMAL(2, 0)) * b) AS c FROM r",
        "SELECT CAST(SUM(a) AS DECIMAL(4, 2)) AS c FROM r",
        "SELECT b FROM r GROUP BY b HAVING CAST(SUM(a) AS DECIMAL(2, 0)) > 5",
        "SELECT SUM(CAST(x.a AS DECIMAL(3, 1)) * y.a) AS c FROM r x JOIN r y ON x.b = y.b",
        "SELECT CAST(MAX(a) AS DECIMAL(2, 0)) AS c FROM r",
        "SELECT CAST(CAST(a AS DECIMAL(9, 1)) AS DECIMAL(4, 2)) AS c FROM r",
        "SELECT ROUND(CAST(a AS DECIMAL(2, 0)), -1) AS c FROM r",
    ],
)
def test_a_cast_to_decimal_is_refused_as_by_duckdb(sql: str) -> None:
    """The digits that a CAST allows are a limit in every class of views, as in DuckDB."""
    held = Shards(program(x=sql), 1)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
        for a in (99, -99, 2):
            assert held.step([{"r": [((a, 1), 1)]}]) == {}
            connection.execute("INSERT INTO r VALUES (?, 1)", [a]).fetchall()
            connection.execute(sql).fetchall()
        connection.execute("INSERT INTO r VALUES (100, 1)").fetchall()
        with pytest.raises(duckdb.ConversionException):
            connection.execute(sql).fetchall()
    assert set(held.step([{"r": [((100, 1), 1)]}])) == {"x"}


def test_an_overflow_in_having_fails_the_view() -> None:
    held = Shards(program(x="SELECT b FROM r GROUP BY b HAVING SUM(a) * SUM(a) * SUM(a) < 5"), 1)
    assert set(held.step([{"r": [((2**50, 1), 1)]}])) == {"x"}


def test_a_deletion_may_come_before_its_insertion() -> None:
    held = Shards(MIXED, 2)
    held.step([{"r": [((1, 4), -1)]}])
    assert held.result("plain") == held.result("largest") - held.result("largest") == Counter()
    held.step([{"r": [((1, 4), 1), ((2, 5), 1)]}])
    assert held.result("plain") == Counter([(2, 5)])
    assert held.result("total") == Counter([(5,)])


def test_the_empty_row_lasts_until_the_first_row() -> None:
    held = Shards(MIXED, 2)
    assert held.step([{}]) == {}
    assert held.result("total") == held.result("largest") == Counter([(None,)])
    held.step([{}])
    assert held.result("total") == Counter([(None,)])
    held.step([{"r": [((1, 4), 1)]}])
    assert held.result("total") == Counter([(4,)])
    held.step([{"r": [((1, 4), -1)]}])
    assert held.result("total") == held.result("largest") == Counter([(None,)])


def test_a_version_without_changes_emits_nothing() -> None:
    state = ShardState(MIXED, 0, 1)
    state.step([])
    state.save()
    step = state.step([])
    assert (step.changes, step.failed) == ({}, {})
    assert len(state.save()) < 64, "a run without edits is small"


STRINGS = Relation("t", (Column("k", "int64"), Column("x", "int64"), Column("s", "string")))


def test_a_base_that_renumbers_strings_keeps_other_rows() -> None:
    """Records move when they are loaded again: what one structure holds of another's places has to follow."""
    sql = "SELECT k, MIN(x) AS a, MAX(x) AS b, MAX(s) AS m FROM t GROUP BY k"
    state = ShardState(compile_program([NamedSelect("v", sql)], [STRINGS]), inputs="relations")
    result: Counter[Row] = Counter()

    def step(rows: list[tuple[int, int, str]], weight: int) -> None:
        keys, values, texts = zip(*rows, strict=True)
        given = pa.table({"k": keys, "x": values, "s": texts, "weight": [weight] * len(rows)})
        for changes in state.step_tables({"t": given}).changes.values():
            for row in changes.to_pylist():
                result[tuple(row.values())[:-1]] += row["weight"]

    old = [(number, number, f"s{number}") for number in range(9000)]
    live = old[-60:]
    step(old, 1)
    step(old[:-60], -1)
    state.save_all()
    for number in range(20):
        rows = [(8940 + number * 7 % 60, 9500 - 31 * number, "t"), (8990 - number, 8000 + number, "u")]
        step(rows, 1)
        step([live.pop(0)], -1)
        live += rows
    groups: dict[int, list[tuple[int, str]]] = {}
    for key, value, text in live:
        groups.setdefault(key, []).append((value, text))
    expected = {(key, min(held)[0], max(held)[0], max(text for _, text in held)): 1 for key, held in groups.items()}
    assert {row: weight for row, weight in result.items() if weight} == expected


def test_rows_that_are_refused_leave_nothing_behind() -> None:
    other = Relation("q", (Column("b", "int64"),))
    found = compile_program(
        [NamedSelect("x", "SELECT COUNT(*) AS n FROM r"), NamedSelect("y", "SELECT SUM(b) AS n FROM q")], [R, other]
    )
    state = ShardState(found, inputs="relations")
    state.step_tables({})
    good, bad = (
        pa.table({"a": [1], "b": [1], "weight": [1]}),
        pa.table({"b": pa.array([None], pa.int64()), "weight": [1]}),
    )
    with pytest.raises(ViewError, match="expected no NULL in column b"):
        state.step_tables({"r": good, "q": bad})
    assert state.taken_bytes == 0
    assert set(state.step_tables({"q": pa.table({"b": [5], "weight": [1]})}).changes) == {"y"}


def test_a_run_that_cannot_be_taken_in_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ShardState(program(v="SELECT a, SUM(b) AS n FROM r GROUP BY a"), inputs="relations")
    many = list(range(1000))
    state.step_tables({"r": pa.table({"a": many, "b": many, "weight": [1] * 1000})})
    run = state.save()
    again = ShardState(state.program, inputs="relations")

    def fails() -> None:
        raise ViewError("no room")

    monkeypatch.setattr(again._graph.nodes[0]._source, "rooms", [fails])
    with pytest.raises(CorruptStateError, match=r"view v to process the rows of its checkpoint again, was: .*no room"):
        again.apply_run(run)


@pytest.mark.parametrize("inputs", ["payloads", "relations"])
def test_a_view_that_another_release_cannot_lower_fails(
    monkeypatch: pytest.MonkeyPatch, inputs: Literal["payloads", "relations"]
) -> None:
    """A view that was sound when its run was saved would otherwise look unchanged for ever."""
    other = Relation("q", (Column("b", "int64"),))
    found = compile_program(
        [NamedSelect("x", "SELECT SUM(b) AS n FROM q"), NamedSelect("y", "SELECT COUNT(*) AS n FROM r")], [R, other]
    )
    rows = {
        "q": pa.table({"b": [5], "weight": [1]}),
        "r": pa.table({"a": [1], "b": [1], "weight": [1]}),
    }

    def step(state: ShardState) -> Step:
        if inputs == "relations":
            return state.step_tables(rows)
        return state.step([(each.part, each.deltas) for each in deliveries_of(found, rows, 1)])

    state = ShardState(found, inputs=inputs)
    runs = []
    for save in (state.save_all, state.save):
        step(state)
        runs.append(save())

    def fails(view: View, body: object, builder: object) -> None:
        if view.name == "x":
            raise ViewError("no such operator")
        lower_linear(view, body, builder)

    lower_linear = LOWERING[Linear]
    monkeypatch.setitem(LOWERING, Linear, fails)
    for count in (1, 2):
        again = ShardState(found, inputs=inputs)
        for run in runs[:count]:
            again.apply_run(run)
        result = step(again)
        assert (set(result.changes), result.failed) == ({"y"}, {"x": "no such operator"})
        once_more = ShardState(found, inputs=inputs)
        once_more.apply_run(again.save_all())
        assert (once_more.failed, step(once_more).failed) == ({"x": "no such operator"}, {})


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x96\x02\x00\x90\x80\x80\xc2"])
def test_a_run_that_is_none_is_refused(damage: bytes) -> None:
    with pytest.raises(CorruptStateError, match="expected a run"):
        ShardState(MIXED, 0, 1).apply_run(damage)


def test_a_run_of_another_format_is_refused() -> None:
    with pytest.raises(CorruptStateError, match="expected a run of format 4, was format 3"):
        ShardState(MIXED, 0, 1).apply_run(msgspec.msgpack.encode((3, False, [], {}, {}, [], {}, [])))


def test_recomputed_views_that_share_a_map_are_restored_once() -> None:
    """What is taken in again goes into a shared table once, however many views read it."""
    found = program(x="SELECT MEDIAN(a) AS m FROM r", y="SELECT MODE(a) AS m FROM r", z="SELECT a FROM r")
    held = Shards(found, 1)
    held.step([{"r": [((1, 3), 1), ((2, 3), 1), ((2, 4), 1)]}])
    held = held.restarted(from_base=False)
    held.step([{"r": [((2, 3), -1)]}])
    assert (held.result("x"), held.result("z")) == (Counter([(1.5,)]), Counter([(1,), (2,)]))
