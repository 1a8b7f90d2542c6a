"""Joins: of two inputs on equal times, of each row with the last row that is not later, and with a table.

```
rows of both inputs, sorted ──▶ merge: six kinds of joins        asof: the last row of each key, in the object space
rows ──▶ lookup: pairs with the rows of a table ◀── TableIndex: rows by key, in the object space
```
"""

from runtime.engine.operators.joins.asof import AsofJoin
from runtime.engine.operators.joins.lookup import LookupJoin, TableIndex
from runtime.engine.operators.joins.merge import MergeJoin

__all__ = ["AsofJoin", "LookupJoin", "MergeJoin", "TableIndex"]
