"""State in columns: tables that are changed a batch at a time, and saved as runs of edits.

```
batch ──put, delete, lookup──▶ KeyedTable ──save──▶ run of edits
                                   │
     KeyIndex: key words → slots ◀─┘
columns: Arrow columns ↔ key words, StringPool; integers of 128 bits ↔ Arrow decimals ↔ words
```
"""

from runtime.state.columnar.columns import (
    ARROW_TYPES,
    WIDE,
    KeyColumn,
    StringPool,
    decimals_of_integers,
    decimals_of_words,
    decode_words,
    encode_words,
    unscaled_as,
    width_of,
    words_of_decimals,
)
from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.columnar.table import KeyedTable

__all__ = [
    "ARROW_TYPES",
    "WIDE",
    "KeyColumn",
    "KeyIndex",
    "KeyedTable",
    "StringPool",
    "decimals_of_integers",
    "decimals_of_words",
    "decode_words",
    "encode_words",
    "unscaled_as",
    "width_of",
    "words_of_decimals",
]
