# ruff: noqa: DTZ001 - SQL's TIMESTAMP has no zone
"""Emitted expressions give what SQL says, in both tiers, and refuse what their range cannot hold."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import pytest

from runtime.native.cache import KernelCache
from runtime.plan import Call, Col, Expr, Lit
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field
from runtime.views.errors import ViewOverflowError
from runtime.views.feeds import ColumnBatch
from runtime.views.nodes.node import Node
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of

FIELDS = (
    Field("a", "int64", True),
    Field("b", "int64", True),
    Field("w", "int128", True),
    Field("x", "float64", True),
    Field("s", "string", True),
    Field("u", "string", True),
    Field("d", "date", True),
    Field("t", "timestamp", True),
    Field("p", "bool", True),
    Field("q", "bool", True),
)
MOMENT = datetime(2024, 2, 29, 23, 59, 58, 999_999)
ROWS: tuple[tuple[Any, ...], ...] = (
    (7, -2, 2**100, 0.5, "abc", "abd", date(2024, 2, 29), MOMENT, True, False),
    (-7, 2, -(2**100), -0.0, "Bonn", "", date(1969, 12, 31), datetime(1969, 12, 31, 23, 0), False, True),
    (0, 0, 0, 1e300, "", "web", date(1, 1, 1), datetime(1, 1, 1), True, None),
    (2**63 - 1, -(2**63), 2**125, 2.0, "é", "z", date(9999, 12, 31), datetime(1600, 2, 29, 1, 2, 3), None, False),
    (None,) * 10,
    (3, None, 5, None, None, "abc", None, MOMENT, None, None),
    (-(2**63), 1, -(2**125), -3.5, "a%b", "a_b", date(2000, 3, 1), MOMENT, False, False),
)
A, B, W, X, S, U, D, T, P, Q = (Col(field.name) for field in FIELDS)
Row = dict[str, Any]


def strict(function: Callable[..., Any], *names: str) -> Callable[[Row], Any]:
    """NULL if an operand is NULL."""
    return lambda row: None if any(row[name] is None for name in names) else function(*(row[name] for name in names))


def toward_zero(left: int, right: int) -> int | None:
    return None if right == 0 else int(Fraction(left, right)) if right else None


def remainder(left: int, right: int) -> int | None:
    quotient = toward_zero(left, right)
    return None if quotient is None else left - quotient * right


def conjunction(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else None if left is None or right is None else True


def disjunction(left: bool | None, right: bool | None) -> bool | None:
    return True if left is True or right is True else None if left is None or right is None else False


def pick(choose: Callable[[list[Any]], Any], *names: str) -> Callable[[Row], Any]:
    def value(row: Row) -> Any:
        present = [row[name] for name in names if row[name] is not None]
        return choose(present) if present else None

    return value


def root_of_square(x: float) -> float:
    return math.sqrt(x * x) if abs(x) < 1e150 else math.inf


def first_of(left: str, right: str, last: int) -> Callable[[Row], Any]:
    return lambda row: next((value for value in (row[left], row[right]) if value is not None), last)


CASES: Sequence[tuple[Expr, str, Callable[[Row], Any]]] = (
    (Call("add", (A, B)), "int128", strict(lambda a, b: a + b, "a", "b")),
    (Call("sub", (A, B)), "int128", strict(lambda a, b: a - b, "a", "b")),
    (Call("mul", (A, B)), "int128", strict(lambda a, b: a * b, "a", "b")),
    (Call("neg", (A,)), "int128", strict(lambda a: -a, "a")),
    (Call("add", (W, A)), "int128", strict(lambda w, a: w + a, "w", "a")),
    (Call("floordiv", (A, B)), "int128", strict(toward_zero, "a", "b")),
    (Call("mod", (A, B)), "int128", strict(remainder, "a", "b")),
    (Call("floordiv", (W, Lit(3))), "int128", strict(lambda w: toward_zero(w, 3), "w")),
    (Call("mod", (W, Lit(-7))), "int128", strict(lambda w: remainder(w, -7), "w")),
    (Call("div", (A, B)), "float64", strict(lambda a, b: a / b if b else None, "a", "b")),
    (Call("div", (W, Lit(10))), "float64", strict(lambda w: w / 10, "w")),
    (Call("div", (X, Lit(2))), "float64", strict(lambda x: x / 2, "x")),
    (Call("add", (X, A)), "float64", strict(lambda x, a: x + a, "x", "a")),
    (Call("sqrt", (Call("mul", (X, X)),)), "float64", strict(root_of_square, "x")),
    (Call("digits", (A, Lit(19))), "int64", strict(int, "a")),
    (Call("digits", (W, Lit(38))), "int128", strict(int, "w")),
    (Call("lt", (A, B)), "bool", strict(lambda a, b: a < b, "a", "b")),
    (Call("ge", (W, A)), "bool", strict(lambda w, a: w >= a, "w", "a")),
    (Call("eq", (X, A)), "bool", strict(lambda x, a: x == float(a), "x", "a")),
    (Call("lt", (S, U)), "bool", strict(lambda s, u: s < u, "s", "u")),
    (Call("ge", (S, Lit("abc"))), "bool", strict(lambda s: s >= "abc", "s")),
    (Call("ne", (S, U)), "bool", strict(lambda s, u: s != u, "s", "u")),
    (Call("like", (S, Lit("a%b%"))), "bool", strict(lambda s: s in ("abc", "a%b"), "s")),
    (Call("and", (P, Q)), "bool", lambda row: conjunction(row["p"], row["q"])),
    (Call("or", (P, Q)), "bool", lambda row: disjunction(row["p"], row["q"])),
    (Call("not", (P,)), "bool", strict(lambda p: not p, "p")),
    (Call("and", (P, Lit(None))), "bool", lambda row: conjunction(row["p"], None)),
    (Call("is_null", (S,)), "bool", lambda row: row["s"] is None),
    (Call("coalesce", (A, B, Lit(9))), "int64", first_of("a", "b", 9)),
    (Call("coalesce", (A, W)), "int128", pick(lambda values: values[0], "a", "w")),
    (Call("least", (A, B)), "int64", pick(min, "a", "b")),
    (Call("greatest", (A, W)), "int128", pick(max, "a", "w")),
    (Call("least", (S, U)), "string", pick(min, "s", "u")),
    (Call("greatest", (D, D)), "date", pick(max, "d")),
    (
        Call("case", (Call("gt", (A, Lit(0))), S, Call("is_null", (A,)), Lit("none"), Lit(None))),
        "string",
        lambda row: "none" if row["a"] is None else row["s"] if row["a"] > 0 else None,
    ),
    (
        Call("case", (Call("lt", (A, Lit(0))), Call("neg", (A,)), A)),
        "int128",
        strict(abs, "a"),
    ),
    (Call("year", (D,)), "int64", strict(lambda d: d.year, "d")),
    (Call("month", (T,)), "int64", strict(lambda t: t.month, "t")),
    (Call("day", (D,)), "int64", strict(lambda d: d.day, "d")),
    (Call("hour", (T,)), "int64", strict(lambda t: t.hour, "t")),
    (Call("minute", (T,)), "int64", strict(lambda t: t.minute, "t")),
    (Call("second", (T,)), "int64", strict(lambda t: t.second, "t")),
    (Call("hour", (D,)), "int64", strict(lambda d: 0, "d")),
    (Call("date", (T,)), "date", strict(lambda t: t.date(), "t")),
    (Call("timestamp", (D,)), "timestamp", strict(lambda d: datetime(d.year, d.month, d.day), "d")),
    (Call("gt", (D, Call("date", (Lit("2000-01-01"),)))), "bool", strict(lambda d: d > date(2000, 1, 1), "d")),
    (Call("mul", (Lit(3), Lit(4))), "int64", lambda row: 12),
    (Lit(None), "int64", lambda row: None),
    (Lit(2.5), "float64", lambda row: 2.5),
)  # fmt: skip


def projection(
    exprs: Sequence[tuple[Expr, Any]], strings: Strings, fields: Sequence[Field] = FIELDS
) -> tuple[ColumnBatch, ColumnBatch, Node]:
    """A node that writes the values of expressions over fields, one column each."""
    given = ColumnBatch(fields)
    out = ColumnBatch([Field(f"c{place}", kind, True) for place, (_, kind) in enumerate(exprs)])
    k = KernelSource("evaluates expressions", strings)
    k.begin()
    k.put("bad = False", f"for e in range({k.cells(given, 0)}[0]):")
    k._depth += 1
    bound = {field.name: given.load_column(k, field, "e") for field in fields}
    for field, (expr, kind) in zip(out.fields, exprs, strict=True):
        out.store(k, field, Emitter(k).cast(Emitter(k).value(expr, bound), kind), "e")
    k.put(f"{k.cells(out, 1)}[e] = 1")
    k._depth -= 1
    k.put("return -1 if bad else 0")
    return given, out, Node(k, ["v"])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> KernelCache:
    return KernelCache(tmp_path_factory.mktemp("kernels"))


def compile_node(node: Node, kernels: KernelCache) -> None:
    """Let a node run compiled."""
    kernels.compile_now([node.text])
    kernel = kernels.get(node.text)
    assert kernel is not None, kernels.failures
    node.use(kernel)


@pytest.mark.timeout(900)  # the compiler is niced: beside other tests it may take long
@pytest.mark.parametrize("is_compiled", [False, True])
def test_expressions_give_what_sql_says(is_compiled: bool, kernels: KernelCache) -> None:
    strings = Strings(["zz", "a"])
    given, out, node = projection([(expr, kind) for expr, kind, _ in CASES], strings)
    if is_compiled:
        compile_node(node, kernels)
    for row in ROWS:
        given.append(row, 1, strings)
    strings.refresh()
    node.run()
    out.rows = len(ROWS)
    found = [row for row, _ in tuples_of([out], strings, is_distinct=True)]
    named = [dict(zip((field.name for field in FIELDS), row, strict=True)) for row in ROWS]
    for place, (expr, _, expected) in enumerate(CASES):
        assert [row[place] for row in found] == [expected(row) for row in named], expr


FLOATS = (-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan)
"""In SQL's order, but for the two zeros, which are equal."""


