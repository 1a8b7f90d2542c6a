"""The command line: one console script, its sub-commands loaded when they are asked for.

```
deltabook [--config FILE] [--debug] [--log-format json|text] COMMAND ...
   │
   ├─ _config.py   TOML file → defaults of the options (a flag wins over the environment, that over the file)
   ├─ _logging.py  twisted.logger → standard error
   ├─ _root.py     the root group; errors → one line on standard error
   └─ demo.py doctor.py exchange.py runtime.py algo.py replay.py query.py   each with an attribute `command`
                        └─ _exchange_run.py      its process: what runs if nothing else is named (_groups.py)
                           _exchange_reports.py, _exchange_changes.py ──_admin.py──▶ the admin port of one that runs
                           _exchange_files.py    its journal and its users
```
"""

from deltabook.cli._logging import start_logging
from deltabook.cli._root import COMMANDS, main

__all__ = ["COMMANDS", "main", "start_logging"]
