"""Batches of keyed deltas as numpy columns: what statements bind, look up and add up.

A key column is words (as `runtime.state.columns` has them) and where it is NULL; sums are exact columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import Call, Col, ColumnType, Expr, Lit, Map
from runtime.state import KeyColumn, StringPool, decode_words, encode_words
from runtime.state.exactsums import Exact, arrow_of, exact_of, fit, grouped, largest, of_integers, product, total_of
from runtime.views.errors import ViewError
from runtime.views.payload import payload_sums, payload_weight

__all__ = ["Delta", "Frame", "KeyVector", "aggregated", "delta_of", "integers", "nullable_words", "plain_words"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_DENSE: Final = 64
_FEW: Final = 32


class KeyVector(msgspec.Struct, frozen=True):
    """A column of keys."""

    type: ColumnType
    """Its type."""
    words: Integers
    """Shape (n, 1), for int128 (n, 2); 0 where it is NULL."""
    nulls: Flags | None
    """Where it is NULL; None for nowhere."""

    def take(self, rows: Integers | Flags) -> KeyVector:
        """Some of its rows."""
        return KeyVector(self.type, self.words[rows], None if self.nulls is None else self.nulls[rows])

    def arrow(self, pool: StringPool) -> pa.Array:
        """As an Arrow column."""
        column = KeyColumn("key", self.type, nullable=True)
        flags = np.zeros(len(self.words), np.int64) if self.nulls is None else self.nulls.astype(np.int64)
        return decode_words([column], np.column_stack([flags, self.words]), pool)[0]


class Delta(msgspec.Struct, frozen=True):
    """Deltas of a map, one row per key."""

    keys: dict[str, KeyVector]
    """By name."""
    sums: list[Exact]
    """The weight first, then the map's sums."""

    def __len__(self) -> int:
        return len(self.sums[0])


def delta_of(map_: Map, deltas: pa.Table, pool: StringPool) -> Delta:
    """A payload (see `preaggregate.payload_schema`) as a delta."""
    keys = {}
    for key in map_.keys:
        array = deltas[key.name].combine_chunks()
        if key.type == "int64" and not array.null_count:
            keys[key.name] = KeyVector(key.type, array.to_numpy()[:, None], None)
            continue
        nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        words = encode_words([KeyColumn(key.name, key.type, nullable=True)], [array], pool)[:, 1:]
        keys[key.name] = KeyVector(key.type, words, nulls)
    return Delta(keys, [payload_weight(deltas), *payload_sums(map_, deltas)])


def plain_words(vectors: Sequence[KeyVector], rows: int) -> tuple[Integers, Flags | None]:
    """Words of keys that NULL never equals, shape (rows, width), and the rows in which none is NULL (None: all)."""
    nulls = [vector.nulls for vector in vectors if vector.nulls is not None]
    known = ~np.logical_or.reduce(nulls) if nulls else None
    return _stacked([vector.words for vector in vectors], rows), known


def nullable_words(vectors: Sequence[KeyVector], rows: int) -> Integers:
    """Words of keys of which NULL is one like any other, shape (rows, width): as `KeyColumn` of a nullable column."""
    parts: list[Integers] = []
    for vector in vectors:
        nulls = np.zeros(rows, np.int64) if vector.nulls is None else vector.nulls.astype(np.int64)
        parts += [nulls[:, None], vector.words]
    return _stacked(parts, rows)


def _stacked(parts: Sequence[Integers], rows: int) -> Integers:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0), np.int64)


def aggregated(words: Integers, sums: Sequence[Exact]) -> tuple[Integers, list[Exact]]:
    """Rows of equal words added up, in the order of the words."""
    if len(words) <= _FEW and _is_ascending(words.tolist()):
        return words, list(sums)
    if not words.shape[1]:
        return words[:1], [of_integers([total_of(value)]) for value in sums]
    columns = [column for column in words.T if (column[1:] != column[0]).any()]
    if not columns:
        return words[:1], [of_integers([total_of(value)]) for value in sums]
    order: Integers | None = None
    if len(columns) > 1 or not (columns[0][1:] >= columns[0][:-1]).all():
        if len(columns) == 1 and len(words) >= _DENSE:
            low, high = int(columns[0].min()), int(columns[0].max())
            if high - low < 4 * len(words):
                return _added_up(words, columns[0] - low, high - low + 1, sums)
        order = np.lexsort(columns[::-1]) if len(columns) > 1 else np.argsort(columns[0], kind="stable")
    changes = np.zeros(len(words), np.bool_)
    changes[0] = True
    for column in columns:
        ordered = column if order is None else column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    starts = changes.nonzero()[0]
    if order is None:
        return words[starts], [grouped(value, starts) for value in sums]
    return words[order[starts]], [grouped(value[order], starts) for value in sums]


def _is_ascending(rows: list[list[int]]) -> bool:
    return all(a < b for a, b in itertools.pairwise(rows))


