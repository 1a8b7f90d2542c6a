"""Background agents: somebody to trade against.

```
            ┌─ noise.py, makers.py, momentum.py, value.py, large.py   who wants what (trader.py: what each is)
Book ─View──┴─▶ population.py (one symbol) ──Batch──▶ flow.py (rate, seed) ──Input──▶ Exchange
view.py  what they see and ask for        settings.py  how they trade, and presets        activity.py  bursts
```
"""

from exchange_server.agents.flow import AgentFlow, Venue
from exchange_server.agents.population import Population
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
