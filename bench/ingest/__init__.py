"""How fast raw buffers become columns, what that costs for each source, and whether memory stays.

```
 material (texts, itchflow) ──cut, shuffled──▶ feeding ─▶ InputFormatter ─▶ InOrder, 1 and 2 workers ──▶ rates
          └───────────────────────────────────▶ references: the same bytes in one piece ────────────────────────▶ tables
 load_process ══ TCP, loopback ══▶ ingest_process: sources ─▶ formatter ──▶ sources, memory
```
"""

__all__: list[str] = []
