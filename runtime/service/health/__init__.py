"""Health of a running runtime: lag, staleness, status figures and metrics.

lag.py measures the lag of results; watch.py holds back stale lanes and pauses the feed while the disk is full;
figures.py makes status lines and `/v1/status`; metrics.py is read by Prometheus.
"""

__all__: list[str] = []
