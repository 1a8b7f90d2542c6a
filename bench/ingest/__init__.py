"""Speed of turning raw buffers into columns, the cost of each source, and the stability of memory.

```
 material (texts, itchflow) ──cut, shuffled──▶ feeding ─▶ InputFormatter ─▶ InOrder, 1 and 2 workers ──▶ rates
          └───────────────────────────────────▶ references: the same bytes in one piece ────────────────────────▶ tables
 load_process ══ TCP, loopback ══▶ ingest_process: sources ─▶ formatter ──▶ sources, memory
```
"""

__all__: list[str] = []
