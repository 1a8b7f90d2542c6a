"""One delta at a time gives what loops over the rows give: programs made by hand, every part of their bodies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
import pytest

from runtime.compiler import Call, Col, Column, Expr, Key, Lit, Map, Program, Relation, Sum
from runtime.compiler.program import (
    Auxiliary,
    Branch,
    Factor,
    Joined,
    Linear,
    Lookup,
    Nested,
    Occurrence,
    Range,
    Reevaluated,
    Selected,
    Statement,
    Term,
    View,
)
from runtime.views import ViewError
from runtime.views.tuplewise import TuplewiseProgram

Row = tuple[Any, ...]
Rows = dict[str, Counter[Row]]
Oracle = Callable[[Rows], Counter[Row]]

ORDERS = (Column("broker", "int64", nullable=True), Column("volume", "int64"), Column("price", "int64"))
BIDS, ASKS = Relation("bids", ORDERS), Relation("asks", ORDERS)
BROKER = Key("broker", "int64", Col("broker"))
PRICE = Key("price", "int64", Col("price"))
VALUE = Call("mul", (Col("volume"), Col("price")))


def call(op: Any, *args: Expr) -> Call:
    return Call(op, args)


def view(body: Any, *columns: Column, name: str = "v") -> View:
    return View(name, columns, body, "ordered", "", "")


def run(program: Program, oracle: Oracle, seed: int, *, early: bool = False) -> TuplewiseProgram:
    """Rows come and go one by one, some gone before they come: the result, and the sum of changes, are the oracle's."""
    rng = random.Random(seed)
    kernel = TuplewiseProgram(program)
    assert kernel.unsupported == {}
    total = Counter(kernel.result("v"))
    rows: Rows = {relation.name: Counter() for relation in program.relations}
    for _ in range(120):
        name = rng.choice(list(rows))
        held = rows[name]
        if held and rng.random() < 0.48:
            row, weight = rng.choice(list(held)), -1
        else:
            row, weight = (rng.choice([1, 2, None]), rng.randint(1, 9), rng.randint(1, 12)), rng.choice([1, 1, 2])
            weight = -1 if early and rng.random() < 0.3 else weight
        held[row] += weight
        if not held[row]:
            del held[row]
        for changed, values, number in kernel.apply(name, row, weight):
            assert (changed, number != 0) == ("v", True)
            total[values] += number
        kernel._check()
        found = kernel.result("v")
        assert +total == total, "nothing is taken away that is not there"
        assert total - Counter() == Counter(found)
        if all(number > 0 for held in rows.values() for number in held.values()):
            assert Counter(found) == oracle(rows), f"seed {seed}: {rows}"
    for name, held in rows.items():
        for row, weight in held.items():
            kernel.apply(name, row, -weight)
    assert kernel.entries() == 0
    assert kernel.result("v") == TuplewiseProgram(program).result("v")
    return kernel


def grouped(pairs: Iterable[tuple[Any, int]]) -> Counter[Row]:
    sums: dict[Any, int] = {}
    for key, value in pairs:
        sums[key] = sums.get(key, 0) + value
    return Counter(sums.items())


def bsv() -> Program:
    """Half the product of the values of every two bids of a broker: one map, twice, and no range."""
    lookup = {
        alias: Lookup(alias, 0, auxiliary=False, on=(("broker", f"{other}.broker"),))
        for alias, other in (("x", "y"), ("y", "x"))
    }
    statements = tuple(
        Statement(alias, (lookup[other],), None, (f"{alias}.broker",), Term(1, ("x.weight", "y.weight")),
                  ((Term(5, ("x.value", "y.value")),),))
        for alias, other in (("x", "y"), ("y", "x"))
    )  # fmt: skip
    result = Auxiliary("result", ("x", "y"), (("broker", "int64"),), ("sum",), statements)
    body = Joined((Occurrence("x", 0), Occurrence("y", 0)), (result,), (Col("broker"), Col("sum")))
    maps = (Map(0, "bids", None, (BROKER,), (Sum("value", VALUE),)),)
    return Program((BIDS,), maps, (view(body, Column("broker", "int64"), Column("bsv", "int128", scale=1)),))


