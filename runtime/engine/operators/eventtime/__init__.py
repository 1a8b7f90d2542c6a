"""Operators over event time: order, windows, the row before, and duplicates.

```
rows as they arrive ──▶ sequencer: held until the watermark has passed them ──▶ in order of time, then arrival
   windows: rows with the start of each tumbling or hopping window that contains them, or of their session
   ordered: rows with values of the row before, the first row of each key, unions
```
"""

from runtime.engine.operators.eventtime.ordered import Deduplicate, InOrder, Previous, Union
from runtime.engine.operators.eventtime.sequencer import Sequencer
from runtime.engine.operators.eventtime.windows import Sessions, Windows

__all__ = ["Deduplicate", "InOrder", "Previous", "Sequencer", "Sessions", "Union", "Windows"]
