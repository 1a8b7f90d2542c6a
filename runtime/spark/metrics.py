"""Which of Spark's own metrics are served to a monitor, and where.

| process | path on its page's port | what |
|---|---|---|
| driver | ``/metrics/prometheus/`` | scheduler, blocks, JVM, the streaming query |
| driver | ``/metrics/executors/prometheus/`` | every executor: tasks, memory, shuffles, garbage collection |
| master | ``/metrics/master/prometheus/`` | workers, applications |
| worker | ``/metrics/prometheus/`` | cores, memory, executors |
"""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["DaemonRole", "daemon_metrics", "driver_metrics"]

DaemonRole = Literal["master", "worker"]

_SERVLET: Final = "org.apache.spark.metrics.sink.PrometheusServlet"
_JVM: Final = "org.apache.spark.metrics.source.JvmSource"
NAMESPACE: Final = "deltabook"
"""In place of the application's id, which is another with every start and would make every name a new one."""


def _served(instance: str, path: str) -> dict[str, str]:
    sink = f"spark.metrics.conf.{instance}.sink.prometheusServlet"
    return {
        f"{sink}.class": _SERVLET,
        f"{sink}.path": path,
        f"spark.metrics.conf.{instance}.source.jvm.class": _JVM,
    }


def driver_metrics() -> dict[str, str]:
    """Settings of a session whose page is served."""
    return {
        **_served("driver", "/metrics/prometheus"),
        "spark.metrics.namespace": NAMESPACE,
        "spark.ui.prometheus.enabled": "true",
        "spark.executor.processTreeMetrics.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "true",
    }


def daemon_metrics(role: DaemonRole) -> dict[str, str]:
    """Settings of a master or worker, as properties of its Java."""
    if role == "worker":
        return _served("worker", "/metrics/prometheus")
    return {
        **_served("master", "/metrics/master/prometheus"),
        **_served("applications", "/metrics/applications/prometheus"),
    }