def spread(having: Expr | None, empty: Row | None, ranges: tuple[Range, Range]) -> Program:
    """Σ (ask's volume − bid's volume) over pairs of a broker, or of all, at prices that ranges allow."""
    keys = () if empty is not None else (BROKER,)
    statements = tuple(
        Statement(alias, (Lookup(other, place, auxiliary=False, on=(("broker", f"{alias}.broker"),) if keys else (),
                                 ordered="price", ranges=(part,)),),
                  None, (f"{alias}.broker",) if keys else (), Term(1, ("a.weight", "b.weight")),
                  ((Term(1, ("a.volume", "b.weight")), Term(-1, ("b.volume", "a.weight"))),))
        for (alias, other, place), part in zip((("b", "a", 1), ("a", "b", 0)), ranges, strict=True)
    )  # fmt: skip
    result = Auxiliary("result", ("b", "a"), (("broker", "int64"),) if keys else (), ("sum",), statements)
    columns = [Column("broker", "int64")] if keys else []
    outputs = (*(Col(column.name) for column in columns), Col("sum"))
    body = Joined((Occurrence("b", 0), Occurrence("a", 1)), (result,), outputs, having, empty)
    maps = tuple(
        Map(number, name, None, (*keys, PRICE), (Sum("volume", Col("volume")),))
        for number, name in enumerate(("bids", "asks"))
    )
    return Program((BIDS, ASKS), maps, (view(body, *columns, Column("sum", "int128")),))


def vwap(mode: Literal["sql", "dbtoaster"], volume: Expr, *, monotone: bool = True) -> Program:
    """Value of the bids above which there is less than a quarter of the volume."""
    maps = (
        Map(0, "bids", None, (PRICE,), (Sum("value", VALUE),)),
        Map(1, "bids", None, (PRICE,), (Sum("volume", volume),)),
        Map(2, "bids", None, (), (Sum("volume", volume),)),
    )
    nested = Nested("n", 1, "price", "gt", Col("b.price"))
    condition = call("gt", Col("m2.volume"), call("mul", Lit(4), Col("n.volume")))
    factor = Factor("b", 0, "price", (nested,), (condition,), monotone)
    empty = (0,) if mode == "dbtoaster" else (None,)
    body = Selected((factor,), (2,), (), (("vwap", (Term(1, ("b.value",)),)),), (Col("vwap"),), None, empty)
    return Program((BIDS,), maps, (view(body, Column("vwap", "int128", nullable=True)),), mode)


def pairs(rows: Rows, *names: str) -> Iterable[tuple[Row, Row, int]]:
    left, right = names
    return [(x, y, m * n) for x, m in rows[left].items() for y, n in rows[right].items()]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("early", [False, True])
def test_a_self_join_multiplies_every_two_rows(seed: int, early: bool) -> None:
    def oracle(rows: Rows) -> Counter[Row]:
        return grouped((x[0], 5 * x[1] * x[2] * y[1] * y[2] * n)
                       for x, y, n in pairs(rows, "bids", "bids") if x[0] is not None and x[0] == y[0])  # fmt: skip

    run(bsv(), oracle, seed, early=early)


def test_integers_have_no_limit() -> None:
    kernel = TuplewiseProgram(bsv())
    kernel.apply("bids", (1, 2**62, 2**62))
    assert kernel.result("v") == {(1, 5 * 2**248): 1}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("early", [False, True])
def test_ranges_are_signed_intervals(seed: int, early: bool) -> None:
    """Asks from the bid's price less 4 to its price plus 1."""
    low, high = call("sub", Col("b.price"), Lit(4)), call("add", Col("b.price"), Lit(1))
    ranges = (
        Range(1, low, False, high, False),
        Range(1, call("sub", Col("a.price"), Lit(1)), False, call("add", Col("a.price"), Lit(4)), False),
    )

    def oracle(rows: Rows) -> Counter[Row]:
        return grouped((b[0], (a[1] - b[1]) * n) for b, a, n in pairs(rows, "bids", "asks")
                       if b[0] is not None and a[0] == b[0] and b[2] - 4 <= a[2] <= b[2] + 1)  # fmt: skip

    run(spread(None, None, ranges), oracle, seed, early=early)


@pytest.mark.parametrize("seed", range(4))
def test_an_interval_whose_bounds_cross_is_empty_and_open_ends_are_open(seed: int) -> None:
    def oracle(rows: Rows) -> Counter[Row]:
        chosen = [(a[1] - b[1], n) for b, a, n in pairs(rows, "bids", "asks") if b[2] < a[2] < 6]
        return Counter([(sum(value * n for value, n in chosen) if chosen else None,)])

    # For a delta of asks the bids below its price count, and none if it is not below 6: a bound that makes that so.
    bound = call("case", call("lt", Col("a.price"), Lit(6)), Col("a.price"), Lit(0))
    run(
        spread(None, (None,), (Range(1, Col("b.price"), True, Lit(6), True), Range(1, None, False, bound, True))),
        oracle,
        seed,
    )


