"""The service: what the outside sees of the runtime.

```
scripts.py      declarations of a script → origins          scriptrun.py   a script's streams to their end
live.py         a feed, views and their results, for ever   http/          all of it over HTTP; listening.py its port
config.py, feed.py, watch.py: what it is configured with, reads and watches
materialised.py a view's rows as they are shown             cursors.py     the same page by page, at one version
hub.py          versions → subscribers                      stream/        what each of them is told, and when
catalogue.py    views come and go                           control.py     the same, waited for
readers/        what else is read                           viewed.py      which views need it
upkeep.py       snapshots and retiring in the background; fullresults.py what a restart begins with
```
"""

__all__: list[str] = []
