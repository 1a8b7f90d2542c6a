"""Aggregates of groups follow rows that come and go, as if they were computed from scratch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from runtime.native.cache import KernelCache
from runtime.native.library import quantiles
from runtime.plan import Aggregate, ColumnType, GroupNode, Quantile, ScanNode
from runtime.views.errors import ViewError, ViewOverflowError
from tests.generators.flow_graphs import VALUES, GraphLab
from tests.generators.flow_streams import compare_with_scratch, short_room
from tests.generators.flows import Fields
from tests.generators.sorted_rows_rig import small_nodes

KINDS = ("count_rows", "count", "sum", "min", "max", "count_distinct", "sum_distinct")


def aggregates_of(column: str, type_: ColumnType, kinds: Sequence[str] = KINDS) -> list[Aggregate]:
    """One aggregate of each kind that the type has."""
    made = []
    for kind in kinds:
        is_sum = kind.startswith("sum")
        if is_sum and type_ not in ("int64", "int128"):
            continue
        result: ColumnType = type_ if kind in ("min", "max") else "int128" if is_sum else "int64"
        made.append(Aggregate(f"{kind} {column}", kind, None if kind == "count_rows" else column, result))  # type: ignore[arg-type]
    return made


def quantiles_of(column: str, type_: ColumnType) -> list[Aggregate]:
    """Quantiles of each kind, from the least value to the greatest one."""
    places = [("disc", 0), ("disc", 3), ("disc", 5), ("disc", 10), ("floor", 5), ("ceil", 5), ("ceil", 9)]
    return [
        Aggregate(f"{kind} {part} {column}", "quantile", column, type_, Quantile(kind, part, 10))  # type: ignore[arg-type]
        for kind, part in places
    ]


def lab_of(fields: Fields, keys: Sequence[str], aggregates: Sequence[Aggregate], **options: Any) -> GraphLab:
    return GraphLab([fields], [ScanNode(0), GroupNode(0, tuple(keys), tuple(aggregates))], **options)


def changes_of(lab: GraphLab) -> int:
    """Rows that the last step has emitted."""
    return sum(batch.rows for batch in lab.graph.outputs["v"].batches)


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("type_", VALUES)
def test_groups_equal_groups_from_scratch(type_: ColumnType, is_short: bool) -> None:
    fields: Fields = (("k", "string"), ("v", type_), ("w", type_))
    aggregates = [*aggregates_of("v", type_), *aggregates_of("w", type_, ["max", "sum", "count"])]
    for keys in (("k",), (), ("w", "k")):
        rng = random.Random(f"{type_} {keys}")
        with short_room() if is_short else nullcontext():
            lab = lab_of(fields, keys, aggregates, mode=rng.choice(["sql", "dbtoaster"]))
            compare_with_scratch(lab, rng, 30)
        if keys:
            assert lab.result == Counter()
            assert set(lab.records().values()) == {0}


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("type_", VALUES)
def test_quantiles_equal_sorted_values(type_: ColumnType, is_short: bool) -> None:
    fields: Fields = (("k", "string"), ("v", type_))
    aggregates = [*quantiles_of("v", type_), *aggregates_of("v", type_, ["min", "count"])]
    for keys in (("k",), ()):
        rng = random.Random(f"{type_} {keys}")
        with short_room() if is_short else nullcontext():
            lab = lab_of(fields, keys, aggregates)
            compare_with_scratch(lab, rng, 30)
        if keys:
            assert set(lab.records().values()) == {0}


def test_quantiles_of_many_values() -> None:
    fields: Fields = (("k", "bool"), ("v", "int64"))
    values: dict[ColumnType, list[Any]] = {"bool": [True, False], "int64": [None, *range(500)]}
    with small_nodes():
        compare_with_scratch(
            lab_of(fields, ["k"], quantiles_of("v", "int64")), random.Random(5), 12, values=values, size=200
        )


def test_a_median_moves_by_as_many_values_as_rows_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a step does not grow with the values of a group."""
    looked_at: list[int] = []
    count_of = quantiles.count_of

    def counted(values: Any, slot: int) -> int:
        looked_at.append(slot)
        return count_of(values, slot)

    monkeypatch.setattr(quantiles, "count_of", counted)
    lab = lab_of((("v", "int64"),), [], quantiles_of("v", "int64")[2:3])
    lab.step({0: [((number,), 1) for number in range(1000)]})
    looked_at.clear()
    lab.step({0: [((2000,), 3), ((-1,), 1), ((499,), -1)]})
    assert 1 <= len(looked_at) <= 12
    assert lab.result == Counter({(501,): 1})


def test_many_values_keep_their_extremes() -> None:
    """Values of a few groups fill several levels of the tree."""
    fields: Fields = (("k", "bool"), ("v", "int64"))
    values: dict[ColumnType, list[Any]] = {"bool": [True, False, None], "int64": [None, *range(3000)]}
    with small_nodes():
        lab = lab_of(fields, ["k"], aggregates_of("v", "int64"))
        compare_with_scratch(lab, random.Random(5), 12, values=values, size=200)


