"""Message types that both ends of a wire share.

```
exchange_server ──feed lines, responses──▶ runtime, algo_engine      text.py
algo_engine ──────requests───────────────▶ exchange_server           text.py
algo_engine ◀─────OUCH messages──────────▶ exchange_server           ouch5.py, ouch42.py in packets of soupbin.py
exchange_server ──ITCH messages──────────▶ runtime                    itch.py in packets of soupbin.py
exchange_server ──ITCH in datagrams──────▶ programs                   mold.py
exchange_server ──snapshot of the books──▶ programs                   itch.py in packets of soupbin.py (GLIMPSE)
an exchange's operator ◀──JSON──────────▶ exchange_server            admin.py
runtime ──────────view frames────────────▶ algo_engine, programs     results.py
runtime ◀─────────JSON and Arrow──────────▶ programs                  service.py, catalogue.py, readers.py
runtime ◀─────────WebSocket──────────────▶ pages                      stream.py
algo_engine ◀─────JSON──────────────────▶ programs, dashboard         strategies.py
every process ────ready, status, stopped─▶ its supervisor             status.py, process.py
every process ────metrics────────────────▶ a monitor                  metrics.py, durations.py

access.py, site.py    admission to a port, and an HTTP site with limits
websocket.py          WebSocket made from a request to such a site
http/                 clients of the HTTP ports: blocking, and on a reactor
prompt.py             immediate writes to a socket, which do not wait for the reactor's next turn
strict_json.py        JSON from users and other programs, without repeated names
symbols.py            instruments and their scale
directories.py        owner of a locked directory, names of damaged files
advice.py             ends of error messages: a likely name, a command
errors.py             errors of the messages
shared.css            style with which every page begins
```

This is the only package of `deltabook` that the other packages may import, and it imports none of the other packages.
This module imports no messages, so that a process loads only the messages that it uses.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

__all__ = ["SHARED_STYLE"]

SHARED_STYLE: Final[Traversable] = files(__name__) / "shared.css"
"""Style sheet of all pages: colours, fonts and controls. The style sheet of a page is appended to it."""
