"""JSON lines: one object a line, read by Arrow, strictly.

```
 block ──Lines: where they are, their outer shape──▶ JsonReader: Arrow's reader and what it lets pass ──▶ columns
                                    a line is refused ▶ faults: which one, by its neighbours read without it
                                                        values: what is wrong with it
```
"""

from runtime.formats.jsonlines.indexer import JsonFormat, JsonIndexer

__all__ = ["JsonFormat", "JsonIndexer"]
