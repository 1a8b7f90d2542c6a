"""Learning environments on closed simulations, with the interface of Gymnasium; needs the extra ``gym``.

```
gymnasium.make("deltabook/Execution-v0")      tasks.py  liquidate a position, reward: implementation shortfall
gymnasium.make("deltabook/MarketMaking-v0")   tasks.py  quote both sides, reward: wealth less inventory
                    │
                    ▼
environment.py  an episode: deltabook.simulation.Simulation, stepped by market time
                    ├ Puppet       the strategy that the actions move
                    └ Observation  rows of named views as numbers
```

Importing this package registers both environments. docs/learning.md shows how to use them.
"""

try:
    import gymnasium as _gymnasium
except ImportError as error:
    raise ImportError("expected gymnasium, was not installed: pip install 'deltabook[gym]' has it") from error

from deltabook.gym.environment import MarketEnvironment
from deltabook.gym.tasks import Execution, MarketMaking

__all__ = ["Execution", "MarketEnvironment", "MarketMaking"]

for _name, _class in (("Execution", Execution), ("MarketMaking", MarketMaking)):
    if f"deltabook/{_name}-v0" not in _gymnasium.registry:
        _gymnasium.register(f"deltabook/{_name}-v0", entry_point=f"{_class.__module__}:{_class.__qualname__}")
