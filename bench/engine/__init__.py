"""Speed of the engine, its state, derived streams and the express lane.

```
plans: source ─▶ pipelines without work ─▶ tasks, barriers ─┐
object space with 1 k … 10 M entries ────▶ state ───────────┼─▶ benchmark ─▶ records
feed in batches of 10,000 ───────────────▶ streams ─────────┤
express_feed ══ loopback ══▶ express_process ─▶ express ────┘
                             express_references: by hand, one message at a time and in numpy
```
"""

__all__: list[str] = []
