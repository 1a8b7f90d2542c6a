"""The command line: one console script whose sub-commands are loaded when they are named.

```
deltabook [--config FILE] [--debug] [--log-format json|text] COMMAND ...
   │
   ├─ _root.py     the root group; a TOML file → defaults of the options (a flag wins over the environment, that over
   │               the file); errors → one line on standard error
   ├─ _groups.py   groups that load a command when it is named, one that runs when none is named, and sections of
   │               help texts
   ├─ _logging.py  twisted.logger → standard error
   └─ algo.py cluster.py exchange.py query.py runtime.py …   each with an attribute `command`
                           └─ _exchange_admin.py ──_ports.py──▶ the admin port of one that runs
                              _exchange_files.py  its journal and its users
```
"""

from deltabook.cli._logging import start_logging
from deltabook.cli._root import COMMANDS, main

__all__ = ["COMMANDS", "main", "start_logging"]
