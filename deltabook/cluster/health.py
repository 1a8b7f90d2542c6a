"""Whether a part of the system does its work: what is asked of its port, and how the answer is judged.

*Healthy* means ready and not failed: the part answers, and is connected to what it works on. A part that holds its
input back on purpose (a runtime at its limit of disk) is healthy and says so: to start it again would not help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

__all__ = ["PROBES", "Health", "HealthRole", "Probe", "judge"]

HealthRole = Literal["algo", "dashboard", "exchange", "runtime", "spark-history", "spark-master", "spark-worker"]
Verdict = tuple[bool, str]
"""True if it is healthy, and what there is to say."""


class Health(msgspec.Struct, frozen=True):
    """How a part is."""

    role: str
    healthy: bool
    reason: str
    """What is wrong, or what it does."""
    status: dict[str, Any]
    """What its port answered; nothing if it did not."""


class Probe(msgspec.Struct, frozen=True):
    """How a part is asked."""

    path: str
    """Path on its port, whose answer is a JSON object, or a list for Spark's history."""
    port: int
    """Where it listens in a container."""
    judge: Callable[[Mapping[str, Any], float], Verdict]
    """Given the answer and how many seconds results may be behind."""


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
    # It shows what it knows, and says what it waits for: a page that can be looked at is healthy.
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
"""Role → how it is asked; the ports are those of the image's services."""


def judge(role: HealthRole, answer: bytes, most_behind_s: float) -> Health:
    """What an answer says about a part; one that is not as expected is unhealthy, never an error."""
    try:
        status = msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError as error:
        return Health(role, healthy=False, reason=f"expected a JSON object, was {error}", status={})
    try:
        healthy, reason = PROBES[role].judge(status, most_behind_s)
    except (KeyError, TypeError) as error:
        reason = f"expected what a {role} says, was an answer without {error}"
        return Health(role, healthy=False, reason=reason, status=status)
    return Health(role, healthy=healthy, reason=reason, status=status)
