"""Stylised facts: figures of a market beside those of half an hour of BTC/USD.

```
journal of an exchange ─┐
recorded files ─────────┼─ observation.py ──▶ Observation ──▶ figures.py  each figure with its band
the BTC/USD recording ──┘                                         └▶ six panels
```

`deltabook market-report` prints them; docs/market.md explains the figures.
"""

from deltabook.facts.figures import RECORDED, Fact, draw, facts_of
from deltabook.facts.observation import Observation, watch_capture, watch_files, watch_journal

__all__ = ["RECORDED", "Fact", "Observation", "draw", "facts_of", "watch_capture", "watch_files", "watch_journal"]
