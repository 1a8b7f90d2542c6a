"""Background agents: simulated traders as counterparties.

```
Book ──View──▶ Trader, several for each symbol ──RequestBatch──▶ AgentFlow, by rate and seed ──Input──▶ Exchange

traders.py   kinds of traders, and the hidden value of an instrument
view.py      View: a book as traders read it; RequestBatch: their requests
flow.py      Population: the traders of one symbol; AgentFlow: all symbols
settings.py  parameters of the traders, and presets
```
"""

from exchange_server.agents.flow import AgentFlow, Population, Venue
from exchange_server.agents.settings import (
    PRESETS,
    ActivitySettings,
    AgentSettings,
    LargeSettings,
    MakerSettings,
    MomentumSettings,
    NoiseSettings,
    ValueSettings,
)

__all__ = [
    "PRESETS",
    "ActivitySettings",
    "AgentFlow",
    "AgentSettings",
    "LargeSettings",
    "MakerSettings",
    "MomentumSettings",
    "NoiseSettings",
    "Population",
    "ValueSettings",
    "Venue",
]