@pytest.mark.parametrize("kind", ["min", "max"])
def test_extremes_of_strings_survive_new_ranks(kind: str) -> None:
    """The ranks of all strings are replaced when there is no number left between two of them."""
    rng = random.Random(3)
    lab = lab_of((("s", "string"),), [], aggregates_of("s", "string", [kind]))
    texts: list[str] = []
    relabelled = lab.strings.ranks().views[1]
    for number in range(60):
        texts.append("a" * number + "b")  # each one between all earlier ones and the empty string
        if number > 5 and rng.random() < 0.3:
            gone = texts.pop(rng.randrange(len(texts)))
            lab.step({0: [((gone,), -1), ((texts[-1],), 1)]})
        else:
            lab.step({0: [((texts[-1],), 1)]})
        lab.check()
        ((row, _),) = lab.result.items()
        assert row == ((min if kind == "min" else max)(texts),)
    assert relabelled[0] > 1


def test_the_row_of_nothing_is_there_from_the_first_step() -> None:
    lab = lab_of((("v", "int64"),), [], aggregates_of("v", "int64"))
    lab.step({})
    assert lab.result == Counter({(0, 0, None, None, None, 0, None): 1})
    lab.restart()
    lab.step({})
    assert lab.result == Counter({(0, 0, None, None, None, 0, None): 1})
    lab.step({0: [((4,), 2)]})
    assert lab.result == Counter({(2, 2, 8, 4, 4, 1, 4): 1})


def test_a_sum_of_nothing_is_zero_in_dbtoaster_mode() -> None:
    lab = lab_of((("k", "int64"), ("v", "int64")), ["k"], aggregates_of("v", "int64"), mode="dbtoaster")
    lab.step({0: [((1, None), 1)]})
    assert lab.result == Counter({(1, 1, 0, 0, None, None, 0, 0): 1})


def test_a_deletion_may_come_before_its_insertion() -> None:
    lab = lab_of((("k", "int64"), ("v", "int64")), ["k"], aggregates_of("v", "int64"))
    lab.step({0: [((1, 5), -1), ((1, 7), 1), ((2, 5), -1)]})
    lab.check()
    assert lab.result == Counter()
    lab.step({0: [((1, 7), 1)]})
    assert lab.result == Counter({(1, 1, 1, 9, 7, 7, 1, 7): 1})
    lab.step({0: [((1, 5), 1), ((2, 5), 1)]})
    assert lab.result == Counter({(1, 2, 2, 14, 7, 7, 1, 7): 1})


def test_rows_that_change_nothing_emit_nothing() -> None:
    lab = lab_of((("k", "int64"), ("v", "int64")), ["k"], aggregates_of("v", "int64", ["max", "min"]))
    lab.step({0: [((1, 5), 1), ((1, 9), 1)]})
    batch = lab.graph.relations["r0"]
    for row, weight in (((1, 7), 1), ((1, 9), 1), ((1, 5), -1), ((1, 5), 1), ((2, 3), 1), ((2, 3), -1)):
        batch.append(row, weight, lab.strings)
    assert lab.graph.run() == {}
    assert changes_of(lab) == 0


def test_sums_are_exact_up_to_126_bits() -> None:
    fields: Fields = (("v", "int128"),)
    lab = lab_of(fields, [], aggregates_of("v", "int128", ["sum", "sum_distinct"]))
    lab.step({0: [((2**125,), 1), ((2**125 - 1,), 1)]})
    assert lab.result == Counter({(2**126 - 1, 2**126 - 1): 1})
    with pytest.raises(ViewOverflowError):
        fail(lab, (1,), 1)
    lab = lab_of(fields, [], aggregates_of("v", "int128", ["sum"]))
    with pytest.raises(ViewOverflowError):
        fail(lab, (2**100,), 2**40)


def fail(lab: GraphLab, row: tuple[Any, ...], weight: int) -> None:
    """Feed a row, and raise what the view fails with."""
    lab.graph.relations["r0"].append(row, weight, lab.strings)
    raise lab.graph.run()["v"]


def test_a_sum_of_strings_is_refused() -> None:
    with pytest.raises(ViewError, match="expected integers to be added up, was s string"):
        lab_of((("s", "string"),), [], [Aggregate("x", "sum", "s", "int128")])


@pytest.mark.slow
def test_compiled_groups_equal_groups_from_scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    drawn: list[tuple[ColumnType, tuple[str, ...]]] = [
        ("int64", ("k",)), ("int128", ()), ("float64", ("k",)), ("string", ()),
    ]  # fmt: skip
    for type_, keys in drawn:
        fields: Fields = (("k", "string"), ("v", type_))
        aggregates = [*aggregates_of("v", type_), *quantiles_of("v", type_)]
        lab = lab_of(fields, keys, aggregates, kernels=kernels)
        compare_with_scratch(lab, random.Random(type_), 60, size=40)
    kernels.close()
