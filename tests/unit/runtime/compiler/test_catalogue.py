"""Programs that follow one another: old views keep what they are, whatever comes and goes."""

from __future__ import annotations

import random

import msgspec
import pytest

from queries import query_path
from runtime.compiler import (
    MARKET_RELATIONS,
    Branch,
    Call,
    Col,
    Column,
    Expr,
    Key,
    Linear,
    Lit,
    Map,
    NamedSelect,
    Program,
    Relation,
    SqlError,
    Sum,
    View,
    compile_program,
    decode_program,
    encode_program,
    extend_program,
    read_script,
)
from runtime.plan import (
    Auxiliary,
    Factor,
    Flow,
    Joined,
    Lookup,
    Nested,
    Occurrence,
    ScanNode,
    Selected,
    SelectNode,
    Statement,
    Term,
    ViewBody,
    columns_of,
    lane_program,
    map_identity,
    only_view,
    without_view,
)

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))
S = Relation("s", (Column("c", "int64"),))
SUMS = NamedSelect("sums", "SELECT a, SUM(b) AS x FROM r GROUP BY a")
COUNTS = NamedSelect("counts", "SELECT c, COUNT(*) AS n FROM s GROUP BY c")
SAME = NamedSelect("same", "SELECT a, SUM(b) AS y FROM r GROUP BY a")
LARGEST = NamedSelect("largest", "SELECT MAX(b) AS x FROM r")


def check(program: Program) -> None:
    """What every program keeps to."""
    assert [map_.id for map_ in program.maps] == list(range(len(program.maps)))
    identities = [map_identity(map_) for map_ in program.maps]
    assert len(set(identities)) == len(identities)
    assert set().union(*(view.body.maps() for view in program.views)) == set(range(len(program.maps)))
    assert {relation.name for relation in program.relations} == {map_.relation for map_ in program.maps}
    assert len({view.home for view in program.views}) == len(program.views)


def seen(program: Program, name: str) -> tuple[object, ...]:
    """A view and its maps, whatever their numbers are."""
    alone, _ = only_view(program, name)
    return alone.views, alone.maps, alone.relations


def test_an_added_view_shares_maps_and_changes_no_other() -> None:
    program = compile_program([SUMS, LARGEST], [R, S])
    longer = extend_program(program, [SAME, COUNTS], [R, S])
    check(longer)
    assert longer.maps[: len(program.maps)] == program.maps
    assert longer.views[:2] == program.views
    assert [view.home for view in longer.views] == [0, 1, 2, 3]
    assert longer.views[2].body.maps() == longer.views[0].body.maps()
    assert [relation.name for relation in longer.relations] == ["r", "s"]


def test_a_dropped_views_maps_go_with_it_unless_they_are_shared() -> None:
    program = compile_program([SUMS, COUNTS, SAME], [R, S])
    without_sums = without_view(program, "sums")
    check(without_sums)
    assert seen(without_sums, "same") == seen(program, "same")
    rest = without_view(without_sums, "same")
    check(rest)
    assert [map_.relation for map_ in rest.maps] == ["s"]
    assert rest.relations == (S,)
    none = without_view(rest, "counts")
    assert (none.views, none.maps, none.relations) == ((), (), ())
    again = extend_program(none, [SUMS], [R, S])
    assert again == compile_program([SUMS], [R, S])


def test_a_home_is_not_given_again_while_a_later_one_lives() -> None:
    program = without_view(compile_program([SUMS, COUNTS, SAME], [R, S]), "counts")
    assert [view.home for view in extend_program(program, [LARGEST], [R, S]).views] == [0, 2, 3]


