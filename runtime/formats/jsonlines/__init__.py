"""JSON lines: one object a line, read by Arrow, strictly.

```
 block ──Lines: where they are, their outer shape──▶ JsonReader: Arrow's reader and further checks ──▶ columns
                                    a line is refused ▶ faults: finds it, by reading its neighbours without it
                                                        values: describes its fault
```
"""

from runtime.formats.jsonlines.indexer import JsonFormat, JsonIndexer

__all__ = ["JsonFormat", "JsonIndexer"]