def _added_up(words: Integers, codes: Integers, size: int, sums: Sequence[Exact]) -> tuple[Integers, list[Exact]]:
    """Rows of equal codes added up in arrays over all codes, which needs no sorting."""
    example = np.full(size, -1, np.int64)
    example[codes] = np.arange(len(codes))
    present = np.flatnonzero(example >= 0)
    found: list[Exact] = []
    for given in sums:
        (value,) = fit(largest(given) * len(given), given)
        total = np.zeros(size, value.dtype)
        np.add.at(total, codes, value)
        found.append(total[present])
    return words[example[present]], found


class Frame:
    """The columns that a statement has bound so far, row by row."""

    def __init__(self, alias: str, delta: Delta, sum_names: Sequence[str]) -> None:
        self.rows = len(delta)
        self.keys: dict[str, KeyVector] = {f"{alias}.{name}": vector for name, vector in delta.keys.items()}
        self.values: dict[str, Exact] = {}
        self.bind_sums(alias, sum_names, delta.sums)

    def bind_sums(self, name: str, sum_names: Sequence[str], sums: Sequence[Exact]) -> None:
        """Bind a weight and sums of a map as ``name.weight`` and ``name.sum``."""
        for column, value in zip(("weight", *sum_names), sums, strict=True):
            self.values[f"{name}.{column}"] = value

    def bind_keys(self, name: str, keys: Mapping[str, KeyVector]) -> None:
        """Bind keys as ``name.key``."""
        self.keys |= {f"{name}.{column}": vector for column, vector in keys.items()}

    def take(self, rows: Integers | Flags) -> None:
        """Keep some rows, perhaps several times."""
        self.keys = {name: vector.take(rows) for name, vector in self.keys.items()}
        self.values = {name: value[rows] for name, value in self.values.items()}
        self.rows = int(rows.sum()) if rows.dtype == np.bool_ else len(rows)

    def number(self, name: str) -> Exact:
        """A bound column as integers; undefined where it is NULL."""
        if name in self.values:
            return self.values[name]
        vector = self.keys.get(name)
        if vector is None:
            raise ViewError(f"expected a bound column, was {name} among {[*self.keys, *self.values]}")
        if vector.type == "int128":
            return exact_of(KeyVector("int128", vector.words, None).arrow(StringPool()))
        return vector.words[:, 0]

    def term(self, factor: int, columns: Sequence[str]) -> Exact:
        """``factor × Π columns``."""
        result: Exact | None = None
        for name in columns:
            value = self.number(name)
            result = value if result is None else product(result, value)
        if result is None:
            return np.full(self.rows, factor, np.int64 if abs(factor) < 2**62 else object)
        return result if factor == 1 else _scaled(result, factor)

    def arrow(self, pool: StringPool) -> dict[str, pa.Array]:
        """Everything bound, as Arrow columns."""
        named = {name: vector.arrow(pool) for name, vector in self.keys.items()}
        return named | {name: arrow_of(value) for name, value in self.values.items()}


def _scaled(values: Exact, factor: int) -> Exact:
    (values,) = fit(largest(values) * abs(factor), values)
    return values * factor


def _divided(op: str, values: Exact, by: Exact) -> Exact:
    """Quotient or remainder, rounded towards zero as SQL does; the divisor is never 0 or -1."""
    if len(values) and values.dtype != by.dtype:
        values, by = values.astype(object), by.astype(object)
    floor = values // by
    exact = (floor * by == values).astype(np.bool_)
    negative = ((values < 0) != (by < 0)).astype(np.bool_)
    quotient = floor + (~exact & negative)
    return quotient if op == "floordiv" else values - quotient * by  # type: ignore[no-any-return]


def integers(expr: Expr, frame: Frame) -> Exact:
    """An integer expression over bound columns, exact; undefined where one is NULL. It divides by constants only."""
    if isinstance(expr, Col):
        return frame.number(expr.name)
    if isinstance(expr, Lit):
        assert isinstance(expr.value, int)
        return np.full(frame.rows, expr.value, np.int64 if abs(expr.value) < 2**62 else object)
    assert isinstance(expr, Call)
    args: list[Any] = [integers(argument, frame) for argument in expr.args]
    if expr.op == "neg":
        return _scaled(args[0], -1)
    result = args[0]
    for value in args[1:]:
        if expr.op == "mul":
            result = product(result, value)
            continue
        if expr.op in ("floordiv", "mod"):
            result = _divided(expr.op, result, value)
            continue
        if expr.op not in ("add", "sub"):
            raise ViewError(f"expected arithmetic in a bound, was {expr.op}")
        result, value = fit(largest(result) + largest(value), result, value)  # noqa: PLW2901 (the same, perhaps wider)
        result = result + value if expr.op == "add" else result - value
    return result  # type: ignore[no-any-return]
