"""Background agents: simulated traders as counterparties.

```
Book ─View──▶ traders.py (their wishes) ─▶ flow.py: one symbol ──Batch──▶ all, by rate and seed ──Input──▶ Exchange
view.py  the books as they see them, and their requests        settings.py  how they trade, and presets
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
