"""Views of a runtime and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from deltabook.wire.http.blocking import BlockingPort
from deltabook.wire.http.peer import ARROW, ClientError, ProtocolError, RefusedError
from deltabook.wire.service import LONGEST_PAGE_ROWS, PAGE_ROWS, Cursor, NewCursor, ViewLine

__all__ = ["CursorPages", "View"]

_TOO_MANY: Final = 413


class View:
    """View of a runtime. Its rows are read when they are requested."""

    def __init__(self, port: BlockingPort, line: ViewLine) -> None:
        self._port = port
        self.line = line
        """Everything that the runtime reports about the view."""
        self.name = line.name
        self.columns = tuple(column.name for column in line.columns)
        """Names of the columns, in the order of the rows."""

    def __repr__(self) -> str:
        return f"View({self.name!r}, columns={', '.join(self.columns)})"

    def rows(self, page_rows: int = PAGE_ROWS) -> Iterator[tuple[Any, ...]]:
        """Return the rows of one version, sorted by their columns; equal rows are returned one by one.

        Rows are fetched page by page during the iteration. Numbers are exact: `int`, and `decimal.Decimal` where there
        are decimal places.
        """
        with self.cursor(page_rows) as pages:
            for page in pages:
                yield from _tuples(page)

    def cursor(self, page_rows: int = PAGE_ROWS, *, is_sorted: bool = True) -> CursorPages:
        """Open a cursor; return the pages of one version, which do not change with the view."""
        path = f"/v1/views/{quote(self.name, safe='')}/cursor"
        return CursorPages(self._port, self._port.change("POST", path, NewCursor(page_rows, is_sorted), Cursor, 0))

    def to_arrow(self) -> pa.Table:
        """Return all rows of one version, unordered."""
        try:
            data, _ = self._port.ask("GET", f"/v1/views/{quote(self.name, safe='')}", accept=ARROW)
        except RefusedError as error:
            if error.status != _TOO_MANY:
                raise
            with self.cursor(LONGEST_PAGE_ROWS, is_sorted=False) as pages:
                return pa.concat_tables(list(pages))
        return _table(data)

    def to_pandas(self) -> Any:
        """Return all rows as a DataFrame, unordered; raises `ClientError` if pandas is not installed."""
        try:
            import pandas  # noqa: F401 (optional)
        except ImportError:
            raise ClientError("expected pandas to be installed for to_pandas(), was not: pip install pandas") from None
        return self.to_arrow().to_pandas()

    def explain(self) -> str:
        """Return a description of how the runtime keeps the view up to date."""
        return self._port.ask("GET", f"/v1/views/{quote(self.name, safe='')}/explain")[0].decode()


class CursorPages:
    """Pages of a cursor, as tables; a context manager that closes the cursor."""

    def __init__(self, port: BlockingPort, cursor: Cursor) -> None:
        self._port = port
        self.cursor = cursor
        """Record of the cursor: version, rows and pages."""
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of pages."""
        return self.cursor.pages

    def __iter__(self) -> Iterator[pa.Table]:
        """Iterate over the pages, from the first."""
        for number in range(self.cursor.pages):
            yield self.page(number)

    def page(self, number: int) -> pa.Table:
        """Return a page, counted from 0; always the same rows. Raises `GoneError` if the cursor is closed."""
        data, _ = self._port.ask("GET", f"/v1/cursors/{quote(self.cursor.id, safe='')}?page={number}", accept=ARROW)
        return _table(data)

    def close(self) -> None:
        """Close the cursor; the runtime releases its rows."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self._port.ask("DELETE", f"/v1/cursors/{quote(self.cursor.id, safe='')}")
            except RefusedError:
                return  # it is closed already

    def __enter__(self) -> CursorPages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ClientError:
            if error is None:
                raise


def _table(data: bytes) -> pa.Table:
    try:
        return pa.ipc.open_stream(data).read_all()
    except (pa.ArrowException, OSError) as error:
        raise ProtocolError(f"expected an Arrow stream, was {data[:80]!r}: {error}") from None


def _tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    if not table.num_columns:
        return iter([()] * table.num_rows)
    return zip(*map(_values, table.columns), strict=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column as Python's values; decimals without a scale, such as sums, become integers."""
    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(column.type) and not column.type.scale:
        return [None if value is None else int(value) for value in values]
    return values
