"""The service: what the outside sees of the runtime.

```
scripts.py      declarations of a script → origins          scriptrun.py   a script's streams to their end
live.py         a feed, views and their results, for ever   http.py        results and status over HTTP
config.py, feed.py, listening.py, watch.py: what it is configured with, reads, serves at and watches
materialised.py a view's full result from its changes       hub.py         versions → subscribers
catalogue.py    views come and go                           control.py     the same over HTTP
upkeep.py       snapshots and retiring in the background; fullresults.py what a restart begins with
```
"""

__all__: list[str] = []
