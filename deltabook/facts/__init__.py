"""Stylised facts: figures of a market beside those of half an hour of BTC/USD.

```
journal of an exchange ─┐
recorded files ─────────┼─ watching.py ──▶ Observation ──▶ figures.py ──▶ reference.py  each figure with its band
the BTC/USD recording ──┘                  observation.py └▶ drawing.py   six panels
```

`deltabook market-report` prints them; docs/market.md explains the figures.
"""

from deltabook.facts.drawing import draw
from deltabook.facts.observation import Observation
from deltabook.facts.reference import RECORDED, Fact, facts_of
from deltabook.facts.watching import watch_capture, watch_files, watch_journal

__all__ = ["RECORDED", "Fact", "Observation", "draw", "facts_of", "watch_capture", "watch_files", "watch_journal"]
