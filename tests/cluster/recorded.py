"""A recorded market in the cluster: the exchange plays the trace, the runtime keeps the six finance queries of it."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from queries import QUERIES_DIR, query_path
from runtime.compiler import read_script
from tests.cluster.compose import ComposeCluster
from tests.integration.test_query_run import FINANCE, query_run

__all__ = ["SERVICES", "TRACE", "Rows", "answers", "is_through", "local", "override", "shown"]

TRACE = QUERIES_DIR / "trace-5000.csv"
Rows = Counter[tuple[Any, ...]]
SERVICES = ("dashboard", "exchange", "runtime", "spark-master", "spark-worker")
"""Strategies have nobody to trade with in a recording."""
PLAYED = {
    "DELTABOOK_EXCHANGE_REPLAY": f"/opt/project/queries/{TRACE.name}",
    "DELTABOOK_EXCHANGE_REPLAY_MODE": "as-recorded",
    "DELTABOOK_EXCHANGE_AGENTS": "none",
}


def override(tmp_path: Path, speed: str = "max") -> Path:
    """A second compose file: the exchange plays the trace so fast, the runtime keeps the six queries."""
    views = tmp_path / "views"
    views.mkdir()
    for name in FINANCE:
        (views / f"{name}.sql").write_text(read_script(query_path(name)).selects[0].sql + ";\n")
    runtime = {
        "environment": {
            "DELTABOOK_RUNTIME_VIEWS": ",".join(f"/views/{name}.sql" for name in FINANCE),
            "DELTABOOK_RUNTIME_EXPRESS": "",
        },
        "volumes": [f"{views}:/views:ro"],
    }
    # JSON is YAML.
    path = tmp_path / "trace.yml"
    path.write_text(
        json.dumps(
            {
                "services": {
                    "exchange": {"environment": {**PLAYED, "DELTABOOK_EXCHANGE_SPEED": speed}},
                    "runtime": runtime,
                }
            }
        )
    )
    views.chmod(0o755)
    return path


def local(tmp_path: Path) -> dict[str, Rows]:
    """The same queries over the file, by Spark on this machine's threads."""
    files = [query_path(name) for name in FINANCE]
    done = query_run(*files, "--data-dir", QUERIES_DIR, "--json", "--dir", tmp_path / "local")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line, parse_float=Decimal) for line in done.stdout.splitlines()]
    return {line["query"]: Counter(map(_exact, line["rows"])) for line in lines}


def _exact(row: list[Any]) -> tuple[Any, ...]:
    """A row whose numbers are equal if their values are."""
    return tuple(Decimal(value) if isinstance(value, int | Decimal) else value for value in row)


def shown(said: str) -> Rows:
    """The rows of what `query show --json` prints."""
    return Counter(map(_exact, json.loads(said, parse_float=Decimal)["rows"]))


def answers(cluster: ComposeCluster) -> dict[str, Rows]:
    """What the cluster serves."""
    found: dict[str, Rows] = {}
    for name in FINANCE:
        found[name] = shown(cluster.execute("runtime", "deltabook", "query", "show", name, "--json"))
    return found


def is_through(cluster: ComposeCluster) -> bool:
    """Whether the file is played, and everything of it inside of what is published."""
    playing = cluster.ask("exchange", "exchange", "replay")
    if not playing["finished"]:
        return False
    status = cluster.health("runtime")["status"]
    fed = cluster.ask("exchange", "exchange", "status")["figures"]["sequence"]
    return bool(status["feed_sequence"] == fed and status["published_epoch"] == status["epoch"])