def sql_order(x: float) -> tuple[bool, float]:
    """A key by which floats are in SQL's order: NaN is equal to itself and the greatest."""
    return (True, 0.0) if math.isnan(x) else (False, x)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_nan_is_equal_to_itself_and_the_greatest(is_compiled: bool, kernels: KernelCache) -> None:
    """As in ORDER BY, GROUP BY, MIN, MAX and keys of joins, and in DuckDB."""
    strings = Strings()
    other = Col("y")
    compare = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le}
    compare |= {"gt": operator.gt, "ge": operator.ge}
    exprs: list[tuple[Expr, Any]] = [(Call(op, (X, other)), "bool") for op in compare]  # type: ignore[arg-type]
    exprs += [(Call("least", (X, other)), "float64"), (Call("greatest", (X, other)), "float64")]
    given, out, node = projection(exprs, strings, (Field("x", "float64", True), Field("y", "float64")))
    if is_compiled:
        compile_node(node, kernels)
    pairs = [(x, y) for x in FLOATS for y in FLOATS]
    for pair in pairs:
        given.append(pair, 1, strings)
    node.run()
    out.rows = len(pairs)
    for (x, y), (row, _) in zip(pairs, tuples_of([out], strings, is_distinct=True), strict=True):
        assert row[:6] == tuple(function(sql_order(x), sql_order(y)) for function in compare.values()), (x, y)
        least, greatest = sorted((x, y), key=sql_order)
        assert (sql_order(row[6]), sql_order(row[7])) == (sql_order(least), sql_order(greatest)), (x, y)


