"""Message types that both ends of a wire share.

```
exchange_server ──feed lines, responses──▶ runtime, algo_engine      text.py
algo_engine ──────requests───────────────▶ exchange_server           text.py
algo_engine ◀─────OUCH messages──────────▶ exchange_server           ouch5.py, ouch42.py in packets of soupbin.py
exchange_server ──ITCH messages──────────▶ runtime                    itch.py in packets of soupbin.py
exchange_server ──ITCH in datagrams──────▶ programs                   mold.py
an exchange's operator ◀──JSON──────────▶ exchange_server            admin.py
runtime ──────────view frames────────────▶ algo_engine, programs     results.py
runtime ◀─────────JSON and Arrow──────────▶ programs                  service.py, catalogue.py, readers.py
who may use a port, and how many of them                             access.py, site.py
clients of the HTTP ports, that wait and on a reactor                http/
every process ────ready, status, stopped─▶ its supervisor            status.py, process.py
instruments and their scale, the same for all                        symbols.py
the style that every page begins with                                shared.css
```

This is the only package of `deltabook` that the other packages may import; it imports none of them. No message is
imported here, so that a process loads only those that it uses.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

__all__ = ["SHARED_STYLE"]

SHARED_STYLE: Final[Traversable] = files(__name__) / "shared.css"
"""Style sheet of all pages: colours, type and controls; a page's own style sheet follows it."""
