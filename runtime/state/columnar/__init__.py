"""State in columns: tables, indexes and sums that are changed a batch at a time and saved as runs of edits.

```
batch ──put, delete, add, lookup──▶ KeyedTable, SumTable, SumRow, Arrangement, OrderedIndex ──save──▶ run of edits
                                        │
         KeyIndex: key words → slots ◀──┘        exactsums: int64 or wider        dense, runs, packing: ordered layouts
columns: Arrow columns ↔ key words, StringPool
```
"""

from runtime.state.columnar.columns import ARROW_TYPES, KeyColumn, StringPool, decode_words, encode_words, width_of
from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.columnar.table import KeyedTable

__all__ = [
    "ARROW_TYPES",
    "KeyColumn",
    "KeyIndex",
    "KeyedTable",
    "StringPool",
    "decode_words",
    "encode_words",
    "width_of",
]