WRONG = Call("mul", (A, A, A))
"""Out of range in `LARGE`."""
TOO_LONG = Call("digits", (A, Lit(18)))
"""Has more digits than it may in `LARGE`."""
LARGE = (2**62, 2, 2**125, 0.0, "", "", date(1970, 1, 1), MOMENT, True, True)
NO, YES, UNKNOWN = Call("lt", (A, Lit(0))), Call("gt", (A, Lit(0))), Call("eq", (A, Lit(None)))
IS_WRONG = Call("gt", (WRONG, Lit(0)))


def value_of(expr: Expr, kind: str, kernels: KernelCache | None = None) -> Any:
    """The value for `LARGE`."""
    strings = Strings()
    given, out, node = projection([(expr, kind)], strings)
    if kernels is not None:
        compile_node(node, kernels)
    given.append(LARGE, 1, strings)
    node.run()
    out.rows = 1
    (((value,), _),) = tuples_of([out], strings, is_distinct=True)
    return value


@pytest.mark.parametrize(
    ("expr", "kind"),
    [
        (Call("mul", (W, W)), "int128"),
        (WRONG, "int128"),
        (Call("add", (W, W)), "int128"),
        (Call("floordiv", (Call("add", (W, W, W)), Lit(3))), "int128"),
        (Call("mul", (A, A)), "int64"),
        (IS_WRONG, "bool"),
        (Call("not", (IS_WRONG,)), "bool"),
        (Call("is_null", (WRONG,)), "bool"),
        (Call("and", (YES, IS_WRONG)), "bool"),
        (Call("or", (IS_WRONG, NO)), "bool"),
        (Call("and", (UNKNOWN, IS_WRONG)), "bool"),
        (Call("case", (NO, Lit(1), WRONG)), "int128"),
        (Call("case", (IS_WRONG, Lit(1), YES, Lit(2), Lit(3))), "int64"),
        (Call("coalesce", (WRONG, A)), "int128"),
        (Call("coalesce", (Lit(None), WRONG)), "int128"),
        (Call("greatest", (A, WRONG)), "int128"),
        (Call("div", (WRONG, A)), "float64"),
        (Call("div", (WRONG, X)), "float64"),
        (Call("add", (WRONG, X)), "float64"),
        (Call("neg", (WRONG,)), "int128"),
        (TOO_LONG, "int128"),
        (Call("digits", (Call("neg", (B,)), Lit(0))), "int128"),
        (Call("digits", (Call("neg", (W,)), Lit(37))), "int128"),
        (Call("digits", (Call("neg", (Lit(10**18),)), Lit(18))), "int128"),
        (Call("digits", (WRONG, Lit(38))), "int128"),
        (Call("sqrt", (WRONG,)), "float64"),
        (Call("like", (Call("case", (IS_WRONG, S, U)), Lit("a%"))), "bool"),
    ],
)  # fmt: skip
def test_values_out_of_range_fail_the_node(expr: Expr, kind: str, kernels: KernelCache) -> None:
    for tier in (None, kernels):
        with pytest.raises(ViewOverflowError, match="expected integers of at most 126 bits"):
            value_of(expr, kind, tier)


