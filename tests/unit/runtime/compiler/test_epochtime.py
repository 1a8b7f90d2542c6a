"""now() is the epoch's time, and a comparison with it is a bound that rises, however it is written."""

from __future__ import annotations

import pytest

from runtime.compiler import NamedSelect, SqlError, compile_program, extend_program
from runtime.plan import EPOCH_TIME, BoundNode, Column, Flow, Program, Relation

ROWS = Relation(
    "rows",
    (
        Column("t", "int64"),
        Column("d", "int64"),
        Column("s", "string"),
        Column("at", "timestamp"),
        Column("day", "date"),
    ),
)


def program_of(sql: str, *relations: Relation) -> Program:
    return compile_program([NamedSelect("v", sql)], relations or (ROWS,))


def bounds_of(program: Program) -> list[BoundNode]:
    body = program.views[0].body
    assert isinstance(body, Flow), program.views[0].reason
    return [node for node in body.nodes if isinstance(node, BoundNode)]


@pytest.mark.parametrize(
    ("condition", "ops"),
    [
        ("t > now() - INTERVAL '10' SECOND", ["gt"]),
        ("t >= CURRENT_TIMESTAMP - 10", ["ge"]),
        ("now() - INTERVAL '10' SECOND < t", ["gt"]),
        ("now() - t < INTERVAL '10' SECOND", ["gt"]),
        ("INTERVAL '10' SECOND >= now() - t", ["ge"]),
        ("t + INTERVAL '1' HOUR <= now()", ["le"]),
        ("t + d > now()", ["gt"]),
        ("-t < 5 - now()", ["gt"]),
        ("t BETWEEN now() - INTERVAL '2' DAY AND now()", ["ge", "le"]),
        ("at > now() - INTERVAL '10' SECOND", ["gt"]),
        ("now() - at > INTERVAL '10' SECOND", ["lt"]),
        ("at > CAST(now() AS TIMESTAMP) - INTERVAL '10' SECOND", ["gt"]),
        ("day >= now() - INTERVAL '1' DAY", ["ge"]),
        ("t > now() - 5 AND s = 'x' AND at < now()", ["gt", "lt"]),
    ],
)
def test_a_comparison_with_now_is_a_bound_that_rises(condition: str, ops: list[str]) -> None:
    program = program_of(f"SELECT t, s FROM rows WHERE {condition}")
    bounds = bounds_of(program)
    assert [bound.op for bound in bounds] == ops
    assert all(bound.rises for bound in bounds)
    assert program.views[0].view_class == "ordered"
    assert EPOCH_TIME in program.relations


def test_only_a_bound_that_cannot_fall_forgets_rows() -> None:
    (bound,) = bounds_of(program_of("SELECT t FROM rows WHERE t > (SELECT MAX(t) - 10 FROM rows)"))
    assert not bound.rises
    (bound,) = bounds_of(program_of("SELECT t FROM rows WHERE t > 10 - (SELECT MAX(t) FROM epoch_time)"))
    assert not bound.rises
    (bound,) = bounds_of(program_of("SELECT t FROM rows WHERE t > (SELECT MAX(t) FROM epoch_time WHERE t < 9)"))
    assert not bound.rises


def test_a_view_with_now_is_spread_and_its_time_is_everywhere() -> None:
    program = program_of("SELECT s, COUNT(*) FROM rows WHERE t > now() - 10 GROUP BY s")
    keys = program.views[0].body.shard_keys(program.maps)
    assert keys is not None
    places = {program.maps[number].relation: place for number, place in keys.items()}
    assert places["epoch_time"] is None
    assert places["rows"] is not None


def test_a_product_with_the_time_lives_in_one_shard() -> None:
    program = program_of("SELECT s, now() - t AS age FROM rows")
    assert program.views[0].body.shard_keys(program.maps) is None


def test_a_view_with_now_may_be_added_to_a_program_without() -> None:
    program = extend_program(
        program_of("SELECT COUNT(*) FROM rows"), [NamedSelect("w", "SELECT t FROM rows WHERE t > now() - 1")], [ROWS]
    )
    assert {relation.name for relation in program.relations} == {"rows", "epoch_time"}
    again = extend_program(program, [NamedSelect("x", "SELECT t FROM w WHERE t < now()")], [ROWS])
    assert len(bounds_of(Program((), (), (again.views[2],)))) == 2


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("t > now() - INTERVAL '1' MONTH", "expected an interval such as INTERVAL '10' SECOND beside now()"),
        ("t > now() - INTERVAL '0.5' NANOSECOND", "expected an interval such as"),
        ("s > now()", "expected values that can be compared, were string and integer"),
        ("t > random()", "expected functions of the rows alone"),
    ],
)
def test_values_incomparable_with_now_are_refused_by_place(condition: str, message: str) -> None:
    with pytest.raises(SqlError, match=message.replace("(", r"\(").replace(")", r"\)")) as error:
        program_of(f"SELECT t FROM rows WHERE {condition}")
    assert error.value.line == 1


def test_the_relation_of_the_time_has_a_name_of_its_own() -> None:
    with pytest.raises(SqlError, match="'epoch_time' again"):
        program_of("SELECT t FROM epoch_time", Relation("epoch_time", ROWS.columns))
