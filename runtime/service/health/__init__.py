"""What a running runtime reports of itself: lag, staleness, status figures and metrics.

lag.py measures how far results are behind; watch.py holds back stale lanes and pauses the feed of a full disk;
figures.py makes status lines and `/v1/status`; metrics/ is what Prometheus reads.
"""

__all__: list[str] = []
