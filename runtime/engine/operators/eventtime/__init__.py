"""Operators over event time: order, windows, the row before, and duplicates.

```
rows as they arrive ──▶ sequencer: held until the watermark has passed them ──▶ in order of time, then arrival
   windows (tumbling, hopping): rows with the start of each window they are in      sessions: likewise, by gaps
   previous: rows with values of the row before      distinct: the first row of each key      ordered: unions
```
"""

from runtime.engine.operators.eventtime.distinct import Deduplicate
from runtime.engine.operators.eventtime.ordered import InOrder, Union
from runtime.engine.operators.eventtime.previous import Previous
from runtime.engine.operators.eventtime.sequencer import Sequencer
from runtime.engine.operators.eventtime.windows import Sessions, Windows

__all__ = ["Deduplicate", "InOrder", "Previous", "Sequencer", "Sessions", "Union", "Windows"]
