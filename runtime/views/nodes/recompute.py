"""Recompute: DuckDB evaluates a view over maintained maps; its change is the difference to the last result.

Plan record: `Reevaluated`. A step costs as much as sorting the whole state. All queries that generated code cannot
compute are recomputed, and `explain` reports them. State: totals of the maps by all of their keys, and the rows of the
last result.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.epochs.consolidating import consolidate, with_equal_bits
from runtime.plan import Reevaluated, View
from runtime.state import ARROW_TYPES
from runtime.views.errors import ViewError, ViewOverflowError
from runtime.views.feeds import ColumnBatch, Feed, words_of_column
from runtime.views.graph import GraphBuilder
from runtime.views.nodes.totals import Totals
from runtime.views.rows import WEIGHT, change_schema, record_arrays
from runtime.views.strings import Strings

__all__ = ["EVALUATION_S", "Recompute", "lower"]

EVALUATION_S: Final = 30.0
"""Time limit for one evaluation of a view; a view that takes longer fails, and other views do not."""


class Recompute:
    """Runs a view's query again whenever one of its maps has changed."""

    def __init__(
        self,
        view: View,
        body: Reevaluated,
        tables: dict[str, Totals],
        feeds: list[Feed],
        *,
        out: ColumnBatch,
        strings: Strings,
    ) -> None:
        """Prepare a view's query. ``tables`` maps names in the query to the totals of maps by all of their keys."""
        self.views = frozenset([view.name])
        self._view, self._body, self._tables, self._feeds = view, body, tables, feeds
        self._out, self._strings = out, strings
        self._schema = change_schema(view.columns)
        self.rows = self._schema.empty_table()
        """Last result with weights, in which no row is repeated."""
        self.begun = False
        """True if there was a result before."""

    def run(self) -> None:
        """Append the changes to the view's batch; raise `ViewError` with DuckDB's reason."""
        if self.begun and not any(feed.batch.rows for feed in self._feeds):
            return
        self.begun = True
        result = consolidate(self._evaluated(), self._schema)
        place = result.num_columns - 1
        gone = self.rows.set_column(place, WEIGHT, pc.negate(self.rows.column(place)))
        changes = consolidate(pa.concat_tables([result, gone.cast(self._schema)]), self._schema)
        self.rows = result
        columns = []
        for field, column in zip(self._out.fields, changes.columns, strict=False):
            columns += words_of_column(field, column, self._strings)
        weight = changes.column(place).combine_chunks().to_numpy()
        self._out.fill(np.ascontiguousarray(weight), columns)

    def add(self, changes: pa.Table) -> None:
        """Add rows to the last result: its rows in another graph, or its changes from a checkpoint."""
        self.rows = consolidate(pa.concat_tables([self.rows, changes.cast(self._schema)]), self._schema)

    def _evaluated(self) -> pa.Table:
        import duckdb  # only views of this kind need these two imports, which take 0.3 s

        from runtime.compiler.describe import database, time_limit

        with database().cursor() as connection:
            for name, table in self._tables.items():
                connection.register(name, _expanded(table, self._strings))
            try:
                with time_limit(connection, EVALUATION_S):
                    result = connection.sql(self._body.query).to_arrow_table()
            except duckdb.Error as error:
                raise ViewError(
                    f"expected to evaluate view {self._view.name}, was {str(error).splitlines()[0]}"
                ) from None
        arrays = [
            _as_column(column.combine_chunks(), field.type, described.name)
            for column, field, described in zip(result.columns, self._out.fields, self._view.columns, strict=True)
        ]
        return pa.Table.from_arrays([*arrays, pa.array(np.ones(result.num_rows, np.int64))], schema=self._schema)


def _as_column(array: pa.Array | pa.ChunkedArray, kind: str, name: str) -> pa.Array:
    """Return DuckDB's values in the type of the view's column; raise `ViewOverflowError` if a value does not fit."""
    whole = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    wanted = ARROW_TYPES[kind]
    try:
        if pa.types.is_decimal(wanted) and pa.types.is_integer(whole.type):
            return whole.cast(pa.int64()).cast(wanted)
        column = whole.cast(wanted)
    except pa.ArrowException as error:
        raise ViewOverflowError(f"expected {kind} in column {name}, was {error}") from None
    return with_equal_bits(column) if kind == "float64" else column


def _expanded(table: Totals, strings: Strings) -> pa.Table:
    """Return the keys as a table in which each row is repeated by its weight, in the order of all columns.

    Slots and numbers of strings depend on the history of the state, but the order of the rows that DuckDB gets depends
    on the rows alone. DuckDB runs on one thread, so its answer depends on the rows alone even where SQL permits several
    answers: for rows that ORDER BY does not distinguish, for MODE, and for sums of floats.
    """
    records = table.dump()
    records = records[records[:, table.key_words] > 0]
    times = records[:, table.key_words]
    if not table.keys:  # a query that needs no column still needs the number of rows
        return pa.table({"one": pa.array(np.ones(int(times.sum()), np.int8))})
    names = [field.name for field in table.keys]
    expanded = pa.Table.from_arrays(record_arrays(table.keys, records, strings), names=names)
    order = pc.sort_indices(expanded, sort_keys=[(name, "ascending") for name in names])
    return expanded.take(order if (times == 1).all() else pa.array(np.repeat(order, times[order])))


def lower(view: View, body: Reevaluated, builder: GraphBuilder) -> None:
    """Add a recomputed view to the graph."""
    tables, feeds = {}, []
    for given in body.inputs:
        keys = [key.name for key in builder.program.maps[given.map].keys]
        tables[given.table] = builder.totals(view, given.map, keys)
        feeds.append(builder.feed(builder.part_of(view, given.map)))
    out = builder.out(view, is_distinct=True)
    builder.ends.append(Recompute(view, body, tables, feeds, out=out, strings=builder.strings))
