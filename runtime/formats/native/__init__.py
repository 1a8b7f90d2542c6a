"""Native records: fixed size, no delimiter, fields by offset.

```
 run ──arithmetic on its offset──▶ cut        block ──one strided copy for each field (fields)──▶ columns
```
"""

from runtime.formats.native.indexer import NativeFormat, NativeIndexer

__all__ = ["NativeFormat", "NativeIndexer"]
