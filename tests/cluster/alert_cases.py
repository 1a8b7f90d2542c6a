"""For every alert: what it says nothing about, what sets it off, and when."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["CASES", "STEP_S", "Case"]

STEP_S = 15
"""Seconds between two values of a series, and between two evaluations."""
_FIVE_MINUTES = "x20"


class Case(msgspec.Struct, frozen=True):
    """One alert, before and after what it is about has happened."""

    alert: str
    quiet: dict[str, str]
    """Series → values, in promtool's notation, of a system about which it says nothing in fifteen minutes."""
    loud: dict[str, str]
    """Of one that sets it off."""
    at: str
    """When it is on, with what is in `loud`."""
    labels: dict[str, str]
    """That it then has, beside its severity."""
    too_early: str = "0s"
    """When it is not on yet, with what is in `loud`."""


def series(name: str, **labels: str) -> str:
    """As Prometheus writes it."""
    return f"{name}{{{','.join(f'{key}={value!r}' for key, value in labels.items())}}}"


def runtime(name: str, **labels: str) -> str:
    """A series of a runtime."""
    return series(f"deltabook_runtime_{name}", job="runtime", instance="r", **labels)


def algo(name: str, **labels: str) -> str:
    """A series of an algorithm engine."""
    return series(f"deltabook_algo_{name}", job="algo", instance="a", strategy="sobi", **labels)


def exchange(name: str, **labels: str) -> str:
    """A series of an exchange."""
    return series(f"deltabook_exchange_{name}", job="exchange", instance="e", **labels)


def buckets(name: str, slow: str) -> dict[str, str]:
    """A histogram of which every second one is slow or not."""
    make = exchange if name.startswith("exchange") else runtime
    bare = name.partition("_")[2]
    return {
        make(f"{bare}_bucket", le="0.065536"): "0+10x80",
        make(f"{bare}_bucket", le="1.048576"): slow,
        make(f"{bare}_bucket", le="+Inf"): slow,
    }


RUNTIME: Mapping[str, str] = {"job": "runtime", "instance": "r"}
EXCHANGE: Mapping[str, str] = {"job": "exchange", "instance": "e"}
SOBI: Mapping[str, str] = {"job": "algo", "instance": "a", "strategy": "sobi"}
UP = series("up", job="runtime", instance="r")
STARTED = series("process_start_time_seconds", **RUNTIME)
CLOCK = series("deltabook_clock_seconds", **RUNTIME)
FILES, MOST_FILES = (series(f"process_{name}_fds", **RUNTIME) for name in ("open", "max"))
TERM, PAUSED, WAITING = runtime("claim_term"), runtime("paused"), runtime("waiting_bytes")
CONNECTED = runtime("origin_connected", origin="feed")
RECEIVED = runtime("origin_received_bytes_total", origin="feed")
RECONNECTS = runtime("origin_reconnects_total", origin="lse")
AGE = runtime("epoch_age_seconds")
ALIVE = series("metrics_master_aliveWorkers_Value", job="spark-master", instance="m", type="gauges")
FAILED_TASKS = series("metrics_executor_failedTasks_total", job="spark-executors", instance="r", executor_id="1")
SENT, REJECTED, REFUSED = (algo(f"orders_{name}_total") for name in ("sent", "rejected", "refused"))
USED, LIMIT = runtime("disk_used_bytes"), runtime("disk_limit_bytes")
PEER = {"job": "dashboard", "instance": "d", "peer": "results", "state": "lost"}

