"""Comma-separated text.

```
 Run ──▶ delimiters: where tuples end                                        CsvDialect: how it is written
 Block ──▶ translation: tuples as lines ──▶ reader: Arrow, typed ──▶ reading: columns, malformed values marked
                                                └─ a column that Arrow refused, text by text
           tuples: the place of each one ──────────────────────────▶ outcome: good rows, bad tuples, pushdown
```
"""

from runtime.formats.csv.indexer import CsvFormat, CsvIndexer

__all__ = ["CsvFormat", "CsvIndexer"]