@pytest.mark.parametrize("seed", range(3))
def test_having_leaves_rows_out_and_null_is_not_true(seed: int) -> None:
    every = Range(1, Lit(-100), False, None, False)
    having = call("gt", call("floordiv", Lit(60), Col("sum")), Lit(1))

    def oracle(rows: Rows) -> Counter[Row]:
        sums = grouped((b[0], (a[1] - b[1]) * n) for b, a, n in pairs(rows, "bids", "asks")
                       if b[0] is not None and a[0] == b[0])  # fmt: skip
        return Counter(row for row in sums if 0 < row[1] <= 30)

    run(spread(having, None, (every, every)), oracle, seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["sql", "dbtoaster"])
@pytest.mark.parametrize("volume", [Col("volume"), call("sub", Col("volume"), Lit(3))], ids=["positive", "mixed"])
@pytest.mark.parametrize("monotone", [True, False])
def test_a_threshold_is_found_by_bisection_and_by_a_scan(
    seed: int, mode: Literal["sql", "dbtoaster"], volume: Expr, monotone: bool
) -> None:
    less = 0 if isinstance(volume, Col) else 3

    def oracle(rows: Rows) -> Counter[Row]:
        def total(above: int) -> int | None:
            found = [(row[1] - less) * n for row, n in rows["bids"].items() if row[2] > above]
            return sum(found) if found or mode == "dbtoaster" else None

        whole = total(-1)
        chosen = [row[1] * row[2] * n for row, n in rows["bids"].items()
                  if whole is not None and (part := total(row[2])) is not None and whole > 4 * part]  # fmt: skip
        return Counter([(sum(chosen) if chosen or mode == "dbtoaster" else None,)])

    for early in (False, True):
        run(vwap(mode, volume, monotone=monotone), oracle, seed, early=early)


