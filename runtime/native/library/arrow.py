"""Columns of an Arrow record batch as arrays of cells, not copied.

The module reads the structures of Arrow's C data interface, which only compiled code can do.
<https://arrow.apache.org/docs/format/CDataInterface.html>
"""

from __future__ import annotations

from typing import Any

from runtime.native.plain import array, call, jit, root, table

NUMBERS, COLUMNS, BATCH = 0, 1, 2
"""Places: numbers; for each column its number in the record batch and its place in the batch; the batch."""
EXPORTED, COUNT = 0, 1
"""Numbers: address of the `ArrowArray` of a record batch; number of columns to bind."""
ARRAY_NULLS, ARRAY_OFFSET, ARRAY_BUFFERS, ARRAY_CHILDREN, ARRAY_RELEASE = 1, 2, 5, 6, 8
"""Fields of an `ArrowArray`, each of which is as large as a cell."""


@jit
def bind_columns(p: Any) -> int:
    """Bind columns of 64 bits to a batch, and release the export; return 1 if a column may contain a NULL.

    The owner of the record batch must keep it as long as the batch refers to its columns.
    """
    s, columns, batch = array(p, NUMBERS), array(p, COLUMNS), table(p, BATCH)
    exported = root(s[EXPORTED])
    children = array(exported, ARRAY_CHILDREN)
    has_nulls = 0
    for place in range(s[COUNT]):
        column = array(children, columns[2 * place])
        buffers = array(column, ARRAY_BUFFERS)
        if column[ARRAY_NULLS] != 0 and buffers[0] != 0:
            has_nulls = 1
        batch[columns[2 * place + 1]] = buffers[1] + 8 * column[ARRAY_OFFSET]
    call(exported[ARRAY_RELEASE], s[EXPORTED])
    return has_nulls
