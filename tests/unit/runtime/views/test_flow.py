"""Operators of a flow, one by one: what each emits for which change, and that its state is bounded by what is held."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal
from unittest.mock import patch

import pytest

from runtime.compiler.program import (
    Aggregate,
    Col,
    Column,
    DistinctNode,
    GroupNode,
    JoinNode,
    Lit,
    Node,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
)
from runtime.state import encode_run
from runtime.views import ViewError, ViewOverflowError
from runtime.views.flow import order
from tests.generators.flows import NAN, Fields, Lab, Row, call

A: Fields = (("a", "int64"), ("x", "string"))
B: Fields = (("b", "int64"), ("y", "int128"))
SCANS: tuple[Node, ...] = (ScanNode(0), ScanNode(1))


def over(fields: Fields, *nodes: Node, mode: str = "sql") -> Lab:
    """Nodes over one map."""
    return Lab([fields], [ScanNode(0), *nodes], mode)


def plus(*rows: Row) -> list[tuple[Row, int]]:
    return [(row, 1) for row in rows]


def minus(*rows: Row) -> list[tuple[Row, int]]:
    return [(row, -1) for row in rows]


def test_a_step_without_changes_gives_nothing_and_asks_no_operator() -> None:
    lab = over(A, DistinctNode(0))
    lab.step({})
    lab.state._operators.clear()
    assert lab.state.step({}) is None


def test_select_filters_and_computes_exactly() -> None:
    where = call("ge", Col("a"), Lit(0))
    columns = (Column("big", "int128"), Column("x", "string"))
    lab = over(A, SelectNode(0, where, columns, (call("add", Col("a"), Lit(1)), Col("x"))))
    change = lab.step({0: [((2**63 - 1, "p"), 2), ((-1, "q"), 1), ((None, "r"), 1)]})
    assert change == {(2**63, "p"): 2}


def test_a_value_that_no_column_holds_is_refused() -> None:
    lab = over(A, SelectNode(0, None, (Column("big", "int64"),), (call("add", Col("a"), Lit(1)),)))
    with pytest.raises(ViewOverflowError, match="expected int64 in column big"):
        lab.step({0: plus((2**63 - 1, "p"))})


def test_a_join_multiplies_weights_and_null_matches_nothing() -> None:
    lab = Lab([A, B], [*SCANS, JoinNode(0, 1, (("a", "b"),))])
    assert lab.step({0: [((1, "p"), 2), ((None, "n"), 1)], 1: [((1, 10), 3), ((None, 0), 1)]}) == {(1, "p", 1, 10): 6}
    assert lab.step({0: plus((1, None))}) == {(1, None, 1, 10): 3}
    assert lab.step({1: [((1, 10), -3), ((1, 11), 1)]}) == {
        (1, "p", 1, 10): -6,
        (1, None, 1, 10): -3,
        (1, "p", 1, 11): 2,
        (1, None, 1, 11): 1,
    }


def test_a_join_of_both_changes_counts_their_match_once() -> None:
    lab = Lab([A, B], [*SCANS, JoinNode(0, 1, (("a", "b"),))])
    lab.step({0: plus((1, "p")), 1: plus((1, 10))})
    assert lab.step({0: [((1, "p"), -1), ((1, "q"), 1)], 1: [((1, 10), -1), ((1, 11), 1)]}) == {
        (1, "p", 1, 10): -1,
        (1, "q", 1, 11): 1,
    }


def test_an_int64_is_joined_with_an_int128() -> None:
    lab = Lab([A, B], [*SCANS, JoinNode(0, 1, (("a", "y"),))])
    change = lab.step({0: plus((-5, "p"), (7, "q")), 1: plus((1, -5), (2, 2**64 - 5), (3, 7))})
    assert change == {(-5, "p", 1, -5): 1, (7, "q", 3, 7): 1}


def test_columns_of_other_types_are_not_joined() -> None:
    with pytest.raises(ViewError, match="expected columns of one type, was x string and b int64"):
        Lab([A, B], [*SCANS, JoinNode(0, 1, (("x", "b"),))])


def test_a_join_by_nothing_is_the_product() -> None:
    lab = Lab([A, B], [*SCANS, JoinNode(0, 1, ())])
    lab.step({0: plus((1, "p"), (None, "q"))})
    assert lab.step({1: plus((None, 3))}) == {(1, "p", None, 3): 1, (None, "q", None, 3): 1}


@pytest.mark.parametrize("anti", [False, True])
def test_left_rows_come_and_go_with_the_first_and_the_last_match(anti: bool) -> None:
    lab = Lab([A, B], [*SCANS, SemiNode(0, 1, (("a", "b"),), anti)])
    lab.step({0: [((1, "p"), 2), ((None, "n"), 1)]})
    assert lab.result == ({(1, "p"): 2, (None, "n"): 1} if anti else {})
    sign = -1 if anti else 1
    assert lab.step({1: plus((1, 10), (None, 1))}) == {(1, "p"): 2 * sign}
    assert lab.step({1: plus((1, 11))}) == {}
    assert lab.step({1: minus((1, 10))}) == {}
    assert lab.step({1: minus((1, 11))}) == {(1, "p"): -2 * sign}


GROUP = GroupNode(
    0,
    ("x",),
    (
        Aggregate("n", "count_rows", None, "int64"),
        Aggregate("low", "min", "a", "int64"),
        Aggregate("high", "max", "a", "int64"),
        Aggregate("total", "sum", "a", "int128"),
    ),
)


def test_the_next_value_takes_the_place_of_an_extreme_that_goes() -> None:
    lab = over(A, GROUP)
    lab.step({0: plus((5, "g"), (1, "g"), (9, "g"), (None, "g"), (3, "h"))})
    assert lab.result == {("g", 4, 1, 9, 15): 1, ("h", 1, 3, 3, 3): 1}
    assert lab.step({0: minus((1, "g"))}) == {("g", 4, 1, 9, 15): -1, ("g", 3, 5, 9, 14): 1}
    lab.step({0: minus((5, "g"), (9, "g"))})
    assert lab.result == {("g", 1, None, None, None): 1, ("h", 1, 3, 3, 3): 1}


def test_a_group_without_rows_is_gone_with_its_state() -> None:
    lab = over(A, GROUP)
    lab.step({0: plus((5, "g"), (None, None))})
    assert lab.step({0: minus((5, "g"))}) == {("g", 1, 5, 5, 5): -1}
    lab.step({0: minus((None, None))})
    assert [len(table) for table in lab.state.tables().values()] == [0, 0]


def test_a_deletion_before_its_insertion_leaves_nothing_behind() -> None:
    lab = over(A, GROUP)
    assert lab.step({0: minus((5, "g"))}) == {}
    assert lab.step({0: plus((5, "g"), (6, "g"))}) == {("g", 1, 6, 6, 6): 1}


def test_a_value_that_waits_for_its_insertion_is_no_extreme() -> None:
    lab = over(A, GROUP)
    lab.step({0: [((1, "g"), -1), ((4, "g"), 1), ((5, "g"), 1)]})
    assert lab.result == {("g", 1, 4, 5, 8): 1}
    lab.step({0: plus((1, "g"))})
    assert lab.result == {("g", 2, 4, 5, 9): 1}


@pytest.mark.parametrize(("mode", "nothing"), [("sql", None), ("dbtoaster", 0)])
def test_without_keys_there_is_a_row_from_the_start(mode: str, nothing: int | None) -> None:
    node = GroupNode(0, (), (Aggregate("n", "count_rows", None, "int64"), Aggregate("t", "sum", "a", "int128")))
    lab = over(A, node, mode=mode)
    assert lab.step({}) == {(0, nothing): 1}
    lab.restart(from_base=False)
    assert lab.step({}) == {}
    assert lab.step({0: plus((2, "p"))}) == {(0, nothing): -1, (1, 2): 1}
    assert lab.step({0: minus((2, "p"))}) == {(1, 2): -1, (0, nothing): 1}


def test_sums_pass_64_bits_and_come_back_without_dust() -> None:
    node = GroupNode(0, ("x",), (Aggregate("t", "sum", "a", "int128"), Aggregate("d", "sum_distinct", "a", "int128")))
    lab = over(A, node)
    big = 2**63 - 1
    lab.step({0: [((big, "g"), 1000), ((1, "g"), 2)]})
    assert lab.result == {("g", 1000 * big + 2, big + 1): 1}
    lab.step({0: [((big, "g"), -1000)]})
    assert lab.result == {("g", 2, 1): 1}


def test_a_sum_that_its_column_does_not_hold_is_refused() -> None:
    narrow = over(A, GroupNode(0, ("x",), (Aggregate("t", "sum", "a", "int64"),)))
    with pytest.raises(ViewOverflowError, match="expected values of int64"):
        narrow.step({0: [((2**62, "g"), 2)]})
    wide = over(B, GroupNode(0, ("b",), (Aggregate("t", "sum", "y", "int128"),)))
    with pytest.raises(ViewOverflowError, match="94 bits"):
        wide.step({0: [((1, 2**93), 8)]})


def test_distinct_values_are_counted_once_and_null_not_at_all() -> None:
    lab = over(
        A, GroupNode(0, (), (Aggregate("n", "count_distinct", "x", "int64"), Aggregate("m", "count", "x", "int64")))
    )
    lab.step({0: plus((1, "p"), (2, "p"), (3, None), (4, "q"))})
    assert lab.result == {(2, 3): 1}
    lab.step({0: minus((1, "p"))})
    assert lab.result == {(2, 2): 1}


def test_extremes_of_strings_go_by_bytes_and_nan_is_the_largest_float() -> None:
    fields: Fields = (("s", "string"), ("f", "float64"))
    kinds: tuple[tuple[str, Literal["min", "max"]], ...] = (("s", "min"), ("s", "max"), ("f", "min"), ("f", "max"))
    aggregates = tuple(Aggregate(f"{k}_{c}", k, c, dict(fields)[c]) for c, k in kinds)
    lab = over(fields, GroupNode(0, (), aggregates))
    lab.step({0: plus(("é", 1.5), ("\U00010348", NAN), ("￿", -float("inf")), ("Z", 0.0))})
    assert lab.result == {("Z", "\U00010348", -float("inf"), NAN): 1}
    lab.step({0: minus(("\U00010348", NAN), ("Z", 0.0))})
    assert lab.result == {("é", "￿", -float("inf"), 1.5): 1}


def test_distinct_gives_every_row_once() -> None:
    lab = over(A, DistinctNode(0))
    assert lab.step({0: [((1, None), 3)]}) == {(1, None): 1}
    assert lab.step({0: [((1, None), -2)]}) == {}
    assert lab.step({0: minus((1, None))}) == {(1, None): -1}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("except", {(3, "r"): 1}),
        ("except_all", {(1, "p"): 1, (3, "r"): 1}),
        ("intersect", {(1, "p"): 1, (None, None): 1}),
        ("intersect_all", {(1, "p"): 2, (None, None): 1}),
    ],
)
def test_sets_follow_both_sides(
    kind: Literal["except", "except_all", "intersect", "intersect_all"], expected: Any
) -> None:
    lab = Lab([A, (("b", "int64"), ("y", "string"))], [*SCANS, SetNode(0, 1, kind)])
    lab.step({0: [((1, "p"), 3), ((None, None), 1), ((3, "r"), 1)]})
    lab.step({1: [((1, "p"), 2), ((None, None), 5), ((4, "s"), 1)]})
    assert lab.result == expected
    lab.step({1: [((1, "p"), -2), ((None, None), -5), ((4, "s"), -1)]})
    assert lab.result == ({(1, "p"): 3, (None, None): 1, (3, "r"): 1} if kind == "except_all" else Counter(
        {} if kind.startswith("intersect") else {(1, "p"): 1, (None, None): 1, (3, "r"): 1}
    ))  # fmt: skip


def test_a_union_adds_and_widens() -> None:
    lab = Lab([(("b", "int64"), ("y", "int128")), (("c", "int64"), ("z", "int64"))], [*SCANS, UnionNode((0, 1, 1))])
    assert lab.step({0: plus((1, 2)), 1: plus((1, 2), (3, None))}) == {(1, 2): 3, (3, None): 2}


def top(limit: int | None, offset: int = 0, *order: tuple[str, bool, bool]) -> Lab:
    return over(A, TopNode(0, order, limit, offset))


def test_a_window_moves_up_when_its_rows_go() -> None:
    lab = top(2, 1, ("a", True, False))
    lab.step({0: [((9, "p"), 1), ((7, "q"), 2), ((5, "r"), 1), ((None, "n"), 1)]})
    assert lab.result == {(7, "q"): 2}
    assert lab.step({0: [((7, "q"), -1)]}) == {(7, "q"): -1, (5, "r"): 1}
    assert lab.step({0: minus((9, "p"))}) == {(7, "q"): -1, (None, "n"): 1}


def test_ties_go_by_all_columns_and_nulls_where_they_are_said_to_be() -> None:
    rows = plus((1, "b"), (1, "a"), (1, None), (None, "z"))
    last, first = top(2, 0, ("a", False, False)), top(2, 0, ("a", False, True))
    last.step({0: rows})
    first.step({0: rows})
    assert last.result == {(1, "a"): 1, (1, "b"): 1}
    assert first.result == {(None, "z"): 1, (1, "a"): 1}


def test_without_a_limit_the_first_rows_are_left_out() -> None:
    lab = top(None, 1, ("x", False, False))
    lab.step({0: [((1, "p"), 2), ((2, "q"), 1)]})
    assert lab.result == {(1, "p"): 1, (2, "q"): 1}
    assert lab.step({0: plus((0, "a"))}) == {(1, "p"): 1}


def test_a_window_is_full_however_many_of_the_best_rows_go() -> None:
    lab = top(3, 0, ("a", False, False))
    rows = [(number, None) for number in range(12_000)]
    lab.step({0: plus(*rows)})
    for begin in range(0, 12_000, 1_500):
        lab.step({0: minus(*rows[begin : begin + 1_500])})
        assert lab.result == Counter(rows[begin + 1_500 : begin + 1_503])


def test_windows_and_extremes_outlive_new_labels_of_their_strings() -> None:
    """With labels 2 apart, most new strings make all labels others; what is kept by label is built anew."""
    node = GroupNode(0, (), (Aggregate("low", "min", "x", "string"), Aggregate("high", "max", "x", "string")))
    with patch.object(order, "_STEP", 2):
        window, group = top(2, 0, ("x", False, False)), over(A, node)
        generations = set()
        held: list[Row] = []
        for place, text in enumerate("mzabnyocpxdqwe"):
            held.append((place, text))
            changes = {0: [(held[-1], 1)]}
            if place % 3 == 2:
                changes[0].append((held.pop(0), -1))
            for lab in (window, group):
                lab.step(changes)
            generations.add(window.state._operators[1]._strings.generation)  # type: ignore[attr-defined]
            texts = sorted(text for _, text in held)
            assert [text for _, text in sorted(window.result, key=lambda row: row[1])] == texts[:2]
            assert group.result == {(texts[0], texts[-1]): 1}
    assert len(generations) > 3


EVERYTHING = (
    SelectNode(1, None, (Column("b", "int64"), Column("w", "string")), (Col("a"), Col("x"))),
    JoinNode(0, 2, (("a", "b"),)),
    SemiNode(3, 1, (("x", "x"),), anti=False),
    GroupNode(4, ("x",), (Aggregate("low", "min", "a", "int64"), Aggregate("high", "max", "w", "string"))),
    DistinctNode(5),
    SetNode(6, 5, "intersect_all"),
    TopNode(7, (("low", True, False),), 50),
)


def test_state_is_bounded_by_what_is_held() -> None:
    lab = Lab([A, A], [*SCANS, *EVERYTHING])
    for begin in range(0, 6_000, 2_000):
        rows = plus(*((number, f"s{number % 700}") for number in range(begin, begin + 2_000)))
        lab.step({0: rows, 1: rows})
        assert lab.result.total() == 50
        lab.check()
        lab.step({0: [(row, -1) for row, _ in rows]})
        lab.step({1: [(row, -1) for row, _ in rows]})
        assert lab.result == {}
        lab.check()
    tables = lab.state.tables()
    assert {name: len(table) for name, table in tables.items()} == dict.fromkeys(tables, 0)
    assert all(len(encode_run(table.save_all())) < 4_096 for table in tables.values())
    arranged = [table for name, table in tables.items() if name.endswith(("left", "right"))]
    assert all(getattr(table, "_end", 0) <= 4_096 for table in arranged)


def test_tables_have_the_same_names_in_every_process() -> None:
    lab = Lab([A, A], [*SCANS, *EVERYTHING])
    assert list(lab.state.tables()) == [
        "3/left",
        "3/right",
        "4/left",
        "4/right",
        "5/groups",
        "5/values0",
        "5/values3",
        "6/rows",
        "7/rows",
        "8/rows",
    ]
    assert lab.state.maps == {0, 1}
