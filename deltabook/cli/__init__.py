"""The command line: one console script whose sub-commands are loaded when they are named.

```
deltabook [--config FILE] [--debug] [--log-format json|text] COMMAND ...
   │
   ├─ _root.py     the root group; a TOML file → defaults of the options (the command line wins over the environment,
   │               which wins over the file); errors → one line on standard error
   ├─ _groups.py   groups that load a command when it is named and may have a default command; sections of help texts
   ├─ _options.py  options that several commands have
   ├─ _logging.py  twisted.logger → standard error
   └─ algo.py cluster.py exchange.py query.py runtime.py …   each with an attribute `command`
                           └─ _exchange_admin.py ──_ports.py──▶ the admin port of a running exchange
                              _exchange_files.py  a journal, and passwords of users
```
"""

from deltabook.cli._root import COMMANDS, main

__all__ = ["COMMANDS", "main"]
