"""Connections of the algorithm engine, each made again after a loss with the delays of backoff.py.

```
runtime ──HTTP──▶ results.py          the change stream of the views
runtime ◀─HTTP─── runtime_views.py    requests for the views that strategies add
exchange ◀─text─▶ orders.py           requests and their answers, over the login of each broker
```
"""

__all__: list[str] = []
