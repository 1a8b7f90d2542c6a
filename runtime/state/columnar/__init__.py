"""State in columns: tables that are changed a batch at a time and saved as runs of edits.

```
batch ──put, delete, lookup──▶ KeyedTable ──save──▶ run of edits
                                   │
     KeyIndex: key words → slots ◀─┘
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
