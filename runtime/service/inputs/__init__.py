"""Inputs that a runtime is started with: the exchange's feed and other runtimes.

```
protocols.py ─▶ feed.py (source, inlet, adaptor of the exchange's feed) ┐
                upstreams.py (the epoch logs of other runtimes) ────────┴─▶ inputs.py (all of them, paused together)
```

event_time.py chooses the time column of a relation. Inputs that are added while the runtime runs are in
`runtime.service.readers`.
"""

__all__: list[str] = []