@pytest.mark.parametrize("seed", range(20))
def test_views_stay_what_they_are_while_others_come_and_go(seed: int) -> None:
    chance = random.Random(seed)
    names = ["book_depth", "vwap_book", "imbalance", "broker_volume", "best_quote", "trades_1s"]
    selects = {name: read_script(query_path(name)).selects[0] for name in names}
    program = compile_program([], MARKET_RELATIONS)
    known: dict[str, tuple[object, ...]] = {}
    for _ in range(8):
        name = chance.choice(names)
        if name in known:
            program = without_view(program, name)
            del known[name]
        else:
            program = extend_program(program, [selects[name]], MARKET_RELATIONS)
            known[name] = seen(program, name)
        check(program)
        assert {view.name: seen(program, view.name) for view in program.views} == known


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (NamedSelect("sums", "SELECT a FROM r", 3, 5, "f.sql"),
         "f.sql:3:5: expected a new name for the view, was 'sums', which is taken"),
        (NamedSelect("r", "SELECT a FROM r"), "expected a new name for the view, was 'r', which is taken"),
        (NamedSelect("v", "SELECT a FROM nowhere", 1, 1, "f.sql"), "f.sql:1:15: .*nowhere"),
        (NamedSelect("v", "SELECT z FROM r", 1, 1, "f.sql"), "f.sql:1:8: .*z"),
    ],
)  # fmt: skip
def test_what_cannot_be_added_is_told_with_its_place(select: NamedSelect, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        extend_program(compile_program([SUMS], [R]), [select], [R])


def test_a_relation_that_has_changed_is_refused() -> None:
    with pytest.raises(SqlError, match="expected the relation 'r' with the columns that existing views read"):
        extend_program(compile_program([SUMS], [R]), [COUNTS], [Relation("r", S.columns), S])


def test_a_view_that_is_not_there_cannot_be_dropped() -> None:
    with pytest.raises(KeyError, match=r"expected a view of the program \(sums\), was 'other'"):
        without_view(compile_program([SUMS], [R]), "other")


def a_map(number: int, mark: int, value: Lit | Col = Lit(1)) -> Map:  # noqa: B008 (immutable)
    return Map(number, "r", None, (Key("p", "int64", Col("a")),), (Sum(f"s{mark}", value),))


def every_body(first: int, second: int) -> list[ViewBody]:
    """One of each kind, over two maps."""
    lookup = Lookup("y", second, False, (("p", "x.p"),))
    own = Lookup("aux", 0, True, (("p", "x.p"),))
    statement = Statement("x", (lookup, own), None, ("x.p",), Term(1, ("x.weight",)), ())
    joined = Joined(
        (Occurrence("x", first), Occurrence("y", second)),
        (Auxiliary("aux", ("x", "y"), (("p", "int64"),), (), (statement,)),),
        (Col("p"),),
    )
    limit = Call("gt", (Col(f"m{second}.s2"), Call("add", (Col("f.p"), Lit(3)))))
    nested = Nested("n", first, "p", "gt", Col("f.p"))
    selected = Selected((Factor("f", first, "p", (nested,), (limit,), True),), (second,), (), (), (Col("weight"),))
    flow = Flow((ScanNode(second), SelectNode(0, None, (Column("p", "int64"),), (Col("p"),)), ScanNode(first)))
    return [Linear((Branch(first, (Col("p"),)), Branch(second, (Col("p"),)))), joined, selected, flow]


@pytest.mark.parametrize("kind", range(4))
def test_every_number_of_a_map_in_every_kind_of_body_follows(kind: int) -> None:
    def view(name: str, body: ViewBody) -> View:
        return View(name, (Column("p", "int64"),), body, "ordered", "", "")

    other = view("other", Linear((Branch(0, (Col("p"),)),)))
    program = Program((R,), (a_map(0, 0), a_map(1, 1), a_map(2, 2)), (other, view("v", every_body(2, 1)[kind])))
    assert program.views[1].body.maps() == {1, 2}
    shorter = without_view(program, "other")
    assert shorter.maps == (a_map(0, 1), a_map(1, 2))
    assert shorter.views[0].body == every_body(1, 0)[kind]
    assert only_view(program, "v") == (shorter, (1, 2))


def test_one_and_true_are_different_maps() -> None:
    assert a_map(0, 0, Lit(1)) == a_map(0, 0, Lit(True))
    assert map_identity(a_map(0, 0, Lit(1))) != map_identity(a_map(0, 0, Lit(True)))


def test_the_columns_that_a_map_reads() -> None:
    where: Expr = Call("gt", (Col("b"), Lit(0)))
    total = Sum("s", Call("mul", (Col("c"), Col("c"))))
    assert columns_of(Map(0, "r", where, (Key("k", "int64", Col("a")),), (total,))) == {"a", "b", "c"}
    assert columns_of(Map(0, "r", None, (), ())) == set()


def test_a_lane_has_its_views_and_the_maps_that_they_read() -> None:
    selects = [
        NamedSelect("a", "SELECT price, SUM(volume) AS v FROM bids GROUP BY price"),
        NamedSelect("b", "SELECT SUM(volume) AS v FROM asks", lane="express"),
        NamedSelect("c", "SELECT broker_id, COUNT(*) AS n FROM asks GROUP BY broker_id"),
    ]
    whole = compile_program(selects, MARKET_RELATIONS)
    spark, express = lane_program(whole, "spark"), lane_program(whole, "express")
    assert [(view.name, view.home) for view in spark.views] == [("a", 0), ("c", 2)]
    assert [(view.name, view.home) for view in express.views] == [("b", 1)]
    assert [map_identity(map_) for map_ in spark.maps] == [map_identity(whole.maps[0]), map_identity(whole.maps[2])]
    assert [map_.id for map_ in spark.maps] == [0, 1]
    assert lane_program(spark, "spark") is spark  # what is all of one lane stays as it is, byte for byte
    assert lane_program(spark, "express").views == ()
    assert decode_program(encode_program(whole)) == whole


def test_views_of_programs_without_lanes_are_sparks() -> None:
    program = compile_program([NamedSelect("a", "SELECT SUM(volume) AS v FROM bids")], MARKET_RELATIONS)
    written = msgspec.msgpack.decode(encode_program(program))
    for view in written["views"]:
        del view["lane"]
    assert decode_program(msgspec.msgpack.encode(written)) == program
