"""Health of a running runtime: lag, staleness, status figures and metrics.

lag.py measures the lag of results; watch.py holds back stale lanes, pauses the inputs while the disk is full, and
writes the sign of life; figures.py makes status lines and `/v1/status`; metrics.py makes metrics for Prometheus.
"""

__all__: list[str] = []