@pytest.mark.parametrize("seed", range(4))
def test_a_lookup_that_fans_out_gives_a_row_for_every_match(seed: int) -> None:
    """Rows of the two sides at one price, by both brokers; an auxiliary map that the second statement reads."""
    maps = tuple(Map(number, name, None, (BROKER, PRICE), ()) for number, name in enumerate(("bids", "asks")))
    side = Auxiliary("side", ("a",), (("price", "int64"), ("broker", "int64")), (), (
        Statement("a", (), None, ("a.price", "a.broker"), Term(1, ("a.weight",)), ()),
    ))  # fmt: skip
    result = Auxiliary("result", ("b", "a"), (("x", "int64"), ("y", "int64")), (), (
        Statement("b", (Lookup("side", 0, auxiliary=True, on=(("price", "b.price"),), binds=("broker",)),),
                  call("or", call("is_null", Col("side.broker")), call("ne", Col("side.broker"), Lit(2))),
                  ("b.broker", "side.broker"), Term(1, ("b.weight", "side.weight")), ()),
        Statement("a", (Lookup("b", 0, auxiliary=False, on=(("price", "a.price"),), binds=("broker",)),),
                  call("or", call("is_null", Col("a.broker")), call("ne", Col("a.broker"), Lit(2))),
                  ("b.broker", "a.broker"), Term(1, ("b.weight", "a.weight")), ()),
    ))  # fmt: skip
    outputs = (Col("x"), Col("y"), Col("weight"))
    body = Joined((Occurrence("b", 0), Occurrence("a", 1)), (side, result), outputs)
    columns = (Column("x", "int64", nullable=True), Column("y", "int64", nullable=True), Column("c", "int64"))

    def oracle(rows: Rows) -> Counter[Row]:
        found = grouped(((b[0], a[0]), n) for b, a, n in pairs(rows, "bids", "asks") if a[2] == b[2] and a[0] != 2)
        return Counter((x, y, n) for (x, y), n in found)

    run(Program((BIDS, ASKS), maps, (view(body, *columns),)), oracle, seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("early", [False, True])
def test_a_linear_view_with_null_keys_and_rows_that_meet_between_branches(seed: int, early: bool) -> None:
    maps = (
        Map(0, "bids", call("gt", Col("broker"), Lit(0)), (BROKER,), (Sum("volume", Col("volume")),)),
        Map(1, "asks", None, (BROKER, Key("half", "int64", call("floordiv", Col("price"), Lit(2)))), ()),
        Map(2, "bids", None, (), (Sum("volume", Col("volume")),)),
    )
    branches = (
        Branch(0, (Col("broker"), Col("volume")), having=call("gt", Col("weight"), Lit(1))),
        Branch(1, (Col("broker"), Col("half")), bag=True),
        Branch(2, (Lit(None), call("div", Col("volume"), Col("weight"))), empty=(None, None)),
    )
    body = Linear(branches[:2])
    columns = (Column("broker", "int64", nullable=True), Column("x", "int128"))

    def oracle(rows: Rows) -> Counter[Row]:
        sums: dict[Any, list[int]] = {}
        for row, n in rows["bids"].items():
            if row[0] is not None:
                held = sums.setdefault(row[0], [0, 0])
                held[0] += n
                held[1] += n * row[1]
        found = Counter((key, total) for key, (n, total) in sums.items() if n > 1)
        for row, n in rows["asks"].items():
            found[row[0], row[2] // 2] += n
        return found

    run(Program((BIDS, ASKS), maps, (view(body, *columns),)), oracle, seed, early=early)

    def mean(rows: Rows) -> Counter[Row]:
        number = rows["bids"].total()
        return Counter([(None, sum(n * row[1] for row, n in rows["bids"].items()) / number if number else None)])

    columns = (Column("nothing", "int64", nullable=True), Column("x", "float64", nullable=True))
    run(
        Program(
            (BIDS,),
            (msgspec.structs.replace(maps[2], id=0),),
            (view(Linear((msgspec.structs.replace(branches[2], map=0),)), *columns),),
        ),
        mean,
        seed,
        early=early,
    )


def test_views_that_it_has_no_code_for_are_named_and_the_others_run() -> None:
    again = view(Reevaluated((), "SELECT 1"), Column("broker", "int64"), name="f")
    floats = Map(0, "bids", None, (Key("price", "float64", Col("price")),), ())
    chosen = Selected((Factor("b", 0, "price", (), (), True),), (), (), (), (Col("weight"),))
    program = Program((BIDS,), (floats,), (again, view(chosen, Column("c", "int64"), name="s"),
                                          view(Linear((Branch(0, (Col("price"),), bag=True),)),
                                               Column("price", "float64"))))  # fmt: skip
    kernel = TuplewiseProgram(program)
    assert kernel.unsupported == {"f": "a reevaluated body", "s": "conditions on float64"}
    assert kernel.apply("bids", (1, 2, -0.0), 3) == [("v", (0.0,), 3)]
    nan = float("nan")
    kernel.apply("bids", (1, 2, nan))
    kernel.apply("bids", (1, 2, -nan), -1)
    assert kernel.result("v") == {(0.0,): 3}


def test_a_row_that_cannot_be_evaluated_changes_nothing() -> None:
    kernel = TuplewiseProgram(bsv())
    kernel.apply("bids", (1, 2, 3))
    with pytest.raises(TypeError):
        kernel.apply("bids", (1, "2", "3"))
    with pytest.raises(ValueError):
        kernel.apply("bids", (1, 2))
    with pytest.raises(ViewError, match="expected one of the relations bids, was asks"):
        kernel.apply("asks", (1, 2, 3))
    assert kernel.result("v") == {(1, 5 * 36): 1}


def test_names_and_constants_of_a_program_are_no_source() -> None:
    """A program may come from anywhere: what it calls things is never compiled."""
    evil = "x = __import__('os')\n'"
    relation = Relation("r", (Column(evil, "string"),))
    maps = (Map(0, "r", call("ne", Col(evil), Lit(evil)), (Key(evil, "string", Col(evil)),), (Sum("s;", Lit(1)),)),)
    body = Linear((Branch(0, (Col(evil), Lit(evil), Col("s;"))),))
    columns = (Column(evil, "string"), Column("y\n", "string"), Column("z", "int128"))
    kernel = TuplewiseProgram(Program((relation,), maps, (view(body, *columns, name=evil),)))
    assert kernel.apply("r", (evil,)) == []
    assert kernel.apply("r", ("a",)) == [(evil, ("a", evil, 1), 1)]
    assert "import" not in kernel.source
    assert "s;" not in kernel.source


def test_what_is_loaded_is_what_is_applied() -> None:
    rng = random.Random(5)
    rows = {name: [(rng.choice([1, 2, None]), rng.randint(1, 9), rng.randint(1, 12)) for _ in range(50)]
            for name in ("bids", "asks")}  # fmt: skip
    every = Range(1, Lit(3), True, None, False)
    for program in (vwap("sql", Col("volume")), bsv(), spread(None, None, (every, every))):
        one, other = TuplewiseProgram(program), TuplewiseProgram(program)
        names = [relation.name for relation in program.relations]
        one.load({name: rows[name] for name in names})
        for name in names:
            for row in rows[name]:
                other.apply(name, row)
        assert one.result("v") == other.result("v")
        assert one.entries() == other.entries()