CASES = (
    Case("TargetDown", {UP: "1 0 0 1x80"}, {UP: "1 0x20"}, "2m", {**RUNTIME}, "1m"),
    Case("Restarting", {STARTED: "5x20 9x60"}, {STARTED: "1 1 2 2 3 3 4x60"}, "2m", {**RUNTIME}, "1m"),
    Case("ClockSkew", {CLOCK: "0.5+15x80"}, {CLOCK: "3+15x80"}, "3m", {**RUNTIME}, "1m"),
    Case("FilesRunOut", {FILES: "500x80", MOST_FILES: "1024x80"}, {FILES: "900x80", MOST_FILES: "1024x80"}, "2m",
         {**RUNTIME}, "30s"),
    Case("ClaimContended", {TERM: "7x20 8x60"}, {TERM: "7 8 8 9 9 10x60"}, "2m", {**RUNTIME}, "1m"),
    Case("OriginDisconnected", {CONNECTED: "1 0 1x80", PAUSED: "0x80"}, {CONNECTED: "1 0x80", PAUSED: "0x80"}, "1m",
         {**RUNTIME, "origin": "feed"}, "30s"),
    Case("OriginDisconnected", {CONNECTED: "0x80", PAUSED: "1x80"}, {CONNECTED: "0x80"}, "1m",
         {**RUNTIME, "origin": "feed"}),
    Case("OriginSilent", {RECEIVED: "0+100x80", CONNECTED: "1x80"}, {RECEIVED: "0+100x4 400x80", CONNECTED: "1x80"},
         "4m", {**RUNTIME, "origin": "feed"}, "1m"),
    Case("OriginSilent", {RECEIVED: "0x80", CONNECTED: "1x80", PAUSED: "1x80"}, {RECEIVED: "0x80", CONNECTED: "1x80"},
         "3m", {**RUNTIME, "origin": "feed"}),
    Case("OriginFailed", {runtime("origin_failed", origin="lse"): "0x80"}, {runtime("origin_failed", origin="lse"):
         "0 1x80"}, "1m", {**RUNTIME, "origin": "lse"}),
    Case("OriginReconnecting", {RECONNECTS: "0x20 3x60"}, {RECONNECTS: "0+1x80"}, "5m", {**RUNTIME, "origin": "lse"}),
    Case("FeedLag", {exchange("lag_bytes", face="itch"): "1000x80"}, {exchange("lag_bytes", face="itch"): "0 5e6x80"},
         "2m", {**EXCHANGE, "face": "itch"}, "1m"),
    Case("DeadLetters", {runtime("dead_letters_total"): "12x80"}, {runtime("dead_letters_total"): "12x8 13x80"}, "3m",
         {**RUNTIME}, "1m"),
    Case("UpstreamDown", {runtime("upstream_up", upstream="a"): "1 0 1x80"}, {runtime("upstream_up", upstream="a"):
         "1 0x80"}, "1m", {**RUNTIME, "upstream": "a"}, "30s"),
    Case("UpstreamLag", {runtime("upstream_lag_seconds", upstream="a"): "0.3x80"},
         {runtime("upstream_lag_seconds", upstream="a"): "0.3 12x80"}, "2m", {**RUNTIME, "upstream": "a"}, "1m"),
    Case("EpochAge", {AGE: "0+15x80", WAITING: "0x80"}, {AGE: "0+15x80", WAITING: "1000x80"}, "1m", {**RUNTIME}, "30s"),
    Case("EpochAge", {AGE: "0+15x80", WAITING: "9x80", PAUSED: "1x80"}, {AGE: "60x80", WAITING: "9x80", PAUSED: "0x80"},
         "1m", {**RUNTIME}),
    Case("ExpressLag", {runtime("lag_seconds", lane="spark"): "9x80"}, {runtime("lag_seconds", lane="express"):
         "1.5x80"}, "2m", {**RUNTIME, "lane": "express"}, "30s"),
    Case("SparkLag", {runtime("lag_seconds", lane="spark"): "9x80"}, {runtime("lag_seconds", lane="spark"): "11x80"},
         "2m", {**RUNTIME, "lane": "spark"}, "30s"),
    Case("LaneStale", {runtime("lane_stale", lane="spark"): "0x80"}, {runtime("lane_stale", lane="spark"): "1x80"},
         "2m", {**RUNTIME, "lane": "spark"}, "30s"),
    Case("LanesDiffer", {runtime("lanes_differ"): "0x80"}, {runtime("lanes_differ"): "0 1x80"}, "1m", {**RUNTIME}),
    Case("ViewFailed", {runtime("failed_views"): "0x80"}, {runtime("failed_views"): "0 1x80"}, "1m", {**RUNTIME}),
    Case("SparkRestarts", {runtime("spark_restarts_total"): "2x80"}, {runtime("spark_restarts_total"): "2x8 3x80"},
         "3m", {**RUNTIME}, "1m"),
    Case("SparkWorkerLost", {ALIVE: "1 2x80"}, {ALIVE: "2x8 1x80"}, "4m",
         {"job": "spark-master", "instance": "m", "type": "gauges"}, "2m"),
    Case("SparkTasksFail", {FAILED_TASKS: "4x80"}, {FAILED_TASKS: "4x8 8x80"}, "3m",
         {"instance": "r", "executor_id": "1"}, "1m"),
    Case("OrdersRejected", {SENT: "0+100x80", REJECTED: "0+4x80"}, {SENT: "0+100x80", REJECTED: "0+6x80"}, "3m",
         {**SOBI}, "30s"),
    Case("OrdersRejected", {SENT: "7x80", REJECTED: "7x80"}, {SENT: "0+1x80", REJECTED: "0+1x80"}, "3m", {**SOBI}),
    Case("OrdersRefused", {SENT: "0+100x80", REFUSED: "0+20x80"}, {SENT: "0+100x80", REFUSED: "0+40x80"}, "8m",
         {**SOBI}, "4m"),
    Case("RequestsRefused",
         {exchange("refused_total", reason="x"): "0+10x80", exchange("orders_total"): "0+100x80"},
         {exchange("refused_total", reason="x"): "0+60x80", exchange("orders_total"): "0+100x80"}, "8m",
         {"instance": "e"}, "4m"),
    Case("StrategyStopped", {algo("state", state="killed"): "0x80", algo("state", state="waiting"): "1x80"},
         {algo("state", state="killed"): "0 1x80"}, "1m", {**SOBI, "state": "killed"}, "15s"),
    Case("StrategyDisconnected", {algo("connected"): "1 0 1x80"}, {algo("connected"): "1 0x80"}, "1m", {**SOBI}, "30s"),
    Case("DiskNearlyFull", {USED: "70x80", LIMIT: "100x80"}, {USED: "81x80", LIMIT: "100x80"}, "2m", {**RUNTIME},
         "30s"),
    Case("VolumeNearlyFull", {runtime("volume_free_bytes"): "11x80", runtime("volume_size_bytes"): "100x80"},
         {runtime("volume_free_bytes"): "9x80", runtime("volume_size_bytes"): "100x80"}, "2m", {**RUNTIME}, "30s"),
    Case("VolumeNearlyFull", {exchange("volume_free_bytes"): "11x80", exchange("volume_size_bytes"): "100x80"},
         {exchange("volume_free_bytes"): "9x80", exchange("volume_size_bytes"): "100x80"}, "2m", {**EXCHANGE}, "30s"),
    Case("Paused", {PAUSED: "0x80"}, {PAUSED: "0 1x80"}, "15s", {**RUNTIME}),
    Case("UpkeepFailing", {runtime("upkeep_failing"): "0 1 0x80"}, {runtime("upkeep_failing"): "0 1x80"}, "2m",
         {**RUNTIME}, "1m"),
    Case("DiskSlow", buckets("runtime_fsync_seconds", "0+10x80"), buckets("runtime_fsync_seconds", "0+20x80"), "8m",
         {**RUNTIME}, "4m"),
    Case("DiskSlow", buckets("exchange_fsync_seconds", "0+10x80"), buckets("exchange_fsync_seconds", "0+20x80"), "8m",
         {**EXCHANGE}, "4m"),
    Case("DashboardBlind", {series("deltabook_dashboard_peer", **{**PEER, "state": "off"}): "1x80"},
         {series("deltabook_dashboard_peer", **PEER): "0 1x80"}, "2m", PEER, "1m"),
)  # fmt: skip
