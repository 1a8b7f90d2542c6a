"""Health of the parts of the system: the request to each port, and the judgement of its answer.

*Healthy* means ready and not failed: the part answers; strategies and runtimes must also be connected to their peers. A
part that pauses its input on purpose (such as a runtime at its disk limit) is healthy, because a restart would not
help; its answer has the reason for the pause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

__all__ = ["PROBES", "Health", "HealthRole", "Probe", "judge"]

HealthRole = Literal["algo", "dashboard", "exchange", "runtime", "spark-history", "spark-master", "spark-worker"]
Verdict = tuple[bool, str]
"""True if the part is healthy, and the reason or a summary."""


class Health(msgspec.Struct, frozen=True):
    """Health of a part."""

    role: str
    """Role of the part, one of `HealthRole`."""
    healthy: bool
    """True if the part is ready and has not failed."""
    reason: str
    """Reason of bad health, or a summary of the part's work."""
    status: dict[str, Any]
    """Answer of the part's port; empty if it did not answer."""


class Probe(msgspec.Struct, frozen=True):
    """Request to a part, and judgement of its answer."""

    path: str
    """Path on its port; the answer is a JSON object."""
    port: int
    """Port of the part in a container."""
    judge: Callable[[Mapping[str, Any], float], Verdict]
    """Function that judges an answer; its second argument is the largest tolerated lag of results in seconds."""


def _exchange(status: Mapping[str, Any], most_behind_s: float) -> Verdict:
    del most_behind_s
    figures = status["figures"]
    return True, f"{figures['orders']} orders, {figures['trades']} trades, {figures['listeners']} listeners"


def _runtime(status: Mapping[str, Any], most_behind_s: float) -> Verdict:
    lag_ms = status["lag_ms"]
    if status["paused"]:
        return True, f"the feed is held back: {status['disk_bytes'] >> 20} MiB on disk"
    if status.get("spark") == "starting":
        return False, "expected Spark to be up, was starting, usually 20 s; express views are served until then"
    if status.get("disconnected", 0):
        return False, f"expected every origin to be connected, was {status['disconnected']} that is not"
    if lag_ms is not None and lag_ms > most_behind_s * 1_000:
        return False, f"expected results within {most_behind_s:g} s, was {lag_ms / 1_000:.1f} s behind"
    return True, f"epoch {status['epoch']}, published {status['published_epoch']}, {status['views']} views"


def _algo(status: Mapping[str, Any], most_behind_s: float) -> Verdict:
    del most_behind_s
    lines = status["strategies"]
    if not status["views_connected"]:
        return False, "expected the views of a runtime, was not connected"
    if cut := [line["name"] for line in lines if not line["is_connected"] and line["state"] != "failed"]:
        return False, f"expected strategies logged in to the exchange, was not: {', '.join(cut)}"
    if failed := [f"{line['name']}: {line['reason']}" for line in lines if line["state"] == "failed"]:
        return False, f"expected strategies that run, was failed: {'; '.join(failed)}"
    return True, ", ".join(f"{line['name']} {line['state']}" for line in lines)


def _dashboard(status: Mapping[str, Any], most_behind_s: float) -> Verdict:
    del most_behind_s
    states = {name: status[name] for name in ("results", "algo", "exchange")}
    summary = ", ".join(f"{name} {state}" for name, state in states.items())
    # A dashboard that answers is healthy: if peers are missing, its page names them and still shows the state of the
    # others.
    return True, f"{status['pages']} pages; {summary}"


def _spark_master(status: Mapping[str, Any], most_behind_s: float) -> Verdict:
    del most_behind_s
    if status["status"] != "ALIVE":
        return False, f"expected a master that is ALIVE, was {status['status']}"
    return True, f"{status['aliveworkers']} workers, {status['coresused']} of {status['cores']} cores used"


def _spark_worker(status: Mapping[str, Any], most_behind_s: float) -> Verdict:
    del most_behind_s
    if not status["masterurl"]:
        return False, "expected a worker that its master knows, was not registered yet"
    return True, f"{len(status['executors'])} executors, {status['coresused']} of {status['cores']} cores used"


def _spark_history(status: Mapping[str, Any], most_behind_s: float) -> Verdict:
    del most_behind_s
    return True, f"Spark {status['spark']}"


PROBES: Final[dict[HealthRole, Probe]] = {
    "algo": Probe("/v1/strategies", 8081, _algo),
    "dashboard": Probe("/v1/status", 8000, _dashboard),
    "exchange": Probe("/v1/status", 4714, _exchange),
    "runtime": Probe("/v1/status", 8080, _runtime),
    "spark-history": Probe("/api/v1/version", 18080, _spark_history),
    "spark-master": Probe("/json/", 8080, _spark_master),
    "spark-worker": Probe("/json/", 8081, _spark_worker),
}
"""Probe of each role; the ports are those of the image's services."""


def judge(role: HealthRole, answer: bytes, most_behind_s: float) -> Health:
    """Judge the answer of a part; an answer of an unexpected form is unhealthy, never an error."""
    try:
        status = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Health(role, healthy=False, reason=f"expected a JSON object, was {error}", status={})
    try:
        healthy, reason = PROBES[role].judge(status, most_behind_s)
    except (KeyError, TypeError) as error:
        reason = f"expected the answer of a part with the role {role}, was one without {error}"
        return Health(role, healthy=False, reason=reason, status=status)
    return Health(role, healthy=healthy, reason=reason, status=status)
