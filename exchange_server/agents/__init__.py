"""Background agents: somebody to trade against.

```
Book ──▶ traders.py (who wants what) ──Intent──▶ flow.py (rate, seed, batches) ──Input──▶ Exchange
```
"""

from exchange_server.agents.flow import AgentFlow
from exchange_server.agents.traders import Intent, Traders

__all__ = ["AgentFlow", "Intent", "Traders"]
