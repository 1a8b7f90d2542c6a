"""Express lane: views that the engine of the process keeps up to date message by message.

```
apply ──Deltas──▶ ExpressViews ──▶ ShardState: the state that is saved takes one step
                        │               └──▶ Update ──▶ publish (the hub, on the reactor's thread)
                        │ barrier
                        ├──────────▶ close: the epoch's changes, added up ──Sections──▶ epoch sink
                        │              └─▶ ExpressState: program, shard and full results, a chain of the object space
                        └─ payload ─▶ change_over: another program; new views filled from log, snapshot and open epoch
```

Versions that are published between two barriers are ahead of the committed epochs. After a crash the state is that of
the last epoch, and the feed is read again from the cut of that epoch, so that the same messages give the same views.
"""

from runtime.engine.express.state import ExpressState
from runtime.engine.express.views import ANEW, ExpressViews, Filling, Update

__all__ = ["ANEW", "ExpressState", "ExpressViews", "Filling", "Update"]