@pytest.mark.parametrize(
    ("expr", "kind", "expected"),
    [
        (Call("case", (NO, WRONG, A)), "int128", 2**62),
        (Call("case", (NO, TOO_LONG, A)), "int128", 2**62),
        (Call("digits", (Call("case", (YES, Lit(None), A)), Lit(2))), "int128", None),
        (Call("digits", (Call("mul", (A, Call("case", (YES, Lit(None), A)))), Lit(2))), "int128", None),
        (Call("digits", (A, Lit(19))), "int128", 2**62),
        (Call("digits", (Call("neg", (W,)), Lit(38))), "int128", -(2**125)),
        (Call("digits", (Call("neg", (Lit(10**18 - 1),)), Lit(18))), "int128", 1 - 10**18),
        (Call("case", (YES, A, WRONG)), "int128", 2**62),
        (Call("case", (YES, A, IS_WRONG, B, Lit(0))), "int64", 2**62),
        (Call("coalesce", (A, WRONG)), "int128", 2**62),
        (Call("and", (NO, IS_WRONG)), "bool", False),
        (Call("and", (IS_WRONG, NO)), "bool", False),
        (Call("and", (UNKNOWN, IS_WRONG, NO)), "bool", False),
        (Call("or", (YES, IS_WRONG)), "bool", True),
        (Call("or", (IS_WRONG, YES)), "bool", True),
        (Call("not", (Call("and", (IS_WRONG, NO)),)), "bool", True),
    ],
)
def test_unused_values_out_of_range_are_harmless(expr: Expr, kind: str, expected: object, kernels: KernelCache) -> None:
    for tier in (None, kernels):
        assert value_of(expr, kind, tier) == expected


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize(("days", "is_in_range"), [(106_751_991, True), (-106_751_991, True), (106_751_992, False)])
def test_dates_past_all_timestamps_fail_the_node(
    days: int, is_in_range: bool, is_compiled: bool, kernels: KernelCache
) -> None:
    """The product of a day and its microseconds is not taken modulo 2^64."""
    strings = Strings()
    given, out, node = projection([(Call("timestamp", (Col("d"),)), "timestamp")], strings, (Field("d", "date"),))
    if is_compiled:
        compile_node(node, kernels)
    given.append((date(1970, 1, 1),), 1, strings)
    given.array(2)[0] = days
    if not is_in_range:
        with pytest.raises(ViewOverflowError):
            node.run()
        return
    node.run()
    assert out.array(2)[0] == days * 86_400_000_000


def test_no_text_of_a_program_stands_in_generated_source() -> None:
    strings = Strings()
    evil = '"); import os; os.abort() #'
    _, _, node = projection([(Call("eq", (S, Lit(evil))), "bool"), (Call("like", (S, Lit(evil))), "bool")], strings)
    assert "abort" not in node.text
