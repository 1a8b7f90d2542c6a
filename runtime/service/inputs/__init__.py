"""Inputs that a runtime is started with: the exchange's feed and other runtimes.

```
protocols.py ─▶ feed.py (source, gate, adaptor of the exchange's feed) ─┐
                upstreams.py (the epoch logs of other runtimes) ────────┴─▶ inputs.py (all of them, paused together)
```

event_time.py chooses the time column of a relation. Readers, which are added while the runtime runs, are in `readers`.
"""

__all__: list[str] = []
